package attacks

import "sync"

// workspace holds vectors that an attack needs only until it asks the model again. All images share a few workspaces,
// which therefore stay in the cores' caches; one for each of the hundred images under way would not.
type workspace struct {
	v     [4][]float32
	order []int32
}

var workspaces sync.Pool

// borrow returns a workspace for images of n values, with arbitrary contents; giveBack returns it.
func borrow(n int) *workspace {
	w, _ := workspaces.Get().(*workspace)
	if w == nil || len(w.order) != n {
		w = &workspace{order: make([]int32, n)}
		for i := range w.v {
			w.v[i] = make([]float32, n)
		}
	}
	return w
}

func (w *workspace) giveBack() { workspaces.Put(w) }
