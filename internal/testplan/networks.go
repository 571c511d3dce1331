package testplan

import (
	"archive/zip"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"selfheal/attacks"
	"selfheal/harness/dataset"
	"selfheal/internal/must"
	"selfheal/models/onnx/onnxtest"
	"slices"
	"strings"
	"testing"
)

// Archive writes an archive of n images of this shape, of classes 0 and 1 in turn: those of
// class 1 are the brighter.
func Archive(t testing.TB, path string, n int, s attacks.Shape) {
	t.Helper()
	f := must.Get(os.Create(path))(t)
	z := zip.NewWriter(f)
	x := make([]float32, n*s.Size())
	for i := range x {
		x[i] = 0.45 + 0.1*float32(i/s.Size()%2) + 0.01*float32(i%5)
	}
	must.Do(t, dataset.WriteNPY(must.Get(z.Create("x.npy"))(t), []int{n, s.C, s.H, s.W}, slices.Values([][]float32{x})))
	head := fmt.Sprintf("{'descr': '<i8', 'fortran_order': False, 'shape': (%d,), }", n)
	head += strings.Repeat(" ", 117-len(head)) + "\n" // 128 bytes with what stands before
	labels := []byte("\x93NUMPY\x01\x00\x76\x00" + head)
	for i := range n {
		labels = binary.LittleEndian.AppendUint64(labels, uint64(i%2))
	}
	must.Get(must.Get(z.Create("y.npy"))(t).Write(labels))(t)
	must.Do(t, errors.Join(z.Close(), f.Close()))
}

// ChannelsLast is a config of a channels-last network that takes pixels from 0 to 255, on six images, with
// certificates.
func ChannelsLast(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	rng := rand.New(rand.NewPCG(1, 2))
	floats := func(n int64) []float32 {
		v := make([]float32, n)
		for i := range v {
			v[i] = float32(rng.NormFloat64()) / 255
		}
		return v
	}
	model := onnxtest.New(17, -1, 6, 5, 3).Floats("k", []int64{2, 3, 3, 3}, floats(54)...).
		Floats("w", []int64{24, 3}, floats(72)...).
		Node("Transpose x → f perm=0,3,1,2; Conv f k → c; Relu c → r; Flatten r → g; MatMul g w → y").Bytes(-1, 3)
	must.Do(t, os.WriteFile(filepath.Join(dir, "m.onnx"), model, 0o644))
	Archive(t, filepath.Join(dir, "images.npz"), 6, attacks.Shape{C: 3, H: 6, W: 5})
	return `
version: 1
datasets: {test: {format: npz, path: ` + dir + `/images.npz}}
models:
  m: {path: ` + dir + `/m.onnx, preprocess: {scale: 255, mean: [1, 2, 3], std: [3, 2, 1]}}
attacks:
  b: {kind: bounds, norm: linf, epsilon: 0.0001}
  p: {kind: autoattack, version: quick, norm: l2, epsilon: 0.0001, prove: true}
  l1: {kind: bounds, norm: l1, epsilon: 0.0001}
suites: {s: {dataset: test, models: [m], attacks: [b, p, l1]}}
`
}
