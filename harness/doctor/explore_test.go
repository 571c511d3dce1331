package doctor

import (
	"context"
	"fmt"
	"os"
	"slices"
	"testing"

	"selfheal/attacks"
	"selfheal/control"
	"selfheal/models/ort"
)

func TestExplore(t *testing.T) {
	if err := ort.Init(context.Background(), ort.Options{Log: os.Stderr}); err != nil { t.Fatal(err) }
	for _, f := range []string{"../../models/zoo/preact_standard.onnx", "../../models/zoo/preact_robust.onnx", "../../../shared/real/resnet_2b.onnx", "../../../shared/real/rn18w16_standard.onnx"} {
		data, err := os.ReadFile(f)
		if err != nil { continue }
		pool := ort.NewPool(1, 8)
		s := &subject{model: data}
		if _, err := s.open(context.Background(), pool); err != nil { t.Fatal(err) }
		_ = control.Margin
		for img := 0; img < 4; img++ {
			x := s.images[img]
			label := slices.Index(s.logits[img], slices.Min(s.logits[img]))
			at := func(step float64, d []float64) attacks.Evaluation {
				y := slices.Clone(x)
				for i := range d { y[i] += float32(step * d[i]) }
				var e attacks.Evaluation
				if err := s.net.Gradient(context.Background(), y, attacks.CrossEntropy, label, 0, &e); err != nil { t.Fatal(err) }
				return e
			}
			e := at(0, nil)
			d := direction(e.Gradient)
			want := 0.0
			for i, g := range e.Gradient { want += float64(g) * d[i] }
			fmt.Printf("%s img %d slope %.4f |", f[len(f)-22:], img, want)
			for _, h := range []float64{4e-3, 2e-3, 1e-3, 5e-4, 2.5e-4, 1.2e-4} {
				u, w := at(h, d), at(-h, d)
				// slope from the analytic gradients, averaged along the segment between the two points
				avg, n := 0.0, 32
				for k := range n {
					ek := at(h*(2*(float64(k)+.5)/float64(n)-1), d)
					for i, g := range ek.Gradient { avg += float64(g) * d[i] / float64(n) }
				}
				fmt.Printf(" h=%g fd %+.2f%% path %+.2f%%", h, 100*((float64(u.Loss)-float64(w.Loss))/(2*h)/want-1), 100*((float64(u.Loss)-float64(w.Loss))/(2*h)/avg-1))
			}
			fmt.Println()
		}
		pool.Close()
	}
}
