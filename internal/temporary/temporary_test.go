package temporary

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"selfheal/internal/must"
)

// A temporary file is in no folder, and uses the first folder that works.
func TestTemporary(t *testing.T) {
	good := t.TempDir()
	absent := filepath.Join(good, "absent")
	write := func(w io.Writer) error {
		_, err := w.Write([]byte("pixels"))
		return err
	}
	f := must.Get(Write([]string{absent, good}, write))(t)
	got := make([]byte, 3)
	if _, err := f.ReadAt(got, 2); err != nil || string(got) != "xel" {
		t.Errorf("%q, %v", got, err)
	}
	if list := must.Get(os.ReadDir(good))(t); len(list) > 0 && runtime.GOOS != "windows" {
		t.Errorf("%v lies beside it", list)
	}
	must.Do(t, f.Close())
	_, err := Write([]string{absent, filepath.Join(good, "too")}, write)
	must.Refuse(t, err, "no folder has room for a temporary file ("+absent+": no such file or directory; ",
		"set TMPDIR")
	_, err = Write([]string{good, absent}, func(io.Writer) error { return errors.New("broken") })
	if err == nil || err.Error() != "broken" {
		t.Errorf("an error of the source is %v", err)
	}
	if list := must.Get(os.ReadDir(good))(t); len(list) > 0 {
		t.Errorf("%v is left", list)
	}
}
