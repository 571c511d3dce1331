package harness_test

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
	"time"

	"selfheal/harness/run"
	"selfheal/internal/lists"
	"selfheal/internal/must"
	"selfheal/internal/testinput"
	"selfheal/internal/testplan"
)

// resident returns the process's memory now, or its peak so far, in bytes.
func resident(t *testing.T, what string) int64 {
	t.Helper()
	status := string(must.Get(os.ReadFile("/proc/self/status"))(t))
	_, after, _ := strings.Cut(status, what+":")
	return 1024 * int64(must.Get(strconv.Atoi(strings.Fields(after)[0]))(t))
}

// soak returns how long the tests of this file run, and skips them by default: SELFHEAL_TEST_SOAK=30m.
func soak(t *testing.T) time.Duration {
	t.Helper()
	text := os.Getenv("SELFHEAL_TEST_SOAK")
	if text == "" {
		t.Skip("SELFHEAL_TEST_SOAK says for how long, as 30m (with -timeout 0)")
	}
	testinput.Runtime(t)
	return must.Get(time.ParseDuration(text))(t)
}

// Over many runs at full load, neither memory nor goroutines grow: their peaks in the last sixth of the time equal
// those in the first, to 5 %.
func TestSoak(t *testing.T) {
	long := soak(t)
	began := time.Now()
	type peak struct {
		memory     int64
		goroutines int
	}
	var peaks [6]peak
	done := make(chan struct{})
	go func() {
		defer close(done)
		for time.Since(began) < long {
			time.Sleep(time.Second)
			p := &peaks[min(5, int(6*time.Since(began)/long))]
			p.memory, p.goroutines = max(p.memory, resident(t, "VmRSS")), max(p.goroutines, runtime.NumGoroutine())
		}
	}()
	p := testplan.Plan(t, testplan.Resumed, 0, 64, "datasets.test.limit=100", "suites.given.models=[robust, standard]",
		"suites.through.controls=[msa]", "suites.through.attacks=[aa]")
	runs := 0
	for ; time.Since(began) < long; runs++ {
		dir := filepath.Join(t.TempDir(), "out")
		must.Get(run.Run(context.Background(), p, run.Options{Out: dir}))(t)
		must.Do(t, os.RemoveAll(dir))
	}
	<-done
	t.Logf("%d runs in %v", runs, time.Since(began).Round(time.Second))
	for i, p := range peaks {
		t.Logf("sixth %d: %d MiB, %d goroutines", i+1, p.memory>>20, p.goroutines)
	}
	first, last := peaks[0], peaks[5]
	if float64(last.memory) > 1.05*float64(first.memory) || float64(last.goroutines) > 1.05*float64(first.goroutines) {
		t.Errorf("the peaks have grown from %+v to %+v", first, last)
	}
}

// Many images take as much memory as few, undefended and under controls. The peak of few is the median of three runs,
// as a run of seconds may end before its passes and the collector hold their most.
func TestManyImages(t *testing.T) {
	soak(t)
	debug.SetGCPercent(run.GCPercent)
	for _, c := range []struct {
		name string
		sets []string
	}{
		{"alone", []string{"suites.given.controls=[]",
			"attacks.aa={kind: pgd, norm: linf, epsilon: 4/255, steps: 10}"}},
		{"controlled", []string{"attacks.aa={kind: pgd, norm: linf, epsilon: 4/255, steps: 2}"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			peak := func(n int) int64 {
				p := testplan.Many(t, n, testplan.Resumed, append(c.sets, "default_suites=[given]", "seeds=1",
					"save_adversarial=false", "suites.given.solver=null")...)
				debug.FreeOSMemory()
				must.Do(t, os.WriteFile("/proc/self/clear_refs", []byte("5"), 0)) // the peak begins anew
				start := time.Now()
				must.Get(run.Run(context.Background(), p, run.Options{Out: filepath.Join(t.TempDir(), "out")}))(t)
				most := resident(t, "VmHWM")
				t.Logf("%d images: %d MiB at most, %v", n, most>>20, time.Since(start).Round(time.Second))
				return most
			}
			peak(500) // to warm up
			few := lists.Median([]float64{float64(peak(500)), float64(peak(500)), float64(peak(500))})
			ratio := float64(peak(10_000)) / few
			t.Logf("10,000 images take %.3f times the memory of 500", ratio)
			if ratio > 1.1 {
				t.Error("that is more than 1.1")
			}
		})
	}
}
