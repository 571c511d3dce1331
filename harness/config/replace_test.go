package config

import (
	"testing"

	"selfheal/internal/must"
)

// A member's other file is in its ensembles, too, and what scores these is scored; an ensemble has no file to replace.
func TestReplacedMembers(t *testing.T) {
	c := mustParse(t, `version: 1
datasets: {d: {format: npz, path: x.npz}}
models:
  a: {path: a.onnx}
  b: {path: b.onnx}
  all: {task: {kind: ensemble, of: [a, b]}}
suites:
  one: {dataset: d, models: [a, b], attacks: []}
  two: {dataset: d, models: [all], attacks: []}
  three: {dataset: d, models: [a], attacks: []}
`)
	part := must.Get(c.WithModels(map[string]string{"b": "/other.onnx"}))(t)
	all := part.Model("all")
	if len(part.Suites) != 2 || all.Members[0].Path != "a.onnx" || all.Members[1].Path != "/other.onnx" ||
		c.Model("all").Members[1].Path != "b.onnx" {
		t.Errorf("%d suites, %+v", len(part.Suites), all)
	}
	_, err := c.WithModels(map[string]string{"all": "/other.onnx"})
	must.Refuse(t, err, "all is an ensemble, which has no file of its own; give a file for a member: a, b")
}
