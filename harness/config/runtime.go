package config

import (
	"fmt"
	"slices"
	"strings"

	"selfheal/models/ort"
)

// The default of runtime.provider, and of runtime.precision for a provider with several.
const (
	CPU     = ort.ProviderCPU
	Float32 = ort.Float32
)

// Providers are the values of runtime.provider.
var Providers = slices.Sorted(slices.Values(ort.Names()))

// Runtime configures the computation. Only Provider and Winograd, and Batch on a device, change how a result is
// rounded.
type Runtime struct {
	Provider  string // one of [Providers]
	Device    int    // its number, from 0
	Workers   int    // concurrent runs; 0: as many as keep all cores busy, two on a device
	Batch     int    // most images in a run; on a device exactly so many, and 0 is as many as fit, up to 256
	Threads   int    // threads of a run
	Winograd  bool   // rewrite convolutions for the CPU; false on a device
	Precision string // of attacks' passes; "" on the CPU
}

// Reduced returns the precision of attacks' passes if it is less than float32, the judge's; else "".
func (r Runtime) Reduced() string {
	if r.Precision == Float32 {
		return ""
	}
	return r.Precision
}

// Target returns the device for attacks.
func (r Runtime) Target() ort.Target {
	return ort.Target{Provider: r.Provider, Device: r.Device, Precision: r.Precision}
}

func (r *Runtime) object() object {
	devices, processors := providers((*ort.Provider).Device)
	direct, rewritten := providers(func(p *ort.Provider) bool { return p.All && p.Direct })
	off := boolean(&r.Winograd).then(func(d *decoder, n *node, where string) {
		if r.Winograd {
			d.fail(n.pos, "%s can't be true with provider %s: Winograd's method is for the CPU", where, r.Provider)
		}
	})
	off.want, off.schema = "false", func() schema { return schema{"const": false} }
	rows := []row{
		optional("provider", choice(&r.Provider, Providers), CPU, "ONNX Runtime's execution provider"),
		optional("workers", whole(&r.Workers, orNone), "0", "passes side by side, four a core at most; 0: cores ÷ "+
			"`threads`, two on `"+strings.Join(devices, "` and `")+"`").notHashed(),
		optional("batch", count(&r.Batch), "64", "most images in a pass").in(processors...).notHashed(),
		optional("batch", whole(&r.Batch, orNone), "0", "images in every pass; 0: 256, or as many as fit into the "+
			"device's memory").in(devices...),
		optional("threads", count(&r.Threads), "1",
			"threads of one pass, four a core at most").notHashed(),
		optional("winograd", boolean(&r.Winograd), "true",
			"rewrite convolutions where that is faster, 3×3 ones by Winograd's method").in(rewritten...),
		optional("winograd", off, "", "only on the CPU").in(direct...),
	}
	for _, p := range ort.Providers {
		if p.Precisions != nil {
			rows = append(rows, optional("precision", choice(&r.Precision, p.Precisions), Float32,
				"precision of attacks' passes"+kept(p.Precisions[1:])).in(p.Name))
		}
		if p.Device() {
			rows = append(rows, optional("device", whole(&r.Device, orNone), "0",
				"the "+p.Title+" device").in(p.Name).notHashed())
		}
	}
	return object{forms: formsBy("provider", Providers), rows: rows}
}

// providers returns the names of the providers that have a property, and of the others.
func providers(have func(p *ort.Provider) bool) (names, others []string) {
	for _, p := range ort.Providers {
		if have(p) {
			names = append(names, p.Name)
		} else {
			others = append(others, p.Name)
		}
	}
	return names, others
}

// kept describes which values precisions below float32 keep.
func kept(precisions []string) (doc string) {
	sep := ": "
	for _, name := range precisions {
		p := ort.FindPrecision(name)
		doc += fmt.Sprintf("%s%s keeps %d bits of a number's mantissa", sep, name, p.Bits)
		if p.Instructions {
			doc += ", and is for processors that have instructions for it"
		}
		sep = "; "
	}
	return doc
}
