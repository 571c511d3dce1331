package cli

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"selfheal/internal/must"
	"selfheal/internal/sameend"
	"selfheal/internal/testinput"
)

// killed are runs of seconds: an oblivious and a white-box suite, a solver study, several seeds.
var killed = [][]string{
	{"--limit", "3"},
	{"--limit", "3", "--suite", "greedy", "--suite", "msa",
		"--set", "suites.msa.modes=[whitebox-detached]"},
	{"--limit", "2", "--suite", "bundled-table2-standard", "--set",
		"suites.bundled-table2-standard.models=[preact-standard]"},
	{"--limit", "4", "--set", "seeds=3", "--set", "suites.bundled.attacks=[aa-l2]"},
}

// trial is a run that is killed and compared.
type trial struct {
	args      []string // of the run, without --out
	reference string   // folder of the undisturbed run
	took      time.Duration
}

// SELFHEAL_TEST_KILLS=50 kills so many runs at random moments, the first fifth inside a write, gives each command again
// and compares the end with an undisturbed run's. SELFHEAL_TEST_KILLED=DIR has real networks' config.yaml killed, too.
func TestKills(t *testing.T) {
	kills, err := strconv.Atoi(os.Getenv("SELFHEAL_TEST_KILLS"))
	if err != nil {
		t.Skip("SELFHEAL_TEST_KILLS says how many runs to kill")
	}
	if real := os.Getenv("SELFHEAL_TEST_KILLED"); real != "" {
		killed = append(killed, []string{"--config", filepath.Join(real, "config.yaml"), "--limit", "2"})
	}
	t.Chdir(testinput.Root(t))
	seed := uint64(time.Now().UnixNano())
	t.Log("seed", seed)
	rng, dir := rand.New(rand.NewPCG(seed, 0)), t.TempDir()
	plain, faulty := filepath.Join(dir, "selfheal"), filepath.Join(dir, "selfheal-faults")
	for _, build := range [][]string{{"-o", plain, "."}, {"-tags", "faults", "-o", faulty, "."}} {
		if out, err := exec.Command("go", append([]string{"build"}, build...)...).CombinedOutput(); err != nil {
			t.Fatalf("go build: %v\n%s", err, out)
		}
	}
	var trials []trial
	for i, args := range killed {
		one := trial{args: append([]string{"run", "--quiet"}, args...),
			reference: filepath.Join(dir, fmt.Sprint("whole", i))}
		start := time.Now()
		must.Do(t, one.run(plain, one.reference))
		one.took = time.Since(start)
		trials = append(trials, one)
	}
	for k := range kills {
		one, out, binary := trials[k%len(trials)], filepath.Join(dir, fmt.Sprint("killed", k)), plain
		if k < kills/5 {
			binary = faulty
		}
		var moments []string
		for range 1 + k%3/2 { // every third run is killed twice
			moments = append(moments, must.Get(one.kill(binary, out, rng))(t))
		}
		must.Do(t, one.run(plain, out))
		if err := sameend.Check(one.reference, out); err != nil {
			t.Errorf("%s, killed %s: %v", one.args[2:], moments, err)
		}
		t.Logf("%d of %d, %s, killed %s", k+1, kills, one.args[2:], moments)
		must.Do(t, os.RemoveAll(out))
	}
}

// run runs to the end.
func (t trial) run(binary, out string) error {
	if text, err := exec.Command(binary, append(t.args, "--out", out)...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", t.args, err, text)
	}
	return nil
}

// kill kills a run at a moment, sooner where the run comes to its end before, and says when that was. The
// binary with faults dies in the middle of a write.
func (t trial) kill(binary, out string, rng *rand.Rand) (string, error) {
	write, after := 1+rng.IntN(1000), time.Duration(rng.Float64()*float64(t.took))
	torn := filepath.Base(binary) != "selfheal"
	for ; ; write, after = 1+write/2, after/2 {
		c := exec.Command(binary, append(t.args, "--out", out)...)
		moment := fmt.Sprintf("after %.2f s", after.Seconds())
		if torn {
			c.Env = append(os.Environ(), "SELFHEAL_KILL_AT_WRITE="+strconv.Itoa(write))
			moment = fmt.Sprintf("in write %d", write)
		}
		if err := c.Start(); err != nil {
			return "", err
		}
		if !torn {
			time.AfterFunc(after, func() { _ = c.Process.Kill() })
		}
		err := c.Wait()
		var exit *exec.ExitError
		if errors.As(err, &exit) && !exit.Exited() {
			return moment, nil
		}
		if err != nil {
			return "", err
		}
		if err := os.RemoveAll(out); err != nil { // it was finished
			return "", err
		}
	}
}
