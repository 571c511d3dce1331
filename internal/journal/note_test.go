package journal

import (
	"os"
	"path/filepath"
	"testing"

	"selfheal/internal/must"
)

// A note is the last value under its name; one that is damaged or forgotten is none, and other notes stay.
func TestNotes(t *testing.T) {
	dir := t.TempDir()
	j, _, err := Open(dir)
	must.Do(t, err)
	defer j.Close()
	var got []byte
	if j.Noted("a", &got) {
		t.Error("a note before it is written")
	}
	must.Do(t, j.Forget("a"))
	for _, value := range []string{"one", "two, longer"} {
		must.Do(t, j.Note("a", []byte(value)))
		must.Do(t, j.Note("b", []byte("other")))
		if got = nil; !j.Noted("a", &got) || string(got) != value {
			t.Errorf("%q is noted as %q", value, got)
		}
	}
	path := filepath.Join(dir, notes, "a")
	data := must.Get(os.ReadFile(path))(t)
	data[len(data)/2] ^= 4
	must.Do(t, os.WriteFile(path, data, 0o644))
	if j.Noted("a", &got) {
		t.Error("a damaged note is read")
	}
	must.Do(t, j.Forget("a"))
	if got = nil; j.Noted("a", &got) || !j.Noted("b", &got) || string(got) != "other" {
		t.Errorf("after one is forgotten the other is %q", got)
	}
}
