package result

import (
	"cmp"
	"math"

	"selfheal/harness/stats"
	"selfheal/internal/lists"
)

// Recorded collects the records of one cell.
type Recorded struct {
	// Values has a number of each image that has it, by its name in the record. Norms of 0 are left out.
	Values map[string][]float64
	// Reach holds the smallest norm known to break each image that was right to begin with, +Inf if it is unbroken.
	// Images broken at an unknown distance are left out.
	Reach   []float64
	Wrong   int // images that were wrong to begin with
	Classes map[int]Tally
	// confidence has the probabilities of the answers, and known whether each is the label; both may lack images.
	confidence []float64
	known      []bool
	calibrated *Calibrated // made on first use, when all records are there
	found      bool        // some image has a known distance
}

// Tally counts images, and those that are right.
type Tally struct{ Right, N int }

// Share returns the accuracy; −1 if there is no image.
func (t Tally) Share() float64 {
	if t.N == 0 {
		return -1
	}
	return float64(t.Right) / float64(t.N)
}

// Add adds a record.
func (m *Recorded) Add(r Record) {
	if m.Classes == nil {
		m.Classes, m.Values = map[int]Tally{}, map[string][]float64{}
	}
	class := m.Classes[r.Label]
	m.Classes[r.Label] = Tally{class.Right + r.Verdict, class.N + 1}
	if r.Confidence > 0 {
		m.confidence, m.known = append(m.confidence, r.Confidence), append(m.known, r.Predicted == r.Label)
	}
	distant := r.Verdict != 1 && r.FirstSuccess != nil && r.Distance != nil
	add(m, "margin", new(float64(r.Margin)), !math.IsNaN(float64(r.Margin)))
	add(m, "norm", &r.Norm, r.Norm > 0)
	add(m, "clean_margin", r.CleanMargin, true)
	add(m, "first_success", r.FirstSuccess, true)
	add(m, "queries", r.Queries, true)
	add(m, "pixels", r.Pixels, distant)
	switch {
	case r.Verdict == 1:
		m.Reach = append(m.Reach, math.Inf(1))
	case r.FirstSuccess == nil: // it was wrong to begin with
		m.Wrong++
	case distant: // another component may have broken the image at a nearer point
		d := float64(*r.Distance)
		m.Reach, m.found = append(m.Reach, min(d, cmp.Or(r.Norm, d))), true
	}
}

func add[N int | float64](m *Recorded, name string, v *N, holds bool) {
	if v != nil && holds {
		m.Values[name] = append(m.Values[name], float64(*v))
	}
}

// quantile returns a quantile of the images' numbers; nil if there are none.
func (m *Recorded) quantile(name string, q float64) any {
	if len(m.Values[name]) == 0 {
		return nil
	}
	return lists.Quantile(m.Values[name], q)
}

// Calibrated says how far the probabilities of a cell's answers can be trusted, attacked or clean.
type Calibrated struct {
	Error float64 // expected calibration error, a fraction: see [stats.CalibrationError]
	Area  float64 // mean fraction of wrong answers if the least confident are left out: see [stats.RiskArea]
	Risk  float64 // fraction of wrong answers among the most confident 80 %
	of    *Recorded
}

// Calibrated returns how far the probabilities of n answers can be trusted, nil if an answer has none.
func (m *Recorded) Calibrated(n int) *Calibrated {
	if m == nil || len(m.confidence) != n || n < 2 {
		return nil
	}
	if m.calibrated == nil {
		bins, risks := stats.CalibrationError(m.confidence, m.known), stats.Risks(m.confidence, m.known)
		m.calibrated = &Calibrated{bins, stats.RiskArea(risks), stats.RiskAt(risks, 0.8), m}
	}
	return m.calibrated
}

// Broken returns the iteration by which a fraction of the images that break are broken; nil if none is.
func (c *Calibrated) Broken(fraction float64) any { return c.of.quantile("first_success", fraction) }

// Distances reports whether the records contain the smallest norms that break a cell's images. They don't if an attack
// that does not minimise the norm broke an image, if attacks ended at the first success, or if the images were made on
// another network.
func (m *Recorded) Distances(c *Cell) bool {
	// An image that another attack broke counts neither in Reach nor as wrong from the start.
	return m != nil && m.found && len(c.Steps) > 0 && !c.VerdictOnly && len(m.Reach)+m.Wrong == c.N
}
