package control

import (
	"fmt"
	"reflect"
	"slices"

	"selfheal/internal/setting"
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
	// unused are the settings that the method has no use for, Why the reason.
	unused []string
	Why    string
	// sweeps over the controlled layers, each of so many ascent steps a layer.
	sweeps, steps func(s Solver) int
	// ascent gives step i's weights, i from 0 in each sweep and layer: the velocity becomes
	// v ← momentum·v + ∇_u H, v = 0 at first, and the control u ← u + rate·v.
	ascent func(s Solver, i int) (momentum, rate float64)
}

// Solvers is the table of the ways to find the controls (paper, section 4.2). All begin with the greedy controls.
var Solvers = []Spec{
	{Method: Greedy, Title: "greedy control", Doc: "u_t = E_t(x_t) − x_t along the controlled path",
		unused: []string{"outer", "inner", "learning_rate", "momentum"}, Why: "it makes no sweeps",
		sweeps: none, steps: none},
	{Method: PMP, Title: "Pontryagin's maximum principle",
		Doc: "sweeps of one ascent step on the Hamiltonian a layer, so that momentum has no effect: Algorithm 1 with " +
			"one inner step",
		unused: []string{"inner"}, Why: "it makes one ascent step a layer and sweep; outer alone counts them",
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
	setting.Setting
	// field is where a solver keeps it: an *int or a *float64.
	field func(s *Solver) any
}

// Settings is the table of solvers' settings. The paper has outer 3, inner 10 and regularization 0.001. At this
// learning rate and momentum no sweep raises the objective of any image on the bundled networks.
var Settings = []Setting{
	{setting.Setting{Name: "outer", Type: setting.Whole, Within: setting.Count, Default: 3,
		Doc: "sweeps over the controlled layers"}, func(s *Solver) any { return &s.Outer }},
	{setting.Setting{Name: "inner", Type: setting.Whole, Within: setting.Count, Default: 10,
		Doc: "ascent steps a layer and sweep"}, func(s *Solver) any { return &s.Inner }},
	{setting.Setting{Name: "regularization", Type: setting.Number, Within: setting.NotNegative, Default: 0.001,
		Doc: "c of the running cost (c/2)‖u‖²"}, func(s *Solver) any { return &s.Regularization }},
	{setting.Setting{Name: "learning_rate", Type: setting.Number, Within: setting.Positive, Default: 0.003,
		Doc: "step size of the ascent on the Hamiltonian, per image"}, func(s *Solver) any { return &s.LearningRate }},
	{setting.Setting{Name: "momentum", Type: setting.Number, Within: setting.BelowOne, Default: 0.5,
		Doc: "momentum of the ascent on the Hamiltonian"}, func(s *Solver) any { return &s.Momentum }},
}

// Value is what a solver has for the setting, an int or a float64.
func (r Setting) Value(s Solver) any { return reflect.ValueOf(r.field(&s)).Elem().Interface() }

// Set gives a solver a value for the setting, an int or a float64 as its type is.
func (r Setting) Set(s *Solver, v any) { reflect.ValueOf(r.field(s)).Elem().Set(reflect.ValueOf(v)) }

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
func (s Spec) Takes(setting string) bool { return !slices.Contains(s.unused, setting) }

// Settings returns the method's name as "method" and every setting that it has a use for, an int or a float64 each.
func (s Solver) Settings() map[string]any {
	all := map[string]any{"method": string(s.Method)}
	for _, row := range Settings {
		if s.Method.Spec().Takes(row.Name) {
			all[row.Name] = row.Value(s)
		}
	}
	return all
}

// String describes a solver: "msa outer=3 inner=10 …". Greedy controls depend on no setting.
func (s Solver) String() string {
	text := string(s.Method)
	for _, row := range Settings {
		if s.Iterates() && s.Method.Spec().Takes(row.Name) {
			text += fmt.Sprintf(" %s=%v", row.Name, row.Value(s))
		}
	}
	return text
}

// Iterates reports whether the solver sweeps over the layers: then it needs gradients.
func (s Solver) Iterates() bool { return s.sweeps() > 0 }

func (s Solver) sweeps() int { return s.Method.Spec().sweeps(s) }

func (s Solver) steps() int { return s.Method.Spec().steps(s) }
