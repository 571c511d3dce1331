package compare

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"selfheal/harness/result"
	"selfheal/internal/must"
)

// Accepted results can be compared with itself and with other results.
func FuzzOf(f *testing.F) {
	one := runOf("one", []int{4, 2, 0, 1}, net("m", "1101", "0101"), under("m", "heal", white, "1111"))
	one.File.Attacks["pgd"] = result.Attack{Kind: "corruption", Parameters: result.Parameters{"names": []any{nil, 1.5}}}
	one.File.Cells[1].Attack, one.File.Cells[1].Norm = "pgd:fog:1", nil
	f.Add(must.Get(json.Marshal(one.File))(f))
	f.Add([]byte(`{"schema": "selfheal.results/1", "cells": [{"n": 1, "correct": 0, "accuracy": 0, "verdicts": "0"}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		path := filepath.Join(t.TempDir(), "results.json")
		must.Do(t, os.WriteFile(path, data, 0o600))
		file, err := result.Read(path)
		if err != nil {
			return
		}
		_ = must.Survive(t, func() error {
			c, err := Of([]Run{{Folder: "b", Path: "/b", File: file}, one,
				{Folder: "c", Path: "/c", File: file, Unfinished: true}})
			if err == nil {
				_, err = json.Marshal(c)
			}
			return err
		})
	})
}
