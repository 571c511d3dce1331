// Package result is the one schema of what a run writes: results.json and records.jsonl. Field names are fixed.
package result

import (
	"encoding/json"
	"math"
	"slices"
	"time"

	"gonum.org/v1/gonum/stat"

	"selfheal/harness/cell"
	"selfheal/internal/lists"
	"selfheal/internal/number"
)

// Schema names the version of the result file's layout.
const Schema = "selfheal.results/1"

// File is results.json.
type File struct {
	Schema       string             `json:"schema"`
	Created      time.Time          `json:"created"`
	Finished     *time.Time         `json:"finished,omitempty"` // absent while cells may be missing
	ConfigSHA256 string             `json:"config_sha256"`      // of the resolved plan, but for what moves no number
	Seed         uint64             `json:"seed"`
	Seeds        []uint64           `json:"seeds,omitempty"`   // all of them, where there are several
	Command      []string           `json:"command,omitempty"` // the command that repeats the run, word by word
	Environment  Environment        `json:"environment"`
	Datasets     map[string]Dataset `json:"datasets"`
	Models       map[string]Model   `json:"models"`
	Attacks      map[string]Attack  `json:"attacks"`  // those that made cells
	Controls     map[string]Control `json:"controls"` // those that made cells
	// Images tell those of each data set apart; absent in files older than it.
	Images  map[string]Images `json:"images,omitempty"`
	Suites  []Suite           `json:"suites,omitempty"`
	Fits    []Fit             `json:"fits,omitempty"`
	Cells   []Cell            `json:"cells"`
	Failed  []string          `json:"failed,omitempty"` // why further seeds of some cells have no verdicts
	Solver  []SolverStudy     `json:"solver,omitempty"` // solver studies
	Theory  *Theory           `json:"theory,omitempty"` // its checks and figures are part of the report
	Gallery *Gallery          `json:"-"`                // gallery.json, which lies beside; nil for none
}

// Theory says which run of the theory's experiments a report has. They need nothing but a
// seed and take seconds, so that whoever renders a report makes them again.
type Theory struct {
	Seed uint64 `json:"seed"`
}

// Environment is where and with what the run was made.
type Environment struct {
	Selfheal    string `json:"selfheal"`
	Go          string `json:"go"`
	ONNXRuntime string `json:"onnxruntime"`
	Provider    string `json:"provider"`
	Precision   string `json:"precision"` // of attacks' passes: f32, bf16, tf32; verdicts are of float32
	Workers     int    `json:"workers"`
	Threads     int    `json:"threads,omitempty"` // of one worker's run; 0 in files older than it
	Batch       int    `json:"batch"`
	Winograd    bool   `json:"winograd,omitempty"` // convolutions were rewritten for the CPU
	CPU         string `json:"cpu"`
	// CPUs are all kinds of processor, where shards of the run had several: their last digits may differ.
	CPUs []string `json:"cpus,omitempty"`
}

// Suite says how a suite was set up, in the config's order, so that reports can be rendered again.
type Suite struct {
	Name     string   `json:"name"`
	Title    string   `json:"title,omitempty"`
	Dataset  string   `json:"dataset"`
	Mode     string   `json:"mode"`
	Models   []string `json:"models"`
	Controls []string `json:"controls"`
	Attacks  []string `json:"attacks"`
	// Pairs are of the suite's models, to compare on the same images.
	Pairs [][]string `json:"pairs,omitempty"`
	// Published holds numbers from elsewhere, to show beside the suite's own.
	Published *Published `json:"published,omitempty"`
}

// Published are accuracies that somebody else has measured.
type Published struct {
	Source string          `json:"source"`         // a bundled table, as table2-standard, or "config"
	Mode   string          `json:"mode,omitempty"` // what the attacker knew: oblivious, whitebox; "": unknown
	Cells  []PublishedCell `json:"cells"`
}

// PublishedCell is one published accuracy. Where the suite has its model, defense and
// attack it names them as the suite does, else as its source does.
type PublishedCell struct {
	cell.Row
	cell.Column
	Norm     *string `json:"norm"` // null for "none"
	Accuracy float64 `json:"accuracy"`
}

// Fit describes an embedding that was fitted for a run.
type Fit struct {
	Control  string  `json:"control"`
	Model    string  `json:"model"`
	At       string  `json:"at"`
	Dim      int     `json:"dim"`
	Rank     int     `json:"rank"`
	Variance float64 `json:"variance"` // share of the variance kept
	Samples  int     `json:"samples"`
	Cached   bool    `json:"cached"`
	Seconds  float64 `json:"seconds"`
}

// Cell is one accuracy: a model, with or without a controller, under an attack.
type Cell struct {
	cell.ID
	Norm     *string    `json:"norm"`   // linf, l2, l1, l0; null for "none" and what has none
	Recipe   string     `json:"recipe"` // which attack made the images, with its version; "" for "none"
	N        int        `json:"n"`
	Correct  int        `json:"correct"`
	Accuracy float64    `json:"accuracy"`
	CI95     [2]float64 `json:"ci95"`     // Wilson
	Verdicts string     `json:"verdicts"` // one character an image, in data set order: '1' = right
	Steps    []Step     `json:"steps"`    // one a component; empty for "none" and oblivious controlled cells
	MaxNorm  float64    `json:"max_norm"` // largest perturbation among the cell's images
	// WithinRounding is how many images the attack broke by a margin of at most 1e-5 of the largest logit (or of 1):
	// another runtime, or another processor, may find them right. Absent where there are none.
	WithinRounding int `json:"within_rounding,omitempty"`
	// Near are the places in Verdicts, from 0 on, of all images, right or wrong, whose margin is as small. Absent where
	// there are none.
	Near []int `json:"near,omitempty"`
	// GradientFailures is how many of the images that stand did so while an attack's gradients on them were NaN or
	// infinite, or 0 at the start of all its runs: they were hardly attacked, and the accuracy is at most what it
	// says. Absent where there are none.
	GradientFailures int `json:"gradient_failures,omitempty"`
	// Area is that under the curve of accuracy against epsilon, up to the largest one that the attack was made at, of
	// attacks that minimise the norm: the mean smallest norm, in units of epsilon.
	Area     *float64  `json:"area,omitempty"`
	Seconds  float64   `json:"seconds"` // of the steps and of the answers to the images
	Warnings []Warning `json:"warnings"`
	// VerdictOnly: attacks ended at an image's first success, as nobody needed the
	// images of full strength; margins and norms are those of that first point.
	VerdictOnly bool    `json:"verdict_only,omitempty"`
	Solver      *Solver `json:"solver,omitempty"` // how the closed loop did, controlled cells only
	// Smoothed are the answers of the smoothed classifiers of the suite's certificates to the attack's images, beside
	// which certified accuracies stand. Absent on other cells.
	Smoothed []Smoothed `json:"smoothed,omitempty"`
	// Votes is there where the network draws at random: verdicts are those of the class that most passes answer.
	Votes *Votes `json:"votes,omitempty"`
	// Stored is there where the images that count lie on the levels of 8 bits, on the cells whose network was attacked.
	Stored *Stored `json:"stored,omitempty"`
	// Agreement is there where attacks ran in less than float32, on the cells whose network was attacked.
	Agreement *Agreement `json:"agreement,omitempty"`
	// AlexNetError is the published error of AlexNet under the cell's corruption, a mean over the severities, where the
	// images are ImageNet's: what the mean corruption error divides by. Absent elsewhere.
	AlexNetError float64 `json:"alexnet_error,omitempty"`
	// Brackets are how many images are proven and how many are left at the epsilons of a bracket, whose Area is the
	// mean of what lies between the radius proven and the one broken.
	Brackets []Bracket `json:"brackets,omitempty"`
	// Seeds are the accuracies under each seed of a run with several, this cell's own first.
	// Clean cells have none: nothing in them is random.
	Seeds []SeedScore `json:"seeds,omitempty"`
	// Error says why there are no verdicts; the numbers of such a cell mean nothing.
	Error string `json:"error,omitempty"`
}

// Smoothed is what a smoothed classifier answers on a cell's images: the class that is answered most often under the
// noise of a certificate's n0 samples. It is another classifier than the cell's, which was attacked.
type Smoothed struct {
	Certificate string  `json:"certificate"` // the certificate's name
	Correct     int     `json:"correct"`
	Accuracy    float64 `json:"accuracy"`
	Verdicts    string  `json:"verdicts"` // as the cell's
	// Proven images have a certified ℓ2 ball around the cell's: at l2 and l1 a radius of epsilon or more, at linf of
	// epsilon·√(C·H·W).
	Proven int `json:"proven"`
	// Within is how many broken images lie within their certified radius; on Broken of them the smoothed classifier
	// answers another class all the same, beyond what chance explains.
	Within int `json:"within"`
	Broken int `json:"broken,omitempty"`
}

// Votes says how far verdicts depend on what a network that draws at random has drawn.
type Votes struct {
	Passes   int        `json:"passes"`   // that decide an answer
	Expected float64    `json:"expected"` // share of the images that a single pass gets right: the mean over all passes
	CI95     [2]float64 `json:"ci95"`     // of Expected on these images, as far as the draws are few
	// Undecided are images whose two most frequent answers are not told apart by as many passes (the exact sign test
	// at 5 %): other draws may turn the verdict.
	Undecided int `json:"undecided"`
}

// Bracket is what is known at an epsilon, by bounds and attacks together.
type Bracket struct {
	Epsilon float64 `json:"epsilon"`
	Proven  int     `json:"proven"` // images that nothing within epsilon breaks
	Left    int     `json:"left"`   // images that nothing is known to break within epsilon
}

// Stored is what rounding to the levels k/255 did to adversarial images.
type Stored struct {
	Regained int `json:"regained"` // images that it undid, broken again by a search among the levels
	Lost     int `json:"lost"`     // images that stand since it undid them, or have no levels within epsilon
}

// Agreement is of attacks in less than float32 with the same in float32: of the images that stood, a sample was
// attacked again.
type Agreement struct {
	N     int `json:"n"`     // images that were attacked again
	Agree int `json:"agree"` // of these, that stood again
}

// SeedScore is a cell's accuracy when its attack is made from one seed. Networks, controls
// and their fits are the same under every seed.
type SeedScore struct {
	Seed     uint64  `json:"seed"`
	Correct  int     `json:"correct"`
	Accuracy float64 `json:"accuracy"`
	Verdicts string  `json:"verdicts"` // as the cell's
	Seconds  float64 `json:"seconds"`
}

// Spread is how far a cell's accuracy depends on its attack's seed.
type Spread struct {
	Seeds     int
	Mean      float64 // of the accuracies
	Deviation float64 // their standard deviation, with n − 1
	Min, Max  float64
	Every     float64 // share of the images that are right under every seed
}

// Spread returns the spread of a cell with several seeds; ok is false for others.
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

// Step is one component of an attack.
type Step struct {
	Attack   string  `json:"attack"`
	Attacked int     `json:"attacked"`         // images it was run on
	Proven   int     `json:"proven,omitempty"` // of these, by bounds: no later component is run on them
	Robust   float64 `json:"robust"`           // accuracy over all n images after it
	Forward  int64   `json:"forward"`          // passes, in images
	Backward int64   `json:"backward"`
	Seconds  float64 `json:"seconds"`
}

// Solver summarises the control problem's objective over a cell's images.
type Solver struct {
	Method       string  `json:"method"`
	Objective    float64 `json:"objective"`          // mean of Σ_t L(x_t, u_t), final controls
	Greedy       float64 `json:"greedy"`             // the same at the greedy start
	BelowGreedy  float64 `json:"below_greedy"`       // share of images that end strictly below greedy
	ControlNorm  float64 `json:"control_norm"`       // mean over images of sqrt(Σ_t ‖u_t‖²)
	PassesPerRun float64 `json:"passes_per_forward"` // cost of one controlled pass in plain passes, by FLOPs
	// Layers are means over the images, from the first controlled layer to the last.
	Layers []SolverLayer `json:"layers,omitempty"`
	// Sweeps are the objective at the greedy start and after each sweep, means over the
	// first Traced images: following all of them would cost passes. Absent of greedy control.
	Sweeps []float64 `json:"sweeps,omitempty"`
	Traced int       `json:"traced,omitempty"`
}

// Record is one line of records.jsonl: one image in one cell.
type Record struct {
	cell.ID               // without the data set
	Image        int      `json:"image"`
	Label        int      `json:"label"`
	Verdict      int      `json:"verdict"`
	Predicted    int      `json:"predicted"` // the class of the largest logit; of an answer with NaN any
	Margin       Margin   `json:"margin"`    // z_y − max other logit on this cell's image; null where it is no number
	Norm         float64  `json:"norm"`      // of its perturbation, 0 when never broken
	FirstSuccess *int     `json:"first_success"`
	CleanMargin  *float64 `json:"clean_margin,omitempty"` // the margin on the clean image; same model and defense
	Queries      *int     `json:"queries,omitempty"`      // forward passes up to the first success
	// Distance is the smallest norm that breaks it, by an attack that minimises the norm: 0 where it is wrong without
	// one, null where none was found.
	Distance *Distance `json:"distance,omitempty"`
	Votes    *int      `json:"votes,omitempty"`  // passes that answer the label, of a network that draws at random
	Pixels   *int      `json:"pixels,omitempty"` // that differ in a channel or more, where the norm is ℓ0
	// Rotation, in degrees and clockwise, and Translation, in pixels to the right and down, are where an attack that
	// moves images moved it to; absent elsewhere and where it stands.
	Rotation    *float64    `json:"rotation,omitempty"`
	Translation *[2]float64 `json:"translation,omitempty"`
	// Radius is the certified ℓ2 radius of the label, by smoothing: 0 where the smoothed classifier answers another
	// class or abstains.
	Radius *float64 `json:"radius,omitempty"`
	// Proven is the largest radius within which bounds leave no other class, and Broken the smallest norm that an
	// attack has broken the image with, null where none has, of a bracket: both are 0 where the image is wrong without
	// one.
	Proven *float64  `json:"proven,omitempty"`
	Broken *Distance `json:"broken,omitempty"`
	// Bound is the least margin of the label within epsilon that bounds leave, before Slack for float32's rounding is
	// taken off: the image is certified where Bound > Slack. Absent where nothing is bounded.
	Bound *float64 `json:"bound,omitempty"`
	Slack *float64 `json:"slack,omitempty"`
}

// Distance is a norm, infinite where there is none; JSON has null for that.
type Distance float64

// MarshalJSON writes a number or null.
func (d Distance) MarshalJSON() ([]byte, error) { return Margin(d).MarshalJSON() }

// Margin is a difference of logits. JSON has null for NaN and infinite ones; null is read as NaN.
type Margin float64

// MarshalJSON writes a number or null.
func (m Margin) MarshalJSON() ([]byte, error) {
	if !number.Finite(float64(m)) {
		return []byte("null"), nil
	}
	return json.Marshal(float64(m))
}

// UnmarshalJSON reads what MarshalJSON writes.
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
