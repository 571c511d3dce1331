package progress

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"math"
	"os"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"selfheal/harness/cell"
	"selfheal/harness/result"
	"selfheal/internal/lists"
	"selfheal/internal/must"
	"selfheal/models/ort"
)

var update = flag.Bool("update", false, "write the tables of docs/progress.md anew")

// meanings has the meaning of each attribute, which is the same in every event.
var meanings = map[string]string{
	"cancel": "the command that ends the job", "cpus": "the kinds of processor",
	"dataset": "the data set's name",
	"changed": "what is not there of the images as their files have it",
	"labels":  "which label each class has; of many classes the first and the last",
	"engine":  "`slurm`", "job": "what the engine calls it", "jobs": "what the engine calls them",
	"share":  "of the passes that the component takes at most, those that are made, from 0 to 1",
	"shards": "of the run, or that are submitted", "shards_finished": "that are whole",
	"shards_running": "on the engine",
	"shards_waiting": "for the engine", "which": "shards, from 1",
	"begun":    "when the run did, RFC 3339",
	"broken":   "what the cache holds fails its checksum; absent where it does not",
	"damaged":  "lines of the journal; absent where there are none",
	"finished": "when the run did, RFC 3339", "killed": "who ran before and gave no sign of its end; absent otherwise",
	"lost": "images of the component", "spared": "whether there is another checkpoint",
	"accuracy": "share of right answers, from 0 to 1", "at": "place in the network, as the config says it",
	"attack": "`none`, clean images, or the attack's name", "batch": "images in a pass, at most, from now on",
	"batch_before": "images in a pass, at most, until then", "cell": "how many cells are done", "cells": "of the run",
	"lines": "of text",
	"again": "whether another seed follows", "back": "the training went back to the epoch before; absent otherwise",
	"attacked": "share of right answers after PGD through the network and the embedding, from 0 to 1",
	"clean":    "share of right answers with the embedding, from 0 to 1",
	"client":   "the package client, npm or pip", "component": "of the attack: apgd-ce, fab-t, …",
	"config_sha256": "of the resolved plan, as in results.json",
	"continue":      "what continues the command; absent where nothing was kept", "control": "the control's name",
	"correct": "images that the model is right on", "cross_entropy": "mean over the steps",
	"defense": "`none`, or the control's name", "dim": "values of a state", "epoch": "from 1",
	"epsilon":   "the bound of the perturbation; absent for clean images",
	"error":     "what is wrong, in one line; several errors of a config in one each",
	"exit_code": "of the program", "experiment": "its name", "folder": "where the library is kept",
	"id":          "which warning, as in results.json",
	"images":      "that the component attacks, that the embedding is fitted on, or that shards attack in all cells",
	"images_done": "of `images`",
	"inner":       "ascent steps a layer and sweep", "learning_rate": "of the solver",
	"max_rank": "components that a state of this size may have, with `variance_asked`", "megabytes": "of the download",
	"megabytes_left": "of all packages, this one included",
	"message":        "of the warning, in words", "mode": "what the attacker knows", "model": "the network's name",
	"models": "the networks that the embedding serves", "momentum": "of the solver", "method": "of the solver",
	"n": "images of the cell", "of": "steps of the training", "out": "the output folder",
	"outer": "sweeps of the solver",
	"outcomes": "for clean and adversarial images: `images`, `objective_before`, `objective_after` " +
		"(null: not finite), `accuracy`",
	"package": "what is fetched", "passes": "cost of an answer, in passes of the network", "path": "of the file",
	"proven": "images that bounds prove", "rank": "components that are kept",
	"reconstruction": "mean squared error over the steps",
	"reason":         "what was found, in words",
	"regularization": "of the solver",
	"robust":         "images of the cell that still stand; of a certificate those that are proven, or not tried yet",
	"seconds":        "time that it took", "seconds_left": "at most, if all goes as fast as until now; absent at first",
	"seed": "keys every random number", "signal": "`interrupt`, `terminated` or `hangup`",
	"stage": "`waiting` for another process, `started`, `ready` or `failed`", "step": "steps that are made",
	"steps": "that the training has still to make", "studies": "solvers that the study follows",
	"source": "in mode transfer, the network that images were made on",
	"study":  "how many of them are done", "suite": "the suite's name",
	"tried":          "images that bounds were asked about",
	"variance":       "share of the variance that is kept, from 0 to 1",
	"variance_asked": "share that was asked for, where the images or the state's size give less",
	"version":        "of ONNX Runtime",
}

// typeOf names the JSON type of a field.
func typeOf(t reflect.Type) string {
	if t == reflect.TypeFor[time.Time]() {
		return "string"
	}
	switch t.Kind() {
	case reflect.Pointer:
		return typeOf(t.Elem())
	case reflect.String:
		return "string"
	case reflect.Bool:
		return "boolean"
	case reflect.Int, reflect.Uint64:
		return "integer"
	case reflect.Slice:
		return "list"
	}
	return "number" // of other types only floats and durations are in use
}

// The tables of docs/progress.md are made from the events: go test ./harness/progress -run TestEvents -update
func TestEvents(t *testing.T) {
	t.Parallel()
	var events, attributes strings.Builder
	events.WriteString("| `msg` | `level` | when | attributes |\n|---|---|---|---|\n")
	types := map[string]string{}
	for _, k := range kinds {
		var names []string
		for _, f := range reflect.VisibleFields(k.of) {
			name, _ := attribute(f)
			if name == "" {
				continue
			}
			if old := types[name]; old != "" && old != typeOf(f.Type) {
				t.Errorf("%s: %s is a %s, of other events a %s", k.name, name, typeOf(f.Type), old)
			}
			types[name] = typeOf(f.Type)
			names = append(names, "`"+name+"`")
		}
		fmt.Fprintf(&events, "| `%s` | %v | %s | %s |\n", k.name, k.level, k.doc, strings.Join(names, ", "))
	}
	attributes.WriteString("| attribute | type | |\n|---|---|---|\n")
	for _, name := range slices.Sorted(maps.Keys(types)) {
		if meanings[name] == "" {
			t.Errorf("nothing says what the attribute %s means", name)
		}
		fmt.Fprintf(&attributes, "| `%s` | %s | %s |\n", name, types[name], meanings[name])
	}
	if len(types) != len(meanings) {
		t.Errorf("%d attributes, %d meanings", len(types), len(meanings))
	}
	const path = "../../docs/progress.md"
	page := string(must.Get(os.ReadFile(path))(t))
	for name, table := range map[string]string{"events": events.String(), "attributes": attributes.String()} {
		begin, end := "<!-- "+name+" -->\n", "<!-- end of "+name+" -->\n"
		before, rest, ok := strings.Cut(page, begin)
		old, after, closed := strings.Cut(rest, end)
		switch {
		case !ok || !closed:
			t.Fatalf("%s has no place for %s", path, name)
		case *update:
			page = before + begin + table + end + after
			must.Do(t, os.WriteFile(path, []byte(page), 0o644))
		case old != table:
			t.Errorf("%s shows for %s\n%s, it is (go test -update rewrites it)\n%s", path, name, old, table)
		}
	}
}

// Every event type has a row in the table.
func TestEventsAreListed(t *testing.T) {
	t.Parallel()
	listed := map[string]bool{}
	for _, k := range kinds {
		listed[k.of.Name()] = true
	}
	grouped := 0
	for _, d := range must.Get(parser.ParseFile(token.NewFileSet(), "events.go", nil, 0))(t).Decls {
		if group, ok := d.(*ast.GenDecl); ok && group.Tok == token.TYPE && group.Lparen.IsValid() {
			for _, s := range group.Specs {
				if grouped++; !listed[s.(*ast.TypeSpec).Name.Name] {
					t.Errorf("the table of events lacks %s", s.(*ast.TypeSpec).Name)
				}
			}
		}
	}
	if len(listed) != grouped || len(kinds) != grouped {
		t.Errorf("%d rows of %d types, %d events", len(kinds), len(listed), grouped)
	}
}

// A report is a line for people and a record for machines, whose attributes have types. quiet leaves only the end of
// a command in both.
func TestProgressFormats(t *testing.T) {
	t.Parallel()
	id := ComponentID{cell.ID{Suite: "s", Row: cell.Row{Model: "m\x1b[2J\u202e", Defense: "none"},
		Mode:   result.Oblivious,
		Column: cell.Column{Attack: "aa", Epsilon: 0.5}}, "apgd-ce", 3,
		"[1/2] m, aa", Words{}}
	for _, c := range []struct {
		event  any
		text   string
		record map[string]any
	}{
		{ComponentProgress{id, 5, 8, 6, 10, 0.5, nil},
			"[1/2] m, aa apgd-ce: 5 of 8 images, robust so far 6 of 10, ? left\n",
			map[string]any{"msg": "component progress", "level": "INFO", "suite": "s", "model": "m\x1b[2J\u202e",
				"defense": "none", "mode": "oblivious", "attack": "aa", "epsilon": 0.5, "component": "apgd-ce",
				"seed":        3.,
				"images_done": 5., "images": 8., "robust": 6., "n": 10., "share": 0.5}},
		{ComponentProgress{id, 5, 8, 6, 10, 0.75, new(65*time.Second + 1)},
			"[1/2] m, aa apgd-ce: 5 of 8 images, robust so far 6 of 10, at most 1m5s left\n",
			map[string]any{"msg": "component progress", "level": "INFO", "suite": "s", "model": "m\x1b[2J\u202e",
				"defense": "none", "mode": "oblivious", "attack": "aa", "epsilon": 0.5, "component": "apgd-ce",
				"seed": 3., "images_done": 5., "images": 8., "robust": 6., "n": 10., "share": 0.75,
				"seconds_left": 65.000000001}},
		{ComponentProgress{ComponentID: ComponentID{Component: "fab-t", Label: "[1/1] m, aa"}, Images: 8, Robust: 10,
			N: 10, Left: new(130*time.Minute + 20*time.Second)},
			"[1/1] m, aa fab-t: 0 of 8 images, robust so far 10 of 10, at most 2h10m left\n",
			map[string]any{"msg": "component progress", "level": "INFO", "suite": "", "model": "", "defense": "",
				"mode": "", "attack": "", "component": "fab-t", "seed": 0., "images_done": 0., "images": 8.,
				"robust": 10., "n": 10., "share": 0., "seconds_left": 7820.}},
		{ComponentProgress{ComponentID{cell.ID{Column: cell.Column{Attack: "s"}}, "smoothing", 0, "[1/2] m, s",
			Words{"sampled", "certified", "certified at most"}}, 5, 8, 6, 10, 0, nil},
			"[1/2] m, s smoothing: 5 of 8 images, certified at most 6 of 10, ? left\n",
			map[string]any{"msg": "component progress", "level": "INFO", "suite": "", "model": "", "defense": "",
				"mode": "", "attack": "s", "component": "smoothing", "seed": 0., "images_done": 5., "images": 8.,
				"robust": 6., "n": 10., "share": 0.}},
		{TrainingProgress{StepID{2, 9}, 1, math.NaN(), math.Inf(1), 0.25, 90 * time.Second},
			"step 2 of 9, epoch 1: cross-entropy NaN, reconstruction +Inf, accuracy 25.0 %, 1m30s left\n",
			map[string]any{"msg": "training progress", "level": "INFO", "step": 2., "of": 9., "epoch": 1.,
				"cross_entropy": nil, "reconstruction": nil, "accuracy": 0.25, "seconds_left": 90.}},
		{CellWarned{cell.ID{Column: cell.Column{Attack: "none"}}, "w", "it\nbreaks"}, "",
			map[string]any{"msg": "cell warning", "level": "WARN", "suite": "", "model": "", "defense": "", "mode": "",
				"attack": "none", "id": "w", "message": "it\nbreaks"}},
		{SolverStudied{Outcomes: []StudyOutcome{{"clean", nil, new(1.5), 1}}},
			"solver study, ,  [0/0]  0 × 0, c 0, rate 0, momentum 0, 0.0 passes; clean: objective ∞ → 1.5, " +
				"100.0 % right\n",
			map[string]any{"msg": "solver studied", "level": "INFO", "model": "", "control": "", "study": 0.,
				"studies": 0.,
				"method":  "", "outer": 0., "inner": 0., "regularization": 0., "learning_rate": 0., "momentum": 0.,
				"passes": 0., "outcomes": []any{map[string]any{"images": "clean", "objective_before": nil,
					"objective_after": 1.5, "accuracy": 1.}}}},
	} {
		var text, record, quiet bytes.Buffer
		New(&text, TextLog, false).Report(c.event)
		New(&record, JSONLog, false).Report(c.event)
		New(&quiet, JSONLog, true).Report(c.event)
		New(&quiet, TextLog, true).Report(c.event)
		new(Progress).Report(c.event)
		got := map[string]any{}
		must.Do(t, json.Unmarshal(record.Bytes(), &got))
		if _, err := time.Parse(time.RFC3339Nano, fmt.Sprint(got["time"])); err != nil {
			t.Error(err)
		}
		delete(got, "time")
		if text.String() != c.text || !reflect.DeepEqual(got, c.record) || quiet.Len() > 0 {
			t.Errorf("%T: said %q, want %q, recorded %v, want %v, quietly %q", c.event, &text, c.text, got, c.record,
				&quiet)
		}
	}
	var quiet bytes.Buffer
	p := New(&quiet, JSONLog, true)
	p.Failed(errors.New("it\n broke"), 1, "the same command continues")
	p.Stopped("interrupt", 130, "the same command continues")
	p.Fetched(ort.Fetch{Stage: "ready", Took: time.Second})
	for _, want := range []string{
		`"ERROR","msg":"failed","error":"it broke","exit_code":1,"continue":"the same command continues"}`,
		`"WARN","msg":"stopped","signal":"interrupt","exit_code":130,"continue":"the same command continues"}`,
		`"INFO","msg":"runtime fetch","stage":"ready","version":"","seconds":1}`} {
		if line := must.Get(quiet.ReadString('\n'))(t); !strings.HasSuffix(line, want+"\n") {
			t.Errorf("%s, want %s", line, want)
		}
	}
}

// An image that ends early takes the passes that it leaves off the total. Passes from the journal do not count.
func TestComponent(t *testing.T) {
	t.Parallel()
	var said bytes.Buffer
	p := New(&said, JSONLog, false)
	p.SetEvery(10 * time.Millisecond)
	var made atomic.Int64
	made.Store(7)
	shown := make(chan bool)
	p.Follow(func() { shown <- true })
	must.Do(t, p.Component(ComponentID{}, Work{Images: 4, Standing: 5, N: 6, Passes: 40, Made: made.Load},
		func(image func(standing, passes int)) error {
			for range 2 {
				<-shown // one report may have been under way
			}
			made.Add(12)
			image(4, 2)
			image(4, 0)
			for range 2 {
				<-shown
			}
			go func() {
				for range shown {
				}
			}()
			return nil
		}))
	var shares, done []any
	for line := range strings.Lines(said.String()) {
		var r map[string]any
		must.Do(t, json.Unmarshal([]byte(line), &r))
		if left, told := r["seconds_left"]; r["msg"] == "component progress" {
			shares, done = lists.Once(shares, r["share"]), lists.Once(done, r["images_done"])
			if told != (r["share"] != 0.) || told && left.(float64) <= 0 {
				t.Error(line)
			}
		}
	}
	if !slices.Equal(shares, []any{0., 0.375}) || !slices.Equal(done, []any{0., 2.}) {
		t.Errorf("shares %v of images %v", shares, done)
	}
	must.Have(t, said.String(), `"msg":"component finished"`, `"images":4,"robust":4,"n":6`)
}
