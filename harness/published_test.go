package harness

import (
	"context"
	"path/filepath"
	"reflect"
	"testing"

	"selfheal/harness/result"
	"selfheal/internal/must"
	"selfheal/internal/testinput"
)

// What a suite names as published reaches results.json, under the names of its cells.
func TestPublishedReachesResults(t *testing.T) {
	testinput.Runtime(t)
	text := `version: 1
datasets: {test: {format: cifar10-bin, path: models/zoo/shapes10/test.bin, limit: 3}}
models: {net: {path: models/zoo/preact_robust.onnx}}
attacks: {fgsm: {kind: fgsm, norm: linf, epsilon: 2/255}}
suites: {s: {dataset: test, models: [net], attacks: [fgsm], published: {net: {none: [94.71], fgsm: [12.5]}}}}
`
	out := t.TempDir()
	file, _ := must.Get2(Run(context.Background(), plan(t, text, 1, 4), quiet(out)))(t)
	norm, epsilon := "linf", 2./255
	want := &result.Published{Source: "config", Cells: []result.PublishedCell{
		{Model: "net", Defense: "none", Attack: "none", Accuracy: 0.9471},
		{Model: "net", Defense: "none", Attack: "fgsm", Norm: &norm, Epsilon: &epsilon, Accuracy: 0.125},
	}}
	if !reflect.DeepEqual(file.Suites[0].Published, want) {
		t.Errorf("published %+v", file.Suites[0].Published)
	}
	read := must.Get(result.Read(filepath.Join(out, "results.json")))(t)
	if !reflect.DeepEqual(read.Suites, file.Suites) {
		t.Errorf("results.json has %+v", read.Suites)
	}
	cell, number := read.Cells[1], read.Suites[0].Published.Cells[1]
	if cell.Attack != number.Attack || *cell.Epsilon != *number.Epsilon { // bit for bit: reports look it up
		t.Errorf("the cell is %s at %v, its number %s at %v", cell.Attack, *cell.Epsilon, number.Attack,
			*number.Epsilon)
	}
}
