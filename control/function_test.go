package control

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"selfheal/attacks"
	"selfheal/internal/must"
	"selfheal/models/ort"
)

// TestNewFunction asks a function alone, in batches and as an attack does; it has no gradients.
func TestNewFunction(t *testing.T) {
	pool := ort.NewPool(2, 4)
	defer pool.Close()
	failure := errors.New("no answer")
	f := Function{Shape: attacks.Shape{C: 1, H: 1, W: 2}, Classes: 3, ID: "me"}
	f.Answer = func(x, y []float32, n int) error {
		if len(x) != 2*n || len(y) != 3*n || n > 4 {
			return fmt.Errorf("%d values for %d of %d", len(y), len(x), n)
		}
		for i := range n {
			if x[2*i] < 0 {
				return failure
			}
			y[3*i], y[3*i+2] = x[2*i], x[2*i+1]
		}
		return nil
	}
	n := must.Get(NewFunction(pool, "f", f))(t)
	defer n.Close()
	must.Do(t, n.Ready())
	a := must.Get(n.ForAttacks(false))(t)
	defer a.Close()
	if !n.Opaque() || !a.Opaque() || a.ID != "me" || a.Classes() != 3 || a.Shape() != f.Shape || n.FLOPs() != 0 {
		t.Error("the function is not described as it is")
	}
	var group sync.WaitGroup
	for i := range 40 {
		group.Go(func() {
			z, x := make([]float32, 3), []float32{float32(i), 2}
			err := a.Logits(t.Context(), x, z)
			if i%2 == 0 {
				err = n.Sample(t.Context(), func(to []float32) { copy(to, x) }, z)
			}
			if err != nil || z[0] != float32(i) || z[1] != 0 || z[2] != 2 {
				t.Errorf("image %d: %v, %v", i, z, err)
			}
		})
	}
	group.Wait()
	if err := n.Logits(t.Context(), []float32{-1, 0}, make([]float32, 3)); !errors.Is(err, failure) {
		t.Errorf("the error of the function: %v", err)
	}
	if err := a.Prepare(attacks.CrossEntropy); !errors.Is(err, errOpaque) {
		t.Errorf("gradients of a function: %v", err)
	}
	for _, classes := range []int{0, 1, mostClasses + 1} {
		f.Classes = classes
		if _, err := NewFunction(pool, "f", f); err == nil {
			t.Errorf("a function of %d classes is taken", classes)
		}
	}
}
