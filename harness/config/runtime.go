package config

// The execution providers of ONNX Runtime.
const (
	CPU  = "cpu"
	CUDA = "cuda"
)

// Providers are the values of runtime.provider.
var Providers = []string{CPU, CUDA}

// Runtime says how to compute. Only Provider and Winograd, and on CUDA Batch, have
// a say in how a result is rounded.
type Runtime struct {
	Provider string // one of [Providers]
	Device   int    // of CUDA, from 0
	Workers  int    // runs side by side; 0: as many as keep all cores busy, one on CUDA
	Batch    int    // images in a run, at most; on CUDA exactly
	Threads  int    // that work on a run
	Winograd bool   // rewrite convolutions for the CPU; false on CUDA
}

var defaultRuntime = Runtime{Provider: CPU, Batch: 64, Threads: 1, Winograd: true}

func (d *decoder) runtime(n *node, where string) Runtime {
	r := defaultRuntime
	d.object(n, where,
		optional("provider", d.enum(&r.Provider, Providers)),
		optional("device", d.integer(&r.Device, 0)),
		optional("workers", d.integer(&r.Workers, 0)),
		optional("batch", d.integer(&r.Batch, 1)),
		optional("threads", d.integer(&r.Threads, 1)),
		optional("winograd", d.boolean(&r.Winograd)),
	)
	if r.Provider == CUDA {
		if v := n.get("winograd"); v != nil && r.Winograd {
			d.fail(v.pos, "%s can't be true with provider %s: it is a form of convolutions for the CPU; remove it (or --set %s=null)",
				join(where, "winograd"), CUDA, join(where, "winograd"))
		}
		r.Winograd = false
	} else if v := n.get("device"); v != nil {
		d.fail(v.pos, "%s can't be given with provider %s: it is the number of a CUDA device; remove it (or --set %s=null)",
			join(where, "device"), r.Provider, join(where, "device"))
	}
	return r
}
