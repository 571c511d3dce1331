package gate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"selfheal/harness/config"
	"selfheal/harness/result"
	"selfheal/harness/stats"
)

// ReportSchema names the version of a report's layout as JSON.
const ReportSchema = "selfheal.check/1"

// Report is the outcome of a comparison.
type Report struct {
	Schema   string      `json:"schema"`
	Outcome  Outcome     `json:"outcome"` // fail, inconclusive or pass
	Summary  string      `json:"summary"` // one line
	Notes    []string    `json:"notes"`
	Gate     config.Gate `json:"gate"`
	Baseline Run         `json:"baseline"`
	Results  Run         `json:"results"`
	Cells    []Compared  `json:"cells"` // in the results' order

	compared, mins int // number of cells that the baseline has; number of cells that a min names
}

// Compared compares a cell of the results with the baseline's.
type Compared struct {
	Cell
	Accuracy float64  `json:"accuracy"`
	Change   *Change  `json:"change"` // null for a cell that the baseline lacks
	Min      *Minimum `json:"min"`    // null if no min names the cell
	FailOn   []string `json:"fail_on"`
	Outcome  Outcome  `json:"outcome"`
	Reasons  []string `json:"reasons"` // why it does not pass, or that it is better
	Seconds  float64  `json:"seconds"` // of the cell's run
}

// Change is how a cell differs from the baseline's, on the same images.
type Change struct {
	Before    float64    `json:"before"` // accuracy in the baseline
	Drop      float64    `json:"drop"`   // drop in accuracy; negative for a rise
	Interval  [2]float64 `json:"interval"`
	Lost      int        `json:"lost"`    // images that were right and are wrong
	Won       int        `json:"won"`     // images that were wrong and are right
	Above     float64    `json:"p_above"` // p-value of "the true drop is at most max_drop"
	AboveHolm float64    `json:"p_above_holm"`
	Below     float64    `json:"p_below"`   // p-value of "the true drop is at least max_drop"
	McNemar   float64    `json:"p_mcnemar"` // two-sided p-value of "no change"
	// images within rounding whose verdict changed; they count as unchanged
	Turned    int  `json:"turned,omitempty"`
	Better    bool `json:"better"`    // more images are right, significantly
	Unchanged bool `json:"unchanged"` // the same verdicts of the same network: nothing to test
	// Detectable is the smallest true drop that would fail here with probability 0.8; null if no drop would.
	Detectable *float64 `json:"detectable"`
}

// Minimum compares a cell's accuracy with the least one that the rules allow.
type Minimum struct {
	Min    float64    `json:"min"`
	Exact  [2]float64 `json:"exact"`  // Clopper–Pearson, at level 1 − 2·alpha/(number of cells with a min)
	Wilson [2]float64 `json:"wilson"` // at the same level
	P      float64    `json:"p"`      // of "the true accuracy is at least min"
	Missed bool       `json:"missed"` // the whole exact interval is below
}

// power is the probability with which a detectable drop is detected, and with which a sufficient number of images
// suffices.
const power = 0.8

// Compare compares results with a baseline by some rules. The error says why they can't be compared, or is ctx's.
func Compare(ctx context.Context, base *Baseline, f *result.File, rules config.Gate) (*Report, error) {
	return newTests(rules).compare(ctx, base, f)
}

func (t *tests) compare(ctx context.Context, base *Baseline, f *result.File) (*Report, error) {
	rules := t.rules
	if err := rules.Set(); err != nil {
		return nil, err
	}
	cells, err := cellsOf(f)
	if err != nil {
		return nil, fmt.Errorf("results: %w", err)
	}
	r := &Report{Schema: ReportSchema, Gate: rules, Notes: []string{},
		Baseline: base.Run, Results: Run{f.Created, f.Environment.Selfheal, f.Seed}}
	base, renames := base.renamedTo(selected(cells, f))
	before := byKey(base.Cells)
	compared := slices.DeleteFunc(slices.Clone(cells), func(c Cell) bool {
		_, known := before[c.Key()]
		return !known
	})
	of := selected(compared, f)
	r.compared = len(compared)
	if err := r.sameSettings(changed(base.made, of)); err != nil {
		return nil, err
	}
	for _, c := range compared {
		if err := agree(base, of, before[c.Key()], c, rules); err != nil {
			return nil, err
		}
	}
	embeddings := otherEmbeddings(base.made, of)
	if err := lacking(base, selected(cells, f), byKey(cells)); err != nil {
		return nil, err
	}
	mins, err := minimums(rules, cells)
	if err != nil {
		return nil, err
	}
	r.mins = len(mins)
	drops, changes := stats.Family{}, stats.Family{}
	for i, c := range cells {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		x := Compared{Cell: c, Accuracy: float64(c.Correct) / float64(c.N), FailOn: []string{}, Reasons: []string{},
			Seconds: f.Cells[i].Seconds}
		if old, ok := before[c.Key()]; ok {
			now := c.agreed(old)
			change := t.change(counts{stats.NewPaired(string(old.Verdicts), now), len(compared)})
			change.Before = float64(old.Correct) / float64(old.N)
			turned := stats.NewPaired(string(c.Verdicts), now)
			change.Turned = turned.Lost + turned.Won
			change.Unchanged = string(old.Verdicts) == now &&
				base.Models[c.Model].SHA256 == of.Models[c.Model].SHA256 && embeddings == nil
			drops.Add(change.Above, func(p float64) { change.AboveHolm = p })
			changes.Add(change.McNemar, func(p float64) { change.Better = change.Drop < 0 && p <= rules.Alpha })
			x.Change = &change
		}
		if least, ok := mins[i]; ok {
			x.Min = r.minimum(c, least)
		}
		for _, w := range f.Cells[i].Warnings {
			if slices.Contains(rules.FailOn, w.ID) && !slices.Contains(x.FailOn, w.ID) {
				x.FailOn = append(x.FailOn, w.ID)
			}
		}
		r.Cells = append(r.Cells, x)
	}
	drops.Holm()
	changes.Holm()
	r.notes(base, f, embeddings)
	if renames != nil {
		r.Notes = append(r.Notes, "renamed, with the same file: "+strings.Join(renames, ", "))
	}
	r.decide(t)
	return r, nil
}

// sameSettings returns the error about settings that differ. It notes those that the rules accept instead.
func (r *Report) sameSettings(list []result.Difference) error {
	var refused []result.Difference
	for _, d := range list {
		if accepts(r.Gate.Accept, d.Path) {
			r.Notes = append(r.Notes, "accepted: "+plain(d.Say("baseline", "run")))
		} else {
			refused = append(refused, d)
		}
	}
	if refused == nil {
		return nil
	}
	text := plain(result.SayFirst(refused, "baseline", "run"))
	return fmt.Errorf("%s: %s, or name it under gate.accept", text, toAccept)
}

const toAccept = "run with the baseline's, or accept these results with selfheal check --update"

// agree returns an error if two cells of one identity can't be compared.
func agree(base *Baseline, of made, old, now Cell, rules config.Gate) error {
	was, is := base.Datasets[old.Dataset], of.Datasets[now.Dataset]
	accepted := func(key string) bool { return accepts(rules.Accept, "attacks."+now.Attack+"."+key) }
	other := func(format string, args ...any) error {
		return fmt.Errorf("cell %s: %s; %s", now, fmt.Sprintf(format, args...), toAccept)
	}
	switch {
	case was.N != is.N:
		return other("the baseline has %d images of dataset %s, the results %d of %s", was.N, plain(old.Dataset), is.N,
			plain(now.Dataset))
	case was.SHA256 != is.SHA256:
		return other("the results have other images than the baseline (dataset %s, sha256 %s, not %s)",
			plain(now.Dataset), short(is.SHA256), short(was.SHA256))
	case old.Recipe != now.Recipe && !accepted("recipe"):
		return other("the results are by recipe %s, the baseline by %s", plain(now.Recipe), plain(old.Recipe))
	case old.Norm != nil && *old.Norm != *now.Norm && !accepted("norm"):
		return other("the results are in norm %s, the baseline in %s", *now.Norm, *old.Norm)
	}
	if a, b := base.Models[old.Model].SHA256, of.Models[now.Model].SHA256; a != b && !rules.NewModel {
		return fmt.Errorf("cell %s: model %s is another file than the baseline's (sha256 %s, not %s); to compare "+
			"models that were trained again set new_model: true in gate: or give --new-model, else %s",
			now, plain(now.Model), short(b), short(a), toAccept)
	}
	return nil
}

func short(sha string) string { return plain(sha[:min(len(sha), 12)]) + "…" }

// minimums returns the least accuracies by the cells' indices. A pattern that matches no cell is an error.
func minimums(rules config.Gate, cells []Cell) (map[int]float64, error) {
	mins := map[int]float64{}
	for text, least := range rules.Min {
		p, err := config.ParseCellPattern(text)
		if err != nil {
			return nil, fmt.Errorf("gate.min: %w", err)
		}
		found := false
		for i, c := range cells {
			if p.Matches(c.ID) {
				found = true
				mins[i] = max(mins[i], least)
			}
		}
		if !found {
			return nil, errors.New("gate.min: " + plain(text) + " names no cell of the results (they have such as " +
				cells[len(cells)-1].String() + ")")
		}
	}
	return mins, nil
}

func (r *Report) notes(base *Baseline, f *result.File, embeddings []string) {
	note := func(format string, args ...any) { r.Notes = append(r.Notes, fmt.Sprintf(format, args...)) }
	if base.Seed != f.Seed {
		note("the results have seed %d, the baseline %d", f.Seed, base.Seed)
	}
	if base.Selfheal != f.Environment.Selfheal {
		note("the results are by selfheal %s, the baseline by %s", plain(f.Environment.Selfheal), plain(base.Selfheal))
	}
	var models, fresh []string
	for i, c := range r.Cells {
		if c.Change != nil && c.Change.Turned > 0 {
			note("%s: %s within rounding (margins of at most 1e-5 of the largest logit) turned, which counts as no "+
				"change", c, count(c.Change.Turned, "image"))
		}
		if n := f.Cells[i].GradientFailures; n > 0 {
			note("%s: the accuracy is at most %s %%, as gradients failed on %d of %d images that stand", c,
				percent(c.Accuracy), n, c.Correct)
		}
		model := plain(c.Model)
		switch {
		case c.Change == nil:
			fresh = append(fresh, c.String())
		case base.Models[c.Model].SHA256 != f.Models[c.Model].SHA256 && !slices.Contains(models, model):
			models = append(models, model)
		}
	}
	for _, of := range []struct {
		names []string
		text  string
	}{{models, "other model files than the baseline's, as new_model allows: %s"},
		{embeddings, "other embedding files than the baseline's: %s"},
		{fresh, "new, not in the baseline and compared with nothing: %s; selfheal check --update takes them in"}} {
		if of.names != nil {
			note(of.text, andMore(of.names))
		}
	}
}
