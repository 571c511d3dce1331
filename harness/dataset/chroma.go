package dataset

import stdimage "image"

// A picture's colours are often stored at half its width and height. Decoders differ in how they bring them back; these
// are the ways of libjpeg and of libwebp, which Pillow uses and networks were trained on.

// upsample makes a row of colours from the row that is nearest to it and the one that is nearest on its other side.
// Below says that it lies below the first.
type upsample func(near, far, out []uint8, below bool)

// across weighs a value 3 to 1 against its neighbour. at gives three or four times the values at half the width;
// left and right are added before the last shift.
func across(n int, out []uint8, at func(i int) int, left, right, shift int) {
	for x := range out {
		i := x / 2
		other, round := i-1, left
		if x%2 == 1 {
			other, round = i+1, right
		}
		if other < 0 || other >= n {
			other = i
		}
		out[x] = uint8((3*at(i) + at(other) + round) >> shift)
	}
}

// jpeg420 is libjpeg's h2v2_fancy_upsample.
func jpeg420(near, far, out []uint8, _ bool) {
	across(len(near), out, func(i int) int { return 3*int(near[i]) + int(far[i]) }, 8, 7, 4)
}

// jpeg422 is libjpeg's h2v1_fancy_upsample.
func jpeg422(near, _, out []uint8, _ bool) {
	across(len(near), out, func(i int) int { return int(near[i]) }, 1, 2, 2)
}

// jpeg440 is libjpeg-turbo's h1v2_fancy_upsample.
func jpeg440(near, far, out []uint8, below bool) {
	round := 1
	if below {
		round = 2
	}
	for i := range out {
		out[i] = uint8((3*int(near[i]) + int(far[i]) + round) >> 2)
	}
}

// webp420 is libwebp's UpsampleRgbLinePair.
func webp420(near, far, out []uint8, _ bool) {
	for x := range out {
		a, b := (x-1)/2, (x+1)/2 // the columns on both sides
		if x == 0 || b == len(near) {
			out[x] = uint8((3*int(near[a]) + int(far[a]) + 2) >> 2)
			continue
		}
		if x%2 == 0 {
			a, b = b, a
		}
		across := int(near[a]) + 3*int(near[b]) + 3*int(far[a]) + int(far[b]) + 8
		out[x] = uint8((across>>3 + int(near[a])) >> 1)
	}
}

// colours returns a function that reads the colours of row y of a picture at its full width, or nil for those that are
// stored at full size or in a way for which Go's decoder does what others do.
func colours(im *stdimage.YCbCr, webp bool) func(y int, cb, cr []uint8) {
	width, height, w, h := im.Rect.Dx(), im.Rect.Dy(), 0, 0
	var up upsample
	switch im.SubsampleRatio {
	case stdimage.YCbCrSubsampleRatio420:
		if up, w, h = jpeg420, (width+1)/2, (height+1)/2; webp {
			up = webp420
		}
	case stdimage.YCbCrSubsampleRatio422:
		up, w, h = jpeg422, (width+1)/2, height
	case stdimage.YCbCrSubsampleRatio440:
		up, w, h = jpeg440, width, (height+1)/2
	default:
		return nil
	}
	row := func(plane []uint8, y int) []uint8 { return plane[y*im.CStride : y*im.CStride+w] }
	return func(y int, cb, cr []uint8) {
		near, far, below := y, y, false
		if h < height {
			near, below = y/2, y%2 == 1
			if far = near - 1; below {
				far = near + 1
			}
			far = min(max(far, 0), h-1)
		}
		up(row(im.Cb, near), row(im.Cb, far), cb, below)
		up(row(im.Cr, near), row(im.Cr, far), cr, below)
	}
}

func clip8(v int) uint8 { return uint8(min(max(v, 0), 255)) }

// jpegRGB is libjpeg's conversion of JFIF's colours.
func jpegRGB(y, cb, cr uint8) (r, g, b uint8) {
	l, u, v := int(y), int(cb)-128, int(cr)-128
	return clip8(l + (91881*v+1<<15)>>16), clip8(l + (-22554*u-46802*v+1<<15)>>16), clip8(l + (116130*u+1<<15)>>16)
}

// webpRGB is libwebp's conversion of BT.601's colours, of which black is 16 and white 235.
func webpRGB(y, cb, cr uint8) (r, g, b uint8) {
	l, u, v := int(y)*19077>>8, int(cb), int(cr)
	return clip8((l + v*26149>>8 - 14234) >> 6), clip8((l - u*6419>>8 - v*13320>>8 + 8708) >> 6),
		clip8((l + u*33050>>8 - 17685) >> 6)
}
