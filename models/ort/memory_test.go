package ort

import (
	"fmt"
	"strings"
	"testing"

	"selfheal/internal/memory"
	"selfheal/internal/must"
	"selfheal/internal/number"
	"selfheal/models/onnx"
)

// wide makes a graph from one number per item to one, with a value of 1 MiB between, of which two exist at once.
func wide(t *testing.T) (model []byte, weights, item int64) {
	t.Helper()
	const values = 1 << 18
	b := &onnx.Builder{G: onnx.NewGraph("wide")}
	row := onnx.FloatTensor(onnx.Shape{1, values}, make([]float32, values))
	row.Floats[0], row.Floats[values-1] = 1, 2
	x := b.Input("x", onnx.Shape{onnx.Batch, 1})
	y := b.Op("Mul", x, b.Const(row))
	b.Output("y", b.OpWith("ReduceSum", onnx.Attrs{"keepdims": int64(1)}, b.Op("Neg", y), b.Const(onnx.IntTensor(1))))
	g := must.Get(b.Done())(t)
	weights, item = g.Memory()
	return must.Get(g.Encode())(t), weights, item
}

// answers runs a program on 64 items.
func answers(t *testing.T, p *Pool, prog *Program) (all [64]float32) {
	t.Helper()
	each(p, len(all), func(id int) { all[id] = once(t, p, prog, []float32{float32(id)})[0][0] })
	return all
}

// The memory of a network's passes goes back to the system with its last program.
func TestMemoryGoesBack(t *testing.T) {
	p := newPool(t, 2, 64)
	model, _, _ := wide(t)
	if memory.Resident() == 0 {
		t.Skip("the system does not tell what a process holds")
	}
	before := memory.Resident()
	for round := range 3 {
		prog, other := must.Get(p.Compile("wide", model))(t), compile(t, p, "add")
		used := int64(0)
		for try := 0; used < 48<<20 && try < 50; try++ { // a busy machine may begin with small batches
			answers(t, p, prog)
			used = memory.Resident() - before
		}
		if used < 48<<20 {
			t.Fatalf("passes of 64 items of 1 MiB took %s", number.Bytes(used))
		}
		other.Close()
		prog.Close()
		prog.Close()
		if left := memory.Resident() - before; left > 24<<20 {
			t.Errorf("round %d: %s are left", round, number.Bytes(left))
		}
	}
}

// The batch is lowered before a program is compiled that does not fit, and no result changes.
func TestBatchFitsIntoMemory(t *testing.T) {
	model, weights, item := wide(t)
	alone := newPool(t, 1, 64)
	want := answers(t, alone, must.Get(alone.Compile("wide", model))(t))
	for _, c := range []struct{ workers, asked, free, batch int }{
		{1, 64, 4096, 64}, {1, 64, 272, 64}, {2, 64, 272, 32}, {1, 64, 144, 32}, {2, 50, 272, 32}, {1, 64, 64, 8},
		{1, 64, 1, 1}, {3, 1, 1, 1},
	} {
		var said []string
		p := NewPool(c.workers, c.asked, Within(Memory{
			Free: func() (int64, bool) { return int64(c.free) << 20, true },
			// This leaves the share of what is free.
			Resident: func() int64 { return (goMemory() + fresh) * 4 / share },
			Lowered:  func(l Lowering) { said = append(said, l.String()) }}))
		prog := must.Get(p.Compile("wide", model, Footprint(weights, item)))(t)
		if p.Batch() != c.batch {
			t.Errorf("%+v: batch %d", c, p.Batch())
		}
		if answers(t, p, prog) != want {
			t.Errorf("%+v: other results", c)
		}
		line := fmt.Sprintf("batch %d instead of %d: %d MiB are free, ", c.batch, c.asked, c.free)
		if lowered := c.batch < c.asked; len(said) > 1 || lowered != (len(said) == 1) ||
			lowered && !strings.HasPrefix(said[0], line) {
			t.Errorf("%+v: it said %q", c, said)
		}
		p.Close()
	}
	p := NewPool(1, 64, Within(Memory{Free: func() (int64, bool) { return 0, false }}))
	defer p.Close()
	must.Get(p.Compile("wide", model, Footprint(weights, item)))(t)
	if p.Batch() != 64 {
		t.Errorf("batch %d where nothing is known", p.Batch())
	}
}

// A pass that runs out of memory is repeated in smaller batches, and only one of a single item fails.
func TestMemoryEnds(t *testing.T) {
	defer renewArena(0)
	model, _, _ := wide(t)
	alone := newPool(t, 1, 1)
	want := answers(t, alone, must.Get(alone.Compile("wide", model))(t))
	// With two workers the batch falls further, by the memory that each of them holds when the other asks.
	for _, c := range []struct{ workers, limit, least int }{{1, 40, 4}, {2, 40, 1}, {2, 12, 1}} {
		renewArena(int64(c.limit) << 20)
		var said []string
		p := NewPool(c.workers, 64, Within(Memory{
			Free:    func() (int64, bool) { return 0, false }, // so that the estimate has no effect
			Lowered: func(l Lowering) { said = append(said, l.String()) }}))
		prog := must.Get(p.Compile("wide", model))(t)
		for try := 0; p.Batch() == 64 && try < 50; try++ {
			if answers(t, p, prog) != want {
				t.Errorf("%+v: other results", c)
			}
		}
		if p.Batch() >= 64 || p.Batch() < c.least || len(said) == 0 ||
			!strings.Contains(said[0], "the memory ended in a pass of ") {
			t.Errorf("%+v: batch %d, said %q", c, p.Batch(), said)
		}
		p.Close()
	}
	renewArena(3 << 19)
	p := newPool(t, 2, 64)
	prog := must.Get(p.Compile("wide", model))(t)
	err := p.Run(t.Context(), prog, [][]float32{{1}}, [][]float32{{0}})
	must.Refuse(t, err, "run wide on 1 items: ", "requested bytes")
}

// A device's batch is made small enough for all programs together, unless it was asked for.
func TestBatchOfDevice(t *testing.T) {
	var lowered []Lowering
	p := NewPool(2, 0, On(Target{ProviderCUDA, 0, Float32}),
		Within(Memory{Lowered: func(l Lowering) { lowered = append(lowered, l) }}))
	defer p.Close()
	if p.Batch() != deviceBatch {
		t.Errorf("the batch is %d", p.Batch())
	}
	p.deviceFree = 1 << 30 // of which 768 MiB are for networks
	first := &Program{pool: p, name: "first", inputs: []Port{{Size: 1 << 10}}}
	p.programs[first] = struct{}{}
	p.fit(first, footprint{})
	if len(lowered) > 0 {
		t.Errorf("%v", lowered)
	}
	first.footprint = footprint{100 << 20, 1 << 20}
	p.fit(&Program{pool: p, name: "second"}, footprint{60 << 20, 2 << 20}) // with slack 4 MiB an image in two batches
	if p.Batch() != 64 || len(lowered) != 1 || !strings.Contains(lowered[0].Why, "second would take") {
		t.Errorf("the batch is %d, %v", p.Batch(), lowered)
	}
	delete(p.programs, first)
	if asked := NewPool(2, 300, On(Target{ProviderCUDA, 0, Float32})); asked.Batch() != 300 || asked.estimated {
		t.Errorf("300 were asked for, the batch is %d", asked.Batch())
	} else {
		asked.Close()
	}
}
