package ort

import (
	"context"
	"strings"
	"testing"
)

func TestPortsFromModel(t *testing.T) {
	p := newPool(t, 1, 2)
	conv := compile(t, p, "conv")
	if in := conv.Inputs(); len(in) != 1 || in[0].Name != "x" || in[0].Size != 768 || len(in[0].Shape) != 3 {
		t.Errorf("inputs %v", in)
	}
	if out := conv.Outputs(); len(out) != 3 || out[0].Size != 10 || out[1].Size != 16 || out[2].Size != 1 || len(out[2].Shape) != 0 {
		t.Errorf("outputs %v", out)
	}
	if conv.Name() != "conv" || p.Workers() != 1 || p.Batch() != 2 {
		t.Errorf("%s, %d workers, batch %d", conv.Name(), p.Workers(), p.Batch())
	}
}

// A program may take the inputs in any order and some of the outputs.
func TestChosenPorts(t *testing.T) {
	p := newPool(t, 1, 2)
	four := []int64{4}
	add, err := p.Compile("add", readModel(t, "add"), []Port{{Name: "b", Shape: four}, {Name: "a", Shape: four}}, []Port{{Name: "same", Shape: four, Size: 4}})
	if err != nil {
		t.Fatal(err)
	}
	got := make([]float32, 4)
	if err := p.Run(context.Background(), add, [][]float32{{1, 1, 1, 1}, {2, 3, 4, 5}}, [][]float32{got}); err != nil {
		t.Fatal(err)
	}
	if got[0] != 2 || got[3] != 5 {
		t.Errorf("got %v", got)
	}
}

func TestCompileErrors(t *testing.T) {
	p := newPool(t, 1, 2)
	four := []int64{4}
	a, b, sum := Port{Name: "a", Shape: four}, Port{Name: "b", Shape: four}, Port{Name: "sum", Shape: four}
	broken := append([]byte(nil), readModel(t, "add")...)
	copy(broken[strings.Index(string(broken), "Identity"):], "Idontity")
	for name, c := range map[string]struct {
		model   []byte
		in, out []Port
		want    string
	}{
		"missing input":  {readModel(t, "add"), []Port{a}, []Port{sum}, "the model's inputs are [a b], only 1 of them"},
		"unknown input":  {readModel(t, "add"), []Port{a, {Name: "c"}}, []Port{sum}, `no input "c", it has [a b]`},
		"unknown output": {readModel(t, "add"), nil, []Port{a}, `no output "a", it has [sum same]`},
		"twice":          {readModel(t, "add"), []Port{a, a}, []Port{sum}, `"a" is named twice`},
		"no outputs":     {readModel(t, "add"), nil, []Port{}, "at least one input and one output"},
		"rank":           {readModel(t, "add"), []Port{a, {Name: "b", Shape: []int64{2, 2}}}, nil, `input "b": the model's shape is [-1 4]`},
		"dimension":      {readModel(t, "add"), []Port{a, {Name: "b", Shape: []int64{5}}}, nil, `input "b": the model's shape is [-1 4]`},
		"size":           {readModel(t, "add"), []Port{a, {Name: "b", Shape: four, Size: 3}}, nil, "size 3 does not fit"},
		"negative":       {readModel(t, "add"), []Port{a, {Name: "b", Shape: []int64{-1}}}, nil, "known and positive"},
		"fixed batch":    {readModel(t, "fixed"), nil, nil, `"x" has no symbolic batch dimension, its shape is [1 4]`},
		"integer":        {readModel(t, "integer"), nil, nil, `input "x" is not float32`},
		"unknown op":     {broken, []Port{a, b}, []Port{sum}, "Idontity"},
		"garbage":        {[]byte("no model at all"), nil, nil, "not an ONNX model"},
		"cut":            {readModel(t, "conv")[:4000], nil, nil, "not an ONNX model"},
		"empty":          {nil, nil, nil, "not an ONNX model"},
	} {
		_, err := p.Compile("m", c.model, c.in, c.out)
		if err == nil || !strings.HasPrefix(err.Error(), "compile m: ") || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: got %v, wanted %q", name, err, c.want)
		}
	}
}

// A port whose shape the model does not fix is compared by the runtime.
func TestWrongShapeAtRun(t *testing.T) {
	p := newPool(t, 1, 8)
	fails := compile(t, p, "fails")
	ok := make([]float32, 5)
	err := p.Run(context.Background(), fails, [][]float32{{1, 2, 3, 4}}, [][]float32{ok})
	if err == nil || !strings.Contains(err.Error(), "run fails on 1 items") {
		t.Errorf("got %v", err)
	}
}
