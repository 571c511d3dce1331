package train

import (
	"crypto/sha256"
	"encoding/binary"
	"math/rand/v2"
	"slices"

	"selfheal/attacks"
	"selfheal/internal/lists"
	"selfheal/models/ort"
)

// Data are labelled images to fit an embedding on.
type Data struct {
	Shape  [3]int // channels, height, width
	Labels []int
	// Pixels writes image i, C·H·W values in [0,1], into out. It is called from several goroutines.
	Pixels func(i int, out []float32) error
}

func (d *Data) size() int { return d.Shape[0] * d.Shape[1] * d.Shape[2] }

// Split parts the images at random, keyed by a seed, into those to train on and so many to judge the embedding by.
func (d Data) Split(heldOut int, seed uint64) (rest, held Data) {
	order := generator(seed, "held out", 0, 0).Perm(len(d.Labels))
	slices.Sort(order[heldOut:])
	return d.only(order[heldOut:]), d.only(order[:heldOut])
}

func (d Data) only(places []int) Data {
	return Data{Shape: d.Shape, Labels: lists.Map(places, func(i int) int { return d.Labels[i] }),
		Pixels: func(k int, out []float32) error { return d.Pixels(places[k], out) }}
}

// batch returns images, as write gives them, and their labels, one-hot.
func (d *Data) batch(images []int, classes int, write func(i int, out []float32) error) (x, label ort.Tensor,
	err error) {
	n, size := len(images), d.size()
	x = ort.Tensor{Shape: []int64{int64(n), int64(d.Shape[0]), int64(d.Shape[1]), int64(d.Shape[2])},
		Data: make([]float32, n*size)}
	label = ort.Tensor{Shape: []int64{int64(n), int64(classes)}, Data: make([]float32, n*classes)}
	for k, i := range images {
		if err := write(i, x.Data[k*size:(k+1)*size]); err != nil {
			return x, label, err
		}
		label.Data[k*classes+d.Labels[i]] = 1
	}
	return x, label, nil
}

// right counts the images whose logits are largest at their labels.
func (d *Data) right(images []int, logits []float32) (right int) {
	classes := len(logits) / len(images)
	for k, i := range images {
		if attacks.Argmax(logits[k*classes:(k+1)*classes]) == d.Labels[i] {
			right++
		}
	}
	return right
}

// generator returns random numbers that depend on a seed, a purpose and two numbers alone, so that no step depends on
// another's draws.
func generator(seed uint64, purpose string, a, b int) *rand.Rand {
	key := make([]byte, 0, 64)
	for _, v := range [...]uint64{seed, uint64(a), uint64(b)} {
		key = binary.LittleEndian.AppendUint64(key, v)
	}
	return rand.New(rand.NewChaCha8(sha256.Sum256(append(key, "fit/"+purpose...))))
}

func order(seed uint64, epoch, images int) []int {
	return generator(seed, "order", epoch, 0).Perm(images)
}

// draw writes image i, augmented for an epoch, into out. scratch has the same length.
func (d *Data) draw(a Augment, seed uint64, epoch, i int, scratch, out []float32) error {
	if a == (Augment{}) {
		return d.Pixels(i, out)
	}
	r := generator(seed, "augment", epoch, i)
	flip := a.Flip && r.Float64() < 0.5
	dy, dx := 0, 0
	if a.Crop > 0 {
		dy, dx = r.IntN(2*a.Crop+1)-a.Crop, r.IntN(2*a.Crop+1)-a.Crop
	}
	if err := d.Pixels(i, scratch); err != nil {
		return err
	}
	shift(d.Shape, flip, dy, dx, scratch, out)
	return nil
}

// shift writes the image whose pixel (y, x) is in's (y+dy, x+dx), or black beyond its edges. With flip it is
// mirrored.
func shift(shape [3]int, flip bool, dy, dx int, in, out []float32) {
	c, h, w := shape[0], shape[1], shape[2]
	for k := range c {
		for y := range h {
			row := out[(k*h+y)*w : (k*h+y+1)*w]
			for x := range row {
				from := x
				if flip {
					from = w - 1 - x
				}
				row[x] = 0
				if sy, sx := y+dy, from+dx; sy >= 0 && sy < h && sx >= 0 && sx < w {
					row[x] = in[(k*h+sy)*w+sx]
				}
			}
		}
	}
}
