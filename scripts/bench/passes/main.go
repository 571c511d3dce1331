// Command bench runs passes of a network for scripts/bench/pytorch.py, which times
// them in turn with PyTorch's, and scripts/bench/quantised.py. It opens a model as an
// attack does, a quantised one with its file for the answers, prints "ready", and
// then answers each line of its input with the seconds that the pass took:
//
//	forward     logits of a batch
//	gradient    logits, cross-entropy and its gradient by the images
//	memory      peak resident memory of the process, in bytes
//
// A batch is cut into one run for each thread, side by side, as `selfheal run` does it. A batch of one image is
// one run on all threads with convolutions as the model has them: runtime {threads: N, winograd: false}.
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"strings"
	"sync"
	"time"

	"selfheal/attacks"
	"selfheal/control"
	"selfheal/models/onnx"
	"selfheal/models/ort"
)

func main() {
	model := flag.String("model", "", "ONNX file")
	batch := flag.Int("batch", 16, "images in a pass")
	threads := flag.Int("threads", 1, "cores to use")
	direct := flag.Bool("direct", false, "convolutions as the model has them, whatever the batch")
	var on ort.Target
	flag.StringVar(&on.Provider, "provider", ort.ProviderCPU, either(ort.Names()))
	flag.StringVar(&on.Precision, "precision", ort.Float32, either(ort.PrecisionNames()))
	flag.Parse()
	if err := run(*model, *batch, *threads, *direct || *batch == 1, on); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// either lists names for people.
func either(names []string) string {
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " or " + names[last]
}

func run(model string, batch, threads int, direct bool, on ort.Target) error {
	ctx := context.Background()
	runtime.GOMAXPROCS(threads)
	if err := ort.Init(ctx, ort.Options{Log: func(f ort.Fetch) { fmt.Fprintln(os.Stderr, f) },
		Provider: on.Provider}); err != nil {
		return err
	}
	if err := on.Check(); err != nil {
		return err
	}
	data, err := os.ReadFile(model)
	if err != nil {
		return err
	}
	var pool *ort.Pool
	switch {
	case on.Row().Device():
		pool = ort.NewPool(1, batch, ort.On(on))
	case batch == 1:
		pool = ort.NewPool(1, 1, ort.On(on), ort.Threads(threads))
	default:
		pool = ort.NewPool(threads, (batch+threads-1)/threads, ort.On(on))
	}
	defer pool.Close()
	direct = direct || pool.Target(true).Row().Direct
	judge, err := control.NewNetwork(pool, "bench", data, control.NetworkOptions{})
	if err != nil {
		return err
	}
	defer judge.Close()
	if judge.Graph.IsCopy() {
		original, err := ort.OpenOriginal(model, &onnx.File{Data: data}, "")
		if err != nil {
			return err
		}
		if err := judge.AnsweredBy(file{original}); err != nil {
			return err
		}
	}
	net, err := judge.ForAttacks(direct)
	if err != nil {
		return err
	}
	defer net.Close()
	b := newBatch(net, batch)
	for _, pass := range []func(context.Context) (float64, error){b.forward, b.gradient} { // compile and warm up
		if _, err := pass(ctx); err != nil {
			return err
		}
	}
	fmt.Println("ready", ort.Version())
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var v float64
		var err error
		switch lines.Text() {
		case "forward":
			v, err = b.forward(ctx)
		case "gradient":
			v, err = b.gradient(ctx)
		case "memory":
			v, err = peak()
		default:
			err = fmt.Errorf("unknown request %q", lines.Text())
		}
		if err != nil {
			return err
		}
		fmt.Println(v)
	}
	return lines.Err()
}

// file answers for a network as it lies.
type file struct{ *ort.Original }

func (f file) Logits(_ context.Context, x, out []float32) error {
	y, err := f.Run(x)
	for i, v := range y {
		out[i] = float32(v)
	}
	return err
}

// images is a batch of random images and what their passes write.
type images struct {
	net    *control.Network
	pixels [][]float32
	logits [][]float32
	result []attacks.Evaluation
}

func newBatch(net *control.Network, count int) *images {
	b := &images{net: net, result: make([]attacks.Evaluation, count)}
	r := rand.New(rand.NewPCG(1, 2))
	for range count {
		x := make([]float32, net.Shape().Size())
		for i := range x {
			x[i] = r.Float32()
		}
		b.pixels, b.logits = append(b.pixels, x), append(b.logits, make([]float32, net.Classes()))
	}
	return b
}

func (b *images) forward(ctx context.Context) (float64, error) {
	return b.each(func(i int) error { return b.net.Logits(ctx, b.pixels[i], b.logits[i]) })
}

func (b *images) gradient(ctx context.Context) (float64, error) {
	return b.each(func(i int) error {
		return b.net.Gradient(ctx, b.pixels[i], attacks.CrossEntropy, i%b.net.Classes(), 0, &b.result[i])
	})
}

// each runs a pass of every image and returns the seconds until the last was done.
func (b *images) each(pass func(i int) error) (float64, error) {
	errs := make([]error, len(b.pixels))
	pool := b.net.Pool()
	start := time.Now()
	var wg sync.WaitGroup
	for range b.pixels {
		pool.Enter()
	}
	for i := range b.pixels {
		wg.Go(func() {
			defer pool.Leave()
			errs[i] = pass(i)
		})
	}
	wg.Wait()
	return time.Since(start).Seconds(), errors.Join(errs...)
}

// peak reads VmHWM, which Linux alone has.
func peak() (float64, error) {
	data, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(data), "VmHWM:")
	var kilobytes float64
	if _, err := fmt.Sscan(rest, &kilobytes); err != nil {
		return 0, fmt.Errorf("/proc/self/status tells no VmHWM: %w", err)
	}
	return kilobytes * 1024, nil
}
