package cli

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"selfheal/harness/config"
	"selfheal/internal/must"
	"selfheal/internal/testinput"
)

const table2, tables57, table6 = "table2-standard table2-robust", "table5 table7", "table6"

// paperRuns are networks of the paper's that stand, with weights drawn from a seed, for those
// that the tables' suites name; pooled is the size of the pooled features.
var paperRuns = []struct {
	skeleton, suites string
	pooled           int64
	large            bool
}{
	{"rn-18", tables57, 512, false}, {"efficientnet-b0", "table4", 1280, false},
	{"rn-18", table2 + " " + table6, 512, true}, {"rn-34", table2 + " " + tables57 + " " + table6, 512, true},
	{"rn-50", table2 + " " + tables57 + " " + table6, 2048, true},
	{"wrn-28-8", table2 + " " + table6, 512, true}, {"wrn-34-8", table2 + " " + table6, 512, true},
	{"wrn-28-10", "table3", 640, true}, {"wrn-34-10", "table3", 640, true}, {"wrn-76-10", "table3", 640, true},
	{"efficientnet-b1", "table4", 1280, true}, {"efficientnet-b2", "table4", 1408, true},
}

// The tables' suites run from end to end on their own architectures: weights drawn from a seed, tiny embeddings
// at the paper's places, two images that the network is right about, attacks and solvers of a few steps.
func TestPaperSuitesRun(t *testing.T) {
	t.Parallel()
	testinput.Runtime(t)
	for _, c := range paperRuns {
		t.Run(c.skeleton+" "+c.suites, func(t *testing.T) {
			if c.large && !testinput.Large() {
				t.Skipf("SELFHEAL_TEST_LARGE=1 runs it; %s takes minutes and up to 8 GiB", c.skeleton)
			}
			runTables(t, c.skeleton, strings.Fields(c.suites), c.pooled)
		})
	}
}

func runTables(t *testing.T, skeleton string, suites []string, pooled int64) {
	dir := t.TempDir()
	file := filepath.Join(dir, "config.yaml")
	put(t, file, []byte(read(t, "config.yaml")))
	cfg := must.Get(config.Load(file))(t)
	args := append(withSuites(suites...), "--config", file, "--limit", "2", "--quiet", "--set",
		"runtime.winograd=false", "--out", filepath.Join(dir, "out"))
	sets, model, cells := map[string]bool{}, "", 0
	for _, name := range suites {
		s := cfg.Suite(name)
		s.Models = slices.DeleteFunc(s.Models, func(m string) bool { return !strings.HasPrefix(m, skeleton+"-") })
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
				if s.Dataset == "tiny-imagenet-val" {
					state = []int64{3, 64, 64}
				}
				path := strings.ReplaceAll(layer.Embedding.Path, "{size}", strconv.FormatInt(pooled, 10))
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
	paperImages(t, dir, data, []int{0, 0, 0})
	paperImages(t, dir, data, answers(t, file, model, data, 3)) // a random network is right about its own answers

	done(t, args...)
	f, _ := results(t, filepath.Join(dir, "out"))
	if len(f.Cells) != cells {
		t.Errorf("%d cells, want %d", len(f.Cells), cells)
	}
	for _, cell := range f.Cells {
		name := cell.Suite + "/" + cell.Model + "/" + cell.Defense + "/" + cell.Attack
		if cell.N != 2 || cell.Attack == "none" && cell.Defense == "none" && cell.Correct != 2 {
			t.Errorf("%s: %d of %d", name, cell.Correct, cell.N)
		}
		if cell.Attack != "none" && cell.Defense == "none" {
			if len(cell.Steps) == 0 || cell.Steps[0].Attacked != 2 || cell.Steps[0].Backward == 0 {
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

// paperImages writes the files of a data set of the paper's.
func paperImages(t *testing.T, dir, data string, labels []int) {
	t.Helper()
	switch data {
	case "tiny-imagenet-val":
		tinyImageNet(t, filepath.Join(dir, "data/tiny-imagenet-200"), labels)
	case "cifar100-test":
		put(t, filepath.Join(dir, "data/cifar-100-binary/test.bin"), records(labels, 1))
	default:
		put(t, filepath.Join(dir, "data/cifar-10-batches-bin/test_batch.bin"), records(labels, 0))
		for batch := range 5 {
			put(t, filepath.Join(dir, fmt.Sprintf("data/cifar-10-batches-bin/data_batch_%d.bin", batch+1)),
				records(make([]int, 4), 0))
		}
	}
}
