package cli

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"selfheal/internal/must"
	"selfheal/internal/testinput"
)

// A config that init writes runs as it is, and takes the model as it was trained.
func TestInit(t *testing.T) {
	testinput.Runtime(t)
	dir := t.TempDir()
	file := filepath.Join(dir, "mine.yaml")
	line := []string{"init", "models/zoo/preact_robust.onnx", "--data", "models/zoo/shapes10/test.bin",
		"--fit", "models/zoo/shapes10/train.bin", "--out", file}
	must.Have(t, done(t, line...), "mine.yaml: right on ", "next: selfheal fit --config "+file+
		" --control healed && selfheal run --config "+file)
	text := read(t, file)
	must.Have(t, text, "preprocess: {}, output: logits", "when it takes them as they are, in [0,1]", "epsilon: 8/255")
	const embedding = "controls.healed.layers.0.embedding."
	done(t, "fit", "--config", file, "--control", "healed", "--set", embedding+"epochs=1", "--set", embedding+"width=2",
		"--set", embedding+"batch=1000")
	done(t, "run", "--config", file, "--limit", "2", "--quiet", "--out", filepath.Join(dir, "out"))
	f, _ := results(t, filepath.Join(dir, "out"))
	if len(f.Cells) != 8 || f.Cells[0].Correct == 0 {
		t.Errorf("%d cells, the first %+v", len(f.Cells), f.Cells[0])
	}
	put(t, file, []byte(text+"# edited\n"))
	refused(t, exitUsage, "mine.yaml is there, and is no config as selfheal wrote it; choose another name or add "+
		"--force", line...)
	// A preprocessing that is given is not searched for, and a wrong one is doubted.
	said := done(t, append(line, "--force", "--scale", "0.01")...)
	must.Have(t, said, "that is little", "--mean")
	must.Have(t, read(t, file), "preprocess: {scale: 0.01")
	refused(t, exitUsage, "the images have 3072 values, the model takes rows of 64", "init",
		"models/zoo/hidden_ae.onnx", "--data", "models/zoo/shapes10/test.bin", "--out",
		filepath.Join(dir, "no.yaml"))
}

// Images may not tell how a network takes them: then init writes nothing and names the ways that are left, doctor says
// the same, and an attack warns if another way would be right on more of them.
func TestUndecided(t *testing.T) {
	testinput.Runtime(t)
	dir := t.TempDir()
	file, network := filepath.Join(dir, "c.yaml"), testinput.Real(t, "resnet20.onnx")
	line := []string{"init", network, "--data", testinput.Real(t, "cifar10-test-1000.bin"), "--out", file, "--limit"}
	names := []string{"--mean 0.485,0.456,0.406 --std 0.229,0.224,0.225",
		"--mean 0.4914,0.4822,0.4465 --std 0.2471,0.2435,0.2616",
		"--mean 0.5071,0.4865,0.4409 --std 0.2673,0.2564,0.2762"}
	for _, n := range []string{"8", "20"} {
		code, _, stderr := call(append(line, n)...)
		if _, err := os.Stat(file); code != exitUsage || strings.Count(stderr, "\n") != 1 || err == nil {
			t.Errorf("%s images: exit %d, %v\n%s", n, code, err, stderr)
		}
		must.Have(t, stderr,
			append(names, n+" images do not tell how it takes them, by McNemar's exact test at 5 %: ")...)
		said := done(t, append(append([]string{"doctor"}, slices.Delete(slices.Clone(line[1:]), 3, 5)...), n)...)
		must.Have(t, said, "preprocessing", "warn", strings.TrimSpace(strings.TrimPrefix(stderr, "selfheal: ")))
	}
	done(t, append(line, "8", "--mean", "0.485,0.456,0.406", "--std", "0.229,0.224,0.225")...)
	out := filepath.Join(dir, "out")
	done(t, "attack", network, "--data", line[3], "--epsilon", "1/255", "--attack", "fgsm", "--limit", "8",
		"--out", out)
	f, _ := results(t, out)
	must.Have(t, fmt.Sprint(f.Cells[0].Warnings), append(names, "which these images do not tell apart")...)
}

// Classes that are not the network's are told before any advice on preprocessing, and before that on sizes.
func TestForeignClasses(t *testing.T) {
	testinput.Runtime(t)
	dir := t.TempDir()
	few, many := filepath.Join(dir, "few"), filepath.Join(dir, "many")
	for i := range 12 {
		class := fmt.Sprintf("class %02d", i)
		writePNG(t, filepath.Join(many, class, "a.png"), 40, nil)
		writePNG(t, filepath.Join(few, class[:7], fmt.Sprint(i, ".png")), 32, nil)
	}
	for _, line := range []string{"doctor " + robustModel, "init " + robustModel + " --out " + dir + "/c.yaml"} {
		for data, want := range map[string]string{
			few: "has 2 classes, the model 10 outputs, and nothing says which of them are meant: " +
				"class 0 → 0, class 1 → 1",
			many: "the images have 12 classes, the model 10: labels from 10 up can't be scored",
		} {
			refused(t, exitUsage, want, append(strings.Fields(line), "--data", data)...)
		}
	}
}

// A control is fitted to the images to train on, read as those that are attacked.
func TestInitFit(t *testing.T) {
	testinput.Runtime(t)
	dir := t.TempDir()
	file, folder := filepath.Join(dir, "c.yaml"), filepath.Join(dir, "cifar-10-batches-bin")
	must.Do(t, os.Mkdir(folder, 0o755))
	images := must.Get(os.ReadFile("models/zoo/shapes10/test.bin"))(t)
	for _, name := range []string{"test_batch.bin", "data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin",
		"data_batch_4.bin", "data_batch_5.bin", "train.bin"} {
		must.Do(t, os.WriteFile(filepath.Join(folder, name), images[:128*3073], 0o644))
	}
	classes := "a,b,c,d,e,f,g,h,i,j"
	for _, c := range []struct{ data, fit, want string }{
		{folder, folder, `split: "train"}`},
		{folder + "/train.bin", folder + "/test_batch.bin", "training: {format: cifar10-bin, path: "},
	} {
		line := []string{"init", "models/zoo/preact_robust.onnx", "--data", c.data, "--fit", c.fit, "--out", file,
			"--classes", classes, "--force"}
		done(t, line...)
		text := read(t, file)
		_, fit, _ := strings.Cut(text, "\ndatasets:")
		if data, _, _ := strings.Cut(fit, "models:"); !strings.Contains(data, c.want) ||
			strings.Count(data, `classes: ["a", "b", "c"`) != 2 {
			t.Errorf("it lacks %q:\n%s", c.want, data)
		}
		done(t, "run", "--config", file, "--dry-run")
	}
	refused(t, exitUsage, "train.bin are the images that are attacked; it takes others, to train on", "init",
		"models/zoo/preact_robust.onnx", "--data", folder+"/train.bin", "--fit", folder+"/train.bin", "--out", file,
		"--force")
	refused(t, exitUsage, "are the images that are attacked", "init", "models/zoo/preact_robust.onnx", "--data", folder,
		"--split", "train", "--fit", folder+"/", "--out", file, "--force")
	refused(t, exitUsage, "--fit: ", "init", "models/zoo/preact_robust.onnx", "--data", folder, "--fit", dir+"/absent",
		"--out", file, "--force")
}

func TestHalvings(t *testing.T) {
	t.Parallel()
	for shape, want := range map[[3]int]int{{3, 224, 224}: 3, {1, 28, 28}: 2, {3, 32, 20}: 2, {3, 33, 32}: 0} {
		if got := halvings(shape); got != want {
			t.Errorf("%v: %d, want %d", shape, got, want)
		}
	}
}

// The doctor asks a model about labelled images, and says which flags would be better.
func TestDoctorData(t *testing.T) {
	testinput.Runtime(t)
	line := []string{"doctor", "models/zoo/preact_standard.onnx", "--data", "models/zoo/shapes10/test.bin"}
	said := done(t, append(line, "--limit", "40")...)
	must.Have(t, said, "labelled images", " of 40 (", "taken as they are, in [0,1]", "no usual one is better")
	must.Have(t, done(t, append(line, "--scale", "0.01", "--limit", "40")...), "preprocessing", "warn",
		"model preact_standard is right on ", "taken as the flags say", "no --scale, --mean and --std; in a config")
	refused(t, exitUsage, "--data goes with a MODEL", "doctor", "--data", "x.npz")
}

// A folder of classes says how they are numbered, and --classes numbers them as the model does.
func TestClassesFlag(t *testing.T) {
	testinput.Runtime(t)
	dir := t.TempDir()
	data, list := filepath.Join(dir, "photos"), filepath.Join(dir, "names.txt")
	for _, class := range []string{"cat", "dog"} {
		must.Do(t, os.MkdirAll(filepath.Join(data, class), 0o755))
		writePNG(t, filepath.Join(data, class, "a.png"), 32, nil)
	}
	names := strings.Fields("zero dog two cat four five six seven eight nine")
	put(t, list, []byte("\ufeff"+strings.Join(names, "\n")+"\n"))
	const numbered = "zero → 0, dog → 1, two → 2, cat → 3, four → 4, …, nine → 9"
	attack := []string{"attack", robustModel, "--data", data, "--norm", "linf", "--epsilon", "2/255",
		"--attack", "fgsm", "--out", filepath.Join(dir, "out")}
	code, stdout, stderr := call(attack...)
	if code != exitOK || strings.Count(stdout+stderr, "cat → 0, dog → 1") < 1 {
		t.Errorf("exit %d\n%s%s", code, stdout, stderr)
	}
	_, _, stderr = call(append(attack, "--force", "--classes", list)...)
	must.Have(t, stderr, "data set photos: "+numbered)
	f, _ := results(t, filepath.Join(dir, "out"))
	if d := f.Datasets["photos"]; d.Classes != 10 || len(d.ClassNames) != 10 || strings.Contains(fmt.Sprint(f.Cells),
		"class-subset") {
		t.Errorf("%+v", d)
	}
	must.Have(t, done(t, "doctor", robustModel, "--data", data, "--classes", list), "classes", numbered)
	file := filepath.Join(dir, "new.yaml")
	must.Have(t, done(t, "init", robustModel, "--data", data, "--classes", list, "--scale", "1", "--out", file),
		"photos: "+numbered)
	must.Have(t, read(t, file), "# "+numbered, `classes: ["zero", "dog", "two", "cat"`)
	done(t, "run", "--config", file, "--dry-run")
	// predict takes the same numbers, and shows the names.
	var wide []byte
	for _, c := range "\ufeffdog\ncat\n" {
		wide = binary.LittleEndian.AppendUint16(wide, uint16(c))
	}
	put(t, filepath.Join(dir, "wide.txt"), wide)
	predict := []string{"predict", robustModel, "--data", data, "--json", "--classes"}
	first, _, _ := strings.Cut(done(t, append(predict, list)...), "\n")
	if p := fromJSON[prediction](t, first); *p.Label != 3 || p.LabelName != "cat" ||
		p.PredictedName != names[p.Predicted] {
		t.Errorf("%s", first)
	}
	refused(t, exitUsage, "its folder cat is not in the list of classes", append(predict, "nonsense,words")...)
	refused(t, exitUsage, "wide.txt: it is no text in UTF-8 but looks like UTF-16; save it as UTF-8",
		append(predict, filepath.Join(dir, "wide.txt"))...)
	refused(t, exitUsage, "--classes names 11 classes, the model has 10", "predict", robustModel,
		filepath.Join(data, "cat", "a.png"), "--classes", strings.Join(names, ",")+",ten")
	refused(t, exitUsage, "its folder cat is not in the list of classes", append(attack, "--force", "--classes",
		"dog,fox")...)
	refused(t, exitUsage, "--classes cat: this is neither a file of names nor a list: cat,dog",
		append(attack, "--force", "--classes", "cat")...)
}
