package fit

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"selfheal/control"
	"selfheal/control/train"
	"selfheal/harness/config"
	"selfheal/harness/dataset"
	"selfheal/harness/folder"
	"selfheal/harness/open"
	"selfheal/harness/progress"
	"selfheal/internal/atomicfile"
	"selfheal/models/onnx"
	"selfheal/models/ort"
)

// leastPause is the least time between two checkpoints. Tests change it.
var leastPause = time.Second

// pause returns how long a training goes on after a checkpoint that took so long to write. Writing takes 2 % of the
// time, or at most half a minute's work is lost.
func pause(took time.Duration) time.Duration { return max(leastPause, min(50*took, 30*time.Second)) }

// training trains a layer's auto-encoder.
type training struct {
	trainer   *train.Trainer
	id        []byte       // its identity
	states    []onnx.Shape // of the embedding, and of one that trains along
	places    []string     // likewise
	data      *dataset.Dataset
	held      train.Data // judges the embedding; empty if no image is held back
	starts    []string   // of each embedding its architecture, or its start's file and SHA-256
	objective train.Objective
	restarts  bool // whether a training that goes astray is given up
}

func (f *fitter) job(ctx context.Context, layer int, t *config.Training, names []string) (*training, error) {
	d, err := f.Dataset(t.Fit, 0)
	if err != nil {
		return nil, open.Wrong(err)
	}
	j := &training{data: d, objective: t.Objective, restarts: t.Restarts > 0}
	var networks []train.Network
	for _, name := range names {
		layers, err := f.cut(name)
		if err != nil {
			return nil, err
		}
		here := layers[layer]
		earlier := map[int]*onnx.Graph{} // embeddings before the segment
		for _, l := range layers {
			if l.T >= here.T || f.timing && (l.Embedding.Kind == control.Linear || f.absent(l.Embedding)) {
				continue
			}
			if earlier[l.T], err = f.Embedding(ctx, l); err != nil {
				return nil, open.Wrong(fmt.Errorf("the layer at %s, which comes before: %w", l.Place(), err))
			}
		}
		later := 0
		j.states, j.places = []onnx.Shape{here.State()}, []string{here.Place()}
		if t.Along != nil {
			behind := layers[along(layer)]
			later, j.states, j.places = behind.T, append(j.states, behind.State()), append(j.places, behind.Place())
		}
		around, err := train.Around(here.Net, here.Chain, here.T, later, earlier,
			f.Config.Runtime.Winograd && !target(f.Pool).Row().Direct)
		if err != nil {
			return nil, fmt.Errorf("model %s: %w", name, err)
		}
		networks = append(networks, around)
	}
	data := train.Data{Shape: d.Shape(), Labels: make([]int, d.Len()), Pixels: d.Pixels}
	for i := range data.Labels {
		data.Labels[i] = d.Label(i)
	}
	settings := t.Settings
	if settings.HeldOut, err = heldOut(t, d); err != nil {
		return nil, err
	}
	data, j.held = data.Split(settings.HeldOut, t.Seed)
	e, start, err := f.start(t, networks[0], data)
	if err != nil {
		return nil, open.Wrong(err)
	}
	all := []*onnx.Graph{e}
	j.starts = []string{start}
	if t.Along != nil {
		behind, err := networks[0].Behind(e)
		if err != nil {
			return nil, err
		}
		other := *t.Along
		other.Seed = t.Seed
		second, start, err := f.start(&other, behind, data)
		if err != nil {
			return nil, open.Wrong(fmt.Errorf("the embedding that trains along: %w", err))
		}
		all, j.starts = append(all, second), append(j.starts, start)
		if other.Reconstruction == train.MeanValue {
			settings.JointWeight /= float64(j.states[1].Items())
		}
	}
	settings.Seed, settings.Workers = t.Seed, f.Config.Runtime.Workers
	settings.On = target(f.Pool)
	j.trainer, err = train.NewTrainer(all, networks, data, settings)
	return j, open.Wrong(err)
}

// target returns where a training's passes run: on a device, or by OpenVINO in bf16. In float32 OpenVINO is slower than
// the CPU provider.
func target(p *ort.Pool) ort.Target {
	if on := p.Target(true); on.Precision == ort.BFloat16 {
		return on
	}
	return p.Target(false)
}

// along returns the layer whose embedding trains along with a layer's: a control with such embeddings has two.
func along(layer int) int { return 1 - layer }

// heldOut returns how many images of a training's data set judge it.
func heldOut(t *config.Training, d *dataset.Dataset) (int, error) {
	n := t.Judges(d.Len())
	if n >= d.Len() {
		return 0, open.Wrong(fmt.Errorf("held_out is %d, but data set %s has %d images: none is left to train on", n,
			t.Fit, d.Len()))
	}
	return n, nil
}

// start returns the embedding that a training begins with, for the states that enter n, and says which it is.
func (f *fitter) start(t *config.Training, n train.Network, data train.Data) (e *onnx.Graph, what string, err error) {
	state := n.State()
	if t.Start != "" {
		file, err := open.ReadModel(f.Config.Files, t.Start)
		if err != nil {
			return nil, "", fmt.Errorf("start %w", err)
		}
		what = "start " + file.SHA256
		e, err := control.ONNXEmbedding(file.Data, state)
		if err != nil {
			return nil, "", fmt.Errorf("start %s: %w", t.Start, err)
		}
		// part of the identity: a checkpoint from before this was recorded belongs to another training
		if train.Apart(e) {
			what += " apart"
		}
		return e, what, nil
	}
	e, err = train.New(t.Architecture, state, n.Before == nil, t.Dimensions, t.Seed)
	if err != nil {
		return nil, "", err
	}
	return e, "architecture " + t.Architecture, train.Calibrate(e, n, data)
}

// begin continues from a checkpoint, unless it is nil.
func (j *training) begin(w *trainingFolder, saved *train.Checkpoint, p *progress.Progress) error {
	if saved == nil {
		return w.clean(true)
	}
	if err := j.trainer.Restore(saved); err != nil {
		return open.Wrong(fmt.Errorf("%s: %w; --force begins anew", w.dir, err))
	}
	p.Report(progress.TrainingResumed{StepID: progress.StepID{Step: j.trainer.Done(), Of: j.trainer.Steps()},
		Killed: w.lock.Before})
	return nil
}

func (j *training) run(ctx context.Context, w *trainingFolder, p *progress.Progress, of Fitted) error {
	t := j.trainer
	p.Report(progress.TrainingStarted{At: of.At, Models: of.Models, Steps: t.Steps() - t.Done()})
	show := p.Training(t)
	defer show.Stop()
	for next := time.Now().Add(leastPause); ; {
		if t.Due() && len(j.held.Labels) > 0 {
			epoch, err := t.Watch(ctx, j.held)
			if err != nil {
				return errors.Join(j.stopped(ctx, w, p), err)
			}
			p.Report(progress.EpochJudged{At: of.At, Epoch: epoch.Epoch, Images: epoch.Images, Clean: epoch.Clean,
				Attacked: epoch.Through, Back: epoch.Back})
		}
		if t.Done() == t.Steps() {
			return nil
		}
		loss, err := t.Step(ctx)
		if err != nil {
			show.Stop()
			return errors.Join(j.stopped(ctx, w, p), err)
		}
		show.Step(loss)
		if j.restarts {
			astray, err := t.Astray(ctx, j.held)
			if err != nil {
				return err
			} else if astray {
				return errAstray
			}
		}
		if start := time.Now(); start.After(next) {
			if err := w.save(t, j.id); err != nil {
				return err
			}
			next = time.Now().Add(pause(time.Since(start)))
		}
	}
}

// stopped keeps what a training that a signal has stopped has made, and says so.
func (j *training) stopped(ctx context.Context, w *trainingFolder, p *progress.Progress) error {
	t := j.trainer
	if ctx.Err() == nil || t.Done() == 0 {
		return nil
	}
	err := w.save(t, j.id)
	if err == nil {
		p.Report(progress.TrainingStopped{StepID: progress.StepID{Step: t.Done(), Of: t.Steps()}})
	}
	return err
}

// provenance returns the metadata of a training's embeddings.
func (f *fitter) provenance(j *training, done Fitted, t *config.Training) (all []map[string]string) {
	number := func(v float64) string { return strconv.FormatFloat(v, 'g', 6, 64) }
	common := f.origin(done, t.Fit, j.data, t.Seed)
	maps.Copy(common, map[string]string{"training": string(j.id),
		"training_sha256": fmt.Sprintf("%x", sha256.Sum256(j.id)), "objective": string(t.Objective),
		"epochs": strconv.Itoa(t.Epochs), "steps": strconv.Itoa(done.Steps), "batch": strconv.Itoa(t.Batch),
		"accuracy": number(done.Accuracy), "cross_entropy": number(done.CrossEntropy)})
	maps.Copy(common, done.Judged.Meta())
	reconstruction, weight := done.Reconstruction, t.Weight
	for i, start := range j.starts {
		meta := maps.Clone(common)
		if i > 0 {
			meta["at"], reconstruction, weight = j.places[i], done.Along, t.Along.Weight
		}
		meta["begun_with"], meta["weight"], meta["reconstruction"] = start, number(weight), number(reconstruction)
		all = append(all, meta)
	}
	return all
}

// mostLost is how much less an embedding's accuracy may be as a file than in training, on 400 images or more.
const mostLost = 0.05

// judge asks the embedding, as it will be written, about the last images that it was trained on and about those that
// were held back. It returns an error if it loses accuracy on either, and none about held-back images if there are
// none.
func (j *training) judge(ctx context.Context, path string) (judged train.Judged, err error) {
	written, err := j.written(ctx)
	if err != nil {
		return judged, err
	}
	saw, gives, images, err := j.trainer.Check(ctx, written...)
	if err != nil {
		return judged, fmt.Errorf("embedding: %w", err)
	}
	lost := func(gives float64, images int) bool { return gives < saw-max(mostLost, 1/math.Sqrt(float64(images))) }
	if lost(gives, images) {
		return judged, train.Fail("%s is not written: as a file the embedding gives %.1f %% of the last %d images "+
			"right, and training saw %.1f %%: its normalisations' averages do not hold; train for more steps or in "+
			"larger batches", path, 100*gives, images, 100*saw)
	}
	if len(j.held.Labels) == 0 {
		return judged, nil
	}
	if judged, err = j.trainer.Judge(ctx, written, j.held, true); err != nil {
		return judged, fmt.Errorf("embedding: %w", err)
	}
	// Adversarial training always fits its own images better (Rice et al. 2020).
	usual := j.objective == train.Adversarial && judged.Trained >= saw/2
	if lost(judged.Trained, judged.Images) && !usual {
		return judged, train.Fail("%s is not written: the embedding gives %.1f %% of %d images that were held back "+
			"right, and training saw %.1f %%: it fits the images that it was trained on, not others; train on more "+
			"images, with augment, or for fewer epochs", path, 100*judged.Trained, judged.Images, 100*saw)
	}
	return judged, nil
}

// written returns the embeddings as files would give them.
func (j *training) written(ctx context.Context) (all []*onnx.Graph, err error) {
	es, err := j.trainer.Embeddings(ctx)
	if err != nil {
		return nil, err
	}
	for i, e := range es {
		data, err := e.Encode()
		if err != nil {
			return nil, err
		}
		read, err := control.ONNXEmbedding(data, j.states[i])
		if err != nil {
			return nil, fmt.Errorf("embedding: %w", err)
		}
		all = append(all, read)
	}
	return all, nil
}

// write writes the losses and then the embeddings beside them, the one that trains along first. The training is
// finished when the embedding is there.
func (j *training) write(ctx context.Context, log atomicfile.File, embeddings []atomicfile.File,
	metas []map[string]string) error {
	es, err := j.trainer.Embeddings(ctx)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	along := len(es) > 1
	b.WriteString("step,epoch,network,learning_rate,cross_entropy,reconstruction,accuracy")
	b.WriteString(map[bool]string{true: ",reconstruction_along\n", false: "\n"}[along])
	for _, l := range j.trainer.History() {
		fmt.Fprintf(&b, "%d,%d,%d,%.6g,%.6g,%.6g,%.6g", l.Step, l.Step/j.trainer.PerEpoch(), l.Network, l.Rate,
			l.CrossEntropy, l.Reconstruction, l.Accuracy)
		if along {
			fmt.Fprintf(&b, ",%.6g", l.Along)
		}
		b.WriteByte('\n')
	}
	if err := log.WriteSynced(b.Bytes()); err != nil {
		return err
	}
	for i, e := range slices.Backward(es) {
		e.Meta = metas[i]
		data, err := e.Encode()
		if err == nil {
			err = embeddings[i].WriteSynced(data)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// trainingSuffix ends the name of a training's folder, beside its embedding.
const trainingSuffix = ".training"

// trainingFolder exists while a training is not finished. It has two checkpoints, written in turn: the other one
// serves if a write is interrupted or one is damaged.
type trainingFolder struct {
	dir  string
	lock *folder.Lock
	next int // index of the checkpoint to write
}

// openTraining locks a training's folder.
func openTraining(embedding string) (*trainingFolder, error) {
	dir := embedding + trainingSuffix
	in, name := atomicfile.At(dir)
	if err := in.Make(name); err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	lock, err := folder.LockFolder(dir, "fit")
	if err != nil {
		return nil, err
	}
	return &trainingFolder{dir: dir, lock: lock}, nil
}

func (w *trainingFolder) checkpoint(i int) string {
	return filepath.Join(w.dir, fmt.Sprintf("checkpoint-%d", i))
}

// find reads the latest checkpoint of one of some trainings, at its place, or else the identity of another training
// that has one there.
func (w *trainingFolder) find(all []attempt, p *progress.Progress) (ours *train.Checkpoint, at int, other []byte,
	err error) {
	var damaged []string
	for i := range 2 {
		c, err := train.ReadCheckpoint(w.checkpoint(i))
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case errors.Is(err, train.ErrDamaged):
			damaged = append(damaged, w.checkpoint(i))
		case err != nil:
			return nil, 0, nil, err
		case place(all, c.About) < 0:
			other = c.About
		case ours == nil || place(all, c.About) > at || place(all, c.About) == at && c.Done() > ours.Done():
			ours, at, w.next = c, place(all, c.About), 1-i
		}
	}
	for _, path := range damaged {
		p.Report(progress.CheckpointDamaged{Path: path, Spared: ours != nil})
	}
	return ours, at, other, nil
}

// save writes a checkpoint over the older of the two.
func (w *trainingFolder) save(t *train.Trainer, id []byte) error {
	err := t.Save(w.checkpoint(w.next), id)
	w.next = 1 - w.next
	return err
}

// clean removes interrupted writes and, if all is set, the checkpoints.
func (w *trainingFolder) clean(all bool) error {
	entries, err := os.ReadDir(w.dir)
	for _, e := range entries {
		path := filepath.Join(w.dir, e.Name())
		ours := path == w.checkpoint(0) || path == w.checkpoint(1)
		if strings.HasPrefix(e.Name(), ".checkpoint-") || all && ours {
			err = errors.Join(err, os.Remove(path))
		}
	}
	return err
}

// close removes the folder if it has no checkpoint, and unlocks it. If another fit makes a lock in it meanwhile, the
// folder stays, as only empty folders are removed.
func (w *trainingFolder) close() {
	if names, err := fs.Glob(os.DirFS(w.dir), "checkpoint-*"); err == nil && len(names) == 0 {
		_ = os.Remove(w.lock.Path)
		_ = os.Remove(w.dir)
	}
	w.lock.Free()
}
