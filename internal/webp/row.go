package webp

import "image"

// Row reads row y of a WebP picture, whose colours have half its width and height. It upsamples like libwebp
// (UpsampleRgbLinePair), with which Pillow reads the images that networks are trained on.
func Row(im *image.YCbCr, y int, r, g, b []uint8) {
	w, h := (im.Rect.Dx()+1)/2, (im.Rect.Dy()+1)/2
	far := y/2 - 1
	if y%2 == 1 {
		far = y/2 + 1
	}
	row := func(plane []uint8, y int) []uint8 {
		y = min(max(y, 0), h-1)
		return plane[y*im.CStride : y*im.CStride+w]
	}
	colours(row(im.Cb, y/2), row(im.Cb, far), g) // r and b hold these rows until they are overwritten
	colours(row(im.Cr, y/2), row(im.Cr, far), b)
	luma := im.Y[y*im.YStride:]
	for x := range r {
		r[x], g[x], b[x] = rgb(luma[x], g[x], b[x])
	}
}

// colours interpolates a row of colours from the nearest row and the nearest one on its other side.
func colours(near, far, out []uint8) {
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

func clip8(v int) uint8 { return uint8(min(max(v, 0), 255)) }

// rgb converts BT.601's colours, with black at 16 and white at 235, as libwebp does.
func rgb(y, cb, cr uint8) (r, g, b uint8) {
	l, u, v := int(y)*19077>>8, int(cb), int(cr)
	return clip8((l + v*26149>>8 - 14234) >> 6), clip8((l - u*6419>>8 - v*13320>>8 + 8708) >> 6),
		clip8((l + u*33050>>8 - 17685) >> 6)
}
