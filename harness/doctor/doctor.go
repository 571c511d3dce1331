// Package doctor checks what a model's results stand on: the model runs, its segments compose to it, its
// gradients are those of its loss, a batch changes nothing, and another engine computes the same.
package doctor

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"

	"selfheal/attacks"
	"selfheal/control"
	"selfheal/internal/vector"
	"selfheal/models/ort"
)

// State is a check's outcome.
type State string

// The states; a skipped check has its reason as detail.
const (
	OK      State = "ok"
	Failed  State = "FAIL"
	Skipped State = "skip"
)

// Check is one line of what the doctor found.
type Check struct {
	Name   string
	State  State
	Detail string // numbers, or what is wrong
}

// Options say how a model takes its images.
type Options struct{ Mean, Std []float32 }

// Names of the checks, in order.
const (
	Runs     = "opens and runs"
	Composes = "segments compose to it"
	Gradient = "gradient of the loss"
	Batches  = "batches change nothing"
	Agrees   = "second engine agrees"
)

// images is how many images a check takes: one batch of the pool.
const images = 8

// examination is what is known of a model under examination.
type examination struct {
	model  []byte
	o      Options
	net    *control.Network
	images [][]float32
	logits [][]float32 // of each image, run alone

	differentiable bool // every operator has a gradient rule
}

// Model checks a model's bytes on ONNX Runtime, which must be loaded. The images are noise in [0,1], always the
// same. A model that does not run has one check. The error is ctx's; all else is in the checks.
func Model(ctx context.Context, model []byte, o Options) ([]Check, error) {
	pool := ort.NewPool(1, images)
	defer pool.Close()
	s := &examination{model: model, o: o}
	checks := []Check{s.examine(ctx, Runs, func(ctx context.Context) (string, error) { return s.open(ctx, pool) })}
	if checks[0].State == OK {
		for _, c := range []struct {
			name string
			run  func(context.Context) (string, error)
		}{{Composes, s.composes}, {Gradient, s.gradient}, {Batches, s.batches}, {Agrees, s.agrees}} {
			checks = append(checks, s.examine(ctx, c.name, c.run))
		}
	}
	return checks, ctx.Err()
}

// skipped is the error of a check that can't be made.
type skipped struct{ error }

// examine makes one check. It reports a panic, which a broken model may set off, as a failure.
func (s *examination) examine(ctx context.Context, name string, run func(context.Context) (string, error)) (c Check) {
	defer func() {
		if r := recover(); r != nil {
			c = Check{name, Failed, fmt.Sprintf("a fault in selfheal: %v; please report it with the model", r)}
		}
	}()
	detail, err := run(ctx)
	var skip skipped
	switch {
	case errors.As(err, &skip):
		return Check{name, Skipped, err.Error()}
	case err != nil:
		return Check{name, Failed, err.Error()}
	}
	return Check{name, OK, detail}
}

// open prepares the network and runs each image alone.
func (s *examination) open(ctx context.Context, pool *ort.Pool) (string, error) {
	var err error
	options := control.NetworkOptions{Mean: s.o.Mean, Std: s.o.Std}
	if s.net, err = control.NewNetwork(pool, "model", s.model, options); err != nil {
		return "", err
	}
	for i := range images {
		r := rand.New(rand.NewPCG(uint64(i), 1))
		x := make([]float32, s.net.Shape().Size())
		for j := range x {
			x[j] = r.Float32()
		}
		z := make([]float32, s.net.Classes())
		if err := s.net.Logits(ctx, x, z); err != nil {
			return "", err
		}
		if !vector.Finite(z) {
			return "", fmt.Errorf("the logits of an image of noise are %v", z)
		}
		s.images, s.logits = append(s.images, x), append(s.logits, z)
	}
	in := s.net.Shape()
	return fmt.Sprintf("%d×%d×%d → %d classes, %d parameters", in.C, in.H, in.W, s.net.Classes(), s.net.Parameters), nil
}

const dependent = "the %s of image %d differ between a batch of 1 and of up to %d: " +
	"results would depend on the batch size"

// batches compares each image's logits, and its gradient where there is one, alone with those in a batch.
func (s *examination) batches(ctx context.Context) (string, error) {
	gradient := func(ctx context.Context, i int) ([]float32, error) {
		if !s.differentiable {
			return nil, nil
		}
		var e attacks.Evaluation
		err := s.net.Gradient(ctx, s.images[i], attacks.CrossEntropy, 0, 0, &e)
		return e.Gradient, err
	}
	var alone [images][]float32
	for i := range alone {
		var err error
		if alone[i], err = gradient(ctx, i); err != nil {
			return "", err
		}
	}
	err := control.ForEach(ctx, s.net.Pool(), images, 0, func(ctx context.Context, i int) error {
		z := make([]float32, s.net.Classes())
		if err := s.net.Logits(ctx, s.images[i], z); err != nil {
			return err
		}
		g, err := gradient(ctx, i)
		switch {
		case err != nil:
			return err
		case !slices.Equal(z, s.logits[i]):
			return fmt.Errorf(dependent, "logits", i, images)
		case !slices.Equal(g, alone[i]):
			return fmt.Errorf(dependent, "gradients", i, images)
		}
		return nil
	})
	what := "logits"
	if s.differentiable {
		what = "logits and gradients"
	}
	return fmt.Sprintf("%s, bit for bit, alone and among %d images", what, images), err
}
