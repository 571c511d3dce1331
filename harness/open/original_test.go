package open

import (
	"testing"

	"selfheal/internal/must"
	"selfheal/internal/testinput"
	"selfheal/internal/testplan"
)

// Any rewriting that changes what the network computes is found.
func TestOriginal(t *testing.T) {
	testinput.Runtime(t)
	p := testplan.Plan(t, testplan.ChannelsLast(t), 1, 4)
	o := must.Get(New(p.Config, Options{}))(t)
	defer o.Close()
	j := must.Get(o.Job(p.Jobs[0]))(t)
	defer j.Close()
	file := must.Get(j.Original(t.Context()))(t)
	im := must.Get(j.Set.Read(0))(t)
	right := must.Get(file.Answer(im.Pixels))(t)
	file.last = !file.last
	if wrong := must.Get(file.Answer(im.Pixels))(t); wrong[0] == right[0] {
		t.Error("the layout does not matter")
	}
	other := *file.model
	other.Mean = []float64{1, 2, 40}
	file.model = &other
	must.Refuse(t, file.compare(t.Context(), j.Net, j.Set), "image 0: output")
}
