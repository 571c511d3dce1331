package certify

import (
	"context"
	"path/filepath"
	"slices"
	"testing"

	"selfheal/harness/config"
	"selfheal/harness/open"
	"selfheal/harness/plan"
	"selfheal/internal/must"
	"selfheal/internal/testinput"
	"selfheal/internal/testplan"
)

// The time of smoothing's samples beside the same number of the pool's passes, on a bundled network and on real ones:
// go test ./harness/certify -run '^$' -bench Samples -count 5
func BenchmarkSamples(b *testing.B) {
	testinput.Runtime(b)
	for _, name := range []string{"preact_robust", "resnet_2b", "rn18w16_standard"} {
		b.Run(name, func(b *testing.B) {
			path := filepath.Join(testinput.Root(b), "models/zoo", name+".onnx")
			if name != "preact_robust" {
				path = testinput.Real(b, name+".onnx")
			}
			text := testplan.Bundled + "suites: {s: {dataset: test, models: [other], attacks: []}}"
			cfg := must.Get(config.Parse("bench.yaml", []byte(text), config.Folder(testinput.Root(b)),
				"models.other.path="+path))(b)
			o := must.Get(open.New(must.Get(cfg.Selected(nil))(b), open.Options{}))(b)
			defer o.Close()
			j := must.Get(o.Job(b.Context(), must.Get(plan.New(o.Config))(b).Jobs[0]))(b)
			defer j.Close()
			who, im := open.Alone(j.Net), must.Get(j.Set.Read(0))(b)
			const samples = 5_000
			images := make([][]float32, 2*o.Pool.Workers()*o.Pool.Batch()) // apart in memory, like a data set's
			for i := range images {
				images[i] = slices.Clone(im.Pixels)
			}
			b.Run("passes", func(b *testing.B) {
				for range b.N {
					must.Do(b, o.ForEach(b.Context(), samples, who.State(), func(ctx context.Context, i int) error {
						_, err := who.Logits(ctx, images[i%len(images)])
						return err
					}))
				}
			})
			p := &Prover{Job: j, Progress: o.Progress, Seed: o.Config.Seed}
			b.Run("smoothing", func(b *testing.B) {
				for range b.N {
					on := &open.Counted{Oracle: open.Answering(who)}
					must.Do(b, p.draw(b.Context(), on, 0.25, Case{Who: who}, im, 0, samples, make([]int, who.Classes)))
				}
			})
		})
	}
}
