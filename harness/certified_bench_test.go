package harness

import (
	"context"
	"path/filepath"
	"slices"
	"testing"

	"selfheal/harness/certify"
	"selfheal/harness/config"
	"selfheal/internal/must"
	"selfheal/internal/testinput"
)

// What smoothing takes for its samples beside as many of the pool's passes, on a bundled network and on real ones:
// go test ./harness -run '^$' -bench Samples -count 5
func BenchmarkSamples(b *testing.B) {
	testinput.Runtime(b)
	for _, name := range []string{"preact_robust", "resnet_2b", "rn18w16_standard"} {
		b.Run(name, func(b *testing.B) {
			path := filepath.Join(testinput.Root(b), "models/zoo", name+".onnx")
			if name != "preact_robust" {
				path = testinput.Real(b, name+".onnx")
			}
			text := bundled + "suites: {s: {dataset: test, models: [other], attacks: []}}"
			cfg := must.Get(config.Parse("bench.yaml", []byte(text), config.Folder(testinput.Root(b)),
				"models.other.path="+path))(b)
			r := &run{opener: must.Get(newOpener(must.Get(cfg.Selected(nil))(b), nil, nil))(b)}
			defer r.close()
			open := must.Get(r.prepare(must.Get(NewPlan(r.cfg))(b).Jobs[0]))(b)
			defer open.close()
			s := scoring{bench: open, who: alone(open.net)}
			im := must.Get(open.set.image(0))(b)
			const samples = 5_000
			images := make([][]float32, r.sampling(1)) // which lie apart, as those of a data set do
			for i := range images {
				images[i] = slices.Clone(im.Pixels)
			}
			b.Run("passes", func(b *testing.B) {
				for range b.N {
					must.Do(b, r.forEach(b.Context(), samples, s.who.state(), func(ctx context.Context, i int) error {
						_, err := s.who.logits(ctx, images[i%len(images)])
						return err
					}))
				}
			})
			b.Run("smoothing", func(b *testing.B) {
				on, how := &counted{oracle: listening(s.who)}, certify.Smoothing{Sigma: 0.25, N: samples, Alpha: 0.001}
				for range b.N {
					must.Do(b, r.draw(b.Context(), on, how.Sigma, s, im, 0, samples, make([]int, s.who.Classes)))
				}
			})
		})
	}
}
