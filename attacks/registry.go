package attacks

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Params are what an attack is made from by name.
type Params struct {
	Norm    Norm
	Epsilon float64 // in pixel units of [0,1]
	// Options are the attack's own parameters, by name. Numbers may be any Go
	// number, or text such as "10", "0.25" or "2/255".
	Options map[string]any
}

// constructors is the table of attacks: a new one is its file and a row here.
var constructors = map[string]func(p Params, o *options) Attack{
	"apgd-ce":  func(p Params, o *options) Attack { return newAPGD(p, o, CrossEntropy) },
	"apgd-dlr": func(p Params, o *options) Attack { return newAPGD(p, o, DLR) },
	"apgd-t":   func(p Params, o *options) Attack { return newAPGD(p, o, TargetedDLR) },
	"fab":      func(p Params, o *options) Attack { return newFAB(p, o, false) },
	"fab-t":    func(p Params, o *options) Attack { return newFAB(p, o, true) },
	"square": func(p Params, o *options) Attack {
		return Square{Norm: p.Norm, Epsilon: p.Epsilon, Queries: o.count("queries"), Restarts: o.count("restarts"),
			PInit: o.number("p_init"), RescaleSchedule: o.flag("rescale_schedule")}
	},
	"pgd": func(p Params, o *options) Attack {
		return PGD{Norm: p.Norm, Epsilon: p.Epsilon, Loss: choice(o, "loss", CrossEntropy, DLR, Margin), Steps: o.count("steps"),
			Restarts: o.count("restarts"), StepSize: o.number("step_size"),
			Schedule: choice(o, "schedule", ConstantSteps, LinearSteps, CosineSteps)}
	},
	"fgsm": func(p Params, o *options) Attack {
		return FGSM{Norm: p.Norm, Epsilon: p.Epsilon, Loss: choice(o, "loss", CrossEntropy, DLR, Margin)}
	},
	"bisection": func(p Params, o *options) Attack {
		return Bisection{Norm: p.Norm, Epsilon: p.Epsilon, Steps: o.count("steps"), Restarts: o.count("restarts"),
			Targets: o.count("targets"), Untargeted: choice(o, "loss", LogitDifference, Margin) == Margin, Tolerance: o.number("tolerance")}
	},
}

func newAPGD(p Params, o *options, loss Loss) Attack {
	a := APGD{Norm: p.Norm, Epsilon: p.Epsilon, Loss: loss, Steps: o.count("steps"), Restarts: o.count("restarts"),
		EOT: o.count("eot_iter"), Rho: o.number("rho"), LargeRadii: o.flag("large_radii")}
	switch loss {
	case DLR: // the margin between logits, scaled or as it is
		a.Loss = choice(o, "loss", DLR, Margin)
	case TargetedDLR:
		a.Targets = o.count("targets")
		a.Loss = choice(o, "loss", TargetedDLR, TargetedCrossEntropy, LogitDifference)
	}
	return a
}

func newFAB(p Params, o *options, targeted bool) Attack {
	a := FAB{Norm: p.Norm, Epsilon: p.Epsilon, Targeted: targeted, Steps: o.count("steps"), Restarts: o.count("restarts"),
		AlphaMax: o.number("alpha_max"), Eta: o.number("eta"), Beta: o.number("beta")}
	if targeted {
		a.Targets = o.count("targets")
	}
	return a
}

// Kinds returns the names New knows, sorted.
func Kinds() []string { return slices.Sorted(maps.Keys(constructors)) }

// Parameters returns the names of a kind's own parameters, sorted; nil for an unknown kind.
func Parameters(kind string) []string {
	construct, ok := constructors[kind]
	if !ok {
		return nil
	}
	o := &options{kind: kind}
	construct(Params{}, o)
	slices.Sort(o.known)
	return o.known
}

// New makes the attack of that kind. A parameter left out has its published
// default. An unknown kind, an unknown or ill-typed parameter and a value
// outside its range are errors of one line that name it and what is allowed.
// The number of classes is checked later, by [Attack.Check].
func New(kind string, p Params) (Attack, error) {
	construct, ok := constructors[kind]
	if !ok {
		return nil, fmt.Errorf("unknown attack %q (want %s)", kind, strings.Join(Kinds(), ", "))
	}
	o := &options{kind: kind, given: p.Options}
	a := construct(p, o)
	if err := o.finish(); err != nil {
		return nil, err
	}
	// Enough classes and pixels for anything: only the parameters are at stake.
	if err := a.Check(math.MaxInt32, Shape{C: 3, H: 32, W: 32}); err != nil {
		return nil, err
	}
	return a, nil
}

// options reads parameters and remembers which ones the attack knows.
type options struct {
	kind  string
	given map[string]any
	known []string
	err   error // the first ill-typed one
}

func (o *options) get(name, want string, read func(any) bool) {
	o.known = append(o.known, name)
	v, ok := o.given[name]
	if ok && !read(v) && o.err == nil {
		o.err = fmt.Errorf("%s: parameter %q must be %s, not %v", o.kind, name, want, quoted(v))
	}
}

func quoted(v any) string {
	if s, ok := v.(string); ok {
		return strconv.Quote(s)
	}
	return fmt.Sprint(v)
}

// count is a whole number from 1 on.
func (o *options) count(name string) (n int) {
	o.get(name, "a whole number from 1 on", func(v any) bool {
		f, ok := parseNumber(v)
		n = int(f)
		return ok && f >= 1 && f <= math.MaxInt32 && f == math.Trunc(f)
	})
	return n
}

// number is a positive finite number.
func (o *options) number(name string) (f float64) {
	o.get(name, "a positive number", func(v any) (ok bool) {
		f, ok = parseNumber(v)
		return ok && f > 0 && !math.IsInf(f, 0)
	})
	return f
}

func (o *options) flag(name string) (b bool) {
	o.get(name, "true or false", func(v any) (ok bool) {
		if s, isText := v.(string); isText {
			b = s == "true"
			return b || s == "false"
		}
		b, ok = v.(bool)
		return ok
	})
	return b
}

// choice is one of the values allowed, given by its name; by default the first.
func choice[T fmt.Stringer](o *options, name string, allowed ...T) T {
	names := make([]string, len(allowed))
	for i, v := range allowed {
		names[i] = v.String()
	}
	chosen := allowed[0]
	o.get(name, "one of "+strings.Join(names, ", "), func(v any) bool {
		s, _ := v.(string)
		i := slices.Index(names, s)
		if i >= 0 {
			chosen = allowed[i]
		}
		return i >= 0
	})
	return chosen
}

// finish reports the first parameter that is unknown or ill-typed.
func (o *options) finish() error {
	slices.Sort(o.known)
	for _, name := range slices.Sorted(maps.Keys(o.given)) {
		if !slices.Contains(o.known, name) {
			return fmt.Errorf("%s: unknown parameter %q (allowed: %s)", o.kind, name, strings.Join(o.known, ", "))
		}
	}
	return o.err
}

// parseNumber reads a Go number or text holding a number or a fraction.
func parseNumber(v any) (float64, bool) {
	switch n := v.(type) {
	case int:
		return float64(n), true
	case int64:
		return float64(n), true
	case uint64:
		return float64(n), true
	case float32:
		return float64(n), true
	case float64:
		return n, true
	case string:
		above, below, fraction := strings.Cut(n, "/")
		a, err := strconv.ParseFloat(strings.TrimSpace(above), 64)
		if err != nil || !fraction {
			return a, err == nil
		}
		b, err := strconv.ParseFloat(strings.TrimSpace(below), 64)
		return a / b, err == nil
	}
	return 0, false
}
