package result

import (
	"cmp"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"selfheal/internal/must"
)

// Any bytes as each file of a run. Accepted files are written and read again.
func FuzzRead(f *testing.F) {
	marshal := func(v any) []byte { return must.Get(json.Marshal(v))(f) }
	f.Add(marshal(map[string]any{"schema": Schema, "cells": []any{written()}}))
	f.Add(marshal(galleryOf(picture(f, 3, 2))))
	f.Add([]byte(goodRecord + "\n" + goodRecord + "\n{"))
	f.Add([]byte(`{"suite":"s","attack":"a","margin":null,"first_success":3}` + "\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		path := filepath.Join(t.TempDir(), "file")
		must.Do(t, os.WriteFile(path, data, 0o644))
		file := readTwice(t, path, Read, Write)
		readTwice(t, path, ReadGallery, WriteGallery)
		if file == nil {
			file = &File{}
		}
		_ = must.Survive(t, func() (err error) {
			var records []Record
			for r, rerr := range Records(path) {
				records, err = append(records, r), rerr
			}
			return cmp.Or(err, file.CheckRecords(slices.Values(records)))
		})
	})
}

// readTwice reads a file, writes it and reads it again. It returns nil for a file that no run has written.
func readTwice[T any](t *testing.T, path string, read func(string) (*T, error), write func(string, *T) error) (f *T) {
	if must.Survive(t, func() (err error) {
		f, err = read(path)
		return err
	}) != nil {
		return nil
	}
	must.Do(t, write(path+"-again", f))
	must.Get(read(path + "-again"))(t)
	return f
}
