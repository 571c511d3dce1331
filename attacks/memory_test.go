package attacks

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
)

// errStopped ends an attack in a test.
var errStopped = errors.New("stopped")

// ends is an oracle that ends after so many questions and lists the points that it was asked about.
type ends struct {
	*classifier
	left  int
	asked []uint64
}

func (o *ends) ask(x []float32) error {
	if o.left--; o.left < 0 {
		return errStopped
	}
	h := fnv.New64()
	_ = binary.Write(h, binary.LittleEndian, x)
	o.asked = append(o.asked, h.Sum64())
	return nil
}

func (o *ends) Logits(ctx context.Context, x, out []float32) error {
	return cmp.Or(o.ask(x), o.classifier.Logits(ctx, x, out))
}

func (o *ends) Gradient(ctx context.Context, x []float32, loss Loss, label, target int, e *Evaluation) error {
	return cmp.Or(o.ask(x), o.classifier.Gradient(ctx, x, loss, label, target, e))
}

// An attack that is stopped at any question and goes on from the state that it kept last asks what one that is not
// stopped asks from there on, has the same result, and repeats few questions.
func TestMemory(t *testing.T) {
	o := randomMLP(Shape{C: 1, H: 24, W: 24}, 12, 10, 9)
	images := imagesNear(o, 4, 0.5, 10)
	rng := rand.New(rand.NewPCG(1, 2))
	for norm, epsilon := range map[Norm]float64{Linf: .0035, L2: .045, L1: .6} {
		for _, of := range []struct {
			kind     string
			settings given
		}{
			{"pgd", given{"steps": 12, "restarts": 3}},
			{"apgd-ce", given{"steps": 30, "restarts": 2}},
			{"apgd-ce", given{"steps": 30, "restarts": 2, "eot_iter": 2, "give_up": true}},
			{"apgd-t", given{"steps": 20, "restarts": 2, "targets": 3}},
			{"fab", given{"steps": 8, "restarts": 2}},
			{"fab-t", given{"steps": 12, "restarts": 2, "targets": 3}},
			{"square", given{"queries": 150, "restarts": 2}},
		} {
			for _, pixels := range PixelForms {
				name := fmt.Sprint(norm, " ", of.kind, of.settings, " ", pixels)
				r, err := Setup{Kind: of.kind, Norm: norm, Parameters: of.settings, Pixels: pixels}.Make(epsilon, 10)
				if err != nil {
					t.Fatal(name, err)
				}
				a := r.Components[0]
				kept := 0
				for i, im := range images {
					how := Options{Seed: 3, VerdictOnly: i%2 == 0}
					undisturbed := &ends{o, math.MaxInt, nil}
					want, err := a.Perturb(t.Context(), undisturbed, im, how)
					if err != nil {
						t.Fatal(name, err)
					}
					how.Memory = &Memory{Keep: func(state []byte) error {
						how.Memory.From = state
						kept++
						return nil
					}}
					repeated, stops, all := 0, 0, undisturbed.asked
					for {
						o := &ends{o, rng.IntN(len(all) + 1), nil}
						res, err := a.Perturb(t.Context(), o, im, how)
						if repeated += len(o.asked); errors.Is(err, errStopped) {
							stops++
							continue
						}
						rest := all[len(all)-len(o.asked):]
						if err != nil || !reflect.DeepEqual(res, want) || !slices.Equal(rest, o.asked) {
							t.Fatalf("%s, image %d, after %d stops: %+v, %v, want %+v", name, im.ID, stops, res, err,
								want)
						}
						break
					}
					if pixels == "float" && repeated > len(all)+20*(stops+1) {
						t.Errorf("%s, image %d: %d questions instead of %d, after %d stops", name, im.ID, repeated,
							len(all), stops)
					}
				}
				if kept == 0 {
					t.Errorf("%s: nothing was kept", name)
				}
			}
		}
	}
}

// A state of another attack, or one that is cut, is refused.
func TestStateOfAnother(t *testing.T) {
	o := randomMLP(Shape{C: 3, H: 6, W: 6}, 20, 10, 9)
	im := imagesNear(o, 1, 0.5, 10)[0]
	states := map[string][]byte{}
	of := func(kind string) Attack { return component(kind, L2, 1e-3, nil) }
	for _, kind := range []string{"apgd-ce", "fab", "square"} {
		how := Options{Memory: &Memory{Keep: func(state []byte) error {
			states[kind] = state
			return errStopped
		}}}
		if _, err := of(kind).Perturb(t.Context(), o, im, how); !errors.Is(err, errStopped) {
			t.Fatal(err)
		}
	}
	for kind := range states {
		for other, state := range states {
			for _, from := range [][]byte{state[:len(state)-1], state[:len(state)/2], append([]byte{0}, state...), {},
				state} {
				how := Options{Memory: &Memory{From: from, Keep: func([]byte) error { return errStopped }}}
				_, err := of(kind).Perturb(t.Context(), o, im, how)
				if same := kind == other && len(from) == len(state); errors.Is(err, ErrState) == same {
					t.Errorf("%s from %d of %d bytes of %s: %v", kind, len(from), len(state), other, err)
				}
			}
		}
	}
}
