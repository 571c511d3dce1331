package ort

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	rt "github.com/yalue/onnxruntime_go"
)

// cudaOptions are the CUDA provider's.
func cudaOptions(on Target) map[string]string {
	tf32 := "0" // it is the runtime's default
	if on.Precision == TensorFloat32 {
		tf32 = "1"
	}
	return map[string]string{
		"device_id": strconv.Itoa(on.Device),
		"use_tf32":  tf32,
		// The default measures all kernels at each new shape, which takes seconds and
		// makes the choice, and with it the rounding, depend on the clock.
		"cudnn_conv_algo_search": "HEURISTIC",
		// A program's runs all have one shape, so its arena never grows again:
		// doubling would only waste memory, an arena for each program.
		"arena_extend_strategy": "kSameAsRequested",
	}
}

// useCUDA puts the CUDA provider before the CPU's, which gets the operators that
// CUDA has no kernel for.
func useCUDA(o *rt.SessionOptions, on Target) error {
	if err := CheckDriver(); err != nil {
		return err
	}
	if err := loadCUDA(); err != nil {
		return cudaError(on.Device, err)
	}
	if err := appendCUDA(o, on); err != nil {
		return cudaError(on.Device, err)
	}
	return nil
}

// appendCUDA is the runtime's part of useCUDA.
func appendCUDA(o *rt.SessionOptions, on Target) error {
	c, err := rt.NewCUDAProviderOptions()
	if err != nil {
		return err
	}
	defer c.Destroy()
	// This loads the provider's library and looks for the device.
	if err := c.Update(cudaOptions(on)); err != nil {
		return err
	}
	return o.AppendExecutionProviderCUDA(c)
}

// probe is one 3×3 convolution of ones, written by probe.py.
//
//go:embed probe.onnx
var probe []byte

// CheckCUDA runs a convolution on a CUDA device. Where that is not possible, the
// error says on one line what is missing and what to do: the library has no CUDA
// provider, CUDA's or cuDNN's libraries or NVIDIA's driver are not found, there is
// no such device, or it computes something else. [Init] comes first.
func CheckCUDA(device int) error {
	pool := NewPool(1, 1, On(Target{ProviderCUDA, device, Float32}))
	defer pool.Close()
	sum, err := sumOfProbe(pool)
	if err != nil {
		return cudaError(device, err)
	}
	if !(math.Abs(sum-probeSum) < 1e-4*probeSum) { // some kernels round
		return fmt.Errorf("CUDA device %d computes wrongly: a convolution of ones adds up to %v, not %v",
			device, sum, probeSum)
	}
	return nil
}

// probeSum: of 8×8 pixels with zeros around them, along each axis 6 see 3 ones and 2 see 2.
const probeSum = 22 * 22

// sumOfProbe adds up what the probe makes of an image of ones.
func sumOfProbe(pool *Pool, opts ...CompileOption) (sum float64, err error) {
	prog, err := pool.Compile("probe", probe, opts...)
	if err != nil {
		return 0, errors.New(strings.TrimPrefix(err.Error(), "compile probe: "))
	}
	x, y := make([]float32, prog.Inputs()[0].Size), make([]float32, prog.Outputs()[0].Size)
	for i := range x {
		x[i] = 1
	}
	err = pool.Run(context.Background(), prog, [][]float32{x}, [][]float32{y})
	for _, v := range y {
		sum += float64(v)
	}
	return sum, err
}

// bring says how to come by a library with the CUDA provider and what it needs.
const bring = "give none with --onnxruntime or " + envLibrary + ", and --provider cuda fetches one with all that it " +
	"needs (Linux, x86-64), or give the path of pip's onnxruntime-gpu, onnxruntime/capi/libonnxruntime.so.VERSION"

// errNoDriver is what CUDA says first on most machines.
var errNoDriver = errors.New("NVIDIA's driver is not installed: libcuda.so.1 is not found; CUDA needs it and a device")

var (
	notFound   = regexp.MustCompile(`(\S+): cannot open shared object file`)
	failure    = regexp.MustCompile(`(CUDA|CUDNN|CUBLAS) failure (\d+): (.*?) ?;`)
	badDevice  = regexp.MustCompile(`Invalid device ID: .*must be between 0 \(inclusive\) and (\d+)`)
	wherefrom  = regexp.MustCompile(`^.* : FAIL : `) // the runtime's source file and function
	noProvider = regexp.MustCompile(`not enabled in this build|providers_shared|Failed to load shared library`)
)

// cudaError says what is behind an error of the runtime and what to do; one that
// has nothing to do with CUDA stays as it is.
func cudaError(device int, err error) error {
	msg := oneLine(err)
	missing := ""
	if m := notFound.FindStringSubmatch(msg); m != nil {
		missing = filepath.Base(m[1])
	}
	switch m := failure.FindStringSubmatch(msg); {
	case strings.HasPrefix(missing, "libcuda.so"):
		return errNoDriver
	case missing != "" && !strings.HasPrefix(missing, "libonnxruntime_"):
		return fmt.Errorf("the CUDA provider of ONNX Runtime %s needs %s, which is not found; install it, or %s",
			Version(), missing, bring)
	case missing != "" || noProvider.MatchString(msg):
		return fmt.Errorf("ONNX Runtime %s at %s has no CUDA provider; %s", Version(), LibraryPath(), bring)
	case m != nil:
		return fmt.Errorf("CUDA device %d can't be used: %s (%s error %s); nvidia-smi shows the driver and the devices",
			device, m[3], m[1], m[2])
	}
	if m := badDevice.FindStringSubmatch(msg); m != nil {
		return fmt.Errorf("there is no CUDA device %d; their number is %s, counted from 0", device, m[1])
	}
	if cut := wherefrom.ReplaceAllString(msg, ""); cut != msg {
		return errors.New(cut)
	}
	return err
}
