package attacks

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"math/rand/v2"
)

// generator returns the random numbers for one run of a component. They depend only on the seed, the component's name,
// the restart, the target's rank and the image's id. AutoAttack seeds once per batch instead, so its noise depends on
// the batch size.
func generator(seed uint64, component string, restart, target, image int) *rand.Rand {
	return rand.New(source(seed, component, restart, target, image))
}

// source returns the source of a [generator].
func source(seed uint64, component string, restart, target, image int) *rand.ChaCha8 {
	key := make([]byte, 0, 64)
	for _, v := range [...]uint64{seed, uint64(restart), uint64(target), uint64(image)} {
		key = binary.LittleEndian.AppendUint64(key, v)
	}
	key = append(key, component...)
	return rand.NewChaCha8(sha256.Sum256(key))
}

// again is an attack that follows others of the same name in a recipe; place counts those. It draws different random
// numbers.
type again struct {
	Attack
	place int
}

func (a again) Perturb(ctx context.Context, o Oracle, im Image, how Options) (Result, error) {
	how.Seed = generator(how.Seed, "place", a.place, 0, 0).Uint64()
	return a.Attack.Perturb(ctx, o, im, how)
}

// randomSign returns −1 or 1.
func randomSign(rng *rand.Rand) float32 {
	if rng.Float64() < 0.5 {
		return -1
	}
	return 1
}

// direction fills out with a random direction: uniform in [−1,1] per value for ℓ∞, Gaussian otherwise.
func direction(n Norm, rng *rand.Rand, out []float32) {
	if n == Linf {
		for i := range out {
			out[i] = 2*rng.Float32() - 1
		}
		return
	}
	for i := range out {
		out[i] = float32(rng.NormFloat64())
	}
}

// Draws returns the random numbers for the k-th draw of a kind for an image.
func Draws(seed uint64, what string, k, image int) *rand.Rand {
	return generator(seed, what, k, 0, image)
}
