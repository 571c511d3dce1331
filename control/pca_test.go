package control

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func realDir(t testing.TB) string {
	dir := os.Getenv("SELFHEAL_REAL")
	if dir == "" {
		dir = filepath.Join("..", "..", "shared", "real")
	}
	if _, err := os.Stat(dir); err != nil {
		t.Skipf("no real input: %v (set SELFHEAL_REAL)", err)
	}
	return dir
}

func TestFitRealImages(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join(realDir(t), "cifar10-train-10000.bin"))
	if err != nil {
		t.Skip(err)
	}
	start := time.Now()
	s, err := FitPCA(context.Background(), 3072, func(ctx context.Context, yield func([]float32) error) error {
		x := make([]float32, 3072)
		for r := 0; r+3073 <= len(raw); r += 3073 {
			for i := range x {
				x[i] = float32(raw[r+1+i]) / 255
			}
			if err := yield(x); err != nil {
				return err
			}
		}
		return nil
	}, Target{Variance: 0.99})
	if err != nil {
		t.Fatal(err)
	}
	t.Log(s.Rank, s.Variance, s.Samples, time.Since(start))
}
