package config

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"path/filepath"
	"reflect"
	"slices"
)

// Hash returns the SHA-256, in hex, of what the config means: the same for two configs that ask for the same results,
// however they are written and wherever they lie. Every key counts unless its row says that no number depends on it.
// Call it on what [Config.Selected] returned, with Limit set.
func (c *Config) Hash() string {
	p, limits, fits := c.Portable(), map[string]int{}, c.fitDatasets()
	p.object().value().each("", func(_ string, v value, unhashed bool) {
		if unhashed && v.to != nil {
			reflect.ValueOf(v.to).Elem().SetZero()
		}
	})
	p.Theory, p.Limit = false, 0
	for i := range p.Datasets {
		d := &p.Datasets[i]
		if slices.ContainsFunc(p.Suites, func(s Suite) bool { return s.Dataset == d.Name }) {
			limits[d.Name] = cmp.Or(min(d.Limit, c.Limit), max(d.Limit, c.Limit)) // 0 is none
		}
		if !slices.Contains(fits, d.Name) {
			d.Limit = 0 // that of its scored images stands in limits
		}
	}
	sortByName(p.Datasets, datasetName)
	sortByName(p.Models, modelName)
	sortByName(p.Controls, controlName)
	sortByName(p.Attacks, attackName)
	sortByName(p.Suites, suiteName)
	text, err := json.Marshal([]any{Version, said(reflect.ValueOf(*p)), limits})
	if err != nil {
		panic("config: the plan can't be written as JSON: " + err.Error()) // numbers are finite, so it always can
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

func sortByName[T any](list []T, nameOf func(*T) string) {
	slices.SortFunc(list, func(a, b T) int { return cmp.Compare(nameOf(&a), nameOf(&b)) })
}

// said is a value for JSON. Fields that are zero are left out, so that a new key leaves the hash of configs without it.
func said(v reflect.Value) any {
	switch v.Kind() {
	case reflect.Pointer:
		return said(v.Elem())
	case reflect.Slice:
		list := make([]any, v.Len())
		for i := range list {
			list[i] = said(v.Index(i))
		}
		return list
	case reflect.Struct:
		fields := map[string]any{}
		for i := range v.NumField() {
			if f := v.Field(i); !f.IsZero() && !(f.Kind() == reflect.Slice && f.Len() == 0) {
				fields[v.Type().Field(i).Name] = said(f)
			}
		}
		return fields
	}
	return v.Interface()
}

// Portable is a copy of the config as a plan keeps it, paths relative to its folder where they lie in it: it means the
// same, and in the same words wherever the folder is.
func (c *Config) Portable() *Config {
	p := &Config{}
	text, err := json.Marshal(c)
	if err == nil {
		err = json.Unmarshal(text, p)
	}
	if err != nil {
		panic("config: it can't be written as JSON and read again: " + err.Error()) // numbers are finite, so it can
	}
	p.object().value().each("", func(_ string, v value, _ bool) {
		if path, ok := v.to.(*string); ok && v.file {
			*path = c.relative(*path)
		}
	})
	return p
}

// relative makes an absolute path that lies in the config's folder relative to it.
func (c *Config) relative(path string) string {
	folder, ok := c.Files.(Folder)
	base, err := filepath.Abs(string(folder))
	if !ok || err != nil || !filepath.IsAbs(filepath.FromSlash(path)) {
		return path
	}
	if rel, err := filepath.Rel(base, filepath.FromSlash(path)); err == nil && filepath.IsLocal(rel) {
		return filepath.ToSlash(rel)
	}
	return path
}
