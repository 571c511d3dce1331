package onnx

import (
	"testing"

	"selfheal/internal/testinput"
)

func TestLoadRealModels(t *testing.T) {
	for _, c := range []struct {
		file       string
		parameters int64
		flops      int64
	}{
		{"resnet_2b.onnx", 112006, 0},
		{"rn18w16_standard.onnx", 0, 0},
	} {
		g, _, err := Load(testinput.Real(t, c.file), []float32{0.49, 0.48, 0.45}, []float32{0.2})
		if err != nil {
			t.Fatal(err)
		}
		t.Log(c.file, g.Parameters(), g.FLOPs(), len(g.Nodes), g.Outputs[0].Shape)
		data, err := g.Encode()
		if err != nil {
			t.Fatal(err)
		}
		again, err := Decode(data)
		if err != nil {
			t.Fatal(err)
		}
		if err := again.Infer(); err != nil {
			t.Fatal(err)
		}
	}
}
