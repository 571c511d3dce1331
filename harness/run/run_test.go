package run

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"selfheal/attacks"
	"selfheal/control"
	"selfheal/harness/cell"
	"selfheal/harness/certify"
	"selfheal/harness/config"
	"selfheal/harness/folder"
	"selfheal/harness/open"
	"selfheal/harness/plan"
	"selfheal/harness/progress"
	"selfheal/harness/result"
	"selfheal/internal/journal"
	"selfheal/internal/must"
	"selfheal/internal/testinput"
	"selfheal/internal/testplan"
)

// done runs a config on 24 images and sorts its records by cell, in the order of the images.
func done(t *testing.T, text string, sets ...string) (*plan.Plan, map[string]result.Cell, map[string][]result.Record) {
	t.Helper()
	testinput.Runtime(t)
	p := testplan.Plan(t, testplan.Bundled+text, 2, 8, append(sets, "datasets.test.limit=24")...)
	out, log := t.TempDir(), strings.Builder{}
	f := must.Get(Run(t.Context(), p, Options{Out: out, Progress: progress.New(&log, progress.TextLog, false)}))(t)
	cells, records := map[string]result.Cell{}, map[string][]result.Record{}
	name := func(id cell.ID) string {
		return strings.Replace(strings.Replace(id.Name(), "/", " ", 2), "@", " ", 1)
	}
	for i, c := range f.Cells {
		cells[name(c.ID)] = c
		told := fmt.Sprintf(`\[%d/%d\] .*, (undefended|controlled by)`, i+1, len(f.Cells))
		known := c.Defense == "none" && len(c.Steps) > 0 // by its last component's line
		if regexp.MustCompile(told).MatchString(log.String()) == known {
			t.Errorf("%s: told %v", c.Name(), !known)
		}
	}
	for _, r := range must.All(result.Records(filepath.Join(out, "records.jsonl")))(t) {
		n := name(r.ID)
		records[n] = append(records[n], r)
	}
	return p, cells, records
}

// countWrong counts the images that are wrong without attack.
func countWrong(all []result.Record) (n int) {
	for _, r := range all {
		if r.Verdict == 0 && r.FirstSuccess == nil {
			n++
		}
	}
	return n
}

// stopper stops a run at a line of its progress.
type stopper struct {
	strings.Builder
	at   string
	stop func()
}

func (s *stopper) Write(line []byte) (int, error) {
	if s.at != "" && bytes.Contains(line, []byte(s.at)) {
		s.stop()
	}
	return s.Builder.Write(line)
}

func near(a, b float64) bool { return math.Abs(a-b) <= 1e-12*math.Max(math.Abs(a), 1) }

// bench opens the small run's job.
func bench(t *testing.T) (*open.Opener, *open.Job) { return jobOf(t, testplan.Small) }

// jobOf opens a config's first job.
func jobOf(t *testing.T, text string) (*open.Opener, *open.Job) {
	t.Helper()
	testinput.Runtime(t)
	p := testplan.Plan(t, text, 1, 8)
	o := must.Get(open.New(p.Config, open.Options{}))(t)
	t.Cleanup(o.Close)
	b := must.Get(o.Job(t.Context(), p.Jobs[0]))(t)
	t.Cleanup(b.Close)
	return o, b
}

// trialsOf returns attacks of a name at some epsilons.
func trialsOf(t *testing.T, name string, epsilons ...float64) []plan.Trial {
	t.Helper()
	a := &config.Attack{Name: name, Epsilons: epsilons}
	a.Kind = "pgd"
	return must.Get(plan.Trials(a))(t)
}

// classes is an oracle that only knows the number of classes.
type classes struct{ attacks.Oracle }

func (classes) Classes() int { return 10 }

// claims is an attack that claims these images, one in each call.
type claims struct {
	attacks.Attack
	of       [][]float32
	distance float64
	calls    string // for each call, whether at full strength
}

func (c *claims) Perturb(_ context.Context, _ attacks.Oracle, _ attacks.Image, how attacks.Options) (attacks.Result,
	error) {
	k := len(c.calls)
	c.calls += map[bool]string{false: "f", true: "v"}[how.VerdictOnly]
	return attacks.Result{Adversarial: c.of[k], Distance: c.distance}, nil
}

// Gradients equal to the reference's are accepted, and others refused. The CPU provider's are not compared.
func TestCompare(t *testing.T) {
	o, b := bench(t)
	must.Do(t, compare(t.Context(), b.Net, b))
	standard := *b.Model
	standard.Path = strings.Replace(standard.Path, "robust", "standard", 1)
	other := must.Get(o.Network(t.Context(), &standard, ""))(t)
	defer other.Close()
	must.Refuse(t, compare(t.Context(), other, b), "of their length away", "attacks would be weak")
	b.Attacked = other // the CPU provider is not held against itself
	r := &computed{Opener: o, run: &run{ctx: t.Context()}}
	must.Do(t, r.comparable(b))
}

// A network to be proven has bounds, or is refused before a run.
func TestProvable(t *testing.T) {
	o, b := jobOf(t, testplan.Bundled+`
attacks: {box: {kind: bounds, norm: linf, epsilon: 1/255}}
suites: {s: {dataset: test, models: [robust], attacks: [box]}}
`)
	r := &computed{Opener: o, run: &run{ctx: t.Context()}}
	must.Do(t, r.preflight(b))
	b.Undefend()
	b.Net.Graph.Inexact = true
	must.Refuse(t, r.preflight(b), "model robust: no bounds for a file that is computed otherwise")
}

// Attacks of one network ask it as it was opened, those of another defense that one.
func TestAim(t *testing.T) {
	o, b := bench(t)
	must.Do(t, b.Defend(t.Context(), true))
	r := &run{ctx: t.Context(), plan: &plan.Plan{Config: o.Config}}
	r.source = &computed{run: r, Opener: o}
	w := &walk{run: r, at: &stop{Job: b}}
	var at []*target
	for _, of := range []string{cell.None, cell.None, "pca"} {
		must.Do(t, w.aim(plan.Group{From: b.Job, Attacked: of}))
		at = append(at, w.at.target)
	}
	defer w.at.target.close()
	if at[0] != at[1] || at[0].oracle != nil || at[2].oracle.Of.Defense() != "pca" {
		t.Errorf("%+v", at)
	}
}

// probedFile is a file that answers as the opened network does, but for what it adds to the first class.
type probedFile struct {
	on    *control.Network
	adds  float64
	asked atomic.Int64
}

func (f *probedFile) Logits(ctx context.Context, x, out []float32) error {
	f.asked.Add(1)
	err := f.on.CopyLogits(ctx, x, out)
	out[0] += float32(f.adds)
	return err
}

func (*probedFile) Close() {}

// Answers to clean images that are no numbers are an error that names the first.
func TestNotFinite(t *testing.T) {
	_, b := bench(t)
	must.Do(t, b.Net.AnsweredBy(&probedFile{on: b.Net, adds: math.NaN()}))
	j, _, err := journal.Open(t.TempDir())
	must.Do(t, err)
	r := &run{ctx: t.Context(), journal: &folder.Journal{Journal: j}}
	_, err = r.verdicts(b, folder.Key{Of: "verdicts"}, open.Alone(b.Net), b.Set, &crafted{}, nil, false)
	if out := (open.NotFinite{}); !errors.As(err, &out) || out.Image != b.Set.ID(0) {
		t.Error(err)
	}
}

// certain is a certificate without content.
type certain struct{ certify.Proof }

func (certain) Tell(int, *result.Record) {}

// Transferred images are made on their source: the passes that break them are the same for every network. The judge
// gives the same verdicts again on those that are saved.
func TestTransfer(t *testing.T) {
	testinput.Runtime(t)
	p := testplan.Plan(t, testplan.Bundled+`
attacks: {pgd: {kind: pgd, norm: linf, epsilon: 3/255, steps: 4}}
suites: {s: {dataset: test, models: [robust, standard], mode: transfer, attacks: [pgd]}}
`, 2, 8, "datasets.test.limit=16", "save_adversarial=true")
	out := t.TempDir()
	f := must.Get(Run(t.Context(), p, Options{Out: out}))(t)
	took := map[string]string{}
	for _, r := range must.All(result.Records(filepath.Join(out, "records.jsonl")))(t) {
		if r.Attack != "none" {
			first := -1
			if r.FirstSuccess != nil {
				first = *r.FirstSuccess
			}
			took[r.Model+" by "+r.Source] += fmt.Sprint(first, " ")
		}
	}
	if len(took) != 4 || took["standard by robust"] != took["robust by robust"] ||
		took["robust by standard"] != took["standard by standard"] ||
		took["robust by robust"] == took["standard by standard"] {
		t.Errorf("%q", took)
	}
	again := must.Get(Verify(t.Context(), p, f, out, Options{}))(t)
	if len(again) != 4 || slices.ContainsFunc(again, func(r Reviewed) bool { return len(r.Differ) > 0 }) {
		t.Errorf("looked at again: %+v", again)
	}
}
