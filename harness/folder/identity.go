package folder

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"selfheal/harness/result"
)

// NoClean is why cells behind one of clean images that failed have no verdicts.
const NoClean = "there are no verdicts on clean images"

// Failures is the error of a finished run's cells and seeds that have no verdicts.
func Failures(f *result.File) error {
	var list []error
	for _, c := range f.Cells {
		if c.Error != "" && c.Error != NoClean {
			list = append(list, errors.New(c.Error))
		}
	}
	for _, text := range f.Failed {
		list = append(list, errors.New(text))
	}
	return errors.Join(list...)
}

// Differ lists the settings and files in which one run differs from another.
func Differ(one, other *result.File) ([]result.Difference, error) {
	there, err := provenanceOf(one)
	if err != nil {
		return nil, err
	}
	here, err := provenanceOf(other)
	if err != nil {
		return nil, err
	}
	list := result.Differences("", there, here)
	if named := slices.DeleteFunc(slices.Clone(list), func(d result.Difference) bool {
		return d.Path == "config_sha256" // which tells nobody what it is
	}); len(named) > 0 {
		return named, nil
	}
	return list, nil
}

// Holds is an [ErrOtherRun] unless the run that the folder has is another one's too.
func (f *Folder) Holds(held, other *result.File) error {
	list, err := Differ(held, other)
	if err == nil && len(list) > 0 {
		err = fmt.Errorf("%s holds another run: %s; %w", f.Dir, result.SayFirst(list, "there", "here"), ErrOtherRun)
	}
	return err
}

// provenanceOf is everything that numbers depend on, as it stands in results.json.
func provenanceOf(f *result.File) (all map[string]any, err error) {
	of := *f
	of.Created, of.Finished, of.Command, of.Failed = time.Time{}, nil, nil, nil
	of.Fits, of.Cells, of.Solver, of.Images = nil, nil, nil, nil
	e := f.Environment
	of.Environment = result.Environment{Selfheal: e.Selfheal, ONNXRuntime: e.ONNXRuntime, Provider: e.Provider,
		Precision: e.Precision, Winograd: e.Winograd}
	of.Suites = slices.Clone(f.Suites)
	for i := range of.Suites {
		of.Suites[i].Title, of.Suites[i].Published = "", nil
	}
	of.Models = maps.Clone(f.Models)
	for name, m := range of.Models {
		m.Parameters, m.Segments, m.FLOPs = 0, 0, 0
		of.Models[name] = m
	}
	of.Controls = maps.Clone(f.Controls)
	for name, c := range of.Controls {
		c.Layers = slices.Clone(c.Layers)
		for i := range c.Layers {
			c.Layers[i].Embedding.Path = ""
		}
		of.Controls[name] = c
	}
	data, err := json.Marshal(of)
	if err == nil {
		err = json.Unmarshal(data, &all)
	}
	return all, err
}
