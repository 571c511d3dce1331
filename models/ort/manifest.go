package ort

import "path"

const (
	// minVersion is the oldest that serves: onnxruntime_go asks for API 24.
	minVersion = "1.24"
	// pipPython is the Python whose wheel is asked for. Any would do, but each wheel's library is another build, and
	// the checksum is of this one's.
	pipPython = "311"
)

// release is a release of ONNX Runtime that is fetched where it is not installed.
type release struct {
	name, version string
	builds        map[string]build // by GOOS-GOARCH
}

// build is a release for one platform.
type build struct {
	library  string               // the library's name in the cache
	tags     []string             // of the platform, in names of wheels
	packages map[string][]archive // by client, that with the library first; absent: the client has none that serves
}

// archive is a package with the files that are taken from it.
type archive struct {
	name, version string // version "": the release's. The first file is then the library; all others belong beside it
	megabytes     int    // of the download, for the user
	folder        string // of the files, inside
	files         []file
}

// file is a file of an archive.
type file struct {
	name   string
	size   int64 // bytes
	sha256 string
}

// capi is the folder of the libraries in wheels of ONNX Runtime.
const capi = "onnxruntime/capi"

// byNPM and byPip are the packages with the CPU provider's library.
func byNPM(platform string, library file) []archive {
	return []archive{{"onnxruntime-node", "", 100, path.Join("package/bin/napi-v6", platform), []file{library}}}
}

func byPip(library file) []archive { return []archive{{"onnxruntime", "", 20, capi, []file{library}}} }

// cpuRelease has no archive of npm for Windows: its builds need DirectML beside them.
var cpuRelease = release{"onnxruntime", "1.27.0", map[string]build{
	"linux-amd64": {"libonnxruntime.so", []string{"manylinux_2_28_x86_64"}, map[string][]archive{
		"npm": byNPM("linux/x64", file{"libonnxruntime.so.1", 38023776,
			"d8aff4aa8abee8fb2abb2f2f2459ffc94461e781e41b9f7c072829dd0d470221"}),
		"pip": byPip(file{"libonnxruntime.so.1.27.0", 23658512,
			"b5c9d4f124d24707f514dad926dc181820807178855df1c528e3addb2dd0e6f7"}),
	}},
	"linux-arm64": {"libonnxruntime.so", []string{"manylinux_2_28_aarch64"}, map[string][]archive{
		"npm": byNPM("linux/arm64", file{"libonnxruntime.so.1", 20001880,
			"c36bc200e7e6c093b8abb0b34590fbdd8c52fd3fb5e33795b9523ffdde2fce0f"}),
		"pip": byPip(file{"libonnxruntime.so.1.27.0", 20001880,
			"9275ef52956228686ae47b0219f67476a1148505084bdc5571e7bf1bf69b11f2"}),
	}},
	"darwin-arm64": {"libonnxruntime.dylib", []string{"macosx_14_0_arm64"}, map[string][]archive{
		"npm": byNPM("darwin/arm64", file{"libonnxruntime.1.27.0.dylib", 38800984,
			"89f692a3a1a224e4ad0b796b0e7c0bd81113b0741bfe84211eceef14d05a9e59"}),
		"pip": byPip(file{"libonnxruntime.1.27.0.dylib", 29651448,
			"3d832017d60a8a1e078f7051ea3601374453f5451ffe95b70db1131aa7d37e06"}),
	}},
	"windows-amd64": {"onnxruntime.dll", []string{"win_amd64"}, map[string][]archive{
		"pip": byPip(file{"onnxruntime.dll", 17320760,
			"7b9ef55ecaa67ea48e7b0cbe06c926a2046510eef45bbddc35bb9b02f6de3f81"}),
	}},
	"windows-arm64": {"onnxruntime.dll", []string{"win_arm64"}, map[string][]archive{
		"pip": byPip(file{"onnxruntime.dll", 17104224,
			"17db1cb527389a0b50ffcf34425543c70167b8d2dc64385d0fe7302f151baa89"}),
	}},
}}

// openVINORelease: a wheel for Windows exists, but needs OpenVINO's own beside it.
var openVINORelease = release{"onnxruntime-openvino", "1.24.1", map[string]build{
	"linux-amd64": {"libonnxruntime.so", []string{"manylinux_2_28_x86_64"}, map[string][]archive{"pip": {
		{"onnxruntime-openvino", "", 84, capi, []file{
			{"libonnxruntime.so.1.24.1", 31260360, "2d963a419b96018b79dfe63bb50120ddcb724149912a8a6d8ac747a557c089f4"},
			{"libonnxruntime_providers_openvino.so", 2000856,
				"bf0159d2681d76e7de03fbd302a9204e5490f30816bd41826d57acf7a8dff363"},
			{"libonnxruntime_providers_shared.so", 15776,
				"5e02c1ff90e7d71365264dbb6767c00f04a8b57a96cddbc0085c61fa1393250d"},
			{"libopenvino.so.2541", 25284089, "ac9634b715a242a61644c77bc38f17508fe73f517e418027e2410f4bee004943"},
			{"libopenvino_intel_cpu_plugin.so", 67008289,
				"034df890550ae9199fe5f8608c0df8fd0fe355f303bad56bea10bae14c14c3cb"},
			{"libopenvino_onnx_frontend.so.2541", 7006249,
				"f426710881d8c1a01d5ed6d7eaa076d923b19983d3ab3a18bb19d25dba7d8923"},
			{"libtbb.so.12", 367649, "6781dc6aa8b2ca237d0164258e70266a44667756c02a9a039782ec1d1a67b653"},
		}},
	}}},
}}

// cudaRelease: the CUDA provider needs cudart, cuBLAS, cuRAND and cuFFT of CUDA 12, and cuDNN 9, and those load the
// compilers (nvrtc, nvJitLink) and cuDNN's parts when they use them. CUDA 12.8 runs on NVIDIA's drivers from 525 on;
// CUDA 13, which later builds of onnxruntime-gpu need, takes 580. The versions are those that PyTorch 2.8 and 2.9 bring
// for CUDA 12.8: widely used together, and often in pip's cache already.
var cudaRelease = release{"onnxruntime-gpu", "1.26.0", map[string]build{
	"linux-amd64": {"libonnxruntime.so", []string{"manylinux_2_28_x86_64", "manylinux_2_27_x86_64",
		"manylinux_2_17_x86_64", "manylinux_2_12_x86_64"}, map[string][]archive{"pip": {
		{"onnxruntime-gpu", "", 277, capi, []file{
			{"libonnxruntime.so.1.26.0", 23101400, "7fe6f3306ea455b3d1493ea8b95bf442b48a216e459c47564152e5f7d5ded2c6"},
			{"libonnxruntime_providers_cuda.so", 400831992,
				"347599963df41207241245c1725d9b14eaa79db846d7cd670fd84262563f130b"},
			{"libonnxruntime_providers_shared.so", 14632,
				"086ec1d5388f64153d9c63470d126693db9a182c8ce236d3a1119068471b8a0d"},
		}},
		{"nvidia-cuda-runtime-cu12", "12.8.90", 1, "nvidia/cuda_runtime/lib", []file{{"libcudart.so.12", 728800,
			"c3a75b33af334a3486d197dbd1584a2985183ba4688d237a2be5f2f679329920"}}},
		{"nvidia-cublas-cu12", "12.8.4.1", 595, "nvidia/cublas/lib", []file{
			{"libcublasLt.so.12", 751771728, "10b5e6631cf8115c661eb895ed1533826308b58f7956466f53d236a40c9b622c"},
			{"libcublas.so.12", 116388640, "031ce6c2cbfbb9468f040527cab5c599069ce5609e73e28f87503881063eac21"},
		}},
		{"nvidia-curand-cu12", "10.3.9.90", 64, "nvidia/curand/lib", []file{{"libcurand.so.10", 136749240,
			"f9bea038a2703b721571fd45a299a898141fd8cb264a5912635c95116f5960fe"}}},
		{"nvidia-cufft-cu12", "11.3.3.83", 194, "nvidia/cufft/lib", []file{{"libcufft.so.11", 278925016,
			"5c912146449614f9d73ebd1a5cb604242da6b819d94ba5b4a99272a0649f3761"}}},
		{"nvidia-nvjitlink-cu12", "12.8.93", 40, "nvidia/nvjitlink/lib", []file{{"libnvJitLink.so.12", 94101392,
			"0369e6867d44b800437de4e146d72c65afc6c75adf677a15c2ecd8e6a7ac135f"}}},
		{"nvidia-cuda-nvrtc-cu12", "12.8.93", 89, "nvidia/cuda_nvrtc/lib", []file{
			{"libnvrtc.so.12", 104487248, "43731e24cd89e3749826304f304e8aa11fbecf1188715271b1f5018d6212b5e6"},
			{"libnvrtc-builtins.so.12.8", 6338504, "eccaa824230ee7858a94a3055cb01f1cb634df05d313880d0bdcf195161fcb4e"},
		}},
		{"nvidia-cudnn-cu12", "9.10.2.21", 707, "nvidia/cudnn/lib", []file{
			{"libcudnn.so.9", 125136, "3b68ea689be647bce63cb3c2d9edb589add415405a7e9f296d69ca029cae0b8b"},
			{"libcudnn_adv.so.9", 285226600, "9814d64e04fce1f6cbd16d02ccefd6611541b3c61736fb450e334b482635ca07"},
			{"libcudnn_cnn.so.9", 6301096, "655c2d2649466c73b6b4c19705fb6906fd95e331a1f8218314b49f37dd7cafed"},
			{"libcudnn_engines_precompiled.so.9", 547383096,
				"f504745d346542609f975de51227080647d3675eac576ead82c396b8124f8f28"},
			{"libcudnn_engines_runtime_compiled.so.9", 23094328,
				"8222672743c4f2e39feb1c365d6f6b6c40f56023471506f49944910847f1ee0a"},
			{"libcudnn_graph.so.9", 4439912, "787c955dce49091ead850e4536666594095ea9f92a8a08879d8ddad466674657"},
			{"libcudnn_heuristic.so.9", 58726712, "2804eee5f6fc11d0299ba07687eda0a974d3b2436357c639706c4e282cc2cc05"},
			{"libcudnn_ops.so.9", 127936080, "34f56d67f3df108949d1e5e03543064e055e217d0f5e53dc6d4f7c9454d852f8"},
		}},
	}}},
}}
