package vnnlib

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"selfheal/internal/must"
	"selfheal/internal/testinput"
)

// TestCategory: a category that was stopped goes on and gives the answers of an undisturbed one. A broken file costs
// only its own question.
func TestCategory(t *testing.T) {
	testinput.Runtime(t)
	dir := t.TempDir()
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	_ = must.Get(w.Write(bent()))(t)
	must.Do(t, w.Close())
	for name, text := range map[string]string{
		"net.onnx": string(bent()), "packed.onnx.gz": packed.String(), "broken.onnx": "no network",
		"no.vnnlib":  declared(2, 2) + unitBox + "(assert (and (<= Y_0 -0.5) (>= Y_1 7)))",
		"yes.vnnlib": declared(2, 2) + unitBox + "(assert (>= Y_1 1))",
		"instances.csv": "./net.onnx,no.vnnlib,20\nnet.onnx,yes.vnnlib, 20\nbroken.onnx,no.vnnlib,20\n" +
			"packed.onnx,yes.vnnlib,20.5\n",
	} {
		must.Do(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	want := "unsat sat error sat"
	run := func(out string, stopAfter int) (answers string, told int, err error) {
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		c := &Category{Folder: dir, Out: out, Query: Query{Note: func(string) {},
			Runtime: func(context.Context) error { return nil }}}
		c.Told = func(done, of int, a Answered) {
			answers, told = strings.TrimSpace(answers+" "+a.Answer), told+1
			if done != told || of != 4 || (a.Answer == "sat") != (a.Point != "") {
				t.Errorf("told %d of %d: %+v", done, of, a)
			}
			if told == stopAfter {
				stop()
			}
		}
		return answers, told, c.Ask(ctx)
	}
	first, second := filepath.Join(dir, "first.csv"), filepath.Join(dir, "second.csv")
	if _, _, err := run(first, 0); err != nil {
		t.Fatal(err)
	}
	if _, told, err := run(second, 2); !errors.Is(err, context.Canceled) || told != 2 {
		t.Errorf("stopped after %d answers: %v", told, err)
	}
	for range 2 { // the second time there is nothing to do
		if _, told, err := run(second, 0); err != nil || told != 4 {
			t.Errorf("%d answers, %v", told, err)
		}
	}
	for _, out := range []string{first, second} {
		got := []string{}
		for _, line := range strings.Split(strings.TrimSpace(string(must.Get(os.ReadFile(out))(t))), "\n")[1:] {
			got = append(got, strings.Split(line, ",")[3])
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %s, want %s", out, got, want)
		}
		for _, point := range []string{"2.txt", "4.txt"} {
			text := string(must.Get(os.ReadFile(filepath.Join(out+".sat", point)))(t))
			if !strings.HasPrefix(text, "sat\n((X_0 ") {
				t.Errorf("%s", text)
			}
		}
	}
	must.Do(t, os.WriteFile(filepath.Join(dir, "other.csv"), []byte("something else\n"), 0o644))
	for out, wrong := range map[string]string{
		"net.onnx,../no.vnnlib,20": "a path leads out of the folder",
		"net.onnx,no.vnnlib,long":  `"long" is not a time in seconds`,
		"net.onnx,no.vnnlib,0":     "is not a time",
		"net.onnx,no.vnnlib":       "wrong number of fields",
		"":                         "holds no question",
		"net.onnx,no.vnnlib,20":    "other.csv: holds other than answers to these questions",
	} {
		must.Do(t, os.WriteFile(filepath.Join(dir, "instances.csv"), []byte(out), 0o644))
		_, _, err := run(filepath.Join(dir, "other.csv"), 0)
		if !errors.As(err, new(ErrProperty)) || !strings.Contains(err.Error(), wrong) {
			t.Errorf("%q: %v, want %s", out, err, wrong)
		}
	}
}

// TestPatience: work that goes on beyond its question's time delays neither the next question nor a stop.
func TestPatience(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"net.onnx": string(bent()), "a.vnnlib": declared(2, 2) + unitBox + "(assert (>= Y_1 1))",
		"instances.csv": "net.onnx,a.vnnlib,0.1\nnet.onnx,a.vnnlib,1000\n",
	} {
		must.Do(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	ctx, stop := context.WithCancel(t.Context())
	stuck := make(chan struct{})
	defer close(stuck)
	var notes, answers []string
	c := &Category{Folder: dir, Out: filepath.Join(dir, "out.csv"), Told: func(_, _ int, a Answered) {
		answers = append(answers, a.Answer)
		time.AfterFunc(100*time.Millisecond, stop)
	}, Query: Query{Note: func(line string) { notes = append(notes, line) },
		Runtime: func(context.Context) error { <-stuck; return nil }}}
	begun := time.Now()
	if err := c.Ask(ctx); !errors.Is(err, context.Canceled) || fmt.Sprint(answers) != "[timeout]" || len(notes) != 1 {
		t.Errorf("%v; %v; %v", err, answers, notes)
	}
	if took := time.Since(begun); took > 2*patience {
		t.Errorf("took %s", took)
	}
}

// Earlier answers count if they can be trusted: a counterexample is run on the file again, another answer has its
// checksum. All other questions are asked again, with the answers of an undisturbed category.
func TestAnswersOfBefore(t *testing.T) {
	testinput.Runtime(t)
	dir := t.TempDir()
	file := func(name, text string) { must.Do(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644)) }
	file("net.onnx", string(bent()))
	no := declared(2, 2) + unitBox + "(assert (and (<= Y_0 -0.5) (>= Y_1 7)))"
	file("no.vnnlib", no)
	file("yes.vnnlib", declared(2, 2)+unitBox+"(assert (>= Y_1 1))")
	file("broken.onnx", "no network")
	file("instances.csv", "net.onnx,no.vnnlib,20\nnet.onnx,yes.vnnlib,20\nbroken.onnx,no.vnnlib,20\n")
	out := filepath.Join(dir, "answers.csv")
	point := filepath.Join(out+".sat", "2.txt")
	asked := 0
	run := func() error {
		asked = 0
		c := &Category{Folder: dir, Out: out, Told: func(int, int, Answered) {}, Query: Query{Note: func(string) {}}}
		c.Runtime = func(context.Context) error {
			asked++
			return nil
		}
		return c.Ask(t.Context())
	}
	must.Do(t, run())
	whole, text := string(must.Get(os.ReadFile(out))(t)), string(must.Get(os.ReadFile(point))(t))
	lines := strings.Split(strings.TrimSpace(whole), "\n")
	if len(lines) != 4 || !strings.HasSuffix(lines[0], ",counterexample,crc32c") {
		t.Fatal(whole)
	}
	seconds := func(line string) string { return strings.Split(line, ",")[4] }
	edit := func(from, to string) func() {
		return func() {
			if !strings.Contains(whole, from) {
				t.Fatalf("%q is not in %s", from, whole)
			}
			file("answers.csv", strings.Replace(whole, from, to, 1))
		}
	}
	moved := func(to string) func() {
		return func() { must.Do(t, os.WriteFile(point, []byte(to), 0o644)) }
	}
	old := func() { // of a version without checksums
		var kept []string
		for _, l := range lines {
			kept = append(kept, l[:strings.LastIndex(l, ",")])
		}
		file("answers.csv", strings.Join(kept, "\n")+"\n")
	}
	for _, c := range []struct {
		name  string
		edit  func()
		anew  int  // number of questions that need the runtime
		still bool // nothing changes
	}{
		{"nothing", func() {}, 1, true}, // the counterexample
		{"unsat as unknown", edit(",unsat,", ",unknown,"), 2, false},
		{"sat as unsat", edit(",sat,"+seconds(lines[2])+",2.txt", ",unsat,"+seconds(lines[2])+","), 1, false},
		{"error as unsat", edit(",error,", ",unsat,"), 1, false},
		{"no answer", edit(",unsat,", ",maybe,"), 2, false},
		{"no number", edit(","+seconds(lines[1])+",", ",NaN,"), 2, false},
		{"no time", edit(","+seconds(lines[1])+",", ",soon,"), 2, false},
		{"less time than none", edit(","+seconds(lines[1])+",", ",-1,"), 2, false},
		{"without end", edit(","+seconds(lines[1])+",", ",+Inf,"), 2, false},
		{"a checksum", edit(lines[1][strings.LastIndex(lines[1], ","):], ",00000000"), 2, false},
		{"another's counterexample", edit(",2.txt,", ",1.txt,"), 1, false},
		{"a path", edit(",2.txt,", ",../answers.csv.sat/2.txt,"), 1, false},
		{"an earlier version", old, 2, false},
		{"no point", func() { must.Do(t, os.Remove(point)) }, 1, false},
		{"a point outside", moved("sat\n((X_0 7)\n (X_1 0))\n"), 1, false},
		{"a point that is none", moved("sat\n((X_0 NaN)\n (X_1 0))\n"), 1, false},
		{"half a point", moved(text[:12]), 1, false},
		{"other outputs", moved(strings.Replace(text, "Y_0 ", "Y_0 9", 1)), 1, false},
		{"another property", func() { file("no.vnnlib", no+"; which is read anew") }, 2, false},
	} {
		file("answers.csv", whole)
		must.Do(t, os.WriteFile(point, []byte(text), 0o644))
		c.edit()
		if err := run(); err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		now, written := string(must.Get(os.ReadFile(out))(t)), string(must.Get(os.ReadFile(point))(t))
		if asked != c.anew {
			t.Errorf("%s: %d questions are asked, want %d", c.name, asked, c.anew)
		}
		answers := func(text string) (all []string) {
			for line := range strings.Lines(text) {
				words := strings.Split(line, ",")
				all = append(all, strings.Join(append(words[:4:4], words[5]), ","))
			}
			return all
		}
		if !slices.Equal(answers(now), answers(whole)) || c.still && now != whole {
			t.Errorf("%s: there is\n%swas\n%s", c.name, now, whole)
		}
		if !strings.HasPrefix(written, "sat\n((X_0 ") || strings.Contains(written, "X_0 7") ||
			strings.Contains(written, "NaN") {
			t.Errorf("%s: the counterexample is %s", c.name, written)
		}
	}
}

// No file in the place of the answers or of a counterexample leads out of the folder or is replaced.
func TestCategoryReplacesNothing(t *testing.T) {
	testinput.Runtime(t)
	for _, what := range []string{"folder", "file", "point", "point's link", "answers", "answers' link", "input"} {
		dir, outside := t.TempDir(), t.TempDir()
		file := func(path, text string) { must.Do(t, os.WriteFile(path, []byte(text), 0o644)) }
		file(filepath.Join(dir, "net.onnx"), string(bent()))
		file(filepath.Join(dir, "yes.vnnlib"), declared(2, 2)+unitBox+"(assert (>= Y_1 1))")
		instances := filepath.Join(dir, "instances.csv")
		file(instances, "net.onnx,yes.vnnlib,20\n")
		kept, out := filepath.Join(outside, "1.txt"), filepath.Join(dir, "answers.csv")
		file(kept, "kept")
		link := func(at string) { must.Do(t, os.Symlink(kept, at)) }
		switch what {
		case "folder":
			must.Do(t, os.Symlink(outside, out+".sat"))
		case "file":
			file(out+".sat", "kept")
		case "point":
			must.Do(t, os.Mkdir(out+".sat", 0o755))
			file(filepath.Join(out+".sat", "1.txt"), "kept")
		case "point's link":
			must.Do(t, os.Mkdir(out+".sat", 0o755))
			link(filepath.Join(out+".sat", "1.txt"))
		case "answers":
			file(out, "kept")
		case "answers' link":
			link(out)
		case "input":
			out = instances
		}
		c := &Category{Folder: dir, Out: out, Told: func(int, int, Answered) { t.Errorf("%s: it is answered", what) },
			Query: Query{Note: func(string) {}, Runtime: func(context.Context) error { return nil }}}
		if err := c.Ask(t.Context()); err == nil {
			t.Errorf("%s: no error", what)
		}
		if got, err := os.ReadFile(kept); err != nil || string(got) != "kept" {
			t.Errorf("%s: outside is %q", what, got)
		}
		if left := must.Get(os.ReadDir(outside))(t); len(left) != 1 {
			t.Errorf("%s: outside are %v", what, left)
		}
		if got, _ := os.ReadFile(instances); string(got) != "net.onnx,yes.vnnlib,20\n" {
			t.Errorf("%s: instances.csv is %q", what, got)
		}
	}
}
