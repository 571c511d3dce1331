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

// Hash returns the SHA-256, in hex, of the config's meaning. It is the same for two configs that ask for the same
// results, however they are written and wherever they lie. Every key counts unless its row says that no number
// depends on it. Call it on a config from [Config.Selected], with Limit set.
func (c *Config) Hash() string {
	p, limits, fits := c.Portable(), map[string]int{}, c.fitDatasets()
	p.each(func(_ string, v value, unhashed bool) {
		if unhashed && v.to != nil {
			reflect.ValueOf(v.to).Elem().SetZero()
		}
	})
	p.Theory, p.Limit = false, 0
	for i := range p.Datasets {
		d := &p.Datasets[i]
		if slices.ContainsFunc(p.Suites, func(s Suite) bool { return s.Dataset == d.Name }) {
			limits[d.Name] = cmp.Or(min(d.Limit, c.Limit), max(d.Limit, c.Limit)) // 0 means no limit
		}
		if !slices.Contains(fits, d.Name) {
			d.Limit = 0 // limits has the limit of its scored images
		}
	}
	sortByName(p.Datasets, datasetName)
	sortByName(p.Models, modelName)
	sortByName(p.Controls, controlName)
	sortByName(p.Attacks, attackName)
	sortByName(p.Suites, suiteName)
	text, err := json.Marshal([]any{Version, said(reflect.ValueOf(*p)), limits})
	if err != nil {
		panic("config: the plan can't be written as JSON: " + err.Error()) // numbers are finite, so this can't happen
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

func sortByName[T any](list []T, nameOf func(*T) string) {
	slices.SortFunc(list, func(a, b T) int { return cmp.Compare(nameOf(&a), nameOf(&b)) })
}

// said returns a value for JSON without fields that are zero, so that a new key does not change the hash of configs
// without it.
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

// Portable returns a copy of the config as a plan keeps it, with paths in its folder made relative. It means the
// same, and has the same text wherever the folder is.
func (c *Config) Portable() *Config {
	p := &Config{}
	text, err := json.Marshal(c)
	if err == nil {
		err = json.Unmarshal(text, p)
	}
	if err != nil {
		// numbers are finite, so this can't happen
		panic("config: it can't be written as JSON and read again: " + err.Error())
	}
	p.each(func(_ string, v value, _ bool) {
		if path, ok := v.to.(*string); ok && v.file {
			*path = c.relative(*path)
		}
	})
	return p
}

// each calls visit with all values of the config, those of an ensemble's members among them.
func (c *Config) each(visit func(where string, v value, unhashed bool)) {
	c.object().value().each("", visit)
	for i := range c.Models {
		for k := range c.Models[i].Members {
			one := &c.Models[i].Members[k]
			modelObject(one.Name, one).value().each("", visit)
		}
	}
}

// relative returns an absolute path in the config's folder relative to it, and other paths unchanged.
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
