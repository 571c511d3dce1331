package result

import (
	"encoding/json"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/gonum/stat"

	"selfheal/harness/cell"
	"selfheal/harness/stats"
	"selfheal/internal/lists"
	"selfheal/internal/number"
)

// Cell is one accuracy: of a model, undefended or under a controller, on clean images or under an attack.
type Cell struct {
	cell.ID
	Norm     *string    `json:"norm"`   // linf, l2, l1, l0; null for "none" and attacks without norm
	Recipe   string     `json:"recipe"` // the attack that made the images, with its version; "" for "none"
	N        int        `json:"n"`
	Correct  int        `json:"correct"`
	Accuracy float64    `json:"accuracy"`
	CI95     [2]float64 `json:"ci95"`     // 95 % interval (Wilson)
	Verdicts string     `json:"verdicts"` // one character an image, in data set order: '1' = right
	Steps    []Step     `json:"steps"`    // one for each component; empty for "none" and oblivious controlled cells
	MaxNorm  float64    `json:"max_norm"` // largest perturbation among the cell's images
	// WithinRounding is how many images the attack broke by a margin of at most 1e-5 of the largest logit (or of 1):
	// another runtime or processor may find them right. Absent if there are none.
	WithinRounding int `json:"within_rounding,omitempty"`
	// Near are the indices in Verdicts, from 0, of all images, right or wrong, with a margin that small. Absent if
	// there are none.
	Near []int `json:"near,omitempty"`
	// GradientFailures is how many images stand although an attack's gradients on them were NaN or infinite, or 0 at
	// the start of all its runs. They were hardly attacked, so the accuracy is an upper bound. Absent if there are
	// none.
	GradientFailures int `json:"gradient_failures,omitempty"`
	// Planted is the test of the cell's own attack by planted perturbations. Absent if none were planted.
	Planted *Planted `json:"planted,omitempty"`
	// Masking are the ids of the cell's warnings that are signs of a hidden gradient ([Signs]). Absent if there are
	// none.
	Masking []string `json:"masking,omitempty"`
	// Area is the area under the curve of accuracy against epsilon, up to the largest epsilon of an attack that
	// minimises the norm: the mean smallest norm, in units of epsilon.
	Area     *float64  `json:"area,omitempty"`
	Seconds  float64   `json:"seconds"` // of the steps and of the answers to the images
	Warnings []Warning `json:"warnings"`
	// VerdictOnly: attacks ended at an image's first success, as only verdicts were needed; margins and norms belong
	// to that first point.
	VerdictOnly bool    `json:"verdict_only,omitempty"`
	Solver      *Solver `json:"solver,omitempty"` // the closed loop's means; controlled cells only
	// Smoothed are the answers, to the attack's images, of the smoothed classifiers of the suite's certificates.
	// Absent in other cells.
	Smoothed []Smoothed `json:"smoothed,omitempty"`
	// Votes is present if the network draws random numbers. A verdict then is about the class that most passes
	// answer.
	Votes *Votes `json:"votes,omitempty"`
	// Stored is present if images must lie on the levels of 8 bits, in the cells whose network was attacked.
	Stored *Stored `json:"stored,omitempty"`
	// Agreement is present if attacks ran in less than float32, in the cells whose network was attacked.
	Agreement *Agreement `json:"agreement,omitempty"`
	// AlexNetError is AlexNet's published error under the cell's corruption, a mean over the severities, if the
	// images are ImageNet's. The mean corruption error divides by it. Absent otherwise.
	AlexNetError float64 `json:"alexnet_error,omitempty"`
	// Brackets count, at the epsilons of a bracket, the images that are proven and those left open. Area is then the
	// mean distance between the proven radius and the broken one.
	Brackets []Bracket `json:"brackets,omitempty"`
	// Seeds are the accuracies under each seed of a run with several, this cell's own first. Clean cells have none:
	// nothing in them is random.
	Seeds []SeedScore `json:"seeds,omitempty"`
	// Measures are the task's, over the cell's images: those at which an attack stopped, and the clean ones of
	// standing images. Absent for classification.
	Measures []Measure `json:"measures,omitempty"`
	// Error says why there are no verdicts. The cell's numbers then mean nothing.
	Error string `json:"error,omitempty"`
}

// Measure is a number of a task beside how many answers are right, such as the mean IoU of a segmentation.
type Measure struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
}

// Planted counts images in each of which a perturbation was planted that the cell's attack should find (Zimmermann et
// al. 2022).
type Planted struct {
	N      int    `json:"n"`
	Found  int    `json:"found"`         // by the attack
	Random int    `json:"random"`        // by as many random points as the attack made passes
	Why    string `json:"why,omitempty"` // why nothing can be planted in the network
}

// Missed reports whether the attack misses more than one in twenty, and not one alone.
func (p *Planted) Missed() bool { return p != nil && p.N-p.Found > 1 && 20*p.Found < 19*p.N }

// Warn adds a warning.
func (c *Cell) Warn(all ...Warning) {
	for _, w := range all {
		if c.Warnings = append(c.Warnings, w); c.Attack != cell.None && slices.Contains(Signs, w.ID) {
			c.Masking = lists.Once(c.Masking, w.ID)
		}
	}
}

// Missed reports whether the cell's attack misses planted perturbations, and images stand that it may have missed.
func (c *Cell) Missed() bool { return c.Correct > 0 && c.Planted.Missed() }

// Judged returns the cell with verdicts, one or more, and the numbers that follow from them.
func (c Cell) Judged(verdicts string) Cell {
	c.Verdicts, c.N, c.Correct = verdicts, len(verdicts), strings.Count(verdicts, "1")
	c.Accuracy, c.CI95 = float64(c.Correct)/float64(c.N), stats.Wilson(c.Correct, c.N)
	return c
}

// Smoothed is the result of a smoothed classifier on a cell's images. It answers the class most frequent under the
// noise of a certificate's n0 samples, so it is another classifier than the cell's, which was attacked.
type Smoothed struct {
	Certificate string  `json:"certificate"` // the certificate's name
	Correct     int     `json:"correct"`
	Accuracy    float64 `json:"accuracy"`
	Verdicts    string  `json:"verdicts"` // in the form of the cell's
	// Proven is how many images have a certified ℓ2 ball that contains the cell's: a radius of at least epsilon for
	// l2 and l1, of epsilon·√(C·H·W) for linf.
	Proven int `json:"proven"`
	// Within is how many broken images lie within their certified radius. On Broken of them the smoothed classifier
	// nevertheless answers another class, beyond chance.
	Within int `json:"within"`
	Broken int `json:"broken,omitempty"`
}

// Votes says how far verdicts depend on the random numbers that a network draws.
type Votes struct {
	Passes int `json:"passes"` // that decide an answer
	// fraction of the images that a single pass gets right: the mean over all passes
	Expected float64    `json:"expected"`
	CI95     [2]float64 `json:"ci95"` // of Expected on these images, for the limited number of draws
	// Undecided is how many images have two most frequent answers that the passes do not tell apart (exact sign test
	// at 5 %): other draws may change the verdict.
	Undecided int `json:"undecided"`
}

// Bracket is the result of bounds and attacks together at an epsilon.
type Bracket struct {
	Epsilon float64 `json:"epsilon"`
	Proven  int     `json:"proven"` // images that nothing within epsilon breaks
	Left    int     `json:"left"`   // images neither proven nor broken within epsilon
}

// Stored is the effect on adversarial images of rounding them to the levels k/255.
type Stored struct {
	Regained int `json:"regained"` // images that rounding healed and a search among the levels broke again
	// images that stand because rounding healed them, or because no level lies within epsilon
	Lost int `json:"lost"`
}

// Agreement compares attacks in less than float32 with the same in float32: a sample of the standing images was
// attacked again.
type Agreement struct {
	N     int `json:"n"`     // images that were attacked again
	Agree int `json:"agree"` // those that stood again
}

// SeedScore is a cell's accuracy under one seed of its attack. Networks, controls and their fits are the same under
// every seed.
type SeedScore struct {
	Seed     uint64  `json:"seed"`
	Correct  int     `json:"correct"`
	Accuracy float64 `json:"accuracy"`
	Verdicts string  `json:"verdicts"` // in the form of the cell's
	Seconds  float64 `json:"seconds"`
}

// Spread is how far a cell's accuracy depends on its attack's seed.
type Spread struct {
	Seeds     int
	Mean      float64 // of the accuracies
	Deviation float64 // their standard deviation, with n − 1
	Min, Max  float64
	Every     float64 // fraction of the images that are right under every seed
}

// Spread returns the spread of a cell with several seeds. ok is false for others.
func (c Cell) Spread() (s Spread, ok bool) {
	if len(c.Seeds) < 2 {
		return s, false
	}
	accuracies := lists.Map(c.Seeds, func(one SeedScore) float64 { return one.Accuracy })
	s = Spread{Seeds: len(c.Seeds), Min: slices.Min(accuracies), Max: slices.Max(accuracies)}
	s.Mean, s.Deviation = stat.MeanStdDev(accuracies, nil)
	for i := range c.Verdicts {
		if !slices.ContainsFunc(c.Seeds, func(one SeedScore) bool { return one.Verdicts[i] != '1' }) {
			s.Every++
		}
	}
	s.Every /= float64(max(len(c.Verdicts), 1))
	return s, true
}

// passes sums the cell's passes over its components.
func (c Cell) passes() (sum Step) {
	for _, s := range c.Steps {
		sum.Forward, sum.Backward = sum.Forward+s.Forward, sum.Backward+s.Backward
	}
	return sum
}

// time returns the seconds over all seeds.
func (c Cell) time() float64 {
	sum := c.Seconds // of the first seed
	for _, other := range c.Seeds[min(len(c.Seeds), 1):] {
		sum += other.Seconds
	}
	return sum
}

// Step is one component of an attack.
type Step struct {
	Attack   string  `json:"attack"`
	Attacked int     `json:"attacked"`         // images on which it ran
	Proven   int     `json:"proven,omitempty"` // of these, proven by bounds; later components skip them
	Robust   float64 `json:"robust"`           // accuracy over all n images after it
	Forward  int64   `json:"forward"`          // passes, in images
	Backward int64   `json:"backward"`
	Seconds  float64 `json:"seconds"`
}

// Solver summarises the control problem's objective over a cell's images.
type Solver struct {
	Method      string  `json:"method"`
	Objective   float64 `json:"objective"`    // mean of Σ_t L(x_t, u_t), final controls
	Greedy      float64 `json:"greedy"`       // the same at the greedy start
	BelowGreedy float64 `json:"below_greedy"` // fraction of images that end strictly below greedy
	ControlNorm float64 `json:"control_norm"` // mean over images of sqrt(Σ_t ‖u_t‖²)
	// cost of one controlled pass in passes of the undefended network, by FLOPs
	PassesPerRun float64 `json:"passes_per_forward"`
	// Layers are means over the images, from the first controlled layer to the last.
	Layers []SolverLayer `json:"layers,omitempty"`
	// Sweeps are the objective at the greedy start and after each sweep, as means over the first Traced images, since
	// following costs passes. Absent for greedy control.
	Sweeps []float64 `json:"sweeps,omitempty"`
	Traced int       `json:"traced,omitempty"`
}

// Record is one line of records.jsonl: one image in one cell.
type Record struct {
	cell.ID          // without the data set
	Image     int    `json:"image"`
	File      string `json:"file,omitempty"` // its path in the data set, if it has a file of its own
	Label     int    `json:"label"`
	Verdict   int    `json:"verdict"`
	Predicted int    `json:"predicted"` // class of the largest logit; arbitrary for an answer with NaN
	// Confidence is the probability that the answer gives to Predicted; absent if it gives none, such as a label alone
	// and in records of older versions.
	Confidence   float64  `json:"confidence,omitempty"`
	Margin       Margin   `json:"margin"` // z_y − max other logit on this cell's image; null if it is not a number
	Norm         float64  `json:"norm"`   // of its perturbation, 0 if never broken
	FirstSuccess *int     `json:"first_success"`
	CleanMargin  *float64 `json:"clean_margin,omitempty"` // margin on the clean image, by the same model and defense
	Queries      *int     `json:"queries,omitempty"`      // forward passes up to the first success
	// Distance is the smallest norm that breaks the image, for an attack that minimises the norm. It is 0 if the
	// clean image is wrong, null if none was found.
	Distance *Distance `json:"distance,omitempty"`
	// passes that answer the label, for a network that draws random numbers
	Votes *int `json:"votes,omitempty"`
	// number of pixels that differ in at least one channel, for the norm ℓ0
	Pixels *int `json:"pixels,omitempty"`
	// Rotation, in degrees clockwise, and Translation, in pixels to the right and down, are the pose to which an
	// attack moved the image; absent for other attacks and for standing images.
	Rotation    *float64    `json:"rotation,omitempty"`
	Translation *[2]float64 `json:"translation,omitempty"`
	// Radius is the certified ℓ2 radius of the label, by smoothing: 0 if the smoothed classifier answers another
	// class or abstains.
	Radius *float64 `json:"radius,omitempty"`
	// Proven is the largest radius within which bounds exclude every other class. Broken is the smallest norm of a
	// perturbation by which an attack has broken the image, or null. Both belong to a bracket and are 0 if the clean
	// image is wrong.
	Proven *float64  `json:"proven,omitempty"`
	Broken *Distance `json:"broken,omitempty"`
	// Bound is the least margin of the label within epsilon by bounds, before Slack for float32's rounding is
	// subtracted: the image is certified if Bound > Slack. Absent if there are no bounds.
	Bound *float64 `json:"bound,omitempty"`
	Slack *float64 `json:"slack,omitempty"`
}

// Distance is a norm, infinite if there is none; JSON has null for that.
type Distance float64

// MarshalJSON writes a number or null.
func (d Distance) MarshalJSON() ([]byte, error) { return Margin(d).MarshalJSON() }

// Margin is a difference of logits. JSON has null for NaN and infinite margins; null is read as NaN.
type Margin float64

// MarshalJSON writes a number or null.
func (m Margin) MarshalJSON() ([]byte, error) {
	if !number.Finite(float64(m)) {
		return []byte("null"), nil
	}
	return json.Marshal(float64(m))
}

// UnmarshalJSON reads a number or null.
func (m *Margin) UnmarshalJSON(text []byte) error {
	v := math.NaN()
	if string(text) != "null" {
		if err := json.Unmarshal(text, &v); err != nil {
			return err
		}
	}
	*m = Margin(v)
	return nil
}

// Column is a row of the table of columns: a number of a cell, or of the records of its images.
type Column struct {
	Table string // the table by cell that has it; "" for none
	Head  string // its heading there
	CSV   string // its name in tables.csv, where fractions are not in per cent; "" for none
	Unit  Unit
	Of    Reading // nil for a column that belongs to two cells or to a published number: reports fill it
	Rare  bool    // a table leaves it out if no cell of the suite has it
}

// Reading reads a column: an integer, a float64, a [Ranged], a text or a bool; nil where the column does not apply. all
// is nil without records.
type Reading = func(c *Cell, all *Recorded) any

// Ranged is a number with its 95 % interval.
type Ranged struct {
	Value float64
	CI95  [2]float64
}

// Unit says how tables write a column's floating-point numbers.
type Unit int

// The units.
const (
	Plain    Unit = iota // with three digits
	Fraction             // in per cent
	Accuracy             // in per cent, with the mark of a cell whose gradients failed
	Norm                 // in the cell's norm; one that is infinite exceeds the cell's epsilon
	Whole                // a count, or the middle of two
	Passes               // with their sum
	Seconds              // with their sum
)

// The tables by cell. A cell has a row in a table if a column of the table applies to it.
const (
	SpreadTable   = "seeds"
	VotesTable    = "votes"
	DistanceTable = "distance"
	SolverTable   = "solver"
	MarginTable   = "margins"
	CostTable     = "cost"
	PlantedTable  = "planted"
	// CalibrationTable says how far probabilities can be trusted, and how soon images break.
	CalibrationTable = "calibration"
)

// Columns is the table. The reports' tables by cell have its columns in its order, and so has tables.csv.
var Columns = slices.Concat(
	unread("suite", "dataset", "model", "defense", "mode", "source", "attack", "norm", "epsilon"),
	[]Column{
		{CSV: "n", Of: whole(func(c *Cell) any { return c.N })},
		{CSV: "correct", Of: judged(func(c *Cell) any { return c.Correct })},
		{CSV: "accuracy", Of: whole(func(c *Cell) any { return c.Accuracy })},
		{CSV: "ci_low", Of: judged(func(c *Cell) any { return c.CI95[0] })},
		{CSV: "ci_high", Of: judged(func(c *Cell) any { return c.CI95[1] })},
		{CSV: "max_norm", Of: whole(func(c *Cell) any { return c.MaxNorm })},
		{CSV: "seconds", Of: whole(func(c *Cell) any { return c.Seconds })},
		{CSV: "forward", Of: whole(func(c *Cell) any { return c.passes().Forward })},
		{CSV: "backward", Of: whole(func(c *Cell) any { return c.passes().Backward })},
		{CSV: "recipe", Of: whole(func(c *Cell) any { return c.Recipe })},
		{CSV: "verdict_only", Of: whole(func(c *Cell) any { return c.VerdictOnly })},
		{CSV: "warnings", Of: whole(func(c *Cell) any {
			return strings.Join(lists.Distinct(c.Warnings, func(w Warning) string { return w.ID }), " ")
		})}},
	unread("published", "difference", "published_in_ci"),
	[]Column{
		{CSV: "area", Of: whole(func(c *Cell) any { return Known(c.Area) })},
		{CSV: "rounding_regained", Of: stored(func(s *Stored) any { return s.Regained })},
		{CSV: "rounding_lost", Of: stored(func(s *Stored) any { return s.Lost })}},
	in(VotesTable, []Column{
		{Head: "Passes", Of: votes(func(c *Cell) any { return c.Votes.Passes })},
		{Head: "By votes (%)", Unit: Accuracy, Of: votes(func(c *Cell) any { return c.Accuracy })},
		{Head: "A single pass (%)", CSV: "single_pass", Unit: Fraction,
			Of: votes(func(c *Cell) any { return Ranged{c.Votes.Expected, c.Votes.CI95} })},
		{Head: "Undecided images", CSV: "undecided", Of: votes(func(c *Cell) any { return c.Votes.Undecided })}}),
	in(SpreadTable, []Column{
		{Head: "Seeds", CSV: "seeds", Of: spread(func(s *Spread) any { return s.Seeds })},
		{Head: "Mean", CSV: "accuracy_mean", Unit: Fraction, Of: spread(func(s *Spread) any { return s.Mean })},
		{Head: "Standard deviation", CSV: "accuracy_std", Unit: Fraction,
			Of: spread(func(s *Spread) any { return s.Deviation })},
		{Head: "Lowest", CSV: "accuracy_min", Unit: Fraction, Of: spread(func(s *Spread) any { return s.Min })},
		{Head: "Highest", CSV: "accuracy_max", Unit: Fraction, Of: spread(func(s *Spread) any { return s.Max })},
		{Head: "Right under every seed", CSV: "accuracy_every_seed", Unit: Fraction,
			Of: spread(func(s *Spread) any { return s.Every })}}),
	unread("healed", "harmed", "p_value"),
	in(PlantedTable, []Column{
		{Head: "Planted", CSV: "planted", Of: planted(func(p *Planted) any { return p.N })},
		{Head: "Found by the attack", CSV: "planted_found", Of: planted(func(p *Planted) any { return p.Found })},
		{Head: "Found at random", CSV: "planted_random", Of: planted(func(p *Planted) any { return p.Random })}}),
	in(DistanceTable, []Column{
		{Head: "Right images", Of: reached(func(of *both) any { return len(of.Reach) })},
		{Head: "Unbroken", Of: reached(func(of *both) any {
			return lists.Count(of.Reach, func(d float64) bool { return math.IsInf(d, 1) })
		})},
		{Head: "10 % below", Unit: Norm, Of: reached(func(of *both) any { return lists.Quantile(of.Reach, 0.1) })},
		{Head: "Median", Unit: Norm, Of: reached(func(of *both) any { return lists.Median(of.Reach) })},
		{Head: "90 % below", Unit: Norm, Of: reached(func(of *both) any { return lists.Quantile(of.Reach, 0.9) })},
		{Head: "Area", Of: reached(func(of *both) any { return Known(of.Area) })},
		{Head: "Median pixels", Unit: Whole, Rare: true,
			Of: reached(func(of *both) any { return of.quantile("pixels", 0.5) })}}),
	in(SolverTable, []Column{
		{Head: "Method", Of: solver(func(s *Solver) any { return s.Method })},
		{Head: "Objective", Of: solver(func(s *Solver) any { return s.Objective })},
		{Head: "Greedy start", Of: solver(func(s *Solver) any { return s.Greedy })},
		{Head: "Below greedy (%)", Unit: Fraction, Of: solver(func(s *Solver) any { return s.BelowGreedy })},
		{Head: "Control norm", Of: solver(func(s *Solver) any { return s.ControlNorm })},
		{Head: "Plain passes per controlled pass", Of: solver(func(s *Solver) any { return s.PassesPerRun })}}),
	in(MarginTable, []Column{
		{Head: "10 % below", Of: quantile("margin", 0.1)},
		{Head: "Median", Of: quantile("margin", 0.5)},
		{Head: "90 % below", Of: quantile("margin", 0.9)},
		{Head: "Median on clean images", Of: quantile("clean_margin", 0.5)},
		{Head: "Perturbed images", Of: recorded(func(r *Recorded) any { return len(r.Values["norm"]) })},
		{Head: "Median perturbation", Unit: Norm, Of: quantile("norm", 0.5)},
		{Head: "Median iteration of first success", Of: quantile("first_success", 0.5)},
		{Head: "Median forward passes to it", Of: quantile("queries", 0.5)}}),
	in(CalibrationTable, []Column{
		{Head: "Calibration error (%)", CSV: "ece", Unit: Fraction,
			Of: calibrated(func(c *Calibrated) any { return c.Error })},
		{Head: "Area under risk and coverage (%)", CSV: "risk_area", Unit: Fraction,
			Of: calibrated(func(c *Calibrated) any { return c.Area })},
		{Head: "Wrong among the most confident 80 % (%)", CSV: "risk_80", Unit: Fraction,
			Of: calibrated(func(c *Calibrated) any { return c.Risk })},
		{Head: "10 % break by iteration", Unit: Whole, Rare: true,
			Of: calibrated(func(c *Calibrated) any { return c.Broken(0.1) })},
		{Head: "Half", Unit: Whole, Rare: true, Of: calibrated(func(c *Calibrated) any { return c.Broken(0.5) })},
		{Head: "90 %", Unit: Whole, Rare: true, Of: calibrated(func(c *Calibrated) any { return c.Broken(0.9) })}}),
	in(CostTable, []Column{
		{Head: "Forward passes", Unit: Passes, Of: stepped(func(c *Cell) any { return c.passes().Forward })},
		{Head: "Backward passes", Unit: Passes, Of: stepped(func(c *Cell) any { return c.passes().Backward })},
		{Head: "Largest perturbation", Unit: Norm, Of: bounded(func(c *Cell) any { return c.MaxNorm })},
		{Head: "Time", Unit: Seconds, Of: whole(func(c *Cell) any { return c.time() })}}),
)

// in puts columns into a table.
func in(table string, all []Column) []Column {
	for i := range all {
		all[i].Table = table
	}
	return all
}

// unread returns columns of tables.csv that reports fill.
func unread(names ...string) []Column {
	return lists.Map(names, func(name string) Column { return Column{CSV: name} })
}

// both is a cell with the records of its images.
type both struct {
	*Cell
	*Recorded
}

// Readings of a part, nil for cells that lack it.
var (
	whole    = when(func(*Cell) bool { return true })
	judged   = when(func(c *Cell) bool { return c.Verdicts != "" }) // a mean over corruptions has no verdicts
	votes    = when(func(c *Cell) bool { return c.Votes != nil })
	bounded  = when(func(c *Cell) bool { return c.Epsilon != 0 })
	stepped  = when(func(c *Cell) bool { return len(c.Steps) > 0 })
	stored   = part(func(c *Cell, _ *Recorded) *Stored { return c.Stored })
	planted  = part(func(c *Cell, _ *Recorded) *Planted { return c.Planted })
	solver   = part(func(c *Cell, _ *Recorded) *Solver { return c.Solver })
	recorded = part(func(_ *Cell, all *Recorded) *Recorded { return all })
	spread   = part(func(c *Cell, _ *Recorded) *Spread {
		if s, ok := c.Spread(); ok {
			return &s
		}
		return nil
	})
	calibrated = part(func(c *Cell, all *Recorded) *Calibrated { return all.Calibrated(c.N) })
	reached    = part(func(c *Cell, all *Recorded) *both {
		if all.Distances(c) {
			return &both{c, all}
		}
		return nil
	})
)

// quantile reads a quantile of the images' numbers of that name in the record.
func quantile(name string, q float64) Reading {
	return recorded(func(r *Recorded) any { return r.quantile(name, q) })
}

func when(holds func(c *Cell) bool) func(func(c *Cell) any) Reading {
	return part(func(c *Cell, _ *Recorded) *Cell {
		if holds(c) {
			return c
		}
		return nil
	})
}

func part[T any](of func(c *Cell, all *Recorded) *T) func(func(*T) any) Reading {
	return func(read func(*T) any) Reading {
		return func(c *Cell, all *Recorded) any {
			if p := of(c, all); p != nil {
				return read(p)
			}
			return nil
		}
	}
}

// Known returns what p points to; nil if it is nil.
func Known[T any](p *T) any {
	if p == nil {
		return nil
	}
	return *p
}
