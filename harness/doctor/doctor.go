// Package doctor checks a model before it is used: the model runs, its segments compose to it, its gradients agree
// with differences of the loss, a batch changes nothing, and another engine computes the same. The caller loads ONNX
// Runtime and calls [Model] once; every check gives a line, and a check that can't be made says why. It changes
// nothing and writes nothing.
package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"selfheal/attacks"
	"selfheal/control"
	"selfheal/internal/number"
	"selfheal/models/crosscheck"
	"selfheal/models/heads"
	"selfheal/models/onnx/simplify"
	"selfheal/models/ort"
)

// State is a check's outcome.
type State string

// The states. A skipped check has its reason as detail.
const (
	OK      State = "ok"
	Failed  State = "FAIL"
	Skipped State = "skip"
	Warned  State = "warn" // the model works, but something is probably not intended
)

// Check is the result of one check.
type Check struct {
	Name   string
	State  State
	Detail string // numbers, or the fault
}

// Names of the checks, in order.
const (
	Runs     = "opens and runs"
	Composes = "segments compose to it"
	Gradient = "gradient of the loss"
	Batches  = "batches change nothing"
	Agrees   = "second engine agrees"
	Attacked = "attacks' gradients"
)

// Options configure the examination of a model.
type Options struct {
	simplify.Options
	Attacks ort.Target // the attacks' device; the second engine if it is not the CPU provider
	Task    heads.Task // of classifiers the zero value
}

// images is the number of images of a check: one batch of the pool.
const images = 8

// examination is the state of a model's checks.
type examination struct {
	model  []byte
	o      Options
	net    *control.Network
	truth  []float32 // zeros, for a task that needs some
	images [][]float32
	logits [][]float32 // for each image, run alone

	differentiable bool // every operator has a gradient rule
}

// Model checks a model's bytes on ONNX Runtime, which must be loaded. The images are noise in [0,1], always the same.
// A model that does not run has one check. The error is ctx's; all other faults are checks.
func Model(ctx context.Context, model []byte, o Options) ([]Check, error) {
	pool := ort.NewPool(1, images)
	defer pool.Close()
	s := &examination{model: model, o: o}
	type check struct {
		name string
		run  func(context.Context) (string, error)
	}
	opens := func(ctx context.Context) (string, error) { return s.open(ctx, pool) }
	list := []check{{Runs, opens}, {Composes, s.composes}, {Gradient, s.gradient}, {Batches, s.batches}}
	switch {
	case !o.Task.Classifies(): // no second engine has heads, and these are in no segment
		list = []check{{Runs, opens}, {Gradient, s.gradient}, {Batches, s.batches}}
	case o.Attacks.OnCPU():
		list = append(list, check{Agrees, s.agrees})
	default:
		list = append(list, check{Agrees, s.agreesThere}, check{Attacked, s.attacked})
	}
	var checks []Check
	for i, c := range list {
		about := attacks.About(ctx, attacks.Image{Truth: s.truth})
		if checks = append(checks, s.examine(about, c.name, c.run)); i == 0 && checks[0].State != OK {
			break
		}
	}
	return checks, ctx.Err()
}

// skipped is the error of a check that can't be made.
type skipped struct{ error }

// examine makes one check. It reports a panic, which a broken model may cause, as a failure.
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
	opened, err := control.NewNetwork(pool, "model", s.model, control.NetworkOptions{Options: s.o.Options,
		Task: s.o.Task})
	if err == nil {
		s.net, err = opened.ForAttacks(false)
	}
	if err != nil {
		return "", err
	}
	if n := s.net.Task.Truth(); n > 0 {
		s.truth = make([]float32, n)
		ctx = attacks.About(ctx, attacks.Image{Truth: s.truth})
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
		if !number.Finite(attacks.LogitMargin(z, 0)) {
			return "", fmt.Errorf("the logits of an image of noise are %v", z)
		}
		s.images, s.logits = append(s.images, x), append(s.logits, z)
	}
	in, k := s.net.Shape(), s.net.Classes()
	if s.net.Task != nil {
		return fmt.Sprintf("%d×%d×%d → task %s, %d parameters", in.C, in.H, in.W, s.o.Task.Kind, s.net.Parameters), nil
	}
	return fmt.Sprintf("%d×%d×%d → %d classes, %d parameters", in.C, in.H, in.W, k, s.net.Parameters), nil
}

const dependent = "the %s of image %d differ between a batch of 1 and of up to %d: " +
	"results would depend on the batch size"

// batches compares each image's logits, and its gradient if there is one, alone and in a batch.
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

// Tolerances.
const (
	composeTolerance = 1e-5 // relative: fusion and layout differ across a cut
	engineTolerance  = 1e-4 // relative: the engines sum in other orders
	gradientRelative = 0.01 // of the slope
	gradientAbsolute = 3e-3 // of the slope, for the rounding of the loss
	gradientStep     = 2e-3 // to either side
	gradientPoints   = 16   // along the line
)

// composes runs the segments one after another on two images.
func (s *examination) composes(ctx context.Context) (string, error) {
	pool := s.net.Pool()
	var programs []*ort.Program
	chain, err := s.net.Cut()
	if err != nil {
		return "", err
	}
	for _, g := range chain.Segments {
		data, err := g.Encode()
		if err != nil {
			return "", err
		}
		p, err := pool.Compile(g.Name, data)
		if err != nil {
			return "", err
		}
		defer p.Close()
		programs = append(programs, p)
	}
	return s.near(fmt.Sprintf("%d segments", len(programs)), 2, composeTolerance, func(x []float32) ([]float32, error) {
		for _, p := range programs {
			y := make([]float32, p.Outputs()[0].Size)
			if err := pool.Run(ctx, p, [][]float32{x}, [][]float32{y}); err != nil {
				return nil, err
			}
			x = y
		}
		return x, nil
	})
}

// near measures the distance of other logits of the first images from the network's. It returns an error above a
// tolerance.
func (s *examination) near(what string, images int, tolerance float64,
	logits func(x []float32) ([]float32, error)) (string, error) {
	worst := 0.0
	for i, x := range s.images[:images] {
		z, err := logits(x)
		if err != nil {
			return "", err
		}
		worst = math.Max(worst, crosscheck.Compare(z, s.logits[i]))
	}
	detail := fmt.Sprintf("%s, relative difference %.1g", what, worst)
	if worst > tolerance {
		return "", fmt.Errorf("%s, more than %g", detail, tolerance)
	}
	return detail, nil
}

// gradient compares the rise of the cross-entropy between two points with the mean of its slope between them. They
// are equal even for a network with kinks. The label is the least likely class, where the loss is steep.
func (s *examination) gradient(ctx context.Context) (string, error) {
	if s.net.Graph.Steps {
		return "", skipped{errors.New("its trees have no gradients")}
	}
	if s.net.Stepped {
		return "", skipped{errors.New("the task's scores move in steps, and attacks follow another loss")}
	}
	label := slices.Index(s.logits[0], slices.Min(s.logits[0]))
	at := func(ctx context.Context, step float64, d []float64) (attacks.Evaluation, error) {
		x := slices.Clone(s.images[0])
		for i := range d {
			x[i] += float32(step * d[i])
		}
		var e attacks.Evaluation
		err := s.net.Gradient(ctx, x, attacks.CrossEntropy, label, 0, &e)
		return e, err
	}
	e, err := at(ctx, 0, nil)
	if err != nil {
		return "", err
	}
	s.differentiable = true
	d := direction(e.Gradient)
	// The loss at the ends, and the slopes at the middles of equal parts between them.
	var ends [2]float64
	var slopes [gradientPoints]float64
	err = control.ForEach(ctx, s.net.Pool(), gradientPoints+2, 0, func(ctx context.Context, i int) error {
		if i >= gradientPoints {
			side := i - gradientPoints
			e, err := at(ctx, gradientStep*float64(2*side-1), d)
			ends[side] = float64(e.Loss)
			return err
		}
		e, err := at(ctx, gradientStep*(float64(2*i+1)/gradientPoints-1), d)
		for j, g := range e.Gradient {
			slopes[i] += float64(g) * d[j]
		}
		return err
	})
	if err != nil {
		return "", err
	}
	want := 0.0
	for _, v := range slopes {
		want += v / gradientPoints
	}
	got := (ends[1] - ends[0]) / (2 * gradientStep)
	detail := fmt.Sprintf("slope %.4g, central differences %.4g", want, got)
	if math.Abs(want) <= gradientAbsolute && math.Abs(got) <= gradientAbsolute {
		return "", skipped{fmt.Errorf("%s: where the loss is flat there is nothing to compare", detail)}
	}
	if !(math.Abs(got-want) <= gradientRelative*math.Abs(want)+gradientAbsolute) {
		return "", fmt.Errorf("%s: attacks on this model would be weak", detail)
	}
	return detail, nil
}

// direction returns the gradient's direction with some noise. A random direction changes the loss by little more than
// its rounding.
func direction(gradient []float32) []float64 {
	norm := attacks.L2.Length(gradient)
	r := rand.New(rand.NewPCG(1, 2))
	d := make([]float64, len(gradient))
	for i, g := range gradient {
		d[i] = 0.3 * r.NormFloat64() / math.Sqrt(float64(len(d)))
		if norm > 0 {
			d[i] += float64(g) / norm
		}
	}
	return d
}

// agrees compares ONNX Runtime with the second engine on two images. It skips a model that the engine can't run.
func (s *examination) agrees(ctx context.Context) (string, error) {
	in := s.net.Shape()
	shape := []int64{1, int64(in.C), int64(in.H), int64(in.W)}
	return s.near("onnx-go", 2, engineTolerance, func(x []float32) (_ []float32, err error) {
		var logits []float32
		done := make(chan error, 1)
		go func() { // the engine can't be stopped; it is left behind when ctx ends
			var err error
			logits, err = crosscheck.Logits(s.model, s.normalised(x), shape)
			done <- err
		}()
		select {
		case <-ctx.Done():
			return nil, skipped{ctx.Err()}
		case err = <-done:
		}
		if err != nil {
			return nil, skipped{err}
		}
		return control.TwoClasses(logits, false), nil
	})
}

// normalised applies scale, mean and std, which the model's own bytes do not include.
func (s *examination) normalised(x []float32) []float32 {
	x = slices.Clone(x)
	of := func(values []float32, c int, none float32) float32 {
		if len(values) == 0 {
			return none
		}
		return values[c%len(values)] // one value serves all channels
	}
	for i := range x {
		c := i / (s.net.Shape().H * s.net.Shape().W)
		x[i] = (x[i]*cmp.Or(s.o.Scale, 1) - of(s.o.Mean, c, 0)) / of(s.o.Std, c, 1)
	}
	return x
}

// there opens the network on the attacks' device, in a precision, and asks about it.
func (s *examination) there(precision string, ask func(*control.Network) (string, error)) (string, error) {
	on := s.o.Attacks
	on.Precision = precision
	pool := ort.NewPool(1, images, ort.On(on))
	defer pool.Close()
	opened, err := control.NewNetwork(pool, "model", s.model, control.NetworkOptions{Options: s.o.Options})
	if err != nil {
		return "", err
	}
	defer opened.Close()
	net, err := opened.ForAttacks(pool.Target(true).Row().Direct)
	if err != nil {
		return "", err
	}
	defer net.Close()
	return ask(net)
}

// agreesThere compares logits with the device's in float32, on all images.
func (s *examination) agreesThere(ctx context.Context) (string, error) {
	return s.there(ort.Float32, func(net *control.Network) (string, error) {
		return s.near("provider "+s.o.Attacks.Provider, images, engineTolerance, func(x []float32) ([]float32, error) {
			z := make([]float32, net.Classes())
			return z, net.Logits(ctx, x, z)
		})
	})
}

// attacked compares the attacks' gradients with the CPU provider's.
func (s *examination) attacked(ctx context.Context) (string, error) {
	if !s.differentiable {
		return "", skipped{errors.New("the model has no gradient")}
	}
	return s.there(s.o.Attacks.Precision, func(net *control.Network) (string, error) {
		gap, err := control.Apart(ctx, s.net, net, images, func(i int) (attacks.Image, error) {
			return attacks.Image{ID: i, Pixels: s.images[i]}, nil
		})
		return gap.String(), cmp.Or(err, gap.Check())
	})
}
