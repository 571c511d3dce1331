package doctor

import (
	"cmp"
	"context"
	"errors"
	"math"

	"selfheal/attacks"
	"selfheal/control"
	"selfheal/models/crosscheck"
	"selfheal/models/ort"
)

// there opens the network where attacks run, in a precision, and asks about it.
func (s *examination) there(precision string, ask func(*control.Network) (string, error)) (string, error) {
	on := s.o.Attacks
	on.Precision = precision
	pool := ort.NewPool(1, images, ort.On(on))
	defer pool.Close()
	net, err := control.NewNetwork(pool, "model", s.model, control.NetworkOptions{Options: s.o.Options,
		Direct: pool.Target(true).Row().Direct, Attacked: true})
	if err != nil {
		return "", err
	}
	defer net.Close()
	return ask(net)
}

// agreesThere compares logits with that provider's in float32, on all images.
func (s *examination) agreesThere(ctx context.Context) (string, error) {
	return s.there(ort.Float32, func(net *control.Network) (string, error) {
		worst := 0.0
		for i, x := range s.images {
			z := make([]float32, net.Classes())
			if err := net.Logits(ctx, x, z); err != nil {
				return "", err
			}
			worst = math.Max(worst, crosscheck.Compare(z, s.logits[i]))
		}
		return near("provider "+s.o.Attacks.Provider, worst, engineTolerance)
	})
}

// attacked compares the gradients that attacks take with those of the CPU provider.
func (s *examination) attacked(ctx context.Context) (string, error) {
	if !s.differentiable {
		return "", skipped{errors.New("the model has no gradient")}
	}
	return s.there(s.o.Attacks.Precision, func(net *control.Network) (string, error) {
		gap, err := control.Apart(ctx, s.net, net, images, func(i int) (attacks.Image, error) {
			return attacks.Image{ID: i, Pixels: s.images[i]}, nil
		})
		return gap.String(), cmp.Or(err, gap.Check())
	})
}
