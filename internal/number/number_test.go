package number

import (
	"math"
	"testing"
)

func TestParse(t *testing.T) {
	for text, want := range map[string]float64{
		"12": 12, " 0.5 ": 0.5, ".5": 0.5, "5.": 5, "-1e-3": -1e-3, "8/255": 8. / 255, " 1 / 4 ": 0.25,
	} {
		if got, ok := Parse(text); !ok || got != want {
			t.Errorf("%q: %v, %v", text, got, ok)
		}
	}
	for _, text := range []string{"", "eight", "1/0", "0/0", "1/", "/2", "1/2/3",
		"inf", "nan", "1e999", "0x40", "1_000"} {
		if got, ok := Parse(text); ok {
			t.Errorf("%q is %v", text, got)
		}
	}
}

func TestBytes(t *testing.T) {
	for want, n := range map[string]int64{
		"0 B": 0, "1 B": 1, "1023 B": 1023, "1 KiB": 1024, "1.5 KiB": 1536, "9.9 KiB": 10188, "10 KiB": 10189,
		"1023 KiB": 1<<20 - 513, "1 MiB": 1<<20 - 512, "76 MiB": 76<<20 + 400_000, "1.2 GiB": 1<<30 + 200<<20,
		"12 GiB": 12_900_000_000, "1.5 TiB": 3 << 39, "8 EiB": math.MaxInt64,
	} {
		if got := Bytes(n); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
}

func TestFormat(t *testing.T) {
	for want, v := range map[string]float64{
		"8/255": 8. / 255, "0.5": 0.5, "0.25": 0.25, "12": 12, "0.0314": 0.0314, "0.03137": 0.03137, "0.00001": 1e-5,
		"1.75/255": 1.75 / 255, "0.75/255": 0.75 / 255, "0.01/255": 0.01 / 255, "0.6/255": 0.6 / 255,
		"0.2": 51. / 255, "1": 1, "100000000": 1e8,
	} {
		if got := Format(v); got != want {
			t.Errorf("%v: %s, want %s", v, got, want)
		}
	}
}

// A p-value has three digits: one that is below alpha by little is not shown as alpha.
func TestProbability(t *testing.T) {
	for p, want := range map[float64]string{1: "1.00", 0.9996: "1.00", 0.24: "0.240", 0.0479: "0.0479", 0.05: "0.0500",
		0.001234: "0.00123", 0.0001: "0.000100", 0.00009: "<0.0001", 0: "<0.0001"} {
		if got := Probability(p); got != want {
			t.Errorf("%v is %q, want %q", p, got, want)
		}
	}
}

func TestProduct(t *testing.T) {
	for _, c := range []struct {
		factors []int64
		want    int64
	}{
		{nil, 1}, {[]int64{3, 4}, 12}, {[]int64{1 << 31, 1 << 31}, 1 << 62}, {[]int64{1 << 32, 1 << 31}, math.MaxInt64},
		{[]int64{1 << 40, 1 << 40, 1 << 40}, math.MaxInt64}, {[]int64{1 << 40, 1 << 40, 0}, 0},
		{[]int64{math.MaxInt64, math.MaxInt64, 2}, math.MaxInt64},
	} {
		if got := Product(c.factors...); got != c.want {
			t.Errorf("%v: %d", c.factors, got)
		}
	}
	if got := Sum(math.MaxInt64, 1, math.MaxInt64, 5); got != math.MaxInt64 || Sum(1, 2) != 3 {
		t.Error(got)
	}
}

func TestFinite(t *testing.T) {
	for _, other := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		if !Finite(0, math.MaxFloat64) || Finite(other) || Finite(1, other) || Finite(other, 1) {
			t.Errorf("%v beside finite numbers", other)
		}
	}
}
