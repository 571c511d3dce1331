package ort

import (
	"slices"
	"testing"

	"selfheal/internal/must"
)

// A session takes whole tensors, of another number of items at each call, and
// leaves them as they are.
func TestSession(t *testing.T) {
	s := must.Get(Open("add", readModel(t, "add")))(t)
	defer s.Close()
	if !slices.Equal(s.Inputs(), []string{"a", "b"}) || !slices.Contains(s.Outputs(), "sum") {
		t.Fatalf("inputs %v, outputs %v", s.Inputs(), s.Outputs())
	}
	for _, items := range []int64{1, 3} {
		a, b := make([]float32, 4*items), make([]float32, 4*items)
		for i := range a {
			a[i], b[i] = float32(i), float32(10*i)
		}
		out := must.Get(s.Run([]Tensor{{[]int64{items, 4}, a}, {[]int64{items, 4}, b}}))(t)
		sum := out[slices.Index(s.Outputs(), "sum")]
		if !slices.Equal(sum.Shape, []int64{items, 4}) {
			t.Errorf("shape %v", sum.Shape)
		}
		for i, v := range sum.Data {
			if v != float32(11*i) || a[i] != float32(i) {
				t.Fatalf("value %d is %v of %v and %v", i, v, a[i], b[i])
			}
		}
	}
}

func TestSessionErrors(t *testing.T) {
	_, err := Open("broken", []byte("not a model"))
	says(t, err, "open broken")
	s := must.Get(Open("add", readModel(t, "add")))(t)
	four := Tensor{[]int64{1, 4}, []float32{1, 2, 3, 4}}
	for _, c := range []struct {
		in   []Tensor
		want string
	}{
		{[]Tensor{four}, "1 inputs are given"},
		{[]Tensor{four, {[]int64{2, 4}, four.Data}}, `"b" has 4 values for the shape [2 4]`},
		{[]Tensor{four, {nil, []float32{1}}}, `"b" has 1 values`},
		{[]Tensor{four, {[]int64{0, 4}, nil}}, `"b" has 0 values`},
		{[]Tensor{four, {[]int64{4, 1, 1}, four.Data}}, "run add"},
	} {
		_, err := s.Run(c.in)
		says(t, err, c.want)
	}
	s.Close()
	s.Close()
	_, err = s.Run([]Tensor{four, four})
	says(t, err, "closed")
}
