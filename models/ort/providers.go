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

// Precision is an arithmetic precision of the passes of attacks.
type Precision struct {
	Name         string
	Bits         int     // bits that it keeps of a number's mantissa
	Instructions bool    // only for processors that have instructions for it
	Apart        float64 // allowed distance of gradients from the CPU provider's, relative to their length
}

// Precisions lists the precisions of all providers. Gradients in bf16 differ by up to 0.1; a faulty provider's by 1 and
// more.
var Precisions = []Precision{{Float32, 24, false, 0.01}, {BFloat16, 8, true, 0.5}, {TensorFloat32, 10, false, 0.1}}

// PrecisionNames returns all names, float32's first.
func PrecisionNames() []string {
	return onnx.Each(Precisions, func(p Precision) string { return p.Name })
}

// FindPrecision returns the precision of that name, or the zero value.
func FindPrecision(name string) Precision {
	for _, p := range Precisions {
		if p.Name == name {
			return p
		}
	}
	return Precision{}
}

// Provider is an execution provider of ONNX Runtime. All differences between providers are in the rows of [Providers].
type Provider struct {
	Name       string
	Title      string   // for lines to people; "" for the CPU provider
	Precisions []string // for programs [ForAttacks], the default first; nil: only [Float32]
	All        bool     // it runs all programs; false: only those [ForAttacks]
	Direct     bool     // its convolutions run fastest in the model's form, not by Winograd's method
	Phased     bool     // transposed convolutions with several groups are written by phases

	ready    func() error       // returns what is missing and can't be downloaded; nil: nothing can be missing
	supports func(Target) error // returns why a processor can't run a target; nil: every one can
	// use puts the provider before the CPU's, which gets the operators that it does not know; nil: the CPU's alone.
	use func(*rt.SessionOptions, compileConfig) error
	// explain returns the cause of a runtime's message and what to do; if it is nil or returns nil, the general
	// explanation holds.
	explain func(on Target, msg string) error
	bring   string // says how to get a library with the provider
	// adapt changes a program, and its model, before its sessions are opened; nil: no change.
	adapt func(prog *Program, model []byte, cfg compileConfig) error
	sizes []int // sizes of runs, ascending, each with its own session; nil: any size in one session
	// free returns the free bytes of a device's memory; nil: the provider has no device, it computes on the processor.
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

// Names returns the providers' names, in the order of their rows.
func Names() []string { return onnx.Each(Providers, func(p *Provider) string { return p.Name }) }

// Device reports whether the provider computes on a device with its own memory: each run there has a full batch.
func (p *Provider) Device() bool { return p.free != nil }

// size returns the number of items in the next run if this many wait: a size that is at least three quarters full, even
// above the number that wait.
func (p *Provider) size(waiting int) (size int) {
	for _, s := range p.sizes {
		if 4*waiting >= 3*s {
			size = s
		}
	}
	return size
}

// Target is where a pool computes.
type Target struct {
	Provider  string // "": the CPU's
	Device    int    // index, for a provider with devices
	Precision string // for programs [ForAttacks]; "" on the CPU
}

// Row returns the provider's row, or a row without a name for an unknown provider.
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

// Ready returns an error of one line if something is missing that can't be downloaded, before [Init] fetches anything.
func (t Target) Ready() error {
	if ready := t.Row().ready; ready != nil {
		return ready()
	}
	return nil
}

// Computes describes what the target does once [Target.Check] has passed.
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

// explain replaces a runtime's error by its cause and what to do; an error with another cause stays unchanged.
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

// probeSum is the sum of the probe's values. Along each axis of 8×8 pixels, with zeros around them, 6 pixels see 3 ones
// and 2 see 2.
const probeSum = 22 * 22

// sumOfProbe returns the sum of the probe's output for an image of ones.
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
