package ort

import (
	"errors"
	"fmt"
	"math"
	"testing"

	"selfheal/internal/must"
)

// The runtime's messages, as its libraries have written them, become one line that names what is missing.
func TestCUDAError(t *testing.T) {
	const (
		get   = "/src/bridge.cc:2043 onnxruntime::Provider& onnxruntime::Get() [ONNXRuntimeError] : 1 : FAIL : "
		parse = "/src/info.cc:63 static onnxruntime::Info onnxruntime::Info::FromProviderOptions(const " +
			"onnxruntime::ProviderOptions&) [ONNXRuntimeError] : 1 : FAIL : utils.h:187 Parse Failed to parse " +
			"provider option \"device_id\": "
		lacks = "Failed to load library %s with error: %s: cannot open shared object file: No such file or directory\n"
		cuda  = "/lib/libonnxruntime_providers_cuda.so"
	)
	shared := "/cache/libonnxruntime_providers_shared.so"
	none := "ONNX Runtime " + Version() + " at " + LibraryPath() + " has no CUDA provider; " + bringCUDA
	for _, c := range [][2]string{
		{"CUDA execution provider is not enabled in this build. ", none},
		{get + fmt.Sprintf(lacks, shared, shared), none},
		{
			get + fmt.Sprintf(lacks, cuda, "libcublasLt.so.13"),
			"the CUDA provider of ONNX Runtime " + Version() + " needs libcublasLt.so.13, which is not found; " +
				"install it, or " + bringCUDA,
		},
		{
			get + fmt.Sprintf(lacks, cuda, "libcuda.so.1"),
			"NVIDIA's driver is not installed: libcuda.so.1 is not found; CUDA needs it and a device",
		},
		{
			parse + "CUDA failure 36: API call is not supported in the installed CUDA driver ; GPU=-1 ; " +
				"hostname=vm ; file=/onnxruntime_src/info.cc ; line=70 ; expr=cudaGetDeviceCount(&num_devices); ",
			"CUDA device 3 can't be used: API call is not supported in the installed CUDA driver (CUDA error 36); " +
				"nvidia-smi shows the driver and the devices",
		},
		{
			parse + "Invalid device ID: 3, must be between 0 (inclusive) and 2 (exclusive).",
			"there is no CUDA device 3; their number is 2, counted from 0",
		},
		{
			"Non-zero status code returned while running Conv node. CUDNN failure 1001: " +
				"CUDNN_STATUS_NOT_INITIALIZED ; GPU=0 ; hostname=vm ; file=conv.cc",
			"CUDA device 3 can't be used: CUDNN_STATUS_NOT_INITIALIZED (CUDNN error 1001); nvidia-smi shows the " +
				"driver and the devices",
		},
		{get + "something\nnew", "something new"},
		{"Load model failed: the graph has a cycle", "Load model failed: the graph has a cycle"},
	} {
		if got := (Target{Provider: ProviderCUDA, Device: 3}).explain(errors.New(c[0])).Error(); got != c[1] {
			t.Errorf("%q became\n%s\nwanted\n%s", c[0], got, c[1])
		}
	}
}

// Runs of whole batches without a binding, as on a device, give every item the same result as alone.
func TestWholeBatches(t *testing.T) {
	alone, p := newPool(t, 1, 1), newPool(t, 2, 8)
	single, conv, add := compile(t, alone, "conv"), compile(t, p, "conv"), compile(t, p, "add")
	p.on.Provider, conv.on.Provider, add.on.Provider = ProviderCUDA, ProviderCUDA, ProviderCUDA // once compiled
	each(p, 21, func(id int) {
		for k := range 3 {
			x := image(id+k, 768)
			sameBits(t, once(t, alone, single, x), once(t, p, conv, x), "in a whole batch")
			a, b := image(id, 4), image(k, 4)
			for i, sum := range once(t, p, add, a, b)[0] {
				if sum != a[i]+b[i] {
					t.Errorf("%v + %v gave %v", a[i], b[i], sum)
				}
			}
		}
	})
	if conv.Items() != 63 {
		t.Errorf("%d items counted, 63 run", conv.Items())
	}
	for w, sizes := range conv.buffers {
		for n, k := range sizes {
			if n != p.Batch() || k.binding != nil {
				t.Errorf("worker %d ran %d items, bound: %v", w, n, k.binding != nil)
			}
		}
	}
}

// On a device every output agrees with the CPU's within float32 rounding, an item's bits do not depend on its
// neighbours, and errors are reported.
func TestCUDAAgrees(t *testing.T) {
	if err := (Target{Provider: ProviderCUDA}).Check(); err != nil {
		t.Skip(err)
	}
	cpu := newPool(t, 0, 16)
	device := newPool(t, 0, 16, On(Target{ProviderCUDA, 0, Float32}))
	for _, opts := range [][]CompileOption{nil, {Unoptimized()}} {
		here, there := compile(t, cpu, "conv", opts...), compile(t, device, "conv", opts...)
		var alone [40][][]float32
		for id := range alone {
			x := image(id, 768)
			alone[id] = once(t, device, there, x)
			for i, want := range once(t, cpu, here, x) {
				for j, v := range want {
					d := math.Abs(float64(v - alone[id][i][j]))
					if !(d <= 1e-5*math.Max(1, math.Abs(float64(v)))) {
						t.Fatalf("item %d, output %d: %v on the CPU, %v on the device", id, i, v, alone[id][i][j])
					}
				}
			}
		}
		each(device, len(alone), func(id int) {
			sameBits(t, alone[id], once(t, device, there, image(id, 768)), "among others on the device")
		})
	}
	fails := compile(t, device, "fails")
	err := device.Run(t.Context(), fails, [][]float32{make([]float32, 4)}, room(fails.Outputs()))
	must.Refuse(t, err, "run fails on ")
}
