package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"selfheal/internal/testinput"
)

// largeVariable makes TestPaperSuitesRun take the networks that are too large for every
// run of the tests.
const largeVariable = "SELFHEAL_TEST_LARGE"

// paperRun is a network of the paper's that stands, with weights drawn from a seed, for
// those that the tables' suites name.
type paperRun struct {
	skeleton string
	large    bool
	data     string // images, and the embeddings' names
	input    []string
	pooled   int64 // size of the pooled features
	suites   []string
	cells    int
}

var paperRuns = []paperRun{
	{"rn-18", false, "cifar10", []string{"fcn", "segnet", "denoising"}, 512, []string{"table5", "table6", "table7"},
		3*4 + 4*4 + 2*3},
	{"efficientnet-b0", false, "tiny-imagenet", []string{"segnet"}, 1280, []string{"table4"}, 2 * 4},
	{"rn-18", true, "cifar10", []string{"fcn"}, 512, []string{"table2-standard", "table2-robust"}, 2 * 2 * 4},
	{"rn-34", true, "cifar10", []string{"fcn", "segnet", "denoising"}, 512,
		[]string{"table2-standard", "table2-robust", "table5", "table6", "table7"}, 2*2*4 + 3*4 + 4*4 + 2*3},
	{"rn-50", true, "cifar10", []string{"fcn", "segnet", "denoising"}, 2048,
		[]string{"table2-standard", "table2-robust", "table5", "table6", "table7"}, 2*2*4 + 3*4 + 4*4 + 2*3},
	{"wrn-28-8", true, "cifar10", []string{"fcn"}, 512, []string{"table2-standard", "table2-robust", "table6"}, 2*2*4 +
		4*4},
	{"wrn-34-8", true, "cifar10", []string{"fcn"}, 512, []string{"table2-standard", "table2-robust", "table6"}, 2*2*4 +
		4*4},
	{"wrn-28-10", true, "cifar100", []string{"fcn"}, 640, []string{"table3"}, 2 * 4},
	{"wrn-34-10", true, "cifar100", []string{"fcn"}, 640, []string{"table3"}, 2 * 4},
	{"wrn-76-10", true, "cifar100", []string{"fcn"}, 640, []string{"table3"}, 2 * 4},
	{"efficientnet-b1", true, "tiny-imagenet", []string{"segnet"}, 1280, []string{"table4"}, 2 * 4},
	{"efficientnet-b2", true, "tiny-imagenet", []string{"segnet"}, 1408, []string{"table4"}, 2 * 4},
}

// trainings are how the networks of a suite were trained.
var trainings = map[string][]string{"table2-standard": {"standard"}, "table2-robust": {"robust"}, "table3": {"robust"},
	"table4": {"standard"},
	"table5": {"standard"}, "table6": {"standard", "robust"}, "table7": {"robust"}}

// The tables' suites run from end to end on their own architectures: weights drawn from
// a seed, tiny embeddings at the paper's places, two images that the network is right
// about, attacks and solvers of a few steps.
func TestPaperSuitesRun(t *testing.T) {
	testinput.Runtime(t)
	for _, c := range paperRuns {
		t.Run(strings.Join(append([]string{c.skeleton}, c.suites...), "+"), func(t *testing.T) {
			if c.large && os.Getenv(largeVariable) != "1" {
				t.Skipf("%s=1 runs it; %s takes minutes and up to 8 GiB", largeVariable, c.skeleton)
			}
			c.run(t)
		})
	}
}

func (c paperRun) run(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "config.yaml")
	put(t, file, []byte(read(t, "config.yaml")))
	side := int64(32)
	if c.data == "tiny-imagenet" {
		side = 64
	}
	for _, name := range c.input {
		tinyEmbedding(t, filepath.Join(dir, "paper/embeddings", c.data+"-"+name+".onnx"), 3, side, side)
	}
	tinyEmbedding(t, filepath.Join(dir, fmt.Sprintf("paper/embeddings/%s-hidden-%d.onnx", c.data, c.pooled)), c.pooled)

	var all []string
	models := map[string][]string{} // by suite
	for _, s := range c.suites {
		for _, training := range trainings[s] {
			models[s] = append(models[s], c.skeleton+"-"+training)
			all = append(all, c.skeleton+"-"+training)
		}
	}
	for _, m := range all {
		drawn(t, c.skeleton, filepath.Join(dir, "paper/models", m, "model.onnx"))
	}
	set := c.images(t, dir, []int{0, 0, 0})
	c.images(t, dir, answers(t, file, all[0], set, 3)) // a random network is right about its own answers

	args := append(withSuites(c.suites...), "--config", file, "--limit", "2", "--quiet", "--set",
		"runtime.winograd=false", "--out", filepath.Join(dir, "out"))
	for _, s := range c.suites {
		args = append(args, "--set", "suites."+s+".models=["+strings.Join(models[s], ", ")+"]")
	}
	for _, setting := range c.budgets() {
		args = append(args, "--set", setting)
	}
	done(t, args...)
	f, _ := results(t, filepath.Join(dir, "out"))
	if len(f.Cells) != c.cells {
		t.Errorf("%d cells, want %d", len(f.Cells), c.cells)
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

// budgets reduce the attacks and solvers of the run's suites.
func (c paperRun) budgets() (sets []string) {
	suffix := ""
	if c.data == "tiny-imagenet" {
		suffix = "-64"
	}
	for _, a := range []string{"aa-linf", "aa-l2", "aa-l1"} {
		sets = append(sets, "attacks."+a+suffix+".version=custom", "attacks."+a+suffix+".steps=2",
			"attacks."+a+suffix+".components=[{kind: apgd-ce, restarts: 1}, {kind: apgd-t, targets: 2}, "+
				"{kind: fab-t, targets: 2, restarts: 1}, {kind: square, queries: 10}]")
	}
	if slices.Contains(c.suites, "table7") {
		sets = append(sets, "attacks.pgd-20.steps=2")
	}
	controls := map[string][]string{"table5": {"cifar10", "cifar10-segnet"}, "table6": {"cifar10-linear"},
		"table7": nil}
	var used []string
	for _, s := range c.suites {
		list, known := controls[s]
		if !known {
			list = []string{c.data}
		}
		used = append(used, list...)
	}
	slices.Sort(used)
	for _, name := range slices.Compact(used) {
		sets = append(sets, "controls.paper-"+name+".solver={method: msa, outer: 1, inner: 2}")
	}
	return sets
}

// images writes the files that the run's data sets name, and returns the one that is scored.
func (c paperRun) images(t *testing.T, dir string, labels []int) string {
	switch c.data {
	case "tiny-imagenet":
		tinyImageNet(t, filepath.Join(dir, "data/tiny-imagenet-200"), labels)
		return "tiny-imagenet-val"
	case "cifar100":
		put(t, filepath.Join(dir, "data/cifar-100-binary/test.bin"), records(labels, 1))
		return "cifar100-test"
	}
	put(t, filepath.Join(dir, "data/cifar-10-batches-bin/test_batch.bin"), records(labels, 0))
	put(t, filepath.Join(dir, "data/cifar-10-batches-bin/train.bin"), records(make([]int, 20), 0))
	return "cifar10-test"
}
