package control

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"

	"selfheal/attacks"
	"selfheal/internal/must"
	"selfheal/models/heads"
	"selfheal/models/onnx"
	"selfheal/models/ort"
)

// members opens three networks of three classes that draw their weights by different seeds.
func members(t *testing.T, pool *ort.Pool) (all []*Network) {
	r := rand.New(rand.NewPCG(6, 7))
	for range 3 {
		b := &onnx.Builder{G: onnx.NewGraph("member")}
		x := b.OpWith("Flatten", onnx.Attrs{"axis": 1}, b.Input("x", onnx.Shape{onnx.Batch, 1, 2, 3}))
		h := b.Op("Tanh", b.OpWith("Gemm", onnx.Attrs{"transB": 1}, x, b.Const(weights(r, 1, 8, 6))))
		b.Output("logits", b.OpWith("Gemm", onnx.Attrs{"transB": 1}, h, b.Const(weights(r, 1, 3, 8))))
		all = append(all, must.Get(NewNetwork(pool, "net", encoded(t, b), NetworkOptions{}))(t))
	}
	return all
}

// An ensemble's answers follow from its members', by their files and in the graph that attacks differentiate. Its
// gradient agrees with differences of its answers or, by votes, with those of the mean's logarithm.
func TestEnsemble(t *testing.T) {
	pool := testPool(t, 4)
	r, ctx := rand.New(rand.NewPCG(8, 9)), context.Background()
	each := members(t, pool)
	for _, one := range each {
		defer one.Close()
	}
	for _, by := range heads.Joined {
		e := must.Get(NewEnsemble(by, members(t, pool), by))(t)
		defer e.Close()
		together := func(x []float32, by string) (out [3]float64) {
			var votes [3]float64
			for _, one := range each {
				z := make([]float32, 3)
				must.Do(t, one.Logits(ctx, x, z))
				votes[attacks.Argmax(z)]++
				sum := 0.0
				for _, v := range z {
					sum += math.Exp(float64(v))
				}
				for i, v := range z {
					if by == heads.Logits {
						out[i] += float64(v) / 3
					} else {
						out[i] += math.Exp(float64(v)) / sum / 3
					}
				}
			}
			for i := range out {
				switch by {
				case heads.Mean:
					out[i] = math.Log(out[i])
				case heads.Vote:
					out[i] = votes[i] + out[i]/2
				}
			}
			return out
		}
		for range 20 {
			x := make([]float32, 6)
			for i := range x {
				x[i] = r.Float32()
			}
			want := together(x, by)
			file, graph := make([]float32, 3), make([]float32, 3)
			must.Do(t, e.Logits(ctx, x, file))
			must.Do(t, e.CopyLogits(ctx, x, graph))
			for i, v := range want {
				if math.Abs(float64(file[i])-v) > 1e-5 || math.Abs(float64(graph[i])-v) > 2e-5 {
					t.Fatalf("%s: by file %v, by graph %v, want %v", by, file, graph, want)
				}
			}
			slopesOf := by
			if by == heads.Vote {
				slopesOf = heads.Mean
			}
			got := attacks.Evaluation{Logits: make([]float32, 3), Gradient: make([]float32, 6)}
			must.Do(t, e.Gradient(ctx, x, attacks.CrossEntropy, 1, -1, &got))
			for i := range x {
				const h = 1e-2
				up, down := append([]float32{}, x...), append([]float32{}, x...)
				up[i], down[i] = x[i]+h, x[i]-h
				above, below := together(up, slopesOf), together(down, slopesOf)
				slope := 0.0 // by the chain rule: the loss's gradient is taken at the ensemble's own logits
				total := 0.0
				for _, v := range want {
					total += math.Exp(v)
				}
				for k, v := range want {
					p := math.Exp(v) / total
					if k == 1 {
						p--
					}
					slope += p * (above[k] - below[k]) / (2 * h)
				}
				if math.Abs(slope-float64(got.Gradient[i])) > 1e-3*(1+math.Abs(slope)) {
					t.Errorf("%s, pixel %d: slope %v, not %v", by, i, got.Gradient[i], slope)
				}
			}
		}
	}
	other := must.Get(NewNetwork(pool, "other", small(t, false), NetworkOptions{}))(t)
	defer other.Close()
	_, err := NewEnsemble("e", []*Network{each[0], other}, heads.Mean)
	must.Refuse(t, err, "member other takes")
}
