package cli

import (
	"os"
	"path/filepath"
	"testing"

	"selfheal/attacks"
	"selfheal/harness/config"
	"selfheal/harness/dataset"
	"selfheal/internal/must"
	"selfheal/internal/testinput"
	"selfheal/models/onnx"
	"selfheal/models/ort"
)

const flat = "harness/testdata/flat/"

// A network of rows of features is attacked by the same commands as one of images. On the features that the saved
// adversarial rows stand for, its file gives the labels that the verdicts say.
func TestAttackRows(t *testing.T) {
	testinput.Runtime(t)
	for _, c := range []struct {
		model, data, out string // out is the output that tells the label
		flags            []string
		accuracy         [2]int // rows right under the attack: between these
	}{
		{"mlp", "digits.npz", "output_label",
			[]string{"--attack", "apgd-ce", "--epsilon", "0.03", "--box", "0,16"}, [2]int{5, 45}},
		{"linear", "cancer.parquet", "probabilities", []string{"--attack", "pgd", "--epsilon", "0.1"},
			[2]int{5, 45}},
		{"xgboost", "digits.npz", "label", []string{"--attack", "square", "--epsilon", "0.1", "--param", "queries=100"},
			[2]int{5, 50}},
	} {
		dir := filepath.Join(t.TempDir(), "out")
		done(t, append([]string{"attack", flat + c.model + ".onnx", "--data", flat + c.data, "--probabilities",
			"--save-adversarial", "--quiet", "--out", dir}, c.flags...)...)
		f, _ := results(t, dir)
		name := named(c.data, "")
		about, cell := f.Datasets[name], f.Cells[1]
		if cell.Correct < c.accuracy[0] || cell.Correct > c.accuracy[1] || f.Cells[0].Correct <= cell.Correct {
			t.Errorf("%s: right on %d and, attacked, %d of %d", c.model, f.Cells[0].Correct, cell.Correct, cell.N)
		}
		saved := must.Get(filepath.Glob(filepath.Join(dir, "adversarial", "*.npy")))(t)
		shape, x := must.Get2(dataset.ReadArray(os.DirFS(filepath.Dir(saved[0])), filepath.Base(saved[0])))(t)
		ends := must.Get(about.Box.Ends(shape[3]))(t)
		model := must.Get(onnx.Read(filepath.Join(testinput.Root(t), flat+c.model+".onnx")))(t)
		file := must.Get(ort.OpenOriginal("file", model, c.out))(t)
		d := must.Get(dataset.Open(dataset.Spec{Format: about.Format, Path: flat + c.data, Shaping: about.Shaping},
			config.Folder(testinput.Root(t)), 0))(t)
		verdicts := ""
		for i := range d.Len() {
			row := x[i*shape[3] : (i+1)*shape[3]]
			for k, v := range row {
				row[k] = float32(v*(ends[1][k]-ends[0][k])) + ends[0][k]
			}
			y := must.Get(file.Run(row))(t)
			label := int(y[0])
			if len(y) == 2 { // the labels are texts
				label = attacks.Argmax([]float32{float32(y[0]), float32(y[1])})
			}
			verdicts += map[bool]string{true: "1", false: "0"}[label == d.Label(i)]
		}
		if verdicts != cell.Verdicts {
			t.Errorf("%s: the file's verdicts are\n%s, the results'\n%s", c.model, verdicts, cell.Verdicts)
		}
		file.Close()
		d.Close()
	}
}

// The commands speak of rows and features, and say what does not suit them.
func TestRowsInWords(t *testing.T) {
	testinput.Runtime(t)
	dir := t.TempDir()
	must.Have(t, done(t, "inspect", flat+"linear.onnx"),
		`its classes are called "benign", "malignant": label 0 is the first`,
		"input               X [N 30]")
	must.Have(t, done(t, "inspect", flat+"xgboost.onnx"), "it has no gradients", "of which probabilities is taken")
	must.Have(t, done(t, "doctor", flat+"xgboost.onnx", "--data", flat+"digits.npz", "--probabilities"),
		"1×1×64 → 10 classes", "(its trees have no gradients)", "right on 52 of 60")
	for model, want := range map[string]string{
		"xgboost": "quick-linf: {kind: square, norm: linf, epsilon: 0.05, queries: 1000}",
		"mlp":     "quick-linf: {kind: autoattack, version: quick, norm: linf, epsilon: 0.05}",
	} {
		file := filepath.Join(dir, model+".yaml")
		done(t, "init", flat+model+".onnx", "--data", flat+"digits.npz", "--probabilities", "--box", "0,16",
			"--out", file)
		must.Have(t, read(t, file), want, "10 classes; rows of 64 features.", `layout: "flat", box: {low: 0, high: 16}`)
		done(t, "run", "--config", file, "--limit", "2", "--quiet", "--out", filepath.Join(dir, model))
	}
	digits := []string{"--data", flat + "digits.npz", "--epsilon", "0.1", "--out", filepath.Join(dir, "none")}
	for _, c := range []struct {
		model, want string
		flags       []string
	}{
		{"xgboost", "model xgboost is an ensemble of trees, which has no gradients, and attack aa takes them; " +
			"these need none: square, hop-skip-jump, rays", digits},
		{"linear", "takes rows of 30 features, those of the data have 64", digits},
		{"mlp", "outside its box from 0 to 10; widen box (--box)", append(digits, "--box", "0,10")},
		{"mlp", "--box 0: it takes the least and the largest value of features: 0,16", append(digits, "--box", "0")},
		{"mlp", "it turns and shifts images, and these are rows of features",
			[]string{"--data", flat + "digits.npz", "--attack", "spatial", "--out", filepath.Join(dir, "none")}},
	} {
		refused(t, exitUsage, c.want, append([]string{"attack", flat + c.model + ".onnx"}, c.flags...)...)
	}
	refused(t, exitUsage, "--box is for rows of features, [N, d]; --data holds images", "attack",
		"models/zoo/preact_standard.onnx", "--data", "models/zoo/shapes10/test.bin", "--epsilon", "0.1", "--box", "0,1")
}
