package ort

const (
	// minVersion is the oldest that serves: onnxruntime_go asks for API 24.
	minVersion = "1.24"
	// pipPython is the Python whose wheel is asked for. Any would do, but each
	// wheel's library is another build, and the checksum is of this one's.
	pipPython = "311"
)

// release is a build of ONNX Runtime that is provisioned.
type release struct {
	name, version string
	packages      map[string]carrier // by client
	pins          map[string]pin     // by GOOS-GOARCH
}

// carrier is a client's package with the library.
type carrier struct {
	name      string
	megabytes int // of the download, for the user
}

// plain has the CPU provider, openVINO Intel's too.
var (
	plain = release{"onnxruntime", "1.27.0",
		map[string]carrier{"npm": {"onnxruntime-node", 100}, "pip": {"onnxruntime", 20}}, pins}
	openVINO = release{"onnxruntime-openvino", "1.24.1",
		map[string]carrier{"pip": {"onnxruntime-openvino", 84}}, openVINOPins}
)

// source is what one package holds for one platform: the library, and the files that belong beside it.
type source []member

// member is a file of an archive.
type member struct {
	path   string // inside the archive
	size   int64  // bytes
	sha256 string
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
		"npm": {{"package/bin/napi-v6/linux/x64/libonnxruntime.so.1", 38023776,
			"d8aff4aa8abee8fb2abb2f2f2459ffc94461e781e41b9f7c072829dd0d470221"}},
		"pip": {{"onnxruntime/capi/libonnxruntime.so.1.27.0", 23658512,
			"b5c9d4f124d24707f514dad926dc181820807178855df1c528e3addb2dd0e6f7"}},
	}},
	"linux-arm64": {"libonnxruntime.so", "manylinux_2_28_aarch64", map[string]source{
		"npm": {{"package/bin/napi-v6/linux/arm64/libonnxruntime.so.1", 20001880,
			"c36bc200e7e6c093b8abb0b34590fbdd8c52fd3fb5e33795b9523ffdde2fce0f"}},
		"pip": {{"onnxruntime/capi/libonnxruntime.so.1.27.0", 20001880,
			"9275ef52956228686ae47b0219f67476a1148505084bdc5571e7bf1bf69b11f2"}},
	}},
	"darwin-arm64": {"libonnxruntime.dylib", "macosx_14_0_arm64", map[string]source{
		"npm": {{"package/bin/napi-v6/darwin/arm64/libonnxruntime.1.27.0.dylib", 38800984,
			"89f692a3a1a224e4ad0b796b0e7c0bd81113b0741bfe84211eceef14d05a9e59"}},
		"pip": {{"onnxruntime/capi/libonnxruntime.1.27.0.dylib", 29651448,
			"3d832017d60a8a1e078f7051ea3601374453f5451ffe95b70db1131aa7d37e06"}},
	}},
	"windows-amd64": {"onnxruntime.dll", "win_amd64", map[string]source{
		"pip": {{"onnxruntime/capi/onnxruntime.dll", 17320760,
			"7b9ef55ecaa67ea48e7b0cbe06c926a2046510eef45bbddc35bb9b02f6de3f81"}},
	}},
	"windows-arm64": {"onnxruntime.dll", "win_arm64", map[string]source{
		"pip": {{"onnxruntime/capi/onnxruntime.dll", 17104224,
			"17db1cb527389a0b50ffcf34425543c70167b8d2dc64385d0fe7302f151baa89"}},
	}},
}

// openVINOPins: a wheel for Windows exists, but needs OpenVINO's own beside it.
var openVINOPins = map[string]pin{
	"linux-amd64": {"libonnxruntime.so", "manylinux_2_28_x86_64", map[string]source{"pip": {
		{"onnxruntime/capi/libonnxruntime.so.1.24.1", 31260360,
			"2d963a419b96018b79dfe63bb50120ddcb724149912a8a6d8ac747a557c089f4"},
		{"onnxruntime/capi/libonnxruntime_providers_openvino.so", 2000856,
			"bf0159d2681d76e7de03fbd302a9204e5490f30816bd41826d57acf7a8dff363"},
		{"onnxruntime/capi/libonnxruntime_providers_shared.so", 15776,
			"5e02c1ff90e7d71365264dbb6767c00f04a8b57a96cddbc0085c61fa1393250d"},
		{"onnxruntime/capi/libopenvino.so.2541", 25284089,
			"ac9634b715a242a61644c77bc38f17508fe73f517e418027e2410f4bee004943"},
		{"onnxruntime/capi/libopenvino_intel_cpu_plugin.so", 67008289,
			"034df890550ae9199fe5f8608c0df8fd0fe355f303bad56bea10bae14c14c3cb"},
		{"onnxruntime/capi/libopenvino_onnx_frontend.so.2541", 7006249,
			"f426710881d8c1a01d5ed6d7eaa076d923b19983d3ab3a18bb19d25dba7d8923"},
		{"onnxruntime/capi/libtbb.so.12", 367649,
			"6781dc6aa8b2ca237d0164258e70266a44667756c02a9a039782ec1d1a67b653"},
	}}},
}
