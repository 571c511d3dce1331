// Command mutants asks whether tests fail where the code does. From each package it draws mutants of gremlins, such as
// < for <=, by a fixed seed, and runs the package's own tests that reach it on each:
//
//	go run ./scripts/verify/mutants -out mutants                          # 200 of eight packages
//	go run ./scripts/verify/mutants -out mutants -each 40 harness/stats   # 40 of one
//
// Gremlins lists the mutants. It has no seed and runs all that it lists, thousands here, so they are run from here, by
// an overlay of the mutated file: the checkout stays as it is. Verdicts go to OUT/mutants.tsv; a second call goes on
// where the first one ended. It exits with 1 where fewer than -least of a hundred are killed.
package main

import (
	"bytes"
	"cmp"
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

// besides are folders of tests of a package's that can't lie in it, since what they use imports it.
var besides = map[string][]string{"models/grad": {"models/grad/gradtest"}}

// becomes gives the token that each kind of mutant puts in a token's place, as gremlins does.
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
	if err := draw(*out, packages, *each, *seed, *least); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

// draw tries mutants of packages.
func draw(out string, packages []string, each int, seed uint64, least float64) error {
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
		of := tests{pkg: pkg, out: out, folders: append([]string{pkg}, besides[pkg]...)}
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

// tests are a package's own, the quickest first.
type tests struct {
	pkg, out string
	folders  []string
	each     []test
}

// test is one of a package's: the processor time that it takes, and what it reaches.
type test struct {
	in, name string
	took     time.Duration
	runs     []block
}

// block is a piece of a file that runs as one, as coverage profiles have it.
type block struct {
	file                string
	line, col, end, eol int
	runs                bool
}

func (b block) holds(m mutant) bool {
	return b.file == m.file && (m.line > b.line || m.line == b.line && m.col >= b.col) &&
		(m.line < b.end || m.line == b.end && m.col < b.eol)
}

// learn runs each test alone on the code as it is.
func (t *tests) learn() error {
	for _, folder := range t.folders {
		binary := filepath.Join(t.out, "covered.test")
		text, err := exec.Command("go", "test", "-c", "-cover", "-covermode=set", "-coverpkg=./"+t.pkg, "-vet=off",
			"-o", binary, "./"+folder).CombinedOutput()
		if err != nil {
			return fmt.Errorf("%s: %w\n%s", folder, err, text)
		}
		list := exec.Command(binary, "-test.list", "^(Test|Fuzz|Example)")
		list.Dir = folder
		if text, err = list.Output(); err != nil {
			return fmt.Errorf("the tests of %s: %w", folder, err)
		}
		for name := range strings.FieldsSeq(string(text)) {
			one := test{in: folder, name: name}
			if err := t.measure(binary, &one); err != nil {
				return fmt.Errorf("%s of %s: %w", name, folder, err)
			}
			t.each = append(t.each, one)
		}
	}
	slices.SortStableFunc(t.each, func(a, b test) int { return cmp.Compare(a.took, b.took) })
	return nil
}

// measure runs one test for its time and for what it reaches.
func (t *tests) measure(binary string, one *test) error {
	profile := filepath.Join(t.out, "profile")
	verdict, took, err := run(binary, one.in, []string{one.name}, time.Hour, "-test.coverprofile="+profile)
	if err != nil || verdict != survived {
		return cmp.Or(err, errors.New("it fails as it is"))
	}
	one.took = took
	data, err := os.ReadFile(profile)
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(data)) {
		var b block
		var statements, count int
		path, rest, _ := strings.Cut(line, ":")
		n, _ := fmt.Sscanf(rest, "%d.%d,%d.%d %d %d", &b.line, &b.col, &b.end, &b.eol, &statements, &count)
		if n == 6 {
			b.file, b.runs = filepath.Base(path), count > 0
			one.runs = append(one.runs, b)
		}
	}
	return nil
}

// of are the tests that reach a mutant: all of them where it is in no function.
func (t *tests) of(m mutant) (reach []test) {
	apart := true
	for _, one := range t.each {
		in := func(b block) bool { return b.holds(m) }
		apart = apart && !slices.ContainsFunc(one.runs, in)
		if slices.ContainsFunc(one.runs, func(b block) bool { return b.runs && b.holds(m) }) {
			reach = append(reach, one)
		}
	}
	if apart {
		return t.each
	}
	return reach
}

// memory bounds what a mutant that never ends may take, in KiB.
const memory = 12 << 20

// quick is the processor time of the tests that run before the others: most mutants die of them.
const quick = 5 * time.Second

// try runs the tests that reach a mutant on it. They may take twice the processor time that they take of the code as it
// is, and 10 s.
func (t *tests) try(m mutant) (verdict string, err error) {
	if t.each == nil {
		if err := t.learn(); err != nil {
			return "", err
		}
	}
	overlay, err := t.mutate(m)
	if err != nil {
		return "", err
	}
	reach := t.of(m)
	for _, folder := range t.folders {
		in := slices.DeleteFunc(slices.Clone(reach), func(one test) bool { return one.in != folder })
		binary := filepath.Join(t.out, "mutant.test")
		if out, err := exec.Command("go", "test", "-c", "-vet=off", "-ldflags=-s -w", "-overlay", overlay, "-o", binary,
			"./"+folder).CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "%s", out)
			return unbuilt, nil
		}
		if verdict, err = try(binary, folder, in); verdict != survived || err != nil {
			return verdict, err
		}
	}
	return survived, nil
}

// try runs a folder's tests, the quick ones first.
func try(binary, folder string, all []test) (verdict string, err error) {
	var batches [2][]string
	var limits [2]time.Duration
	for _, one := range all {
		k := 1
		if limits[0]+one.took <= quick {
			k = 0
		}
		batches[k], limits[k] = append(batches[k], one.name), limits[k]+one.took
	}
	for k, names := range batches {
		if len(names) > 0 {
			verdict, _, err = run(binary, folder, names, 2*limits[k]+10*time.Second)
			if verdict != survived || err != nil {
				return verdict, err
			}
		}
	}
	return survived, nil
}

// mutate writes an overlay with the mutant.
func (t *tests) mutate(m mutant) (overlay string, err error) {
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
	overlay = filepath.Join(t.out, "overlay.json")
	return overlay, os.WriteFile(overlay, data, 0o644)
}

// run runs tests of a binary in a folder, and tells how much processor time they took.
func run(binary, folder string, names []string, limit time.Duration, flags ...string) (verdict string,
	took time.Duration, err error) {
	bounded := fmt.Sprintf(`ulimit -v %d; ulimit -t %d; exec "$@"`, memory, int(limit.Seconds()))
	c := exec.Command("sh", "-c", bounded, "sh", binary, "-test.short", "-test.failfast", "-test.timeout=30m",
		"-test.run=^("+strings.Join(names, "|")+")$")
	c.Args = append(c.Args, flags...)
	c.Dir = folder
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
