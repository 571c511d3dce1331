package ort

import "testing"

// plan makes a pool without workers whose queues have the given lengths.
func plan(workers, batch, entered, served int, queues ...int) (*Pool, []*Program) {
	p := &Pool{schedule: schedule{workers: workers, entered: entered, served: served, free: 1}}
	p.batch.Store(int64(batch))
	var progs []*Program
	for i, n := range queues {
		prog := &Program{pool: p}
		for range n {
			prog.queue = append(prog.queue, &request{tick: int64(i)})
			p.waiting++
		}
		if n > 0 {
			p.active = append(p.active, prog)
		}
		progs = append(progs, prog)
	}
	return p, progs
}

func TestPick(t *testing.T) {
	for _, c := range []struct {
		name                            string
		workers, batch, entered, served int
		queues                          []int
		free, tick                      int
		program, n                      int // program -1: wait
	}{
		{"nobody entered: at once", 2, 64, 0, 0, []int{1}, 2, 0, 0, 1},
		{"others still compute: wait", 2, 64, 256, 64, []int{40}, 1, 0, -1, 0},
		{"a full batch goes", 2, 64, 256, 64, []int{70}, 1, 0, 0, 64},
		{"a full batch before a longer wait", 2, 64, 256, 64, []int{40, 64}, 1, 0, 1, 64},
		{"nobody computes: partial", 2, 64, 104, 64, []int{10, 30}, 1, 0, 1, 30 + 0},
		{"two idle workers share", 2, 64, 0, 0, []int{30}, 2, 0, 0, 15},
		{"few goroutines: every worker's share counts as full", 2, 64, 64, 0, []int{32}, 2, 0, 0, 32},
		{"few goroutines: the first takes its share only", 2, 64, 64, 0, []int{60}, 2, 0, 0, 32},
		{"overtaken too often: first", 2, 64, 256, 0, []int{1, 64}, 1, 40, 0, 1},
		{"of full ones the oldest", 2, 4, 256, 0, []int{0, 4, 9}, 1, 0, 1, 4},
		{"nothing waits", 2, 4, 0, 0, []int{0}, 1, 0, -1, 0},
	} {
		p, progs := plan(c.workers, c.batch, c.entered, c.served, c.queues...)
		p.free, p.tick = c.free, int64(c.tick)
		got, n := p.pick()
		switch {
		case c.program < 0 && got != nil:
			t.Errorf("%s: took %d", c.name, n)
		case c.program >= 0 && (got != progs[c.program] || n != c.n):
			t.Errorf("%s: took %d, wanted %d of program %d", c.name, n, c.n, c.program)
		}
	}
	p, progs := plan(2, 64, 256, 0, 3)
	p.overdue = true
	p.free = 2
	if got, n := p.pick(); got != progs[0] || n != 2 {
		t.Errorf("overdue: took %d", n)
	}
	// A device computes a whole batch whatever waits: few items are not split between its runs.
	for entered, want := range map[int]int{0: 30, 30: 30, 200: 0} {
		p, _ := plan(2, 64, entered, 0, 30)
		p.on.Provider, p.free = ProviderCUDA, 2
		if _, n := p.pick(); n != want {
			t.Errorf("on a device, %d entered: took %d of 30, not %d", entered, n, want)
		}
	}
}
