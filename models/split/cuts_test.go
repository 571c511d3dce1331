package split

import (
	"slices"
	"testing"

	"selfheal/internal/testinput"
	"selfheal/models/onnx"
)

func load(t *testing.T, name string) *onnx.Graph {
	g, _, err := onnx.Load(testinput.Real(t, name), []float32{0.5}, []float32{0.25})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func TestBoundariesOfRealNetworks(t *testing.T) {
	if got, want := Boundaries(load(t, "resnet_2b.onnx")), []string{"17", "24", "29", "32"}; !slices.Equal(got, want) {
		t.Errorf("ResNet-2B: %q, want %q (stem, two joins' activations, final Gemm's input)", got, want)
	}
	g := load(t, "rn18w16_standard.onnx")
	got := Boundaries(g)
	if len(got) != 10 { // stem, eight joins, pooled features
		t.Errorf("ResNet-18: %d boundaries %q, want 10", len(got), got)
	}
	segments, err := At(g, got)
	if err != nil {
		t.Fatal(err)
	}
	var params, flops int64
	for _, s := range segments {
		params += s.Parameters()
		flops += s.FLOPs()
	}
	if params != g.Parameters() || flops != g.FLOPs() {
		t.Errorf("segments hold %d parameters and %d FLOPs, the network %d and %d", params, flops, g.Parameters(), g.FLOPs())
	}
}
