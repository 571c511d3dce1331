package ort

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"math"
	"regexp"
	"selfheal/models/onnx"
	"slices"
	"strings"

	rt "github.com/yalue/onnxruntime_go"
)

// The precisions of a provider's arithmetic.
const (
	Float32       = "f32"
	BFloat16      = "bf16" // for the multiplications of convolutions and matrices
	TensorFloat32 = "tf32" // for the same
)

// Precision is a precision of attacks' passes.
type Precision struct {
	Name         string
	Bits         int     // of a number's mantissa that it keeps
	Instructions bool    // it is for processors that have instructions for it
	Apart        float64 // how far gradients may be from the CPU provider's, relative to their length
}

// Precisions are those that some provider has. Gradients in bf16 come to 0.1, those of a faulty provider to 1 and more.
var Precisions = []Precision{{Float32, 24, false, 0.01}, {BFloat16, 8, true, 0.5}, {TensorFloat32, 10, false, 0.1}}

// PrecisionNames are the names of all, float32's first.
func PrecisionNames() []string {
	return onnx.Each(Precisions, func(p Precision) string { return p.Name })
}

// FindPrecision is the precision of that name, or the zero value.
func FindPrecision(name string) Precision {
	for _, p := range Precisions {
		if p.Name == name {
			return p
		}
	}
	return Precision{}
}

// Provider is an execution provider of ONNX Runtime. [Providers] has all that differs between them.
type Provider struct {
	Name       string
	Title      string   // in lines for people; "" for the CPU provider
	Precisions []string // of programs [ForAttacks], the default first; nil: [Float32] without a choice
	All        bool     // it runs all programs; false: those [ForAttacks], and the CPU provider the others
	Direct     bool     // its convolutions run fastest as the model has them, and not by Winograd's method
	Phased     bool     // it runs transposed convolutions of several groups slowly

	ready    func() error       // says what is missing that no download brings; nil: nothing is
	supports func(Target) error // says why a processor does not do for a target; nil: every one does
	// use puts the provider before the CPU's, which gets the operators that it does not know; nil: there is only that.
	use func(*rt.SessionOptions, compileConfig) error
	// explain says what is behind a message of the runtime and what to do; nil, or nil from it: what all providers say.
	explain func(on Target, msg string) error
	bring   string // says how to come by a library with the provider
	// adapt changes a program, and its model, before its sessions are opened; nil: it runs as it is.
	adapt func(prog *Program, model []byte, cfg compileConfig) error
	sizes []int // items that runs have, ascending, each in a session of its own; nil: any number in one
	// free is how many bytes of a device's memory are; nil: the provider has no device, it computes on the processor.
	free func(device int) (bytes int64, known bool)
}

// Providers has a row for each provider, the CPU's first.
var Providers []*Provider

func init() { // init breaks the cycle Providers → sessions → Providers
	Providers = []*Provider{
		{Name: ProviderCPU},
		{Name: ProviderOpenVINO, Title: "OpenVINO", Precisions: []string{Float32, BFloat16}, Direct: true, Phased: true,
			supports: openVINOSupports, use: useOpenVINO, adapt: adaptToOpenVINO, sizes: []int{1, 4, 16},
			bring: "pip's onnxruntime-openvino has one"},
		{Name: ProviderCUDA, Title: "CUDA", Precisions: []string{Float32, TensorFloat32}, All: true, Direct: true,
			ready: checkDriver, use: useCUDA, explain: cudaError, free: deviceMemory,
			bring: bringCUDA},
	}
}

// ProviderCPU is the name of the provider that is always there.
const ProviderCPU = "cpu"

// Names are the providers' names, in the order of their rows.
func Names() []string { return onnx.Each(Providers, func(p *Provider) string { return p.Name }) }

// Device reports whether the provider computes on a device with a memory of its own: each run there has a whole batch.
func (p *Provider) Device() bool { return p.free != nil }

// size is how many items the next run has where so many wait: with more than are there where three of four are.
func (p *Provider) size(waiting int) (size int) {
	for _, s := range p.sizes {
		if 4*waiting >= 3*s {
			size = s
		}
	}
	return size
}

// Target is what a pool computes on.
type Target struct {
	Provider  string // "": the CPU's
	Device    int    // of a provider that has devices
	Precision string // of programs [ForAttacks]; "" on the CPU
}

// Row is the provider's row; one without a name for a provider that does not exist.
func (t Target) Row() *Provider {
	name := cmp.Or(t.Provider, ProviderCPU)
	for _, p := range Providers {
		if p.Name == name {
			return p
		}
	}
	return &Provider{}
}

// OnCPU reports whether the target is the CPU provider.
func (t Target) OnCPU() bool { return t.Row().Name == ProviderCPU }

// Ready says on one line what is missing that no download brings, before [Init] fetches anything.
func (t Target) Ready() error {
	if ready := t.Row().ready; ready != nil {
		return ready()
	}
	return nil
}

// Computes says what the target does once [Target.Check] has passed.
func (t Target) Computes() string {
	if t.Row().Device() {
		return fmt.Sprintf("device %d computes", t.Device)
	}
	return t.Precision + " computes"
}

// Check runs a convolution on the target, after [Init]; the error says on one line what is missing and what to do.
func (t Target) Check() error {
	row := t.Row()
	if row.use == nil {
		return nil
	}
	if row.supports != nil {
		if err := row.supports(t); err != nil {
			return err
		}
	}
	pool := NewPool(1, 1, On(t))
	defer pool.Close()
	sum, err := sumOfProbe(pool, !row.All)
	if err != nil {
		return t.explain(err)
	}
	if !(math.Abs(sum-probeSum) < 1e-4*probeSum) { // some kernels round
		what := row.Title
		if row.Device() {
			what = fmt.Sprintf("%s device %d", what, t.Device)
		}
		return fmt.Errorf("%s computes wrongly: a convolution of ones adds up to %v, not %v", what, sum, probeSum)
	}
	return nil
}

var (
	notFound   = regexp.MustCompile(`(\S+): cannot open shared object file`)
	noProvider = regexp.MustCompile(
		`not (enabled|supported) in this build|providers_shared|Failed to load shared library`)
	sourceInfo = regexp.MustCompile(`^.* : FAIL : `) // the runtime's source file and function
)

// explain says what is behind an error of the runtime and what to do; one that another thing is behind stays as it is.
func (t Target) explain(err error) error {
	row, msg := t.Row(), oneLine(err)
	if row.use == nil {
		return err
	}
	if row.explain != nil {
		if known := row.explain(t, msg); known != nil {
			return known
		}
	}
	if noProvider.MatchString(msg) || notFound.MatchString(msg) {
		return fmt.Errorf("ONNX Runtime %s at %s has no %s provider; %s", Version(), LibraryPath(), row.Title,
			row.bring)
	}
	if cut := sourceInfo.ReplaceAllString(msg, ""); cut != msg {
		return errors.New(cut)
	}
	return err
}

// probe is one 3×3 convolution of ones, written by probe.py.
//
//go:embed probe.onnx
var probe []byte

// probeSum is what the probe's values add up to. Along each axis of 8×8 pixels, with zeros around them, 6 pixels see 3
// ones and 2 see 2.
const probeSum = 22 * 22

// sumOfProbe adds up what the probe makes of an image of ones.
func sumOfProbe(pool *Pool, attacks bool) (sum float64, err error) {
	prog, err := pool.Compile("probe", probe, func(c *compileConfig) { c.attacks = attacks })
	if err != nil {
		return 0, errors.New(strings.TrimPrefix(err.Error(), "compile probe: "))
	}
	x, y := slices.Repeat([]float32{1}, prog.inputs[0].Size), make([]float32, prog.outputs[0].Size)
	err = pool.Run(context.Background(), prog, [][]float32{x}, [][]float32{y})
	for _, v := range y {
		sum += float64(v)
	}
	return sum, err
}
