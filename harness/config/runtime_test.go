package config

import "testing"

func TestRuntime(t *testing.T) {
	for _, c := range []struct {
		sets []string
		want Runtime
	}{
		{[]string{"runtime=null"}, Runtime{"cpu", 0, 0, 64, 1, true}},
		{nil, Runtime{"cpu", 0, 0, 64, 1, true}},
		{[]string{"runtime.threads=4", "runtime.winograd=false"}, Runtime{"cpu", 0, 0, 64, 4, false}},
		{[]string{"runtime.provider=cuda"}, Runtime{"cuda", 0, 0, 64, 1, false}},
		{[]string{"runtime.provider=cuda", "runtime.device=3", "runtime.winograd=false"},
			Runtime{"cuda", 3, 0, 64, 1, false}},
	} {
		if got := mustParse(t, small, c.sets...).Runtime; got != c.want {
			t.Errorf("%v: %+v, not %+v", c.sets, got, c.want)
		}
	}
}

// The hash has what rounds differently, and only that.
func TestHashOfRuntime(t *testing.T) {
	same := func(what string, equal bool, a, b string) {
		if (a == b) != equal {
			t.Errorf("%s: the same hash is %v", what, a == b)
		}
	}
	cpu := hash(t, small, 0)
	same("threads", true, cpu, hash(t, small, 0, "runtime.threads=3"))
	same("winograd given", true, cpu, hash(t, small, 0, "runtime.winograd=true"))
	same("winograd off", false, cpu, hash(t, small, 0, "runtime.winograd=false"))
	cuda := hash(t, small, 0, "runtime.provider=cuda")
	same("provider", false, cpu, cuda)
	same("provider, both direct", false, cuda, hash(t, small, 0, "runtime.winograd=false"))
	same("device, workers and threads", true, cuda, hash(t, small, 0, "runtime.provider=cuda", "runtime.device=1",
		"runtime.workers=2", "runtime.threads=2"))
	same("batch on CUDA", false, cuda, hash(t, small, 0, "runtime.provider=cuda", "runtime.batch=32"))
}
