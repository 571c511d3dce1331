package journal

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"selfheal/internal/must"
)

// Any bytes as a journal: what is whole is read, and a line that is appended then is found.
func FuzzOpen(f *testing.F) {
	_, lines := written(f, 3)
	f.Add(lines)
	f.Add(lines[:len(lines)-3])
	f.Add([]byte("00000000 0 \"\"\n00000000 -1 {}\n 99999999999999999999 {}\n\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		dir := t.TempDir()
		must.Do(t, os.WriteFile(filepath.Join(dir, File), data, 0o644))
		_ = must.Survive(t, func() error {
			for range 2 {
				j, _, err := Open(dir)
				if err != nil {
					return err
				}
				n := 0
				must.Do(t, j.Block("first").Append(unit{ID: 7}))
				must.Do(t, j.Block("first").Read(func(line []byte) error {
					n++
					if !json.Valid(line) {
						t.Errorf("a line of %q", line)
					}
					return nil
				}))
				if n == 0 {
					t.Error("what was appended is not there")
				}
				must.Do(t, j.Close())
			}
			return nil
		})
	})
}
