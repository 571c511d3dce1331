package cli

import (
	"bytes"
	"image"
	"image/color"
	"image/png"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"selfheal/harness/result"
	"selfheal/internal/must"
	"selfheal/internal/npy"
	"selfheal/internal/testinput"
	"selfheal/models/onnx/onnxtest"
)

// One line says what is wrong, in terms of what the user wrote.
func TestErrors(t *testing.T) {
	t.Parallel()
	testinput.Runtime(t)
	dir := t.TempDir()
	put(t, filepath.Join(dir, "no-graph.onnx"), []byte("\x08\x07\x12\x07pytorch"))
	put(t, filepath.Join(dir, "lfs.onnx"), []byte(testinput.Pointer))
	put(t, filepath.Join(dir, "open.onnx"), onnxtest.New(13, -1, 3, -1, -1).
		Node("w[2,3,3,3]=0.125; Conv x w → z; GlobalAveragePool z → p; Flatten p → y").Bytes(-1, 2))
	put(t, filepath.Join(dir, "lfs.npz"), []byte(testinput.Pointer))
	put(t, filepath.Join(dir, "results", "results.json"), []byte("{"))
	put(t, filepath.Join(dir, "old.pkl"), []byte("(dp0\nVdata\np1\nNs."))
	put(t, filepath.Join(dir, "empty", "sub", "notes.txt"), []byte("nothing"))
	put(t, filepath.Join(dir, "other", "results.json"), []byte(`{"schema": "selfheal.results/9"}`))
	put(t, filepath.Join(dir, "bare", "selfheal-journal", "results.json"), []byte(`{"schema": "selfheal.results/1"}`))
	put(t, filepath.Join(dir, "page", "compare.md"), []byte("mine"))
	must.Do(t, os.Mkdir(filepath.Join(dir, "one"), 0o755))
	must.Do(t, result.Write(filepath.Join(dir, "one", "results.json"), gateRun(20, 10, nil)))
	writePNG(t, filepath.Join(dir, "wide.png"), 40, nil)
	var array bytes.Buffer
	must.Do(t, npy.Write(&array, []int{3, 3, 32, 32}, slices.Values([][]float32{make([]float32, 3*3072)})))
	put(t, filepath.Join(dir, "three.npy"), array.Bytes())
	written(t, dir, useConfig)
	fitted := written(t, t.TempDir(), fitText)
	short := strings.NewReplacer("DIR", dir, "NET", "models/zoo/preact_standard.onnx", "DATA", testImages,
		"ATTACK", "attack models/zoo/preact_robust.onnx --out DIR/out --data "+testImages,
		"PREDICT", "predict --config DIR/config.yaml",
		"FITTED", "fit --config "+fitted, "FIT", "fit --config DIR/config.yaml",
		"EXPORT", "export --config DIR/config.yaml --model robust",
		"VERIFY", "verify --config DIR/config.yaml --model robust --dataset test --attack steps "+
			"--adversarial DIR/three.npy")
	for _, c := range []struct {
		code int
		// rows are command lines, each with what its message says behind "→".
		rows string
	}{
		{exitFailed, `
inspect absent.onnx → model absent.onnx: no such file
inspect go.mod → go.mod: not an ONNX model
inspect models → is a folder
inspect DIR/no-graph.onnx → it holds no graph
inspect DIR/lfs.onnx → model DIR/lfs.onnx: is a Git LFS pointer, not the file itself; git lfs pull fetches that
inspect DIR/open.onnx → input "x" leaves dimension 2 of [N 3 N N] open; export the model for one size, or give --size
grad DIR/open.onnx --out DIR/g.onnx --size 2 → size open, and 2×2 pixels were taken
inspect --mean 0.5,0.5 NET → mean has 2 values, the image 3 channels
split NET --out DIR --at nowhere → "nowhere" is not a tensor at which the network can be cut; cut tensors: /stem
`}, {exitRefused, `
check --baselin b.json DIR → unknown flag: --baselin; did you mean "--baseline"?
check --baseline b.json --update --json DIR/one → --update compares nothing: --new-model, --model, --json, --junit
`}, {exitUsage, `
rnu → unknown command "rnu"; did you mean "run"?
benchmark → unknown command "benchmark"; see selfheal --help
run --limt 3 → unknown flag: --limt; did you mean "--limit"?
run --colour red → unknown flag: --colour; see selfheal run --help
run --ofline → did you mean "--offline"?
run --log-every 0s → it must be a time of 10ms or more, such as 1s
run --log-format jsn → it must be text or json; did you mean "json"?
run --limit many → invalid argument "many" for "--limit"
run --limit -1 → --limit must be a whole number from 1 up, not -1
run --limit 0 → --limit must be a whole number from 1 up, not 0
run --batch 0 → --batch must be a whole number from 1 up, not 0
run --workers -1 → --workers must be a whole number from 0 up, not -1
run --config absent.yaml → config absent.yaml: no such file
run --suite bundeld → no suite "bundeld"; did you mean "bundled"?
run --set attacks.aa-linf.epsilom=3 → unknown key "epsilom" in attacks.aa-linf; did you mean "epsilon"?
run --dry-run --set attacks.aa-linf.steps=7 → attacks.aa-linf.steps can't be given with version standard
run --suite table7 --dry-run --rate 0 → must be a number above 0
run --suite table7 --dry-run --rate rn-18=5 → has a model "rn-18"; did you mean "rn-18-
run --suite table7 --dry-run --rate 5 --rate 6 → given twice
run --suite table7 --rate 5 → --rate goes with --dry-run
run --shard 0/3 → --shard: "0/3" must be I/N, I from 1 to N
run --shard 4/3 → --shard: "4/3" must be
run --shard 2 → --shard: "2" must be
run --attempt → --attempt goes with --shard
submit --shards 2 --out DIR/s --config config.yaml → submit needs --engine, slurm or kubernetes
submit --engine pbs --shards 2 --out DIR/s --config config.yaml → --engine must be one of slurm, kubernetes, not "pbs"
submit --engine slrum --shards 2 --out DIR/s --config config.yaml → did you mean "slurm"?
submit --engine slurm --shards 0 --out DIR/s --config config.yaml → --shards N: N must be from 1 to 1000000, got 0
submit --engine kubernetes --shards 2 --out DIR/s --config config.yaml → needs --print, which writes the Job
submit --engine kubernetes --print --out DIR/s --config config.yaml → submit --engine kubernetes needs --shards N
submit --engine kubernetes --user 0 --shards 2 --out DIR/s --config config.yaml → --user 0: the pods do not run as root
submit --engine kubernetes --print --shards 2 --out DIR/s --config config.yaml → no image: --image names
submit --engine slurm --shards 2 --config config.yaml → submit needs --out
report DIR DIR --out DIR → those of the shards of one run; selfheal compare puts several runs beside each other
inspect → inspect takes one model or more
inspect --mean 0.5,x NET → --mean: "x" is not a number
split NET → split needs --out
inspect DIR/open.onnx --size 8by8 → --size "8by8": it must be a height and a width, such as 224x160, or one number
inspect DIR/open.onnx --size 1x2x3x4 → --size "1x2x3x4" has 4 numbers; it takes a height and a width
grad NET → grad needs --out
report DIR/absent --out DIR → holds no results.json; run ${selfheal run --out DIR/absent$ first
report DIR/results --out DIR → unexpected end of JSON input
compare → compare takes the folders of one run or more
compare DIR/absent → DIR/absent: no such file
compare DIR/empty → holds no results.json, nor do the folders in it; run ${selfheal run --out DIR/empty$ first
compare DIR/results → unexpected end of JSON input
compare go.mod → go.mod/results.json: not a directory
compare DIR/other → has schema "selfheal.results/9", this version reads "selfheal.results/1"
compare DIR/bare → DIR/bare: no cell is finished, there is nothing to compare yet
compare DIR/one DIR/one/../one → DIR/one and DIR/one/../one are one folder: give it once
compare DIR/one --out DIR/page → DIR/page/compare.md is there, and is no comparison as selfheal wrote it
report --published → report needs --out
report --published results --out DIR → results holds no results.json
report --out DIR → report takes the folder of a run, or those of its shards
schema confg → no schema "confg"; did you mean "config"?
schema xyz → no schema "xyz"; schemas: baseline, comparison, config, gallery, records, results
schema → schema takes the name of a schema, got 0 arguments
completion bsh → no completion for "bsh"; did you mean "bash"?
completion nu → no completion for "nu"; shells: bash, zsh, fish, powershell
version now → takes no argument
theory more → takes no argument
theory --seed x → --seed
attack --data x.npz --norm linf --epsilon 1 → attack takes one model
attack m.onnx --norm linf --epsilon 1 → --data
attack NET --data DIR/old.pkl --format cifar10-python --norm linf --epsilon 1 → no Python pickle of protocols 2 to 5
doctor --men 0.5 → unknown flag: --men; did you mean "--mean"?
doctor NET --mean x → --mean: "x" is not a number
attack m.onnx --data x.npz --norm linf → attack needs --epsilon, for example --epsilon 8/255
attack m.onnx --data x.npz --norm linf --epsilon 1 → --data x.npz: no such file
attack absent.onnx --data DATA --norm l2 --epsilon 1 --out DIR/out → absent.onnx: no such file
attack m.onnx --data DATA --norm l2 --epsilon 1 --crop -2 → --resize and --crop take numbers of pixels
attack m.onnx --data DATA --norm l2 --epsilon 1 --resize 20 --crop 32 → a crop of 32 is larger than images resized
attack m.onnx --data DATA --norm l2 --epsilon 1 --keys x → it takes two names, of the images and of the labels
attack DIR/lfs.onnx --data DATA --norm l2 --epsilon 1 --out DIR/out → DIR/lfs.onnx: is a Git LFS pointer
attack NET --data DIR/lfs.npz --norm l2 --epsilon 1 --out DIR/out → DIR/lfs.npz is a Git LFS pointer
attack m.onnx --data DATA --norm l2 --epsilon 1 --classes cat → neither a file of names nor a list: cat,dog
attack m.onnx --data DATA --norm l2 --epsilon 1 --classes cat,cat → --classes
init m.onnx --data DATA --limit 0 --out DIR/new.yaml → --limit must be a whole number from 1 up, not 0
doctor --data DATA → --data goes with a MODEL
attack m.onnx --data go.mod --norm linf --epsilon 1 → its format does not follow from its name
attack models/zoo/input_ae.onnx --data DATA --norm l2 --epsilon 1 --out DIR/out → looks like an image, as an auto-
init models/zoo/input_ae.onnx --data DATA --out DIR/new.yaml → it looks like an image, as an auto-encoder gives
predict models/zoo/input_ae.onnx DIR/wide.png → it looks like an image, as an auto-encoder gives
verify models/zoo/input_ae.onnx --adversarial DIR/three.npy --data DATA --norm l2 --epsilon 1 → looks like an image
ATTACK --norm linf --epsilon 1 --format cifar10 → did you mean "cifar10-bin"?
ATTACK --norm linf --epsilon 1 --format zip → --format must be one of cifar10-bin
ATTACK --norm linf --epsilon 1 --format cifar100-bin → its size fits cifar10-bin
ATTACK --norm linf --epsilon 8 → --epsilon is 8, but in linf
ATTACK --norm l2 --epsilon 1e8 → epsilon 1e+08 is too large: images of 3x32x32 are at most 55.4256 apart in l2
ATTACK --norm linf --epsilon 2/255,x → --epsilon[1] must be a number above 0
ATTACK --norm linf --epsilon {8} → --epsilon must be a number above 0, such as 0.5 or 8/255, not "{8}"
ATTACK --norm l3 --epsilon 1 → --norm must be one of linf, l2, l1
ATTACK --norm l2 --epsilon 1 --attack sqare → not "sqare"; did you mean "square"?
ATTACK --norm l2 --epsilon 1 --attack apgd → --attack must be one of aa, aa-plus, aa-rand
ATTACK --norm l2 --epsilon 1 --attack pgd --param step=3 → unknown key "step" in --attack pgd
ATTACK --norm l2 --epsilon 1 --attack pgd --param queries=3 → --param queries can't be given with kind pgd
ATTACK --norm l2 --epsilon 1 --attack pgd --param steps=few → --param steps must be a whole number
ATTACK --norm l2 --epsilon 1 --attack pgd --param steps → must be KEY=VALUE
ATTACK --norm l2 --epsilon 1 --attack pgd --param norm=l1 → norm is given twice
ATTACK --norm l2 --epsilon 1 --attack pgd --param steps=3 --param steps=3 → steps is given twice
ATTACK --norm l2 --epsilon 1 --attack pgd --param steps=[3] → --param steps must be a whole number from 1 up, not "[3]"
ATTACK --norm l2 --epsilon 1 --attack smoothing --param n0=0 → --param n0 must be a whole number from 1 up
ATTACK --norm l2 --epsilon 1 --attack pgd --param schedule=steep → --param schedule must be one of constant, linear
ATTACK --norm l2 --epsilon 1 --param steps=3 → --param steps can't be given with version standard
ATTACK --norm l2 --epsilon 1 --std 0 → --std must be a number above 0
ATTACK --norm l2 --epsilon 1 --mean 0.1,0.2 --std 1,2,3 → --mean and --std: mean has 2 values and std has 3
ATTACK --norm l2 --epsilon 1 --limit 0 → --limit must be a whole number from 1 up, not 0
ATTACK --norm l2 --epsilon 1 --workers x → --workers
ATTACK --norm l2 --epsilon 1 --mean 0.1,0.2 → mean has 2 values, the image 3 channels
predict a.png → predict needs --model
predict NET → predict takes image files or --data
predict NET a.png --control msa → --control goes with a config, not with a model's file
predict NET a.png --std 0 → --std must be a number above 0
predict NET absent.png → absent.png: no such file
predict absent.onnx a.png → absent.onnx: no such file
predict --model robust a.png --mean 0.5 → --mean goes with a model's file; of a model of a config the config says it
PREDICT --model robust → image files or --data
PREDICT --model robust a.png --data x.npz → one of the two
PREDICT --model rubost a.png → no model "rubost"; did you mean "robust"?
PREDICT --model robust --limit 0 a.png → --limit must be a whole number from 1 up, not 0
PREDICT --model robust --control pca a.png → no control "pca"; it has: greedy, unrolled, endless
PREDICT --model robust absent.png → absent.png: no such file
PREDICT --model robust go.mod → go.mod is no readable PNG, JPEG or WebP
PREDICT --model robust DIR/wide.png → wide.png: the images have 3 channels of 40×32 pixels, the model takes 3 of 32×32
PREDICT --model robust DIR/wide.png --resize 16 --crop 32 → wide.png has 20×16 pixels, fewer than the crop of 32
ATTACK --norm l2 --epsilon 1 --crop 28 → --resize 32 --crop 32, or in a config transform: {resize: 32, crop: 32}, makes
predict --model robust --config absent.yaml a.png → absent.yaml: no such file
EXPORT --out DIR/x.onnx → export needs --control
EXPORT --out DIR/x.onnx --control none → export needs --control
EXPORT --control greedy → export needs --out
EXPORT --control endless --out DIR/x.onnx → more than the 20000
verify --model robust → verify needs --adversarial
verify NET --adversarial DIR/three.npy → verify needs --data
verify NET --adversarial DIR/three.npy --data DATA --epsilon 8/255 → verify needs --norm
verify NET --adversarial DIR/three.npy --data DATA --norm linf → verify needs --epsilon
verify NET --adversarial DIR/three.npy --data DATA --norm l3 --epsilon 1 → --norm must be one of linf, l2, l1
verify NET --adversarial DIR/three.npy --data DATA --norm l2 --epsilon 1 --dataset x → --dataset goes with a config
verify NET --adversarial DIR/three.npy --data DATA --norm l2 --epsilon 1 → 3 adversarial images, but 256 of dataset
verify NET NET --adversarial DIR/three.npy → a model's file (.onnx) at most
VERIFY --data DATA --epsilon 2/255 → --data goes with a model's file
VERIFY → several epsilons; say which: 2/255, 6/255
VERIFY --epsilon 4/255 → no epsilon 4/255; it has: 2/255, 6/255
VERIFY --epsilon -1 → --epsilon must be a number above 0
VERIFY --epsilon 2/255 → 3 adversarial images, but 12 of dataset test
VERIFY --attack stps → no attack "stps"; did you mean "steps"?
VERIFY --attack aa → no attack "aa"; it has: steps
VERIFY --dataset tst --epsilon 2/255 → no data set "tst"; did you mean "test"?
VERIFY --adversarial go.mod → go.mod: it does not begin like a NumPy array
VERIFY --adversarial absent.npy → absent.npy: no such file
FITTED --control linear --out x.onnx → 1 linear ones for each of 2 models
FITTED --control both --model standrd → no model "standrd"; did you mean "standard"?
FITTED --control both --set controls.both.layers.0.embedding.architecture=vgg → not "vgg"
FIT → needs --control
FIT --control greedy --workers -1 → --workers must be a whole number from 0 up, not -1
FIT --control greedi → no control "greedi"
FIT --control greedy → no embedding to fit
FIT --control greedy --resume --force → give one of them
FITTED --control linear --resume → no embedding to train
`}} {
		for row := range strings.Lines(strings.TrimSpace(c.rows)) {
			line, want, _ := strings.Cut(strings.TrimSpace(row), " → ")
			line, want = short.Replace(short.Replace(line)),
				strings.NewReplacer("DIR", dir, "${", "`", "$", "`").Replace(want)
			code, stdout, stderr := call(strings.Fields(line)...)
			if code != c.code || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, want) || stdout != "" {
				t.Errorf("%s: exit %d, want %d and one line with %q\n%s%s", line, code, c.code, want, stderr, stdout)
			}
			if strings.HasPrefix(line, "attack") && strings.Contains(stderr, "attacks.") {
				t.Errorf("%s: the message speaks of a config that nobody wrote: %s", line, stderr)
			}
		}
	}
}

// All errors of a config, or of flags that stand for one, are told at once, in a line each.
func TestAllErrors(t *testing.T) {
	t.Parallel()
	file := written(t, t.TempDir(), strings.Replace(useConfig, "version: 1", "version: 1\nsead: 3", 1))
	bad := []string{"run", "--config", file, "--set", "gate.max_drop=2", "--set", "models.robst.path=x"}
	for _, c := range []struct {
		args []string
		want []string
	}{
		{bad, []string{file + `:2:1: unknown key "sead" in the config; did you mean "seed"?`,
			`--set models.robst.path=x: "robst" is not in models; did you mean "robust"?`,
			"--set gate.max_drop=2: gate.max_drop must be"}},
		{[]string{"attack", "m.onnx", "--data", testImages, "--norm", "l3", "--epsilon", "x"},
			[]string{"--norm must be one of linf, l2, l1", "--epsilon must be a number above 0"}},
	} {
		code, _, stderr := call(c.args...)
		lines := strings.Split(strings.TrimSpace(stderr), "\n")
		if code != exitUsage || len(lines) != len(c.want) {
			t.Fatalf("exit %d, %d errors\n%s", code, len(lines), stderr)
		}
		for i, want := range c.want {
			if !strings.HasPrefix(lines[i], "selfheal: "+want) {
				t.Errorf("%s, not %s", lines[i], want)
			}
		}
	}
	_, _, stderr := call(append(bad, "--log-format", "json")...)
	if said := fromJSON[map[string]any](t, stderr)["error"].(string); strings.Count(said, "\n") != 2 {
		t.Errorf("the record's error is %q", said)
	}
}

// writePNG writes a picture 32 pixels high, a black one if at is nil.
func writePNG(t *testing.T, path string, width int, at func(x, y int) [3]byte) {
	t.Helper()
	im := image.NewRGBA(image.Rect(0, 0, width, 32))
	for y := range 32 {
		for x := range width {
			var p [3]byte
			if at != nil {
				p = at(x, y)
			}
			im.SetRGBA(x, y, color.RGBA{p[0], p[1], p[2], 255})
		}
	}
	var b bytes.Buffer
	must.Do(t, png.Encode(&b, im))
	put(t, path, b.Bytes())
}
