package ort

import (
	"testing"

	"selfheal/internal/must"
)

// A larger program gets a larger scratch; tensors on the old one are dropped.
func TestScratchGrows(t *testing.T) {
	p := &Pool{workers: 1, batch: 4, programs: map[*Program]struct{}{}}
	p.work.L, p.idle.L = &p.mu, &p.mu
	add, conv := compile(t, p, "add"), compile(t, p, "conv")
	w := &worker{pool: p}
	defer w.pinner.Unpin()
	get := func(prog *Program, n int) *kit {
		t.Helper()
		return must.Get(w.kit(prog, n))(t)
	}
	three := get(add, 3)
	if get(add, 3) != three || get(add, 2) == three {
		t.Error("tensors are not kept per batch size")
	}
	small := len(w.scratch)
	get(conv, 4)
	if len(w.scratch) <= small || add.kits[0] != nil {
		t.Error("tensors point into the old scratch")
	}
	get(add, 1)
	if get(add, 1); w.kits != 2 {
		t.Errorf("%d kits", w.kits)
	}
	w.kits = maxKits
	get(add, 2)
	if w.kits != 1 || conv.kits[0] != nil || add.kits[0][1] != nil {
		t.Error("the number of tensors is not bounded")
	}
	add.Close()
	conv.Close()
	if len(p.programs) != 0 {
		t.Error("closed programs are still there")
	}
}
