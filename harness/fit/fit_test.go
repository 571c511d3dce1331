package fit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"selfheal/control"
	"selfheal/control/train"
	"selfheal/harness/folder"
	"selfheal/harness/open"
	"selfheal/harness/progress"
	"selfheal/internal/atomicfile"
	"selfheal/internal/must"
	"selfheal/internal/testinput"
	"selfheal/internal/testplan"
)

// trained is a training of six steps, after another embedding.
const trained = testplan.Bundled + `
controls:
  healed:
    layers:
      - {at: input, embedding: {kind: onnx, path: models/zoo/input_ae.onnx}}
      - at: last
        embedding: {kind: autoencoder, fit: train, path: made.onnx, architecture: mlp-ae, width: 4, epochs: 3,
          batch: 32, held_out: 4, augment: {flip: true}}
attacks: {}
suites:
  s: {dataset: test, models: [robust, standard], controls: [healed], attacks: [], mode: oblivious}
`

// fitted fits the embedding of trained into a folder. It returns the messages, the embedding and its losses.
func fitted(t *testing.T, dir string, o Options, sets ...string) (said, embedding, losses string, err error) {
	t.Helper()
	testinput.Runtime(t)
	var b bytes.Buffer
	o.Control, o.Out, o.Progress = "healed", filepath.Join(dir, "made.onnx"), progress.New(&b, progress.TextLog, false)
	_, err = Fit(context.Background(), testplan.Config(t, testplan.Repository(t), trained, nil, sets...), o)
	e, _ := os.ReadFile(o.Out)
	l, _ := os.ReadFile(o.Out + ".csv")
	return b.String(), string(e), string(l), err
}

// A training that diverges would diverge again: no message offers to continue it.
func TestDivergedFit(t *testing.T) {
	_, made, _, err := fitted(t, t.TempDir(), Options{},
		"controls.healed.layers.1.embedding.optimizer={kind: sgd, lr: 1e30}")
	must.Refuse(t, err, "lower the learning rate or the weight of the reconstruction; begin anew by --force")
	if made != "" || errors.As(err, new(folder.Unfinished)) {
		t.Errorf("%d bytes are made; %v", len(made), err)
	}
}

// An estimate times trainings and fits nothing. A linear embedding before them may lack its images.
func TestEstimateFitsNothing(t *testing.T) {
	testinput.Runtime(t)
	text := strings.Replace(trained, "datasets:\n", "datasets:\n  gone: {format: cifar10-bin, path: gone.bin}\n", 1)
	cfg := testplan.Config(t, testplan.Repository(t), text, nil,
		"controls.healed.layers.0.embedding={kind: linear, fit: gone, rank: 4}",
		"controls.healed.layers.1.embedding.path=gone.onnx")
	all := must.Get(Estimate(t.Context(), cfg, "healed"))(t)
	if len(all) == 0 || all[0].Why != "" || all[0].Steps != 6 {
		t.Errorf("%+v", all)
	}
}

// fitStates returns the folder of a fit after each step, as a kill would leave it then, if each step had its
// checkpoint. A fit saves the last one by itself.
func fitStates(t *testing.T) (states []string) {
	t.Helper()
	testinput.Runtime(t)
	cfg, dir := testplan.Config(t, testplan.Repository(t), trained, nil), t.TempDir()
	f := &fitter{control: cfg.Control("healed")}
	f.Opener = must.Get(open.New(cfg, open.Options{}))(t)
	defer f.Opener.Close()
	names, spec := []string{"robust", "standard"}, f.control.Layers[1].Embedding.Training
	id := must.Get(f.identify(1, spec, names))(t)
	if len(f.networks) > 0 {
		t.Errorf("%d networks are opened to know what the training is", len(f.networks))
	}
	f.networks = map[string]*control.Network{}
	w, _, _, err := f.claim(filepath.Join(dir, "made.onnx"), []attempt{{*spec, id}})
	must.Do(t, err)
	defer w.close()
	j := must.Get(f.job(context.Background(), 1, spec, names))(t)
	defer j.trainer.Close()
	j.id = id
	defer func(d time.Duration) { leastPause = d }(leastPause)
	leastPause = 0
	for j.trainer.Done() < j.trainer.Steps() {
		if j.trainer.Done() < j.trainer.Steps()-1 {
			must.Get(j.trainer.Step(context.Background()))(t)
			must.Do(t, w.save(j.trainer, id))
		} else {
			must.Do(t, j.run(context.Background(), w, &progress.Progress{}, Fitted{}))
		}
		states = append(states, filepath.Join(t.TempDir(), "state"))
		must.Do(t, os.CopyFS(states[len(states)-1], os.DirFS(dir)))
	}
	for _, n := range f.networks {
		n.Close()
	}
	return states
}

// latest returns the checkpoint that has the most steps.
func latest(t *testing.T, dir string) string {
	t.Helper()
	paths := must.Get(filepath.Glob(filepath.Join(dir, "made.onnx.training", "checkpoint-*")))(t)
	return slices.MaxFunc(paths, func(a, b string) int {
		return must.Get(train.ReadCheckpoint(a))(t).Done() - must.Get(train.ReadCheckpoint(b))(t).Done()
	})
}

// A training that was killed anywhere reaches the embedding and losses of an undisturbed one when its command is
// given again.
func TestKilledFitsContinue(t *testing.T) {
	whole := t.TempDir()
	_, embedding, losses, err := fitted(t, whole, Options{})
	must.Do(t, err)
	states := fitStates(t)
	if len(states) != 6 || strings.Count(losses, "\n") != 7 {
		t.Fatalf("%d states, losses\n%s", len(states), losses)
	}
	cut := func(path string) { must.Do(t, os.Truncate(path, 1000)) }
	for i, c := range []struct {
		step int
		harm func(dir string)
		says string
	}{
		{1, func(string) {}, "it continues after step 1 of 6; the fit before (process"},
		{3, func(dir string) { cut(latest(t, dir)) }, "it continues after step 2 of 6"},
		{4, func(dir string) {
			path := latest(t, dir)
			data := must.Get(os.ReadFile(path))(t)
			data[len(data)/2] ^= 1
			must.Do(t, os.WriteFile(path, data, 0o644))
		}, "is damaged: the checkpoint before it is taken"},
		{1, func(dir string) { cut(latest(t, dir)) }, "there is no other checkpoint: the training begins anew"},
		{5, func(dir string) { // inside a write of a checkpoint
			must.Do(t, os.WriteFile(filepath.Join(dir, "made.onnx.training", ".checkpoint-1-77"), []byte("x"), 0o644))
		}, "it continues after step 5 of 6"},
		{6, func(dir string) { // before the embedding is in its place
			for _, name := range []string{"made.onnx.csv", atomicfile.ListFile} {
				data := must.Get(os.ReadFile(filepath.Join(whole, name)))(t)
				must.Do(t, os.WriteFile(filepath.Join(dir, name), data, 0o644))
			}
		}, "it continues after step 6 of 6"},
		{6, func(dir string) { // after that
			must.Do(t, os.CopyFS(dir, os.DirFS(whole)))
		}, "it is left as it is"},
	} {
		dir := filepath.Join(t.TempDir(), "state")
		must.Do(t, os.CopyFS(dir, os.DirFS(states[c.step-1])))
		c.harm(dir)
		said, e, l, err := fitted(t, dir, Options{Resume: !strings.Contains(c.says, "anew")})
		must.Do(t, err)
		must.Have(t, said, c.says)
		if e != embedding || l != losses {
			t.Errorf("case %d comes to another embedding or other losses\n%s", i, l)
		}
		if left := must.Get(os.ReadDir(dir))(t); len(left) != 3 { // embedding, losses and list
			t.Errorf("case %d leaves %v", i, left)
		}
	}
}

// stopper ends a context when it is written a text.
type stopper struct {
	bytes.Buffer
	at   string
	stop func()
}

func (s *stopper) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte(s.at)) {
		s.stop()
	}
	return s.Buffer.Write(p)
}

// A training that is stopped says so, keeps what it has, and continues to the bits of an undisturbed one.
func TestStoppedFitContinues(t *testing.T) {
	whole, dir := t.TempDir(), t.TempDir()
	_, embedding, losses, err := fitted(t, whole, Options{})
	must.Do(t, err)
	ctx, stop := context.WithCancel(t.Context())
	said := &stopper{at: "step 2 of 6", stop: stop}
	o := Options{Control: "healed", Out: filepath.Join(dir, "made.onnx"),
		Progress: progress.New(said, progress.TextLog, false)}
	o.Progress.SetEvery(time.Nanosecond)
	_, err = Fit(ctx, testplan.Config(t, testplan.Repository(t), trained, nil), o)
	if !errors.Is(err, context.Canceled) || !errors.As(err, new(folder.Unfinished)) {
		t.Fatal(err)
	}
	must.Have(t, said.String(), "stopped after step 2 of 6")
	text, e, l, err := fitted(t, dir, Options{Resume: true})
	must.Do(t, err)
	must.Have(t, text, "it continues after step 2 of 6")
	if e != embedding || l != losses {
		t.Errorf("it comes to another embedding or other losses\n%s", l)
	}
}

// otherTrainings are changes of trained, each with the difference that the message names.
const otherTrainings = `controls.healed.layers.1.embedding.weight=3 → weight: there 0.1, here 3
controls.healed.layers.1.embedding.seed=9007199254740993 → seed: there 3, here 9007199254740993
controls.healed.layers.1.embedding.optimizer.lr=1 → lr: there 0.001, here 1
controls.healed.layers.1.embedding.architecture=fcn → architecture: there mlp-ae, here fcn
controls.healed.layers.1.embedding.models=[standard, robust] → models: there [robust, standard], here
controls.healed.layers.1.at=3 → at: there last, here 3
datasets.train.limit=59 → dataset_sha256: there
models.robust.preprocess={mean: 0.5, std: 1} → networks.robust.preprocess.mean: there none, here [0.5]
models.robust.path=models/zoo/preact_standard.onnx → networks.robust.sha256: there
controls.healed.layers.0.at=2 → before.2.kind: there none, here onnx
controls.healed.layers.0.embedding.path=models/zoo/hidden_ae.onnx → before.input.sha256: there
runtime.winograd=false → winograd: there true, here false`

// A finished training is left unchanged, another one is refused with the difference, and old files stay until new
// ones are complete.
func TestOtherTrainingsAreRefused(t *testing.T) {
	states, finished := fitStates(t), t.TempDir()
	_, embedding, _, err := fitted(t, finished, Options{})
	must.Do(t, err)
	for _, resume := range []bool{false, true} {
		said, again, _, err := fitted(t, finished, Options{Resume: resume})
		if err != nil || again != embedding || strings.Count(said, "\n") != 1 {
			t.Errorf("%v, it says %s", err, said)
		}
	}
	for _, dir := range []string{finished, states[2]} {
		for row := range strings.SplitSeq(otherTrainings, "\n") {
			set, words, _ := strings.Cut(row, " → ")
			for _, resume := range []bool{false, true} {
				_, _, _, err := fitted(t, dir, Options{Resume: resume}, set)
				misconfigured(t, err, "is of another training: ")
				must.Refuse(t, err, words, "--force replaces it, --out FILE writes another")
			}
		}
	}
	_, _, _, err = fitted(t, t.TempDir(), Options{Resume: true})
	misconfigured(t, err, "there is no training of ")
	for _, text := range []string{"mine", string(must.Get(os.ReadFile("../../models/zoo/hidden_ae.onnx"))(t))} {
		dir := t.TempDir()
		must.Do(t, os.WriteFile(filepath.Join(dir, "made.onnx"), []byte(text), 0o644))
		_, there, _, err := fitted(t, dir, Options{})
		misconfigured(t, err, "does not say of what training it is; --force replaces it")
		if left := must.Get(os.ReadDir(dir))(t); there != text || len(left) != 1 {
			t.Errorf("a refused fit leaves %v", left)
		}
	}
}

// A training begun with --force replaces an embedding at its end, and continues without the flag. Files beside its
// checkpoints stay.
func TestForcedFit(t *testing.T) {
	dir := fitStates(t)[4]
	path := filepath.Join(dir, "made.onnx")
	foreign := filepath.Join(path+".training", "checkpoint-500")
	must.Do(t, os.WriteFile(path, []byte("mine"), 0o644))
	must.Do(t, os.WriteFile(foreign, []byte("mine"), 0o644))
	said, embedding, _, err := fitted(t, dir, Options{})
	must.Do(t, err)
	must.Have(t, said, "it continues after step 5")
	said, again, _, err := fitted(t, dir, Options{Rule: atomicfile.Rule{Force: true}})
	if err != nil || again != embedding || strings.Contains(said, "continues") {
		t.Errorf("%v, it says %s", err, said)
	}
	if text, err := os.ReadFile(foreign); err != nil || string(text) != "mine" {
		t.Errorf("%q, %v", text, err)
	}
	dir = fitStates(t)[4]
	stopped, cancel := context.WithCancel(context.Background())
	cancel()
	_, err = Fit(stopped, testplan.Config(t, testplan.Repository(t), trained, nil),
		Options{Control: "healed", Out: filepath.Join(dir, "made.onnx"), Rule: atomicfile.Rule{Force: true}})
	if left := must.Get(os.ReadDir(dir))(t); !errors.Is(err, context.Canceled) || len(left) > 0 {
		t.Errorf("%v; of what was begun before %v is left", err, left)
	}
}

// The second of two fits of one embedding at once is refused.
func TestTwoFitsOfOneFile(t *testing.T) {
	dir := t.TempDir()
	w := must.Get(openTraining(filepath.Join(dir, "made.onnx")))(t)
	_, _, _, err := fitted(t, dir, Options{Rule: atomicfile.Rule{Force: true}})
	must.Refuse(t, err, fmt.Sprintf("another fit (process %d on ", os.Getpid()), "choose another --out")
	w.close()
	if left := must.Get(os.ReadDir(dir))(t); len(left) > 0 {
		t.Errorf("%v are left", left)
	}
	var holders, opened atomic.Int32
	var fits sync.WaitGroup
	for range 4 {
		fits.Go(func() {
			for opened.Load() < 100 {
				w, err := openTraining(filepath.Join(dir, "made.onnx"))
				if err != nil {
					runtime.Gosched()
					continue
				}
				if opened.Add(1); holders.Add(1) > 1 {
					t.Error("two hold the lock")
				}
				time.Sleep(100 * time.Microsecond)
				holders.Add(-1)
				w.close()
			}
		})
	}
	fits.Wait()
}

// misconfigured fails the test unless an error is the config's, with these words.
func misconfigured(t *testing.T, err error, words string) {
	t.Helper()
	must.Refuse(t, err, words)
	if !errors.As(err, new(open.ConfigError)) {
		t.Errorf("%v is no error of the config", err)
	}
}

// A fit with several seeds keeps the best, as if it had been the only one, and removes the others.
func TestSeeds(t *testing.T) {
	dir := t.TempDir()
	said, best, losses, err := fitted(t, dir, Options{Seeds: 3})
	must.Do(t, err)
	alone := map[string]uint64{}
	var scores []float64
	for _, seed := range []uint64{3, 4, 5} { // the config's, and the next ones
		out := filepath.Join(t.TempDir(), "made.onnx")
		all := must.Get(Fit(t.Context(), testplan.Config(t, testplan.Repository(t), trained, nil,
			fmt.Sprintf("controls.healed.layers.1.embedding.seed=%d", seed)), Options{Control: "healed", Out: out}))(t)
		alone[string(must.Get(os.ReadFile(out))(t))] = seed
		scores = append(scores, all[0].Judged.Score(train.Clean))
	}
	if seed, ok := alone[best]; !ok || scores[seed-3] < slices.Max(scores) {
		t.Errorf("seed %d (%v) is kept, scores %v, it says %s", seed, ok, scores, said)
	}
	said, again, _, err := fitted(t, dir, Options{Seeds: 3})
	if err != nil || again != best || strings.Count(said, "\n") != 1 || losses == "" {
		t.Errorf("%v, again it says %s", err, said)
	}
	if left := must.Get(filepath.Glob(filepath.Join(dir, "*seed*")))(t); left != nil {
		t.Errorf("left are %v", left)
	}
}

// A training that learns nothing is given up, and begun anew from the next seed, until no seed is left.
func TestAstrayFitsBeginAnew(t *testing.T) {
	sets := []string{"datasets.train.limit=15", "controls.healed.layers.1.embedding.held_out=4",
		"controls.healed.layers.1.embedding.batch=1", "controls.healed.layers.1.embedding.epochs=31",
		"controls.healed.layers.1.embedding.optimizer={lr: 1e-12}", "controls.healed.layers.1.embedding.restarts=1"}
	said, made, _, err := fitted(t, t.TempDir(), Options{}, sets...)
	must.Refuse(t, err, "goes astray with every seed from 3 to 4", "raise weight")
	must.Have(t, said, "the training with seed 3 has gone astray", "it begins anew with the next seed")
	if made != "" {
		t.Error("it is written")
	}
}
