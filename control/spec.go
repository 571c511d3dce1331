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

// Solver configures the search for the controls. A setting that the method does not use is 0.
type Solver struct {
	Method         Method
	Outer          int
	Inner          int
	Regularization float64
	LearningRate   float64
	Momentum       float64
}

// Spec is a row of [Solvers].
type Spec struct {
	Method Method
	Title  string
	Doc    string // one line
	// unused lists the settings that the method does not use, Why gives the reason.
	unused []string
	Why    string
}

// Solvers is the table of methods (paper, section 4.2). All begin with the greedy controls.
var Solvers = []Spec{
	{Method: Greedy, Title: "greedy control", Doc: "u_t = E_t(x_t) − x_t along the controlled path",
		unused: []string{"outer", "inner", "learning_rate", "momentum"}, Why: "it makes no sweeps"},
	{Method: PMP, Title: "Pontryagin's maximum principle",
		Doc: "sweeps of one ascent step on the Hamiltonian a layer, so that momentum has no effect: Algorithm 1 with " +
			"one inner step",
		unused: []string{"inner"}, Why: "it makes one ascent step a layer and sweep; outer alone counts them"},
	{Method: MSA, Title: "the method of successive approximations",
		Doc: "sweeps of inner ascent steps on the Hamiltonian a layer: Algorithm 1"},
}

// Setting is a row of the table of solvers' settings.
type Setting struct {
	setting.Setting
	// field returns a pointer to the setting in a solver: an *int or a *float64.
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

// Value returns a solver's value of the setting, an int or a float64.
func (r Setting) Value(s Solver) any { return reflect.ValueOf(r.field(&s)).Elem().Interface() }

// Set changes the setting of a solver. v is an int or a float64, as the setting's type is.
func (r Setting) Set(s *Solver, v any) { reflect.ValueOf(r.field(s)).Elem().Set(reflect.ValueOf(v)) }

// Spec returns the method's row. It panics for a method that is not in the table.
func (m Method) Spec() Spec {
	for _, s := range Solvers {
		if s.Method == m {
			return s
		}
	}
	panic(fmt.Sprintf("control: there is no solver %q", string(m)))
}

// Takes reports whether the method uses a setting.
func (s Spec) Takes(setting string) bool { return !slices.Contains(s.unused, setting) }

// Settings returns the method's name under "method", and every setting that it uses, each an int or a float64.
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

// Iterates reports whether the solver makes sweeps and thus needs gradients.
func (s Solver) Iterates() bool { return s.sweeps() > 0 }

// sweeps returns the number of sweeps over the controlled layers: 0 for a method that has no such setting.
func (s Solver) sweeps() int {
	if s.Method.Spec().Takes("outer") {
		return s.Outer
	}
	return 0
}

// steps returns the number of ascent steps a layer in each sweep: 1 for a method that has no such setting.
func (s Solver) steps() int {
	if s.Method.Spec().Takes("inner") {
		return s.Inner
	}
	return 1
}
