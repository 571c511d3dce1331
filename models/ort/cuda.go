package ort

import (
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	rt "github.com/yalue/onnxruntime_go"
)

// ProviderCUDA is the name of the provider for NVIDIA's devices.
const ProviderCUDA = "cuda"

// useCUDA uses a device. It first checks the driver and loads the libraries that the provider needs.
func useCUDA(o *rt.SessionOptions, cfg compileConfig) error {
	err := checkDriver()
	if err == nil {
		err = loadCUDA()
	}
	if err == nil {
		err = appendCUDA(o, cfg.on)
	}
	return err
}

// appendCUDA loads the provider's library and looks for the device.
func appendCUDA(o *rt.SessionOptions, on Target) error {
	c, err := rt.NewCUDAProviderOptions()
	if err != nil {
		return err
	}
	defer c.Destroy()
	tf32 := "0" // it is the runtime's default
	if on.Precision == TensorFloat32 {
		tf32 = "1"
	}
	if err := c.Update(map[string]string{
		"device_id": strconv.Itoa(on.Device),
		"use_tf32":  tf32,
		// The default measures all kernels at each new shape: that is slow, and which kernel wins, and so the rounding,
		// depends on the clock.
		"cudnn_conv_algo_search": "HEURISTIC",
		// A program's runs all have one shape, so that its arena never grows again.
		"arena_extend_strategy": "kSameAsRequested",
	}); err != nil {
		return err
	}
	return o.AppendExecutionProviderCUDA(c)
}

// bringCUDA says how to get a library with the CUDA provider and the libraries that it needs.
const bringCUDA = "give none with --onnxruntime or " + envLibrary + ", and --provider cuda fetches one with all that " +
	"it needs (Linux, x86-64), or give the path of pip's onnxruntime-gpu, onnxruntime/capi/libonnxruntime.so.VERSION"

// errNoDriver is CUDA's first error on most machines.
var errNoDriver = errors.New("NVIDIA's driver is not installed: libcuda.so.1 is not found; CUDA needs it and a device")

var (
	failure   = regexp.MustCompile(`(CUDA|CUDNN|CUBLAS) failure (\d+): (.*?) ?;`)
	badDevice = regexp.MustCompile(`Invalid device ID: .*must be between 0 \(inclusive\) and (\d+)`)
)

// cudaError explains a message of the runtime that concerns CUDA.
func cudaError(on Target, msg string) error {
	if m := notFound.FindStringSubmatch(msg); m != nil {
		switch missing := filepath.Base(m[1]); {
		case strings.HasPrefix(missing, "libcuda.so"):
			return errNoDriver
		case !strings.HasPrefix(missing, "libonnxruntime_"):
			return fmt.Errorf("the CUDA provider of ONNX Runtime %s needs %s, which is not found; install it, or %s",
				Version(), missing, bringCUDA)
		}
	} else if m := failure.FindStringSubmatch(msg); m != nil {
		return fmt.Errorf("CUDA device %d can't be used: %s (%s error %s); nvidia-smi shows the driver and the devices",
			on.Device, m[3], m[1], m[2])
	} else if m := badDevice.FindStringSubmatch(msg); m != nil {
		return fmt.Errorf("there is no CUDA device %d; their number is %s, counted from 0", on.Device, m[1])
	}
	return nil
}
