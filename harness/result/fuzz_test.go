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

// Any bytes as each file of a run. What is accepted is written and read again.
func FuzzRead(f *testing.F) {
	marshal := func(v any) []byte { return must.Get(json.Marshal(v))(f) }
	f.Add(marshal(map[string]any{"schema": Schema, "cells": []any{cell()}}))
	f.Add(marshal(galleryOf(picture(f, 3, 2))))
	f.Add([]byte(goodRecord + "\n" + goodRecord + "\n{"))
	f.Add([]byte(`{"suite":"s","attack":"a","margin":null,"first_success":3}` + "\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		path := filepath.Join(t.TempDir(), "file")
		must.Do(t, os.WriteFile(path, data, 0o644))
		again := path + "-again"
		var file *File
		if must.Survive(t, func() (err error) {
			file, err = Read(path)
			return err
		}) == nil {
			must.Do(t, Write(again, file))
			must.Get(Read(again))(t)
		}
		var gallery *Gallery
		if must.Survive(t, func() (err error) {
			gallery, err = ReadGallery(path)
			return err
		}) == nil {
			must.Do(t, WriteGallery(again, gallery))
			must.Get(ReadGallery(again))(t)
		}
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
