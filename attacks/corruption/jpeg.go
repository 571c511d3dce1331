package corruption

import "selfheal/internal/jpeg"

// jpegCompression returns the image after Pillow has saved it as JPEG and opened it again.
func jpegCompression(p picture, severity int, _ Source) []float64 {
	quality := by(p, severity, [...]int{80, 65, 58, 50, 40}, [...]int{25, 18, 15, 10, 7})
	n := p.side
	lossy := jpeg.Lossy(p.levels, n, n, quality)
	out, row := make([]float64, 0, len(p.levels)), make([]byte, 3*n)
	for y := range n {
		lossy.Row(y, row[:n], row[n:2*n], row[2*n:])
		for x := range n {
			out = append(out, float64(row[x]), float64(row[n+x]), float64(row[2*n+x]))
		}
	}
	return out
}
