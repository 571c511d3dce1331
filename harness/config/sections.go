package config

import (
	"selfheal/internal/setting"
)

// object are the settings of the runtime. Its CUDA form has a device and no Winograd.
func (r *Runtime) object() object {
	return object{forms: formsBy("provider", Providers), rows: []row{
		optional("provider", choice(&r.Provider, Providers), CPU, "ONNX Runtime's execution provider"),
		optional("workers", whole(&r.Workers, orNone), "0",
			"model passes side by side; 0: as many as keep all cores busy (cores ÷ `threads`), two on `cuda`").notHashed(),
		optional("batch", whole(&r.Batch, setting.Count), "64", "images in one pass, at most").in(CPU,
			OpenVINO).notHashed(),
		optional("batch", whole(&r.Batch, orNone), "0", "images in one pass, exactly: smaller batches are filled up; "+
			"0: 256, or as many as the device's memory allows").in(CUDA),
		optional("threads", whole(&r.Threads, setting.Count), "1", "threads that work on one pass").notHashed(),
		optional("winograd", boolean(&r.Winograd), "true",
			"rewrite convolutions where that is faster, 3×3 ones by Winograd's method; "+
				"false: they run as the model has them").in(CPU, OpenVINO),
		optional("winograd", custom("false", schema{"const": false}, func(d *decoder, n *node, where string) {
			if boolean(&r.Winograd).decode(d, n, where); r.Winograd {
				d.fail(n.pos, "%s can't be true with provider cuda: Winograd's method is for the CPU", where)
			}
		}), "", "only on the CPU").in(CUDA),
		optional("precision", choice(&r.Precision, []string{Float32, BFloat16}), Float32,
			"of attacks' passes: bf16 keeps 8 bits of a number's mantissa, and is for processors that have "+
				"instructions for it").in(OpenVINO),
		optional("precision", choice(&r.Precision, []string{Float32, TensorFloat32}), Float32,
			"of attacks' passes: tf32 keeps 10 bits of a number's mantissa").in(CUDA),
		optional("device", whole(&r.Device, orNone), "0", "number of the CUDA device").in(CUDA).notHashed(),
	}}
}
