package vector

// Forms lists the forms of Noisy that this processor can run.
func Forms() (out []int) {
	for _, bits := range []int{0, 256, 512} {
		if bits <= wide {
			out = append(out, bits)
		}
	}
	return out
}

// NoisyIn is Noisy in one of its forms.
func NoisyIn(bits int, x []float32, sigma float32, k Key, out []float32) {
	noisy(bits, x, sigma, k, out)
}
