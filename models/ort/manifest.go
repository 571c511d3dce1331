package ort

const (
	// pinned is the version of ONNX Runtime that is provisioned.
	pinned = "1.27.0"
	// minVersion is the oldest that serves: onnxruntime_go asks for API 24.
	minVersion = "1.24"
	// npmPackage and pipPackage carry the library.
	npmPackage = "onnxruntime-node"
	pipPackage = "onnxruntime"
	// pipPython is the Python whose wheel is asked for. Any would do, but each
	// wheel's library is another build, and the checksum is of this one's.
	pipPython = "311"
)

// source is where one package holds the library of one platform.
type source struct {
	member string // path inside the archive
	size   int64  // of the library, bytes
	sha256 string // of the library
}

// pin is what is known of one platform. The wheel is named by its platform tag.
type pin struct {
	file, wheel string            // file: name in the cache
	sources     map[string]source // by client; absent: its package has none that serves
}

// pins has a row for each platform, by GOOS-GOARCH. The Windows builds in the
// npm package need DirectML beside them, so they are not used.
var pins = map[string]pin{
	"linux-amd64": {"libonnxruntime.so", "manylinux_2_28_x86_64", map[string]source{
		"npm": {"package/bin/napi-v6/linux/x64/libonnxruntime.so.1", 38023776,
			"d8aff4aa8abee8fb2abb2f2f2459ffc94461e781e41b9f7c072829dd0d470221"},
		"pip": {"onnxruntime/capi/libonnxruntime.so.1.27.0", 23658512,
			"b5c9d4f124d24707f514dad926dc181820807178855df1c528e3addb2dd0e6f7"},
	}},
	"linux-arm64": {"libonnxruntime.so", "manylinux_2_28_aarch64", map[string]source{
		"npm": {"package/bin/napi-v6/linux/arm64/libonnxruntime.so.1", 20001880,
			"c36bc200e7e6c093b8abb0b34590fbdd8c52fd3fb5e33795b9523ffdde2fce0f"},
		"pip": {"onnxruntime/capi/libonnxruntime.so.1.27.0", 20001880,
			"9275ef52956228686ae47b0219f67476a1148505084bdc5571e7bf1bf69b11f2"},
	}},
	"darwin-arm64": {"libonnxruntime.dylib", "macosx_14_0_arm64", map[string]source{
		"npm": {"package/bin/napi-v6/darwin/arm64/libonnxruntime.1.27.0.dylib", 38800984,
			"89f692a3a1a224e4ad0b796b0e7c0bd81113b0741bfe84211eceef14d05a9e59"},
		"pip": {"onnxruntime/capi/libonnxruntime.1.27.0.dylib", 29651448,
			"3d832017d60a8a1e078f7051ea3601374453f5451ffe95b70db1131aa7d37e06"},
	}},
	"windows-amd64": {"onnxruntime.dll", "win_amd64", map[string]source{
		"pip": {"onnxruntime/capi/onnxruntime.dll", 17320760,
			"7b9ef55ecaa67ea48e7b0cbe06c926a2046510eef45bbddc35bb9b02f6de3f81"},
	}},
	"windows-arm64": {"onnxruntime.dll", "win_arm64", map[string]source{
		"pip": {"onnxruntime/capi/onnxruntime.dll", 17104224,
			"17db1cb527389a0b50ffcf34425543c70167b8d2dc64385d0fe7302f151baa89"},
	}},
}
