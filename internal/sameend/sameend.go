// Package sameend tells whether two runs came to the same end.
package sameend

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
)

// Check compares what two runs have left in their folders: records, gallery and adversarial images byte by byte, and
// results.json but for times, and for what caches held and commands were. It also holds that the second has left no
// journal.
func Check(want, got string) error {
	names := []string{"records.jsonl", "gallery.json"}
	for _, dir := range []string{want, got} {
		images, err := fs.Glob(os.DirFS(dir), "adversarial/*.npy")
		if err != nil {
			return err
		}
		names = append(names, images...)
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		a, err := os.ReadFile(filepath.Join(want, name))
		if err != nil {
			return err
		}
		b, err := os.ReadFile(filepath.Join(got, name))
		if err != nil {
			return err
		}
		if !bytes.Equal(a, b) {
			return fmt.Errorf("%s differs", name)
		}
	}
	a, err := timeless(filepath.Join(want, "results.json"))
	if err != nil {
		return err
	}
	b, err := timeless(filepath.Join(got, "results.json"))
	if err != nil {
		return err
	}
	if !reflect.DeepEqual(a, b) {
		return errors.New("results.json differs")
	}
	if _, err := os.Stat(filepath.Join(got, "selfheal-journal")); err == nil {
		return errors.New("the journal is left")
	}
	return nil
}

// timeless reads a results.json without its times, and without the folder that its command names.
func timeless(path string) (v any, err error) {
	data, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(data, &v)
	}
	if top, ok := v.(map[string]any); err == nil && (!ok || top["finished"] == nil) {
		return nil, fmt.Errorf("%s is not of a run that has come to its end", path)
	}
	return without(v, "created", "finished", "seconds", "milliseconds", "cached", "command"), err
}

func without(v any, keys ...string) any {
	switch v := v.(type) {
	case map[string]any:
		for _, k := range keys {
			delete(v, k)
		}
		for _, one := range v {
			without(one, keys...)
		}
	case []any:
		for _, one := range v {
			without(one, keys...)
		}
	}
	return v
}
