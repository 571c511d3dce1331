//go:build unix

package train

import (
	"context"
	"os"
	"syscall"
	"testing"

	"selfheal/control"
	"selfheal/internal/must"
	"selfheal/internal/testinput"
	"selfheal/models/ort"
)

// BenchmarkStepNarrowResNet makes training steps of conv-ae in front of a ResNet-18 a quarter as wide, with 128
// images a step. core-s/op is the CPU time of a step.
func BenchmarkStepNarrowResNet(b *testing.B) {
	model := must.Get(os.ReadFile(testinput.Real(b, "rn18w16_standard.onnx")))(b)
	pool := ort.NewPool(1, 8)
	defer pool.Close()
	network := must.Get(control.NewNetwork(pool, "rn18w16", model, control.NetworkOptions{}))(b)
	defer network.Close()
	chain := must.Get(network.Cut())(b)
	n := must.Get(Around(network, chain, 0, nil, true))(b)
	settings := Settings{Epochs: 1000, Batch: 128, Weight: 0.1, Optimizer: Adam, LearningRate: 0.001}
	t := trainer(b, small(b, "conv-ae", n, 24), []Network{n}, shapes10(b, 256), settings)
	step := func() {
		must.Get(t.Step(context.Background()))(b)
	}
	step() // the first one prepares
	before := processorTime(b)
	for b.Loop() {
		step()
	}
	b.ReportMetric((processorTime(b)-before)/float64(b.N), "core-s/op")
}

// processorTime returns the process's CPU time in seconds.
func processorTime(b *testing.B) float64 {
	var u syscall.Rusage
	must.Do(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	seconds := func(t syscall.Timeval) float64 { return float64(t.Sec) + float64(t.Usec)/1e6 }
	return seconds(u.Utime) + seconds(u.Stime)
}
