package reports

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"testing"

	"selfheal/harness/compare"
	"selfheal/harness/result"
	"selfheal/internal/must"
	"selfheal/reports/table"
)

// Everything that is accepted as results and records of a run can be rendered.
func FuzzRender(f *testing.F) {
	add := func(file *result.File, records []result.Record) {
		var lines []byte
		for _, r := range records {
			lines = append(append(lines, must.Get(json.Marshal(r))(f)...), '\n')
		}
		f.Add(must.Get(json.Marshal(file))(f), lines)
	}
	add(fixture(), records(fixture())[:50])
	add(crowded(3), nil)
	add(hostileFile(), nil)
	f.Fuzz(func(t *testing.T, data, lines []byte) {
		dir := t.TempDir()
		results, recorded := filepath.Join(dir, "results.json"), filepath.Join(dir, "records.jsonl")
		must.Do(t, os.WriteFile(results, data, 0o600))
		must.Do(t, os.WriteFile(recorded, lines, 0o600))
		file, err := result.Read(results)
		if err != nil {
			return
		}
		var all []result.Record
		for r, err := range result.Records(recorded) {
			if err != nil {
				return
			}
			all = append(all, r)
		}
		_ = must.Survive(t, func() error {
			for _, part := range arranged(file, all).files() {
				if filepath.Ext(part.name) == ".png" { // the SVG file has the same drawing
					continue
				}
				if err := part.render(io.Discard); err != nil {
					return err
				}
			}
			c, err := compare.Of([]compare.Run{{Folder: "a", Path: "/a", File: file},
				{Folder: "b", Path: "/b", File: file, Unfinished: true}})
			if err != nil {
				return nil // no cell has verdicts
			}
			for _, part := range comparisonFiles(table.OfComparison(c)) {
				if filepath.Ext(part.name) == ".png" {
					continue
				}
				if err := part.render(io.Discard); err != nil {
					return err
				}
			}
			return nil
		})
	})
}
