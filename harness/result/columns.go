package result

import (
	"math"
	"slices"
	"strings"

	"selfheal/internal/lists"
)

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
)

// Columns is the table. The reports' tables by cell have its columns in its order, and so has tables.csv.
var Columns = slices.Concat(
	unread("suite", "dataset", "model", "defense", "mode", "source", "attack", "norm", "epsilon"),
	in("", Column{CSV: "n", Of: whole(func(c *Cell) any { return c.N })},
		Column{CSV: "correct", Of: judged(func(c *Cell) any { return c.Correct })},
		Column{CSV: "accuracy", Of: whole(func(c *Cell) any { return c.Accuracy })},
		Column{CSV: "ci_low", Of: judged(func(c *Cell) any { return c.CI95[0] })},
		Column{CSV: "ci_high", Of: judged(func(c *Cell) any { return c.CI95[1] })},
		Column{CSV: "max_norm", Of: whole(func(c *Cell) any { return c.MaxNorm })},
		Column{CSV: "seconds", Of: whole(func(c *Cell) any { return c.Seconds })},
		Column{CSV: "forward", Of: whole(func(c *Cell) any { return c.passes().Forward })},
		Column{CSV: "backward", Of: whole(func(c *Cell) any { return c.passes().Backward })},
		Column{CSV: "recipe", Of: whole(func(c *Cell) any { return c.Recipe })},
		Column{CSV: "verdict_only", Of: whole(func(c *Cell) any { return c.VerdictOnly })},
		Column{CSV: "warnings", Of: whole(func(c *Cell) any {
			return strings.Join(lists.Distinct(c.Warnings, func(w Warning) string { return w.ID }), " ")
		})}),
	unread("published", "difference", "published_in_ci"),
	in("", Column{CSV: "area", Of: whole(func(c *Cell) any { return known(c.Area) })},
		Column{CSV: "rounding_regained", Of: stored(func(s *Stored) any { return s.Regained })},
		Column{CSV: "rounding_lost", Of: stored(func(s *Stored) any { return s.Lost })}),
	in(VotesTable, Column{Head: "Passes", Of: votes(func(c *Cell) any { return c.Votes.Passes })},
		Column{Head: "By votes (%)", Unit: Accuracy, Of: votes(func(c *Cell) any { return c.Accuracy })},
		Column{Head: "A single pass (%)", CSV: "single_pass", Unit: Fraction,
			Of: votes(func(c *Cell) any { return Ranged{c.Votes.Expected, c.Votes.CI95} })},
		Column{Head: "Undecided images", CSV: "undecided", Of: votes(func(c *Cell) any { return c.Votes.Undecided })}),
	in(SpreadTable, Column{Head: "Seeds", CSV: "seeds", Of: spread(func(s *Spread) any { return s.Seeds })},
		Column{Head: "Mean", CSV: "accuracy_mean", Unit: Fraction, Of: spread(func(s *Spread) any { return s.Mean })},
		Column{Head: "Standard deviation", CSV: "accuracy_std", Unit: Fraction,
			Of: spread(func(s *Spread) any { return s.Deviation })},
		Column{Head: "Lowest", CSV: "accuracy_min", Unit: Fraction, Of: spread(func(s *Spread) any { return s.Min })},
		Column{Head: "Highest", CSV: "accuracy_max", Unit: Fraction, Of: spread(func(s *Spread) any { return s.Max })},
		Column{Head: "Right under every seed", CSV: "accuracy_every_seed", Unit: Fraction,
			Of: spread(func(s *Spread) any { return s.Every })}),
	unread("healed", "harmed", "p_value"),
	in(DistanceTable, Column{Head: "Right images", Of: reached(func(of *both) any { return len(of.Reach) })},
		Column{Head: "Unbroken", Of: reached(func(of *both) any {
			return lists.Count(of.Reach, func(d float64) bool { return math.IsInf(d, 1) })
		})},
		Column{Head: "10 % below", Unit: Norm, Of: reached(func(of *both) any { return lists.Quantile(of.Reach, 0.1) })},
		Column{Head: "Median", Unit: Norm, Of: reached(func(of *both) any { return lists.Median(of.Reach) })},
		Column{Head: "90 % below", Unit: Norm, Of: reached(func(of *both) any { return lists.Quantile(of.Reach, 0.9) })},
		Column{Head: "Area", Of: reached(func(of *both) any { return known(of.Area) })},
		Column{Head: "Median pixels", Unit: Whole, Rare: true,
			Of: reached(func(of *both) any { return of.quantile("pixels", 0.5) })}),
	in(SolverTable, Column{Head: "Method", Of: solver(func(s *Solver) any { return s.Method })},
		Column{Head: "Objective", Of: solver(func(s *Solver) any { return s.Objective })},
		Column{Head: "Greedy start", Of: solver(func(s *Solver) any { return s.Greedy })},
		Column{Head: "Below greedy (%)", Unit: Fraction, Of: solver(func(s *Solver) any { return s.BelowGreedy })},
		Column{Head: "Control norm", Of: solver(func(s *Solver) any { return s.ControlNorm })},
		Column{Head: "Plain passes per controlled pass", Of: solver(func(s *Solver) any { return s.PassesPerRun })}),
	in(MarginTable, Column{Head: "10 % below", Of: recorded(func(r *Recorded) any { return r.quantile("margin", 0.1) })},
		Column{Head: "Median", Of: recorded(func(r *Recorded) any { return r.quantile("margin", 0.5) })},
		Column{Head: "90 % below", Of: recorded(func(r *Recorded) any { return r.quantile("margin", 0.9) })},
		Column{Head: "Median on clean images",
			Of: recorded(func(r *Recorded) any { return r.quantile("clean_margin", 0.5) })},
		Column{Head: "Perturbed images", Of: recorded(func(r *Recorded) any { return len(r.Values["norm"]) })},
		Column{Head: "Median perturbation", Unit: Norm,
			Of: recorded(func(r *Recorded) any { return r.quantile("norm", 0.5) })},
		Column{Head: "Median iteration of first success",
			Of: recorded(func(r *Recorded) any { return r.quantile("first_success", 0.5) })},
		Column{Head: "Median forward passes to it",
			Of: recorded(func(r *Recorded) any { return r.quantile("queries", 0.5) })}),
	in(CostTable, Column{Head: "Forward passes", Unit: Passes, Of: stepped(func(c *Cell) any { return c.passes().Forward })},
		Column{Head: "Backward passes", Unit: Passes, Of: stepped(func(c *Cell) any { return c.passes().Backward })},
		Column{Head: "Largest perturbation", Unit: Norm,
			Of: when(func(c *Cell) bool { return c.Epsilon != 0 })(func(c *Cell) any { return c.MaxNorm })},
		Column{Head: "Time", Unit: Seconds, Of: whole(func(c *Cell) any { return c.time() })}),
)

// in puts columns into a table.
func in(table string, all ...Column) []Column {
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
	stepped  = when(func(c *Cell) bool { return len(c.Steps) > 0 })
	stored   = part(func(c *Cell, _ *Recorded) *Stored { return c.Stored })
	solver   = part(func(c *Cell, _ *Recorded) *Solver { return c.Solver })
	recorded = part(func(_ *Cell, all *Recorded) *Recorded { return all })
	spread   = part(func(c *Cell, _ *Recorded) *Spread {
		if s, ok := c.Spread(); ok {
			return &s
		}
		return nil
	})
	reached = part(func(c *Cell, all *Recorded) *both {
		if all.Distances(c) {
			return &both{c, all}
		}
		return nil
	})
)

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

func known[T any](p *T) any {
	if p == nil {
		return nil
	}
	return *p
}
