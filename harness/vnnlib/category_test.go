package vnnlib

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"selfheal/internal/must"
	"selfheal/internal/testinput"
)

// TestCategory: a category that was stopped goes on, and its answers are those of one that was not. A file that is
// broken costs its own question.
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

// TestPatience: what goes on beyond its question's time holds up neither the next question nor a stop.
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
