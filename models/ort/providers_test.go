package ort

import (
	"slices"
	"strings"
	"testing"
)

// The probe is the network that a check assumes.
func TestProbe(t *testing.T) {
	if sum, err := sumOfProbe(newPool(t, 1, 1), false); err != nil || sum != probeSum {
		t.Errorf("it adds up to %v, not %v (%v)", sum, probeSum, err)
	}
}

// A check that fails says why in a clear line, and a pool's programs then fail with the same words.
func TestProviders(t *testing.T) {
	for i, row := range Providers {
		on := Target{Provider: row.Name, Precision: Float32}
		if on.Row() != row || on.OnCPU() != (i == 0) || releases()[row.Name].Builds == nil ||
			(row.use == nil) != (i == 0) || i > 0 && (slices.Index(row.Precisions, Float32) != 0 || row.bring == "") {
			t.Errorf("%+v", row)
		}
		for _, name := range row.Precisions {
			if FindPrecision(name).Name != name {
				t.Errorf("%s has an unknown precision %s", row.Name, name)
			}
		}
		err := on.Check()
		p := newPool(t, 0, 4, On(on))
		if p.Target(true) != on || row.Device() && p.Workers() != 2 {
			t.Errorf("the pool runs on %+v with %d workers", p.Target(true), p.Workers())
		}
		add, failed := p.Compile("add", readModel(t, "add"), ForAttacks())
		if failed == nil {
			failed = p.Run(t.Context(), add, [][]float32{image(1, 4), image(2, 4)}, room(add.Outputs()))
		}
		if err == nil {
			if failed != nil {
				t.Errorf("checked, but %v", failed)
			}
			continue
		}
		why := strings.TrimPrefix(err.Error(), "run probe: ")
		if failed == nil || !strings.HasSuffix(failed.Error(), " add: "+why) {
			t.Errorf("the check says\n%v\na program\n%v", err, failed)
		}
		if strings.ContainsAny(why, "\n\r") || strings.Contains(why, "onnxruntime_src") {
			t.Errorf("not one clear line: %q", err)
		}
		if row.Device() && (Target{Provider: row.Name, Device: 1 << 20}).Check() == nil {
			t.Error("there is a device 1048576")
		}
	}
}
