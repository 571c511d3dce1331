package cli

import (
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"selfheal/harness/config"
	"selfheal/harness/dataset"
	"selfheal/harness/open"
	"selfheal/internal/must"
	"selfheal/internal/testinput"
	"selfheal/models/onnx"
	"selfheal/models/onnx/onnxtest"
)

// Suites of the paper's tables run from end to end on their own architecture: weights drawn from a seed, tiny
// embeddings at the paper's places, an image that the network is right about, attacks and solvers of a few steps.
// Table 5 has one of its three norms, with SELFHEAL_TEST_LARGE all.
func TestPaperSuitesRun(t *testing.T) {
	t.Parallel()
	testinput.Runtime(t)
	const skeleton, pooled = "rn-18", 512 // values of the pooled features
	suites := []string{"table5", "table7"}
	dir := t.TempDir()
	file := filepath.Join(dir, "config.yaml")
	put(t, file, []byte(read(t, "config.yaml")))
	cfg := must.Get(config.Load(file))(t)
	args := append(withSuites(suites...), "--config", file, "--limit", "1", "--quiet", "--set",
		"runtime.winograd=false", "--out", filepath.Join(dir, "out"))
	sets, model, cells := map[string]bool{}, "", 0
	for _, name := range suites {
		s := cfg.Suite(name)
		s.Models = slices.DeleteFunc(s.Models, func(m string) bool { return !strings.HasPrefix(m, skeleton+"-") })
		if name == "table5" && !testinput.Large() {
			s.Attacks = s.Attacks[2:]
		}
		sets["suites."+name+".attacks=["+strings.Join(s.Attacks, ", ")+"]"] = true
		sets["suites."+name+".models=["+strings.Join(s.Models, ", ")+"]"] = true
		cells += len(s.Models) * (1 + len(s.Controls)) * (1 + len(s.Attacks))
		for _, model = range s.Models {
			drawn(t, skeleton, filepath.Join(dir, cfg.Model(model).Path))
		}
		for _, name := range s.Controls {
			if name != "paper-cifar10-denoising" { // it makes no sweeps
				sets["controls."+name+".solver={method: msa, outer: 1, inner: 2}"] = true
			}
			for _, layer := range cfg.Control(name).Layers {
				state := []int64{3, 32, 32}
				path := strings.ReplaceAll(layer.Embedding.Path, "{size}", strconv.Itoa(pooled))
				if layer.At.Kind == config.AtLast {
					state = []int64{pooled}
				}
				if path != "" {
					tinyEmbedding(t, filepath.Join(dir, path), state...)
				}
			}
		}
		for _, name := range s.Attacks {
			sets["attacks."+name+".steps=2"] = true
			if name != "pgd-20" {
				sets["attacks."+name+".version=custom"] = true
				sets["attacks."+name+".components=[{kind: apgd-ce, restarts: 1}, {kind: apgd-t, targets: 2}, "+
					"{kind: fab-t, targets: 2, restarts: 1}, {kind: square, queries: 10}]"] = true
			}
		}
	}
	for set := range sets {
		args = append(args, "--set", set)
	}
	data := cfg.Suite(suites[0]).Dataset
	paperImages(t, dir, []int{0, 0})
	paperImages(t, dir, answers(t, file, model, data, 2)) // a random network is right about its own answers

	done(t, args...)
	f, _ := results(t, filepath.Join(dir, "out"))
	if len(f.Cells) != cells {
		t.Errorf("%d cells, want %d", len(f.Cells), cells)
	}
	for _, cell := range f.Cells {
		name := cell.Suite + "/" + cell.Model + "/" + cell.Defense + "/" + cell.Attack
		if cell.N != 1 || cell.Attack == "none" && cell.Defense == "none" && cell.Correct != 1 {
			t.Errorf("%s: %d of %d", name, cell.Correct, cell.N)
		}
		if cell.Attack != "none" && cell.Defense == "none" {
			if len(cell.Steps) == 0 || cell.Steps[0].Attacked != 1 || cell.Steps[0].Backward == 0 {
				t.Errorf("%s: steps %+v", name, cell.Steps)
			}
		}
		if cell.Defense != "none" && cell.Solver == nil {
			t.Errorf("%s: nothing is said of the closed loop", name)
		}
	}
	for _, s := range f.Suites {
		if s.Published == nil || s.Published.Source != s.Name {
			t.Errorf("suite %s: published %+v", s.Name, s.Published)
		}
	}
}

// paperImages writes files of images of noise in CIFAR-10's layout.
func paperImages(t *testing.T, dir string, labels []int) {
	t.Helper()
	dir = filepath.Join(dir, "data/cifar-10-batches-bin")
	put(t, filepath.Join(dir, "test_batch.bin"), records(labels))
	for batch := range 5 {
		put(t, filepath.Join(dir, fmt.Sprintf("data_batch_%d.bin", batch+1)), records(make([]int, 4)))
	}
}

// drawn writes a network with the weights that a seed gives it.
func drawn(t *testing.T, skeleton, path string) {
	t.Helper()
	g := must.Get(onnxtest.FillSkeleton([]byte(read(t, "models/zoo/skeletons/"+skeleton+".onnx")), 1))(t)
	store(t, g, path)
}

func store(t *testing.T, g *onnx.Graph, path string) {
	t.Helper()
	data := must.Get(g.Encode())(t)
	put(t, path, data)
}

// tinyEmbedding writes an embedding of states: it adds to a state the result of two convolutions (images) or two
// matrices (vectors). The weights are random, and so small that the closed loop, whose objective is |E(x) − x|², does
// not diverge.
func tinyEmbedding(t *testing.T, path string, state ...int64) {
	t.Helper()
	r := rand.New(rand.NewPCG(7, uint64(len(state))))
	weights := func(dims ...int64) *onnx.Tensor {
		s := onnx.Shape(dims)
		v := make([]float32, s.Items())
		for i := range v {
			v[i] = float32(0.1 * r.NormFloat64() / math.Sqrt(float64(max(dims[0], dims[1]))))
		}
		return onnx.FloatTensor(s, v)
	}
	b := &onnx.Builder{G: onnx.NewGraph("tiny")}
	x := b.Input("state", append(onnx.Shape{onnx.Batch}, state...))
	if len(state) == 3 {
		pads := onnx.Attrs{"pads": []int64{1, 1, 1, 1}}
		code := b.Op("Relu", b.OpWith("Conv", pads, x, b.Const(weights(4, state[0], 3, 3))))
		b.Output("embedding", b.Op("Add", x, b.OpWith("Conv", pads, code, b.Const(weights(state[0], 4, 3, 3)))))
	} else {
		b.Output("embedding", b.Op("Add", x,
			b.Op("MatMul", b.Op("Elu", b.Op("MatMul", x, b.Const(weights(state[0], 8)))),
				b.Const(weights(8, state[0])))))
	}
	must.Do(t, b.Err())
	store(t, b.G, path)
}

// records makes images of noise in CIFAR's layout.
func records(labels []int) []byte {
	r := rand.New(rand.NewPCG(11, 13))
	var data []byte
	for _, l := range labels {
		data = append(data, byte(l))
		for range 3072 {
			data = append(data, byte(r.Uint32()))
		}
	}
	return data
}

// answers returns the classes that a network of the config predicts for a data set's first images.
func answers(t *testing.T, file, model, data string, n int) []int {
	t.Helper()
	cfg := must.Get(config.Load(file))(t)
	u := must.Get(open.Use(t.Context(), cfg, model, "none", open.Options{}))(t)
	defer u.Close()
	d := must.Get(dataset.Open(cfg.Dataset(data).Spec, cfg.Files, n))(t)
	alone, _ := must.Get2(u.Answers(t.Context(), d.Len(), func(i int) ([]float32, error) {
		_, pixels, _, err := d.Image(i)
		return pixels, err
	}))(t)
	labels := make([]int, len(alone))
	for i, a := range alone {
		labels[i] = a.Class
	}
	return labels
}
