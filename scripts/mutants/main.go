// Command mutants asks whether tests fail where the code does. From each package it draws mutants of gremlins, such as
// < for <=, by a fixed seed, and runs the package's own tests on each:
//
//	go run ./scripts/mutants -out mutants                          # 200 of eight packages
//	go run ./scripts/mutants -out mutants -each 40 harness/stats   # 40 of one
//
// Gremlins lists the mutants. It has no seed and runs all that it lists, thousands here, so they are run from here, by
// an overlay of the mutated file: the checkout stays as it is. Verdicts go to OUT/mutants.tsv; a second call goes on
// where the first one ended. It exits with 1 where fewer than -least of a hundred are killed.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

const gremlins = "github.com/go-gremlins/gremlins/cmd/gremlins@v0.6.0"

var usual = []string{"harness/stats", "harness/gate", "harness/judge", "attacks", "harness/run", "models/grad",
	"models/bounds", "control"}

// becomes is what each kind of mutant makes of a token, as gremlins does.
var becomes = map[string]map[string]string{
	"ARITHMETIC_BASE":       {"+": "-", "-": "+", "*": "/", "/": "*", "%": "*"},
	"CONDITIONALS_BOUNDARY": {">=": ">", ">": ">=", "<=": "<", "<": "<="},
	"CONDITIONALS_NEGATION": {"==": "!=", "!=": "==", ">=": "<", ">": "<=", "<=": ">", "<": ">="},
	"INCREMENT_DECREMENT":   {"++": "--", "--": "++"},
	"INVERT_ASSIGNMENTS":    {"+=": "-=", "-=": "+=", "*=": "/=", "/=": "*="},
	"INVERT_LOGICAL":        {"&&": "||", "||": "&&"},
	"INVERT_LOOPCTRL":       {"break": "continue", "continue": "break"},
	"INVERT_NEGATIVES":      {"-": "+"},
}

// Verdicts on a mutant. One that does not build is replaced by the next.
const (
	killed   = "killed"
	timedOut = "timed out"
	survived = "survived"
	unbuilt  = "does not build"
)

// mutant is a token's replacement in a file.
type mutant struct {
	pkg, file string
	line, col int
	was, is   string
}

// String is the mutant in the table: package, place, token and replacement.
func (m mutant) String() string {
	return fmt.Sprintf("%s\t%s:%d:%d\t%s\t%s", m.pkg, m.file, m.line, m.col, m.was, m.is)
}

func main() {
	out := flag.String("out", "mutants", "folder of the lists and of mutants.tsv")
	each := flag.Int("each", 25, "mutants of a package")
	seed := flag.Uint64("seed", 1, "of the draw")
	least := flag.Float64("least", 90, "killed mutants of a hundred, at least")
	flag.Parse()
	packages := flag.Args()
	if len(packages) == 0 {
		packages = usual
	}
	if err := run(*out, packages, *each, *seed, *least); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

func run(out string, packages []string, each int, seed uint64, least float64) error {
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	out, err := filepath.Abs(out)
	if err != nil {
		return err
	}
	table := filepath.Join(out, "mutants.tsv")
	known := map[string]string{}
	data, err := os.ReadFile(table)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	for line := range strings.Lines(string(data)) {
		if f := strings.Split(line, "\t"); len(f) == 6 {
			known[strings.Join(f[:4], "\t")] = f[4]
		}
	}
	f, err := os.OpenFile(table, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer f.Close()
	dead, all := 0, 0
	for _, pkg := range packages {
		of := tests{pkg: pkg, out: out}
		drawn, err := list(out, pkg)
		if err != nil {
			return err
		}
		rng := rand.New(rand.NewPCG(seed, uint64(len(drawn))))
		rng.Shuffle(len(drawn), func(i, j int) { drawn[i], drawn[j] = drawn[j], drawn[i] })
		tried := 0
		for _, m := range drawn {
			if tried == each {
				break
			}
			verdict, ok := known[m.String()]
			if !ok {
				start := time.Now()
				if verdict, err = of.try(m); err != nil {
					return err
				}
				if _, err := fmt.Fprintf(f, "%s\t%s\t%.0f\n", m, verdict, time.Since(start).Seconds()); err != nil {
					return err
				}
			}
			if verdict == unbuilt {
				continue
			}
			if tried++; verdict == survived {
				fmt.Println(m)
			} else {
				dead++
			}
		}
		all += tried
	}
	share := 100 * float64(dead) / float64(max(all, 1))
	fmt.Printf("%d of %d mutants are killed (%.1f %%)\n", dead, all, share)
	if share < least {
		return fmt.Errorf("fewer than %v %% are", least)
	}
	return nil
}

// list is all mutants of a package, in order. Gremlins is asked once, without the tests that it runs for their
// coverage.
func list(out, pkg string) (all []mutant, err error) {
	path := filepath.Join(out, strings.ReplaceAll(pkg, "/", "-")+".json")
	data, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		c := exec.Command("go", "run", gremlins, "unleash", "--dry-run", "--silent", "--invert-logical",
			"--invert-assignments", "--invert-loopctrl", "--output", path, "./"+pkg)
		c.Env = append(os.Environ(), "GOFLAGS="+strings.TrimSpace(os.Getenv("GOFLAGS")+" -run=^$"))
		if text, err := c.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("gremlins on %s: %w\n%s", pkg, err, text)
		}
		data, err = os.ReadFile(path)
	}
	if err != nil {
		return nil, err
	}
	var listed struct {
		Files []struct {
			Name      string `json:"file_name"`
			Mutations []struct {
				Type   string
				Line   int
				Column int
			}
		}
	}
	if err := json.Unmarshal(data, &listed); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	for _, f := range listed.Files {
		if strings.Contains(f.Name, "/") { // another package's
			continue
		}
		text, err := os.ReadFile(filepath.Join(pkg, f.Name))
		if err != nil {
			return nil, err
		}
		lines := bytes.SplitAfter(text, []byte("\n"))
		for _, m := range f.Mutations {
			one := mutant{pkg: pkg, file: f.Name, line: m.Line, col: m.Column}
			for was, is := range becomes[m.Type] {
				at := lines[m.Line-1][m.Column-1:]
				if bytes.HasPrefix(at, []byte(was)) && len(was) > len(one.was) {
					one.was, one.is = was, is
				}
			}
			if one.was == "" {
				return nil, fmt.Errorf("%s:%d:%d is no %s: remove %s", f.Name, m.Line, m.Column, m.Type, path)
			}
			all = append(all, one)
		}
	}
	slices.SortFunc(all, func(a, b mutant) int { return strings.Compare(a.String(), b.String()) })
	return slices.Compact(all), nil // a minus is both arithmetic and a sign
}

// tests are a package's.
type tests struct {
	pkg, out string
	limit    time.Duration // processor time of a mutant's; 0 before the code as it is was tested
}

// memory bounds what a mutant that never ends may take, in KiB.
const memory = 12 << 20

// try runs the tests on a mutant. They may take twice the processor time that they take of the code as it is.
func (t *tests) try(m mutant) (verdict string, err error) {
	if t.limit == 0 {
		verdict, took, err := t.run("", time.Hour)
		if err != nil || verdict != survived {
			return "", errors.Join(err, fmt.Errorf("the tests of %s fail as they are: %s", t.pkg, verdict))
		}
		t.limit = 2*took + 10*time.Second
	}
	path := filepath.Join(t.pkg, m.file)
	text, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	lines := bytes.SplitAfter(text, []byte("\n"))
	line := lines[m.line-1]
	lines[m.line-1] = slices.Concat(line[:m.col-1], []byte(m.is), line[m.col-1+len(m.was):])
	mutated := filepath.Join(t.out, "mutated.go")
	if err := os.WriteFile(mutated, bytes.Join(lines, nil), 0o644); err != nil {
		return "", err
	}
	if path, err = filepath.Abs(path); err != nil {
		return "", err
	}
	data, err := json.Marshal(map[string]map[string]string{"Replace": {path: mutated}})
	if err != nil {
		return "", err
	}
	overlay := filepath.Join(t.out, "overlay.json")
	if err := os.WriteFile(overlay, data, 0o644); err != nil {
		return "", err
	}
	verdict, _, err = t.run(overlay, t.limit)
	return verdict, err
}

// run runs the tests under an overlay, and tells how much processor time they took.
func (t *tests) run(overlay string, limit time.Duration) (verdict string, took time.Duration, err error) {
	binary := filepath.Join(t.out, "mutant.test")
	if out, err := exec.Command("go", "test", "-c", "-vet=off", "-ldflags=-s -w", "-overlay", overlay, "-o", binary,
		"./"+t.pkg).CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "%s", out)
		return unbuilt, 0, nil
	}
	c := exec.Command("sh", "-c", fmt.Sprintf("ulimit -v %d; ulimit -t %d; exec %s -test.short -test.failfast "+
		"-test.timeout 30m", memory, int(limit.Seconds()), binary))
	c.Dir = t.pkg
	out, err := c.CombinedOutput()
	if c.ProcessState == nil {
		return "", 0, err
	}
	took = c.ProcessState.UserTime() + c.ProcessState.SystemTime()
	switch {
	case err == nil:
		return survived, took, nil
	case took >= limit || bytes.Contains(out, []byte("test timed out")):
		return timedOut, took, nil
	}
	return killed, took, nil
}
