package ort

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"selfheal/internal/must"
)

// envProvider names the provider of a process that a test starts with another library.
const envProvider = "SELFHEAL_TEST_PROVIDER"

// printTo is a log that prints a line for each step.
func printTo(w io.Writer) func(Fetch) { return func(f Fetch) { fmt.Fprintln(w, f) } }

// TestMain provisions the runtime, as a fresh machine has none.
func TestMain(m *testing.M) {
	o := Options{Log: printTo(os.Stderr), Provider: os.Getenv(envProvider)}
	if err := Init(context.Background(), o); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

func readModel(tb testing.TB, name string) []byte {
	tb.Helper()
	return must.Get(os.ReadFile(filepath.Join("testdata", name+".onnx")))(tb)
}

func newPool(tb testing.TB, workers, batch int, opts ...PoolOption) *Pool {
	tb.Helper()
	p := NewPool(workers, batch, opts...)
	tb.Cleanup(p.Close)
	return p
}

func compile(tb testing.TB, p *Pool, name string, opts ...CompileOption) *Program {
	tb.Helper()
	return must.Get(p.Compile(name, readModel(tb, name), opts...))(tb)
}

// once runs one item and returns its outputs.
func once(tb testing.TB, p *Pool, prog *Program, in ...[]float32) [][]float32 {
	tb.Helper()
	out := room(prog.Outputs())
	if err := p.Run(context.Background(), prog, in, out); err != nil {
		tb.Error(err)
	}
	return out
}

// room makes slices for one item.
func room(ports []Port) [][]float32 {
	out := make([][]float32, len(ports))
	for i, p := range ports {
		out[i] = make([]float32, p.Size)
	}
	return out
}
