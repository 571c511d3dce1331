package vector_test

import (
	"crypto/sha256"
	"encoding/binary"
	"hash/crc32"
	"math"
	"math/bits"
	"slices"
	"testing"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"

	"selfheal/internal/vector"
)

// noise returns the noise that Noisy adds to 0 under a key.
func noise(n int, numbers ...uint64) []float32 { return noiseOf(n, vector.NewKey(numbers...)) }

func noiseOf(n int, k vector.Key) []float32 {
	out := make([]float32, n)
	vector.Noisy(make([]float32, n), 1, k, out)
	return out
}

// Many numbers have the normal distribution, and neither neighbours nor keys are correlated: keys of numbers, and those
// in a row.
func TestNoisyIsNormal(t *testing.T) {
	t.Parallel()
	t.Run("keys", func(t *testing.T) { normal(t, func(k uint64) vector.Key { return vector.NewKey(7, k) }) })
	t.Run("row", func(t *testing.T) { normal(t, vector.NewKey(7).At) })
}

func normal(t *testing.T, key func(k uint64) vector.Key) {
	const keys, each = 400, 3072
	var all []float64
	counts := make([]float64, 100) // by hundredths of the distribution
	for k := range uint64(keys) {
		for _, v := range noiseOf(each, key(k)) {
			all = append(all, float64(v))
			counts[min(int(100*distuv.UnitNormal.CDF(float64(v))), 99)]++
		}
	}
	n := float64(len(all))
	moment := func(power int) float64 {
		sum := 0.0
		for _, v := range all {
			sum += math.Pow(v, float64(power))
		}
		return sum / n
	}
	for power, want := range map[int][2]float64{1: {0, 1}, 2: {1, 2}, 3: {0, 15}, 4: {3, 96}} { // mean and variance
		if got := moment(power); math.Abs(got-want[0]) > 4*math.Sqrt(want[1]/n) {
			t.Errorf("moment %d is %v, not %v", power, got, want[0])
		}
	}
	expected := slices.Repeat([]float64{n / 100}, 100)
	if p := 1 - (distuv.ChiSquared{K: 99}).CDF(stat.ChiSquare(counts, expected)); p < 1e-3 {
		t.Errorf("the distribution has a p-value of %v", p)
	}
	tail := 0.0
	for _, v := range all {
		if math.Abs(v) > 4 {
			tail++
		}
	}
	if want := 2 * n * distuv.UnitNormal.CDF(-4); math.Abs(tail-want) > 4*math.Sqrt(want) {
		t.Errorf("%v numbers are beyond 4, not %.1f", tail, want)
	}
	for _, lag := range []int{1, 2, 16, 31, 32, 64, each} {
		if r := stat.Correlation(all[lag:], all[:len(all)-lag], nil); math.Abs(r) > 4/math.Sqrt(n) {
			t.Errorf("numbers %d apart correlate: %v", lag, r)
		}
	}
}

// lane is one of the 16 generators of a key's first words, reimplemented.
type lane [4]uint32

func newLane(k [2]uint64, l uint64) (s lane) {
	mix := func(z uint64) uint64 {
		z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
		z = (z ^ z>>27) * 0x94d049bb133111eb
		return z ^ z>>31
	}
	step := (2*l + 1) * 0x9e3779b97f4a7c15
	p, q := mix(k[0]+step), mix(k[1]+step)|1
	return lane{uint32(p), uint32(p >> 32), uint32(q), uint32(q >> 32)}
}

func (s *lane) next() uint32 {
	out := bits.RotateLeft32(s[0]+s[3], 7) + s[0]
	t := s[1] << 9
	s[2] ^= s[0]
	s[3] ^= s[1]
	s[1] ^= s[2]
	s[0] ^= s[3]
	s[2] ^= t
	s[3] = bits.RotateLeft32(s[3], 11)
	return out
}

// The numbers agree with the formulas in float64, and their bits are the same on every processor.
func TestNoisyKnown(t *testing.T) {
	t.Parallel()
	sum := sha256.Sum256([]byte("\x01\x00\x00\x00\x00\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00"))
	k := [2]uint64{binary.LittleEndian.Uint64(sum[:]), binary.LittleEndian.Uint64(sum[8:])}
	const blocks = 1000
	for _, form := range vector.Forms() {
		got := make([]float32, 32*blocks)
		vector.NoisyIn(form, got, 1, vector.NewKey(1, 2), got)
		known(t, k, got)
	}
}

func known(t *testing.T, k [2]uint64, got []float32) {
	crc := crc32.NewIEEE()
	for l := range 16 {
		s := newLane(k, uint64(l))
		for b := range len(got) / 32 {
			u, w := (float64(s.next()>>1)+0.5)/(1<<31), s.next()
			sin, cos := math.Sincos(math.Pi / 4 * float64(int32(w<<2)) / (1 << 31))
			pair := [2]float64{cos, sin}
			if w>>31 == 1 {
				pair[0] = -cos
			}
			if w>>30&1 == 1 {
				pair[0], pair[1] = pair[1], pair[0]
			}
			for i, want := range pair {
				want *= math.Sqrt(-2 * math.Log(u))
				if v := got[32*b+16*i+l]; math.Abs(float64(v)-want) > 2e-6 {
					t.Fatalf("number %d is %v, not %v", 32*b+16*i+l, v, want)
				}
			}
		}
	}
	if err := binary.Write(crc, binary.LittleEndian, got); err != nil {
		t.Fatal(err)
	}
	if sum := crc.Sum32(); sum != 0x81abafb6 {
		t.Errorf("the numbers' checksum is %#x", sum)
	}
}

// A shorter vector has the longer one's first numbers, whatever it is added to.
func TestNoisyLengths(t *testing.T) {
	t.Parallel()
	long := noise(200, 5)
	for n := range 200 {
		if !slices.Equal(noise(n, 5), long[:n]) {
			t.Errorf("%d numbers are others", n)
		}
	}
	if slices.Equal(noise(200, 6), long) || slices.Equal(noise(200, 5, 0), long) {
		t.Error("two keys have the same numbers")
	}
	x, out := slices.Repeat([]float32{0.5}, 200), make([]float32, 200)
	vector.Noisy(x, 0.25, vector.NewKey(5), out)
	for i, v := range out {
		if v != 0.5+0.25*long[i] {
			t.Errorf("value %d is %v", i, v)
		}
	}
}

func BenchmarkNoisy(b *testing.B) {
	x, out := make([]float32, 3072), make([]float32, 3072)
	for i := range b.N {
		vector.Noisy(x, 0.25, vector.NewKey(1, uint64(i)), out)
	}
}
