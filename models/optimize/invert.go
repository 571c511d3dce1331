package optimize

import "gonum.org/v1/gonum/mat"

func invert(m [][]float64) ([][]float64, error) {
	n := len(m)
	d := mat.NewDense(n, n, nil)
	for i := range m {
		d.SetRow(i, m[i])
	}
	if err := d.Inverse(d); err != nil {
		return nil, err
	}
	out := zeros(n, n)
	for i := range out {
		mat.Row(out[i], i, d)
	}
	return out, nil
}
