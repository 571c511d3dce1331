package vnnlib

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"time"

	"selfheal/internal/fault"
	"selfheal/internal/input"
	"selfheal/internal/tree"
	"selfheal/models/bounds"
	"selfheal/models/grad"
	"selfheal/models/onnx"
	"selfheal/models/onnx/simplify"
	"selfheal/models/opened"
	"selfheal/models/ort"
)

type answer string

// The answers, as the competition writes them.
const (
	sat     answer = "sat"     // there is such an input: the counterexample
	unsat   answer = "unsat"   // it is proven that there is none
	unknown answer = "unknown" // neither was found
	timeout answer = "timeout" // neither was found in the given time
)

// Result is an answer and, if it is sat, the counterexample: an input and the file's output.
type Result struct {
	answer  answer
	x       []float32
	y       []float64
	tensors []tensor
}

// String returns the competition's output: the answer, followed by the counterexample's values in the form of the
// property's version.
func (r Result) String() string {
	var out strings.Builder
	fmt.Fprintln(&out, r.answer)
	if r.answer != sat {
		return out.String()
	}
	if r.tensors != nil {
		r.assigned(&out)
		return out.String()
	}
	open := "("
	for i, v := range r.x {
		fmt.Fprintf(&out, "%s(X_%d %.9g)", open, i, v)
		open = "\n "
	}
	for i, v := range r.y {
		fmt.Fprintf(&out, "\n (Y_%d %.*g)", i, digits(v), v)
	}
	return out.String() + ")\n"
}

// digits returns how many digits an output is written with.
func digits(v float64) int {
	if float64(float32(v)) != v { // a file in float64
		return 17
	}
	return 9
}

// Query is a question and the means to answer it.
type Query struct {
	Model, Spec string // paths of an ONNX file and of a property
	Point       []byte // an earlier counterexample, in the form of [Result.String], to try first; may be nil
	Seed        uint64 // of the attack's starts
	// Runtime loads ONNX Runtime; Note is called with remarks on the answer. Both may be called after Ask has given
	// up.
	Runtime func(ctx context.Context) error
	Note    func(line string)
	Count   *tree.Count // counts the parts that are bounded; may be nil
}

// late is how long after the deadline an answer may come.
const late = time.Second / 4

// Ask answers a question. At ctx's deadline the answer is timeout, whatever is under way.
func Ask(ctx context.Context, q Query) (Result, error) {
	r, _, err := begin(ctx, q)
	return r, err
}

// begin is [Ask]. over is closed when nothing is under way any more.
func begin(ctx context.Context, q Query) (r Result, over <-chan struct{}, err error) {
	type ended struct {
		Result
		err error
	}
	note := q.Note
	q.Note = func(line string) {
		if ctx.Err() == nil {
			note(line)
		}
	}
	done, closed := make(chan ended, 1), make(chan struct{}) // work given up ends by itself
	go func() {
		defer close(closed)
		result, err := q.answer(ctx)
		done <- ended{result, err}
	}()
	var out ended
	select {
	case out = <-done:
	case <-ctx.Done():
		select {
		case out = <-done:
		case <-time.After(late):
			out.err = context.Cause(ctx)
		}
	}
	if out.err != nil && errors.Is(out.err, context.DeadlineExceeded) {
		return Result{answer: timeout}, closed, nil
	}
	return out.Result, closed, out.err
}

// ErrProperty is an error in a property, not in the network.
type ErrProperty struct{ error }

func (e ErrProperty) Unwrap() error { return e.error }

func (q Query) answer(ctx context.Context) (r Result, err error) {
	file, err := onnx.Read(q.Model)
	if err != nil {
		return r, err
	}
	in, out, err := onnx.Ports(file.Data)
	if err != nil {
		return r, fmt.Errorf("model %s: %w", q.Model, err)
	}
	property, err := input.Open(q.Spec)
	if err != nil {
		return r, inProperty(ctx, err)
	}
	defer property.Close()
	inFile := func(err error) error { return inProperty(ctx, fmt.Errorf("%s: %w", q.Spec, fault.Reason(err))) }
	spec, err := headOf(ctx, property)
	if err != nil {
		return r, inFile(err)
	}
	runtime := func() error { return q.Runtime(ctx) }
	net, err := open(file, in, nil, runtime)
	if err == nil {
		err = ort.Fits(net)
	}
	if err != nil {
		return r, fmt.Errorf("model %s: %w", q.Model, err)
	}
	for _, notice := range net.Notices {
		q.Note(fmt.Sprintf("model %s: %s", q.Model, notice))
	}
	of := spec.sizeOf(net, in)
	asks, err := spec.rest(ctx, of)
	if err != nil {
		return r, inFile(err)
	}
	if len(of.each[1]) > 1 {
		if net, err = open(file, in, of.each[1], runtime); err != nil {
			return r, fmt.Errorf("model %s: %w", q.Model, err)
		}
	}
	out = out[:len(of.each[1])]
	if err := ctx.Err(); err != nil {
		return r, context.Cause(ctx)
	}
	if len(asks.cases) == 0 {
		return Result{answer: unsat}, nil // its assertions are about numbers alone
	}
	if err := q.Runtime(ctx); err != nil {
		return r, err
	}
	asked, err := newQuestion(file, net, asks, out, q.Note)
	if err != nil {
		return r, fmt.Errorf("model %s: %w", q.Model, err)
	}
	defer asked.close()
	asked.count = q.Count
	known, err := asked.again(string(q.Point))
	if known != nil {
		r = *known
	} else if err == nil {
		r, err = asked.decide(ctx, q.Seed)
	}
	r.tensors = asks.tensors
	if err != nil && ctx.Err() == nil {
		err = fmt.Errorf("model %s: %w", q.Model, err)
	}
	return r, err
}

// inProperty marks an error as one in the property, unless the time is over.
func inProperty(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return err
	}
	return ErrProperty{err}
}

// open simplifies a network. It takes the input unchanged, several inputs one after the other, and joins outputs of
// so many values. A first dimension that is open or 1 is the batch.
func open(file *onnx.File, in []onnx.Value, joined []int, runtime func() error) (net *onnx.Graph, err error) {
	try := func(whole bool) (*onnx.Graph, error) {
		return opened.Graph(file, simplify.Options{Literal: true, Whole: whole, Joined: joined}, runtime)
	}
	whole := slices.ContainsFunc(in, func(v onnx.Value) bool { return len(v.Shape) < 2 || v.Shape[0] > 1 })
	net, err = try(whole)
	if err != nil && !whole {
		if other, cannot := try(true); cannot == nil {
			return other, nil
		}
	}
	return net, err
}

type question struct {
	net    *onnx.Graph
	of     *property
	file   *ort.Original
	climb  *ort.Session // from inputs and cotangents of the output to the output and the input's cotangents
	bounds *bounds.Network
	note   func(line string)
	count  *tree.Count
}

func newQuestion(file *onnx.File, net *onnx.Graph, of *property, out []onnx.Value, note func(string)) (
	q *question, err error) {
	q = &question{net: net, of: of, note: note}
	defer func() {
		if err != nil {
			q.close()
		}
	}()
	outputs := onnx.Each(out, func(v onnx.Value) string { return v.Name })
	if q.file, err = ort.OpenOriginal("the file", file, outputs...); err != nil {
		return q, err
	}
	if q.file.Inputs() != of.inputs {
		return q, fmt.Errorf("the file takes %d values, not %d", q.file.Inputs(), of.inputs)
	}
	g, err := grad.VJP(net)
	if err != nil {
		return q, err
	}
	if q.climb, err = ort.OpenGraph(g); err != nil {
		return q, err
	}
	unbounded := bounds.Provable(net)
	if unbounded == nil {
		q.bounds, unbounded = bounds.New(net, bounds.Unit)
	}
	if unbounded != nil {
		q.bounds = nil
		note(fmt.Sprintf("%v: nothing can be proven of it", unbounded))
	}
	if q.bounds != nil {
		q.bounds.Workers = runtime.GOMAXPROCS(0)
	}
	empty := slices.DeleteFunc(slices.Clone(of.boxes), func(b *box) bool { return b.apart < 0 })
	if len(empty) > 0 {
		note(fmt.Sprintf("no float32 lies between the bounds of inputs such as X_%d in %d of %d boxes: these hold no "+
			"counterexample", empty[0].apart, len(empty), len(of.boxes)))
	}
	return q, nil
}

// again asks the file about an earlier counterexample. It returns nil if it is none.
func (q *question) again(text string) (*Result, error) {
	x, ok := q.of.point(text)
	if !ok {
		return nil, nil
	}
	for _, c := range q.of.cases {
		if !c.box.holds(x) {
			continue
		}
		if found, err := q.confirm(c, x); found != nil || err != nil {
			return found, err
		}
	}
	return nil, nil
}

func (q *question) close() {
	if q.file != nil {
		q.file.Close()
	}
	if q.climb != nil {
		q.climb.Close()
	}
	if q.bounds != nil {
		q.bounds.Close()
	}
}

func (q *question) decide(ctx context.Context, seed uint64) (Result, error) {
	inner, stop := context.WithCancel(ctx)
	defer stop()
	var met *Result
	var proven bool
	var failed error
	proof := make(chan struct{})
	go func() {
		defer close(proof)
		if met, proven, failed = q.prove(inner); proven || met != nil {
			stop()
		}
	}()
	found, err := q.search(inner, seed, proof)
	if ended := context.Cause(inner); ended != nil && errors.Is(err, ended) {
		err = nil
	}
	stop()
	<-proof // it uses the runtime
	if found == nil {
		found = met
	}
	switch {
	case err != nil:
		return Result{}, err
	case found != nil:
		return *found, nil
	case proven:
		return Result{answer: unsat}, q.ask(ctx, seed)
	case ctx.Err() != nil:
		return Result{answer: unknown}, context.Cause(ctx)
	}
	return Result{answer: unknown}, failed
}
