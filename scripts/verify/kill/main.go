// Command kill kills runs of selfheal at random moments, some of them inside a write, gives each command again
// and compares the end with an undisturbed run's: records.jsonl and gallery.json are the same byte by byte, and
// results.json is but for times.
//
//	go run ./scripts/verify/kill                          # 50 kills over the bundled suites
//	go run ./scripts/verify/kill -real ../shared/real     # and over real networks' config.yaml there
package main

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"selfheal/internal/sameend"
)

// cases are runs of seconds: an oblivious and a white-box suite, a solver study, several seeds.
var cases = [][]string{
	{"--limit", "3"},
	{"--limit", "3", "--suite", "greedy", "--suite", "msa",
		"--set", "suites.msa.modes=[whitebox-detached]"},
	{"--limit", "2", "--suite", "bundled-table2-standard", "--set",
		"suites.bundled-table2-standard.models=[preact-standard]"},
	{"--limit", "4", "--set", "seeds=3", "--set", "suites.bundled.attacks=[aa-l2]"},
}

func main() {
	kills := flag.Int("n", 50, "kills")
	torn := flag.Int("torn", 10, "how many of them inside a write")
	real := flag.String("real", "", "folder of real networks with a config.yaml")
	seed := flag.Uint64("seed", uint64(time.Now().UnixNano()), "of the moments")
	flag.Parse()
	if *real != "" {
		cases = append(cases, []string{"--config", filepath.Join(*real, "config.yaml"), "--limit", "2"})
	}
	fmt.Println("seed", *seed)
	if err := try(*kills, *torn, rand.New(rand.NewPCG(*seed, 0))); err != nil {
		fmt.Fprintln(os.Stderr, "kill:", err)
		os.Exit(1)
	}
}

// trial is a run that is killed and compared.
type trial struct {
	args      []string // of the run, without --out
	reference string   // folder of the undisturbed run
	took      time.Duration
}

func try(kills, torn int, rng *rand.Rand) error {
	dir, err := os.MkdirTemp("", "selfheal-kill-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	plain, faulty := filepath.Join(dir, "selfheal"), filepath.Join(dir, "selfheal-faults")
	for _, build := range [][]string{{"-o", plain, "."}, {"-tags", "faults", "-o", faulty, "."}} {
		if out, err := exec.Command("go", append([]string{"build"}, build...)...).CombinedOutput(); err != nil {
			return fmt.Errorf("go build: %w\n%s", err, out)
		}
	}
	var trials []trial
	for i, args := range cases {
		t := trial{args: append([]string{"run", "--quiet"}, args...),
			reference: filepath.Join(dir, fmt.Sprint("whole", i))}
		start := time.Now()
		if err := t.run(plain, t.reference); err != nil {
			return err
		}
		t.took = time.Since(start)
		fmt.Printf("undisturbed, %s: %v\n", t.args[2:], t.took.Round(time.Millisecond))
		trials = append(trials, t)
	}
	failed := 0
	for k := range kills {
		t := trials[k%len(trials)]
		out := filepath.Join(dir, fmt.Sprint("killed", k))
		binary := plain
		if k < torn {
			binary = faulty
		}
		times := 1 + k%3/2 // every third run is killed twice
		var moments []string
		for range times {
			moment, err := t.kill(binary, out, rng)
			if err != nil {
				return err
			}
			moments = append(moments, moment)
		}
		err := t.run(plain, out)
		if err == nil {
			err = sameend.Check(t.reference, out)
		}
		word := "equal"
		if err != nil {
			failed++
			word = err.Error()
		}
		fmt.Printf("%d of %d, %s, killed %s: %s\n", k+1, kills, t.args[2:], moments, word)
		if err := os.RemoveAll(out); err != nil {
			return err
		}
	}
	if failed > 0 {
		return fmt.Errorf("%d of %d killed runs came to another end", failed, kills)
	}
	fmt.Printf("%d of %d killed runs came to the end of the undisturbed ones\n", kills, kills)
	return nil
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
