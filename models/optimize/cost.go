package optimize

import "selfheal/models/onnx"

// Costs of one image on ONNX Runtime's CPU kernels, in multiply-adds of its
// blocked convolution (about 120 GFLOP/s on an AVX-512 core). They were fitted to
// single layers of 64 to 512 channels at 4×4 to 32×32, batch 32; only their ratios matter.
const (
	perProduct  = 1.1 // multiply-add of a matrix product
	perWritten  = 24  // float32 written by a matrix product, from memory and back
	perMoved    = 60  // float32 moved by a Transpose
	worthwhile  = 0.8 // another form is taken below this fraction of the direct form's cost
	narrowMap   = 1.3 // cost of a Conv on maps less than 6 wide, relative to wider ones
	minChannels = 16  // fewer leave the matrix products idle
	// From this many weights a tap, the product of each entry is one of its own.
	manyWeights = 256 * 256
	// From this many weights a tap, a layer of a single tile is worth it: there the
	// product of each entry is always one of its own.
	manyAlone = 128 * 128
	// Bound of the transformed weights of a network: 1 GiB for its passes, and as
	// much again for their gradients.
	maxWeights = 1 << 28
)

// directCost is the cost of a Conv as it is. Its kernel computes several outputs of a
// row at a time, and narrow maps have too few.
func directCost(w, out onnx.Shape) float64 {
	cost := float64(out.Items()) * float64(w[1:].Items())
	if out[3] < 6 {
		cost *= narrowMap
	}
	return cost
}

// winogradCost is the cost of a 3×3 Conv by algorithm s along both axes.
func winogradCost(s *algorithm, in, out onnx.Shape) float64 {
	c, o := float64(in[1]), float64(out[1])
	h, wd, oh, ow := float64(in[2]), float64(in[3]), float64(out[2]), float64(out[3])
	eh, ew := float64(s.n*s.tiles(int(out[2]))), float64(s.n*s.tiles(int(out[3])))
	products := eh*h*wd*c + eh*ew*wd*c + // into the transformed domain
		eh*ew*c*o +
		eh*ow*ew*o + oh*eh*ow*o // and back
	written := eh*wd*c + eh*ew*c + eh*ew*o + eh*ow*o + oh*ow*o
	return perProduct*products + perWritten*written
}

// layoutCost is the cost of changing a state's layout.
func layoutCost(s onnx.Shape) float64 { return perMoved * float64(s.Items()) }
