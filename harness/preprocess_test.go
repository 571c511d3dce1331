package harness_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"selfheal/harness/cell"
	"selfheal/harness/folder"
	"selfheal/harness/open"
	"selfheal/harness/result"
	"selfheal/harness/run"
	"selfheal/internal/journal"
	"selfheal/internal/must"
	"selfheal/internal/testinput"
	"selfheal/internal/testplan"
	"selfheal/models/onnx"
)

// Real networks without normalisation or with a wrong one get a warning, others don't. ResNet-20 was trained with
// ImageNet's normalisation, and these images show no difference from CIFAR-10's: the message names all that may be
// right.
func TestPreprocessingOfRealNetworks(t *testing.T) {
	testinput.Runtime(t)
	images, imagenet := testinput.Real(t, "cifar10-test-1000.bin"), []float64{0.485, 0.456, 0.406}
	for _, c := range []struct {
		model, preprocess string
		warns             bool
	}{
		{"resnet20", "{}", true}, {"resnet20", "{mean: [0.5], std: [0.5]}", true},
		{"resnet20", "{mean: [0.485, 0.456, 0.406], std: [0.229, 0.224, 0.225]}", false},
		{"resnet_2b", "{}", true}, {"resnet_2b", "{scale: 255}", true},
		{"resnet_2b", "{mean: [0.4914, 0.4822, 0.4465], std: [0.2471, 0.2435, 0.2616]}", false},
	} {
		limit := map[string]int{"resnet20": 150, "resnet_2b": 60}[c.model]
		p := testplan.Plan(t, faulty, 2, 64, "suites.s.attacks=[]",
			"models.other={path: "+testinput.Real(t, c.model+".onnx")+", preprocess: "+c.preprocess+"}",
			fmt.Sprintf("datasets.test={format: cifar10-bin, limit: %d, path: %s}", limit, images))
		f, _, _ := runFor(t, p)
		cell := f.Cells[0]
		if hasWarning(cell, result.WarnPreprocessing) != c.warns || !c.warns && len(cell.Warnings) > 0 {
			t.Errorf("%s, %s: right on %d, %v", c.model, c.preprocess, cell.Correct, cell.Warnings)
		} else if c.warns {
			must.Have(t, fmt.Sprint(cell.Warnings),
				fmt.Sprintf("is right on %d of %d images as it", cell.Correct, limit),
				"; in a config preprocess: {mean: [0.", "; not told apart from it: ",
				"--mean 0.4914,0.4822,0.4465 --std 0.2471,0.2435,0.2616", "--mean 0.485,0.456,0.406 --std 0.229,")
		}
		// Examine says the same. If no preprocessing is given, it names all that may be right.
		if c.model == "resnet20" && c.preprocess != "{}" {
			continue // it takes long
		}
		one, advice, err := open.Examine(t.Context(), p.Config, c.model)
		if err != nil || one.Right != cell.Correct || (advice != "") != c.warns {
			t.Errorf("%s, %s: right on %d, a run on %d: %s, %v", c.model, c.preprocess, one.Right, cell.Correct,
				advice, err)
		}
		if c.preprocess == "{}" {
			all := must.Get(open.TryPreprocessing(t.Context(), p.Config))(t)
			at := slices.IndexFunc(all, func(t open.Tried) bool { return slices.Equal(t.Mean, imagenet) })
			if last := all[len(all)-1]; at > 0 && !all[at].Ties() || last.Ties() ||
				open.Undecided(c.model, all).Error() != advice {
				t.Errorf("%s: %v; %s", c.model, all, advice)
			}
		}
	}
}

// A forgotten preprocessing is found once: a continued run reads the warning from the journal.
func TestPreprocessingIsTriedOnce(t *testing.T) {
	// The network takes images in [0,255] and gets images in [0,1].
	wants := func(b *onnx.Builder, x string) string { return b.Op("Div", x, b.Float(255)) }
	p := testplan.Plan(t, faulty, 2, 16, "suites.s.attacks=[pgd]", "datasets.test.limit=40",
		"models.other.path="+planted(t, "levels", wants, unchanged))
	all, end := states(t, p)
	made := ended(t, end).Cells[0]
	must.Have(t, fmt.Sprint(made.Warnings), fmt.Sprintf("right on %d of 40 images as it is given them", made.Correct),
		"when it takes them in [0,255] ", ": --scale 255; in a config preprocess: {scale: 255}")
	dir, path := all[len(all)-1].copied(t)
	lines, damaged, err := journal.Open(filepath.Dir(path))
	if err != nil || damaged > 0 {
		t.Fatal(damaged, err)
	}
	block := lines.Block(folder.Key{Of: "probe",
		Made: cell.Row{Dataset: "test", Model: "other", Defense: cell.None}.Made()}.JSON())
	if !block.Written() {
		t.Fatal("the journal does not hold the probe")
	}
	must.Do(t, block.Append([]result.Warning{result.WarnPreprocessing.New("as the journal has it")}))
	must.Do(t, lines.Close())
	continued(t, p, run.Options{Out: dir, Resume: true})
	must.Have(t, fmt.Sprint(ended(t, dir).Cells[0].Warnings), "as the journal has it")
}
