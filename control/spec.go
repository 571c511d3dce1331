package control

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
)

// Method names a way to find the controls: a row of [Solvers].
type Method string

// The methods.
const (
	Greedy Method = "greedy"
	PMP    Method = "pmp"
	MSA    Method = "msa"
)

// String returns the method's name, as a config writes it.
func (m Method) String() string { return string(m) }

// Solver says how the controls are found. A setting that the method has no use for is 0.
type Solver struct {
	Method         Method
	Outer          int
	Inner          int
	Regularization float64
	LearningRate   float64
	Momentum       float64
}

// Spec is a method's row.
type Spec struct {
	Method Method
	Title  string
	Doc    string // one line
	// Unused are the settings that the method has no use for, Why the reason. A config that
	// gives one of them is refused.
	Unused []string
	Why    string
	// sweeps over the controlled layers, each of so many ascent steps a layer.
	sweeps, steps func(s Solver) int
	// ascent gives step i's weights, i from 0 in each sweep and layer: the velocity becomes
	// v ← momentum·v + ∇_u H, v = 0 at first, and the control u ← u + rate·v.
	ascent func(s Solver, i int) (momentum, rate float64)
}

// Solvers is the table of the ways to find the controls. Its equations are those of the
// paper's section 4.2; every method begins with the greedy controls.
var Solvers = []Spec{
	{Method: Greedy, Title: "greedy control", Doc: "u_t = E_t(x_t) − x_t along the controlled path",
		Unused: []string{"outer", "inner", "learning_rate", "momentum"}, Why: "it makes no sweeps",
		sweeps: none, steps: none},
	{Method: PMP, Title: "Pontryagin's maximum principle",
		Doc:    "sweeps of one ascent step on the Hamiltonian a layer: Algorithm 1 with one inner step",
		Unused: []string{"inner"}, Why: "it makes one ascent step a layer and sweep; outer alone counts them",
		sweeps: outer, steps: func(Solver) int { return 1 }, ascent: heavyBall},
	{Method: MSA, Title: "the method of successive approximations",
		Doc:    "sweeps of inner ascent steps on the Hamiltonian a layer: Algorithm 1",
		sweeps: outer, steps: func(s Solver) int { return s.Inner }, ascent: heavyBall},
}

func none(Solver) int    { return 0 }
func outer(s Solver) int { return s.Outer }

// heavyBall is ascent with momentum (Polyak 1964).
func heavyBall(s Solver, _ int) (momentum, rate float64) { return s.Momentum, s.LearningRate }

// Setting is a row of the table of solvers' settings.
type Setting struct {
	Name    string
	Range   Range
	Default float64
	Unit    string // "" of a bare number
	Doc     string // one line
	// Field is where a solver keeps it: an *int or a *float64.
	Field func(s *Solver) any
}

// Range is the interval of numbers that a setting takes.
type Range struct {
	From  float64 // the least number
	Above bool    // From is not in it
	Below float64 // every number is less than this; 0: there is no such bound
}

// Settings is the table of solvers' settings. The paper has outer 3, inner 10 and
// regularization 0.001; the rate and momentum are those at which no sweep raises the
// objective of any image on the bundled networks.
var Settings = []Setting{
	{"outer", Range{From: 1}, 3, "sweeps", "sweeps over the controlled layers",
		func(s *Solver) any { return &s.Outer }},
	{"inner", Range{From: 1}, 10, "steps", "ascent steps a layer and sweep",
		func(s *Solver) any { return &s.Inner }},
	{"regularization", Range{}, 0.001, "", "c of the running cost (c/2)‖u‖²",
		func(s *Solver) any { return &s.Regularization }},
	{"learning_rate", Range{Above: true}, 0.003, "", "of the ascent on the Hamiltonian, per image",
		func(s *Solver) any { return &s.LearningRate }},
	{"momentum", Range{Below: 1}, 0.5, "", "of the ascent on the Hamiltonian",
		func(s *Solver) any { return &s.Momentum }},
}

// Whole reports whether the setting is a whole number.
func (r Setting) Whole() bool {
	_, whole := r.Field(new(Solver)).(*int)
	return whole
}

// Value is what a solver has for the setting.
func (r Setting) Value(s Solver) float64 {
	if v, whole := r.Field(&s).(*int); whole {
		return float64(*v)
	}
	return *r.Field(&s).(*float64)
}

// Set gives a solver a value for the setting.
func (r Setting) Set(s *Solver, v float64) {
	if whole, ok := r.Field(s).(*int); ok {
		*whole = int(v)
		return
	}
	*r.Field(s).(*float64) = v
}

// Check is an error for a value that the setting does not take: its name and its range.
func (r Setting) Check(v float64) error {
	in := v >= r.Range.From && !(r.Range.Above && v == r.Range.From) && (r.Range.Below == 0 || v < r.Range.Below)
	if in && !math.IsInf(v, 0) && (!r.Whole() || v == math.Trunc(v)) {
		return nil
	}
	kind := "a number"
	if r.Whole() {
		kind = "a whole number"
	}
	return fmt.Errorf("%s must be %s %s, not %g", r.Name, kind, r.Range, v)
}

// String says which numbers an interval has: "from 0 up and below 1".
func (r Range) String() string {
	text := fmt.Sprintf("from %g up", r.From)
	if r.Above {
		text = fmt.Sprintf("above %g", r.From)
	}
	if r.Below != 0 {
		text += fmt.Sprintf(" and below %g", r.Below)
	}
	return text
}

// Methods lists the methods' names, in the table's order.
func Methods() []string {
	var names []string
	for _, s := range Solvers {
		names = append(names, string(s.Method))
	}
	return names
}

// Spec is the method's row; of a Method that is not in the table it panics.
func (m Method) Spec() Spec {
	for _, s := range Solvers {
		if s.Method == m {
			return s
		}
	}
	panic(fmt.Sprintf("control: there is no solver %q", string(m)))
}

// Takes reports whether the method has a use for a setting.
func (s Spec) Takes(setting string) bool { return !slices.Contains(s.Unused, setting) }

// NewSolver makes a solver of a method's name and settings by their names; what is left
// out has its default. Errors name the setting and what it may be.
func NewSolver(method string, settings map[string]float64) (Solver, error) {
	if !slices.Contains(Methods(), method) {
		return Solver{}, fmt.Errorf("there is no solver %q; solvers: %s", method, strings.Join(Methods(), ", "))
	}
	solver := Solver{Method: Method(method)}
	spec, given := solver.Method.Spec(), maps.Clone(settings)
	for _, row := range Settings {
		v, set := given[row.Name]
		delete(given, row.Name)
		switch {
		case set && !spec.Takes(row.Name):
			return Solver{}, fmt.Errorf("%s can't be given with method %s: %s", row.Name, method, spec.Why)
		case set:
			if err := row.Check(v); err != nil {
				return Solver{}, err
			}
		case spec.Takes(row.Name):
			v = row.Default
		}
		row.Set(&solver, v)
	}
	for name := range given {
		return Solver{}, fmt.Errorf("a solver has no setting %q", name)
	}
	return solver, nil
}

// Settings returns the method's name as "method" and every setting that it has a use for,
// an int or a float64 each.
func (s Solver) Settings() map[string]any {
	all := map[string]any{"method": string(s.Method)}
	for _, row := range Settings {
		switch v := row.Field(&s).(type) {
		case *int:
			all[row.Name] = *v
		case *float64:
			all[row.Name] = *v
		}
		if !s.Method.Spec().Takes(row.Name) {
			delete(all, row.Name)
		}
	}
	return all
}

// String describes a solver: "msa outer=3 inner=10 …". Greedy controls depend on no setting.
func (s Solver) String() string {
	text := string(s.Method)
	for _, row := range Settings {
		if s.Iterates() && s.Method.Spec().Takes(row.Name) {
			text += fmt.Sprintf(" %s=%g", row.Name, row.Value(s))
		}
	}
	return text
}

// Iterates reports whether the solver sweeps over the layers: then it needs gradients, and
// its objective may differ from that of the greedy controls.
func (s Solver) Iterates() bool { return s.sweeps() > 0 }

func (s Solver) sweeps() int { return s.Method.Spec().sweeps(s) }

// steps are a sweep's ascent steps a layer.
func (s Solver) steps() int { return s.Method.Spec().steps(s) }
