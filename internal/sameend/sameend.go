// Package sameend compares the results of two runs that should be equal. [Check] does it all.
package sameend

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
)

// Check compares the folders of two runs: records, gallery and adversarial images byte by byte, and results.json except
// for times, the state of caches and commands. It also checks that the second run has left no journal.
func Check(want, got string) error {
	a, b := os.DirFS(want), os.DirFS(got)
	mine, errA := fs.Glob(a, "adversarial/*.npy")
	other, errB := fs.Glob(b, "adversarial/*.npy")
	if err := cmp.Or(errA, errB); err != nil {
		return err
	}
	names := slices.Sorted(slices.Values(slices.Concat(mine, other, []string{"records.jsonl", "gallery.json"})))
	for _, name := range slices.Compact(names) {
		x, errA := fs.ReadFile(a, name)
		y, errB := fs.ReadFile(b, name)
		if err := cmp.Or(errA, errB); err != nil {
			return err
		}
		if !bytes.Equal(x, y) {
			return fmt.Errorf("%s differs", name)
		}
	}
	x, errA := timeless(filepath.Join(want, "results.json"))
	y, errB := timeless(filepath.Join(got, "results.json"))
	if err := cmp.Or(errA, errB); err != nil {
		return err
	}
	if !reflect.DeepEqual(x, y) {
		return errors.New("results.json differs")
	}
	if _, err := fs.Stat(b, "selfheal-journal"); err == nil {
		return errors.New("the journal is left")
	}
	return nil
}

// timeless reads a results.json without its times, and without the folder in its command.
func timeless(path string) (v any, err error) {
	data, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(data, &v)
	}
	if top, ok := v.(map[string]any); err == nil && (!ok || top["finished"] == nil) {
		return nil, fmt.Errorf("%s is not of a run that has come to its end", path)
	}
	drop(v)
	return v, err
}

func drop(v any) {
	switch v := v.(type) {
	case map[string]any:
		maps.DeleteFunc(v, func(key string, one any) bool {
			drop(one)
			return slices.Contains([]string{"created", "finished", "seconds", "milliseconds", "cached", "command"}, key)
		})
	case []any:
		for _, one := range v {
			drop(one)
		}
	}
}
