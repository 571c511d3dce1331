package doctor

import (
	"context"
	"errors"
	"fmt"
	"math"

	"selfheal/attacks"
	"selfheal/control"
	"selfheal/models/crosscheck"
	"selfheal/models/ort"
)

// again opens the network where a pool's attacks run.
func (s *examination) again(pool *ort.Pool) (*control.Network, error) {
	return control.NewNetwork(pool, "model", s.model, control.NetworkOptions{Options: s.o.Options, Direct: true,
		Attacked: true})
}

// agreesByOpenVINO compares logits with OpenVINO's in float32, on all images.
func (s *examination) agreesByOpenVINO(ctx context.Context) (string, error) {
	pool := ort.NewPool(1, images, ort.OpenVINO(ort.Float32))
	defer pool.Close()
	net, err := s.again(pool)
	if err != nil {
		return "", err
	}
	worst := 0.0
	for i, x := range s.images {
		z := make([]float32, net.Classes())
		if err := net.Logits(ctx, x, z); err != nil {
			return "", err
		}
		worst = math.Max(worst, crosscheck.Compare(z, s.logits[i]))
	}
	return near("OpenVINO", worst, engineTolerance)
}

// attacked compares the gradients that attacks take with those of the CPU provider.
func (s *examination) attacked(ctx context.Context) (string, error) {
	if !s.differentiable {
		return "", skipped{errors.New("the model has no gradient")}
	}
	net, err := s.again(s.net.Pool())
	if err != nil {
		return "", err
	}
	defer net.Close()
	gap, err := control.Apart(ctx, s.net, net, images, func(i int) (attacks.Image, error) {
		return attacks.Image{ID: i, Pixels: s.images[i]}, nil
	})
	if err == nil && !gap.Near() {
		err = fmt.Errorf("%s: attacks would be weak", gap)
	}
	return gap.String(), err
}
