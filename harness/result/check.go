package result

import (
	"cmp"
	"fmt"
	"iter"
	"math"
	"slices"
	"strings"

	"selfheal/harness/cell"
	"selfheal/harness/stats"
)

// check returns an error for a file that no run writes. Readers rely on verdicts that agree with their counts, on
// fractions in [0,1] and on numbers that can be drawn.
func (f *File) check() error {
	seen, known := map[cell.ID]bool{}, map[string]bool{}
	for _, s := range f.Suites {
		known[s.Name] = true
		for _, pair := range s.Pairs {
			if len(pair) != 2 {
				return fmt.Errorf("suite %q has a pair of %d models", s.Name, len(pair))
			}
		}
	}
	for _, c := range f.Cells {
		if len(known) > 0 && !known[c.Suite] {
			return fmt.Errorf("a cell of suite %q, which the file does not list", c.Suite)
		}
		if seen[c.Key()] {
			return fmt.Errorf("two cells of suite %q, model %q, defense %q, attack %q", c.Suite, c.Model, c.Defense,
				c.Attack)
		}
		seen[c.Key()] = true
		if c.Error != "" && c.Verdicts == "" {
			continue
		}
		if err := cmp.Or(c.check(), c.checkSeeds()); err != nil {
			return c.wrong(err)
		}
	}
	for _, s := range f.Solver {
		if err := s.check(); err != nil {
			return fmt.Errorf("solver study of %q on model %q: %w", s.Control, s.Model, err)
		}
	}
	return nil
}

func (c Cell) wrong(err error) error {
	return fmt.Errorf("suite %q, model %q, defense %q, attack %q: %w", c.Suite, c.Model, c.Defense, c.Attack, err)
}

// mostOf bounds norms, objectives and seconds. Larger ones were not measured.
const mostOf = 1e100

// plausible reports whether a run may measure x, a number from 0 up.
func plausible(x float64) bool { return x >= 0 && x < mostOf }

func share(x float64) bool { return x >= 0 && x <= 1 }

// CheckVerdicts returns an error unless a cell's verdicts are one character, 0 or 1, for each of its n ≥ 1 images,
// with as many ones as correct says.
func CheckVerdicts(verdicts string, n, correct int) error {
	right, other := strings.Count(verdicts, "1"), strings.Trim(verdicts, "01")
	switch {
	case len(verdicts) != n || n < 1:
		return fmt.Errorf("%d verdicts of %d images", len(verdicts), n)
	case other != "":
		return fmt.Errorf("its verdicts hold %.1q; they are 0 and 1", other)
	case right != correct:
		return fmt.Errorf("%d verdicts are 1, but correct is %d", right, correct)
	}
	return nil
}

func (c Cell) check() error {
	if err := CheckVerdicts(c.Verdicts, c.N, c.Correct); err != nil {
		return err
	}
	ends := stats.Wilson(c.Correct, c.N)
	switch {
	case !near(c.Accuracy, float64(c.Correct)/float64(c.N), 1e-9):
		return fmt.Errorf("an accuracy of %g, %d of %d are right", c.Accuracy, c.Correct, c.N)
	case !near(c.CI95[0], ends[0], 1e-3) || !near(c.CI95[1], ends[1], 1e-3): // another program may round
		return fmt.Errorf("an interval of %v, which is not that of %d of %d", c.CI95, c.Correct, c.N)
	case c.Source != "" && c.Mode != Transfer:
		return fmt.Errorf("a source %q, which cells of mode %s have, not %s", c.Source, Transfer, c.Mode)
	case !plausible(float64(c.Epsilon)):
		return fmt.Errorf("an epsilon of %g", c.Epsilon)
	case !plausible(c.MaxNorm) || !plausible(c.Seconds):
		return fmt.Errorf("a perturbation of %g or %g seconds", c.MaxNorm, c.Seconds)
	}
	for _, b := range c.Brackets {
		if !(b.Epsilon > 0 && b.Epsilon < mostOf) || b.Proven < 0 || b.Left < b.Proven || b.Left > c.N {
			return fmt.Errorf("at %g %d images proven and %d left of %d", b.Epsilon, b.Proven, b.Left, c.N)
		}
	}
	for _, s := range c.Steps {
		if !share(s.Robust) || s.Attacked < 0 || s.Forward < 0 || s.Backward < 0 || !plausible(s.Seconds) {
			return fmt.Errorf("step %q leaves an accuracy of %g after %d images, %d and %d passes and %g seconds",
				s.Attack, s.Robust, s.Attacked, s.Forward, s.Backward, s.Seconds)
		}
	}
	if s := c.Solver; s != nil {
		numbers := append([]float64{s.Objective, s.Greedy, s.ControlNorm, s.PassesPerRun}, s.Sweeps...)
		for _, l := range s.Layers {
			numbers = append(numbers, l.ControlNorm, l.Loss)
		}
		if i := slices.IndexFunc(numbers, func(x float64) bool { return !plausible(x) }); i >= 0 {
			return fmt.Errorf("its solver has a number of %g", numbers[i])
		}
		if !share(s.BelowGreedy) {
			return fmt.Errorf("a share of %g ends below greedy", s.BelowGreedy)
		}
	}
	return nil
}

// near returns false if one of the numbers is NaN.
func near(a, b, within float64) bool { return math.Abs(a-b) < within }

// checkSeeds returns an error for seeds that no run writes. Readers rely on a verdict for each image.
func (c Cell) checkSeeds() error {
	for _, s := range c.Seeds {
		if len(s.Verdicts) != len(c.Verdicts) || strings.Trim(s.Verdicts, "01") != "" {
			return fmt.Errorf("seed %d has other verdicts than one for each of %d images", s.Seed, len(c.Verdicts))
		}
		n := strings.Count(s.Verdicts, "1")
		if n != s.Correct || !near(s.Accuracy, float64(n)/float64(max(len(s.Verdicts), 1)), 1e-9) ||
			!plausible(s.Seconds) {
			return fmt.Errorf("seed %d has %d right verdicts, and says %d or an accuracy of %g", s.Seed, n, s.Correct,
				s.Accuracy)
		}
	}
	return nil
}

// plausible reports whether d is nil or a distance that a run may measure.
func (d *Distance) plausible() bool {
	return d == nil || math.IsInf(float64(*d), 1) || plausible(float64(*d))
}

func (r Record) check() error {
	switch {
	case r.Verdict != 0 && r.Verdict != 1:
		return fmt.Errorf("a verdict of %d", r.Verdict)
	case r.Image < 0 || r.Label < 0:
		return fmt.Errorf("image %d with label %d", r.Image, r.Label)
	case !plausible(r.Norm):
		return fmt.Errorf("a perturbation of %g", r.Norm)
	case !(r.Confidence >= 0 && r.Confidence <= 1+1e-9):
		return fmt.Errorf("a confidence of %g", r.Confidence)
	case !plausible(float64(r.Epsilon)):
		return fmt.Errorf("an epsilon of %g", r.Epsilon)
	case !r.Distance.plausible():
		return fmt.Errorf("a distance of %g", *r.Distance)
	case !r.Broken.plausible():
		return fmt.Errorf("broken at a distance of %g", *r.Broken)
	case r.Proven != nil && !plausible(*r.Proven):
		return fmt.Errorf("a proven radius of %g", *r.Proven)
	case r.Pixels != nil && *r.Pixels < 0:
		return fmt.Errorf("%d pixels", *r.Pixels)
	case !(math.Abs(float64(r.Margin)) < mostOf) && !(math.IsNaN(float64(r.Margin)) && r.Attack != cell.None):
		return fmt.Errorf("a margin of %g", r.Margin)
	}
	return nil
}

// CheckRecords returns an error for records that disagree with their cells. Every cell has a record for each image,
// in the order of its verdicts, with the same verdicts. Records without a cell come from a run that was killed before
// it wrote its results.
func (f *File) CheckRecords(records iter.Seq[Record]) error {
	verdicts, controlled := map[cell.ID][]byte{}, f.controlled()
	for r := range records {
		k := r.Key()
		k.Mode = AttackerOf(k.Mode, controlled[k.Suite])
		verdicts[k] = append(verdicts[k], '0'+byte(r.Verdict))
	}
	for _, c := range f.Cells {
		if got := string(verdicts[c.Key()]); got != c.Verdicts {
			return c.wrong(fmt.Errorf("the records have %d images with other verdicts than the cell's %d", len(got),
				c.N))
		}
	}
	return nil
}
