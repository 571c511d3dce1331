package tree

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"selfheal/internal/must"
)

// A tree that halves lengths until they are short examines each once, on one worker or several.
func TestTree(t *testing.T) {
	for _, workers := range []int{0, 1, 4} {
		var examined atomic.Int64
		halves := func(_ context.Context, lengths []int) (open []int, err error) {
			if len(lengths) > max(1, workers) {
				t.Errorf("%d parts at once", len(lengths))
			}
			for _, length := range lengths {
				if examined.Add(1); length > 2 {
					open = append(open, length/2, length/2)
				}
			}
			return open, nil
		}
		tree := &Tree[int]{Examine: halves, Workers: workers, Most: workers}
		decided := must.Get(tree.Grow(t.Context(), 1<<10, 1<<10))(t)
		if !decided || examined.Load() != 2*(1<<10-1) {
			t.Errorf("%d workers: %d parts, decided %v", workers, examined.Load(), decided)
		}
	}
}

func TestTreeEnds(t *testing.T) {
	broken := errors.New("broken")
	endless := func(end error) func(context.Context, []int) ([]int, error) {
		return func(_ context.Context, depth []int) ([]int, error) {
			if depth[0] == 50 {
				return nil, end
			}
			return []int{depth[0] + 1, depth[0] + 1}, nil
		}
	}
	for end, want := range map[error]error{ErrOpen: nil, ErrDone: nil, broken: broken} {
		decided, err := (&Tree[int]{Examine: endless(end), Workers: 3}).Grow(t.Context(), 0)
		if decided || !errors.Is(err, want) {
			t.Errorf("%v: %v, %v", end, decided, err)
		}
	}
	ctx, stop := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer stop()
	forever := func(context.Context, []int) ([]int, error) { return []int{0, 0}, nil }
	if decided, err := (&Tree[int]{Examine: forever, Workers: 3}).Grow(ctx, 0); decided || err == nil {
		t.Error(decided, err)
	}
}
