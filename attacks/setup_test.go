package attacks

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"selfheal/internal/must"
)

// autoattack returns one of AutoAttack's versions; custom has three components.
func autoattack(version string, n Norm) Setup {
	s := Setup{Kind: "autoattack", Version: version, Norm: n}
	if version == "custom" {
		s.Components = []Component{{Kind: "apgd-dlr"}, {Kind: "fab"}, {Kind: "apgd-t"}}
	}
	return s
}

func recipe(t *testing.T, s Setup, epsilon float64, classes int) Recipe {
	t.Helper()
	return must.Get(s.Make(epsilon, classes))(t)
}

func componentNames(r Recipe) string {
	names := []string{}
	for _, c := range r.Components {
		names = append(names, c.Name())
	}
	return strings.Join(names, " ")
}

// TestVersions pins what AutoAttack's versions are made of.
func TestVersions(t *testing.T) {
	t.Parallel()
	for _, n := range classic {
		made := func(kind string, p given) Attack { return component(kind, n, 0.1, p) }
		five, twenty := given{"restarts": 5}, given{"eot_iter": 20}
		target, fabT, square := made("apgd-t", nil), made("fab-t", nil), made("square", nil)
		standard := []Attack{made("apgd-ce", nil), target, fabT, square}
		quick := []Attack{made("apgd-ce", given{"steps": 12}),
			made("apgd-dlr", given{"loss": "margin", "steps": 60, "give_up": true}),
			made("apgd-t", given{"loss": "logit-difference", "steps": 60, "targets": 5, "give_up": true})}
		if n == L1 {
			standard = []Attack{made("apgd-ce", given{"restarts": 5, "large_radii": true}),
				made("apgd-t", given{"targets": 5, "large_radii": true}), fabT, square}
			long := func(loss string, restarts int) given {
				return given{"loss": loss, "steps": 100, "restarts": restarts, "targets": 5, "large_radii": true,
					"give_up": true}
			}
			quick = []Attack{made("apgd-ce", given{"steps": 12, "from_clean": true, "sparsity": 0.05}),
				again{made("apgd-ce", long("ce", 5)), 1}, made("apgd-dlr", long("margin", 5)),
				made("apgd-t", long("logit-difference", 2))}
		}
		for version, want := range map[string][]Attack{
			"":         standard,
			"standard": standard,
			"plus":     {made("apgd-ce", five), made("apgd-dlr", five), made("fab", five), square, target, fabT},
			"rand":     {made("apgd-ce", twenty), made("apgd-dlr", twenty)},
			"custom":   {made("apgd-dlr", five), made("fab", five), target},
			"quick":    quick,
		} {
			r := recipe(t, autoattack(version, n), 0.1, 10)
			if !slices.Equal(r.Components, want) {
				t.Errorf("%s, %v:\n%+v\nwant\n%+v", version, n, r.Components, want)
			}
			if version == "" {
				version = "standard"
			}
			revision := map[string]int{"custom": 2, "quick": 3}[version]
			if r.Name != fmt.Sprintf("autoattack-%s/%d", version, max(revision, 1)) ||
				r.Norm != n || r.Epsilon != 0.1 || r.Fallback != "" || r.Minimises {
				t.Errorf("%s, %v: %+v", version, n, r)
			}
		}
	}
}

// TestFewClasses: a loss that is not defined gives way to its numerator, and the recipe's name and Fallback say so.
func TestFewClasses(t *testing.T) {
	t.Parallel()
	const (
		target = "apgd-t climbs logit-difference instead of dlr-targeted, which needs 4"
		dlr    = "apgd-dlr climbs margin instead of dlr, which needs 3"
	)
	for _, c := range []struct {
		version    string
		classes    int
		components string
		replaced   string
	}{
		{"standard", 4, "apgd-ce apgd-t fab-t square", ""},
		{"standard", 3, "apgd-ce apgd-logit-difference fab-t square", target},
		{"standard", 2, "apgd-ce apgd-logit-difference fab-t square", target},
		{"plus", 3, "apgd-ce apgd-dlr fab square apgd-logit-difference fab-t", target},
		{"plus", 2, "apgd-ce apgd-margin fab square apgd-logit-difference fab-t", dlr + "; " + target},
		{"rand", 3, "apgd-ce apgd-dlr", ""},
		{"rand", 2, "apgd-ce apgd-margin", dlr},
		{"custom", 4, "apgd-dlr fab apgd-t", ""},
		{"custom", 2, "apgd-margin fab apgd-logit-difference", dlr + "; " + target},
		{"quick", 2, "apgd-ce apgd-margin apgd-logit-difference", ""},
	} {
		r := recipe(t, autoattack(c.version, L2), 0.5, c.classes)
		revision := map[string]int{"custom": 2, "quick": 3}[c.version]
		name, fallback := fmt.Sprintf("autoattack-%s/%d", c.version, max(revision, 1)), ""
		if c.replaced != "" {
			name = strings.Replace(name, "/", "-few/", 1)
			fallback = fmt.Sprintf("the model has only %d classes: %s", c.classes, c.replaced)
		}
		if r.Name != name || componentNames(r) != c.components || r.Fallback != fallback {
			t.Errorf("%s, %d classes:\n%s: %s\n%q", c.version, c.classes, r.Name, componentNames(r), r.Fallback)
		}
	}
}

// cheap limits an attack's budgets to what a test can afford.
func cheap(kind string, parameters given) given {
	short := maps.Clone(parameters)
	for name, most := range map[string]int{"steps": 4, "restarts": 2, "eot_iter": 2, "queries": 40} {
		if v, ok := short[name].(int); ok {
			short[name] = min(v, most)
		}
	}
	if strings.HasPrefix(kind, "fab") {
		short["steps"] = 2
	}
	return short
}

func parameterOf(s Spec, name string) Parameter {
	return s.Parameters[slices.IndexFunc(s.Parameters, func(p Parameter) bool { return p.Name == name })]
}

// TestClassesAndShapes: every version and every single attack runs on 2 to 200 classes, on images that are not square
// and on images of one channel, or says beforehand that it does not. The test judges its images.
func TestClassesAndShapes(t *testing.T) {
	t.Parallel()
	var setups []Setup
	for _, n := range classic {
		for _, spec := range Specs {
			for _, v := range spec.Versions { // as custom, of cheap components
				d := must.Get(autoattack(v.Name, n).Describe())(t)
				for i, c := range d.Components {
					delete(c.Parameters, "gradient") // these are adaptive's own
					delete(c.Parameters, "signs")
					d.Components[i].Parameters = cheap(c.Kind, c.Parameters)
				}
				setups = append(setups, Setup{Kind: spec.Kind, Version: "custom", Norm: n, Components: d.Components})
			}
			if spec.Versions == nil && !spec.proves && spec.CheckNorm(n) == nil {
				d := must.Get(Setup{Kind: spec.Kind, Norm: n}.Describe())(t)
				for name, v := range d.Parameters {
					if p := parameterOf(spec, name); p.Rule == v { // the default follows from something else
						delete(d.Parameters, name)
					}
				}
				setups = append(setups, Setup{Kind: spec.Kind, Norm: n, Parameters: cheap(spec.Kind, d.Parameters)})
			}
		}
	}
	for _, classes := range []int{2, 3, 4, 100, 200} {
		for _, shape := range []Shape{{C: 3, H: 12, W: 7}, {C: 1, H: 6, W: 9}} {
			o := randomMLP(shape, 8, classes, 3)
			im := imagesNear(o, 1, 0.4, 4)[0]
			for _, s := range setups {
				eps := []float64{0.02, 0.2, 1}[s.Norm]
				if Free(s.Kind) {
					eps = 1
				}
				for _, a := range recipe(t, s, eps, classes).Components {
					err := a.Check(classes, shape)
					if needs := map[string]int{"apgd-dlr": 3, "apgd-t": 4}[s.Kind]; classes < needs {
						want := fmt.Sprintf("needs at least %d classes, the model has %d", needs, classes)
						if err == nil || !strings.HasSuffix(err.Error(), want) {
							t.Errorf("%s on %d classes: %v", s.Kind, classes, err)
						}
						continue
					}
					if err != nil {
						t.Error(err)
						continue
					}
					one := trial{a, s.Norm, eps, false}
					if res := one.perturb(t, o, im, 1); res.Adversarial != nil {
						one.checkInside(t, o, im, res.Adversarial)
					}
				}
			}
		}
	}
}

// TestSetup: parameters reach the attack that they are given for, others have their defaults,
// and the description tells both.
func TestSetup(t *testing.T) {
	t.Parallel()
	single := func(kind string, n Norm, p given) Setup {
		return Setup{Kind: kind, Norm: n, Parameters: p}
	}
	alone := func(kind string, loss Loss) common { return common{kind, L2, 0.5, loss, true, false} }
	usual := apgd{common: alone("apgd-ce-targeted", TargetedCrossEntropy), Steps: 100, Restarts: 1, Targets: 9,
		EOTIter: 1, Rho: 0.75, Sparsity: 0.2, Order: "logits"}
	differs, margin := usual, usual
	differs.common = common{"apgd-logit-difference", L2, 0.5, LogitDifference, false, false}
	differs.Steps, differs.Restarts, differs.Targets = 50, 2, 3
	margin.common = common{"apgd-margin", L2, 0.5, Margin, false, false}
	margin.Steps, margin.Targets, margin.Order = 50, 0, ""
	for _, c := range []struct {
		setup Setup
		want  []Attack
		title string
	}{
		{single("pgd", L2, nil), []Attack{pgd{alone("pgd", CrossEntropy), 20, 1, 0, "constant"}}, "PGD-20"},
		{single("pgd", L2, given{"steps": 7, "step_size": "2/255", "loss": "margin", "restarts": "3",
			"schedule": "cosine"}),
			[]Attack{pgd{alone("pgd", Margin), 7, 3, 2. / 255, "cosine"}},
			"PGD-7, 3 restarts, step size 2/255, schedule cosine, loss margin"},
		{single("apgd-t", L2, given{"loss": "ce-targeted"}),
			[]Attack{usual}, "APGD-T, loss ce-targeted"},
		{single("fab", L2, given{"eta": 2}),
			[]Attack{fab{common: alone("fab", LogitDifference), Steps: 100, Restarts: 1, AlphaMax: 0.1, Eta: 2,
				Beta: 0.9}}, "FAB, eta 2"},
		{single("bisection", L2, given{"loss": "margin", "targets": 1}),
			[]Attack{bisection{alone("bisection", Margin), 50, 1, 1, 0.01}},
			"Bisection, 1 target, loss margin"},
		{single("square", L2, given{"rescale_schedule": true}),
			[]Attack{square{alone("square", Margin), 5000, 1, 0.8, true}},
			"Square, 5000 queries, rescale schedule"},
		{Setup{Kind: "autoattack", Version: "custom", Norm: L2, Components: []Component{
			{Kind: "apgd-t", Parameters: given{"targets": 3, "loss": "logit-difference"}},
			{Kind: "apgd-dlr", Parameters: given{"restarts": 1, "loss": "margin"}}},
			Parameters: given{"steps": 50, "targets": 4, "restarts": 2}}, []Attack{differs, margin},
			"AutoAttack (custom: APGD-T, 50 steps, 2 restarts, 3 targets, loss logit-difference; " +
				"APGD-DLR, 50 steps, 1 restart, loss margin)"},
		{autoattack("custom", L2), nil, "AutoAttack (custom: APGD-DLR; FAB; APGD-T)"},
		{autoattack("", L1), nil, "AutoAttack (standard)"},
	} {
		if r := recipe(t, c.setup, 0.5, 10); c.want != nil && !slices.Equal(r.Components, c.want) {
			t.Errorf("%s: %+v\nwant %+v", c.title, r.Components, c.want)
		}
		if d, err := c.setup.Describe(); err != nil || d.Title != c.title {
			t.Errorf("%q, %v\nwant %q", d.Title, err, c.title)
		}
	}

	d, err := single("pgd", Linf, given{"steps": "40"}).Describe()
	want := given{"steps": 40, "restarts": 1, "step_size": "epsilon/4 in linf, 2.5·epsilon/steps in l2 and l1",
		"schedule": "constant", "loss": "ce"}
	if err != nil || !maps.Equal(d.Parameters, want) || d.Recipe != "pgd/1" || d.Components != nil {
		t.Errorf("%+v, %v", d, err)
	}
	d, err = autoattack("quick", Linf).Describe()
	want = given{"steps": 12, "restarts": 1, "eot_iter": 1, "rho": 0.75,
		"from_clean": false, "give_up": false} // what is for ℓ1 alone is left out
	if err != nil || !maps.Equal(d.Components[0].Parameters, want) || d.Recipe != "autoattack-quick/3" ||
		d.Parameters != nil {
		t.Errorf("%+v, %v", d, err)
	}
}

// TestSetupErrors: an error names what is wrong and what is allowed.
func TestSetupErrors(t *testing.T) {
	t.Parallel()
	square := Component{Kind: "square"}
	custom := func(shared given, components ...Component) Setup {
		return Setup{Kind: "autoattack", Version: "custom", Parameters: shared, Components: components}
	}
	for _, c := range []struct {
		setup   Setup
		epsilon float64
		want    []string
	}{
		{Setup{Kind: "cw"}, 1, []string{`unknown attack "cw"`, strings.Join(Kinds(), ", ")}},
		{Setup{Kind: "autoattack", Version: "best"}, 1,
			[]string{`unknown version "best"`, "standard, plus, rand, custom, quick"}},
		{Setup{Kind: "pgd", Version: "plus"}, 1, []string{"pgd has no versions"}},
		{Setup{Kind: "autoattack", Parameters: given{"steps": 3}}, 1,
			[]string{"standard is fixed and", `"steps"`, "custom does"}},
		{Setup{Kind: "autoattack", Components: []Component{{Kind: "square"}}}, 1,
			[]string{"no components", "custom does"}},
		{Setup{Kind: "square", Parameters: given{"query": 3}}, 1,
			[]string{`square: unknown parameter "query" (allowed: queries, restarts, p_init, rescale_schedule)`}},
		{Setup{Kind: "pgd", Parameters: given{"steps": 2.5}}, 1,
			[]string{"pgd: steps must be a whole number from 1 up, not 2.5"}},
		{Setup{Kind: "pgd", Parameters: given{"loss": "logit-difference"}}, 1,
			[]string{`pgd: loss must be one of ce, dlr, margin, probability-margin, not "logit-difference"`}},
		{Setup{Kind: "bisection", Parameters: given{"tolerance": 0.6}}, 1,
			[]string{"tolerance must be a number from 0.000001 to 0.5, not 0.6"}},
		{Setup{Kind: "fab", Parameters: given{"targets": 3}}, 1, []string{`fab: unknown parameter "targets"`}},
		{Setup{Kind: "fab-t", Parameters: given{"eta": 0.5}}, 1,
			[]string{"fab-t: eta must be a number from 1 to 1000000, not 0.5"}},
		{Setup{Kind: "apgd-ce"}, 0, []string{"apgd-ce: epsilon must be positive and finite, not 0"}},
		{Setup{Kind: "apgd-ce"}, math.Inf(1), []string{"epsilon must be positive and finite, not +Inf"}},
		{Setup{Kind: "apgd-ce"}, 1e9, []string{"apgd-ce: epsilon 1e+09 is larger than any image"}},
		{autoattack("standard", L2), math.NaN(), []string{"epsilon"}},
		{Setup{Kind: "apgd-ce", Parameters: given{"large_radii": true}}, 1,
			[]string{"large_radii exists only in l1, not linf"}},
		{custom(nil), 1, []string{"autoattack-custom: there are no components"}},
		{custom(nil, Component{Kind: "cw"}), 1,
			[]string{`autoattack-custom, component 1: unknown attack "cw"`}},
		{custom(nil, Component{Kind: "pgd"}), 1, []string{"component 1: pgd is none of AutoAttack's"}},
		{custom(nil, square, Component{Kind: "square", Parameters: given{"steps": 3}}), 1,
			[]string{`component 2: square: unknown parameter "steps"`}},
		{custom(given{"queries": 3, "steps": 3}, square), 1, []string{`no component has a parameter "steps"`}},
		{custom(given{"loss": "dlr"}, Component{Kind: "apgd-dlr"}), 1,
			[]string{`no component has a parameter "loss"`}},
		{custom(given{"queries": -1}, square), 1, []string{"queries must be a whole number from 1 up, not -1"}},
	} {
		_, err := c.setup.Make(c.epsilon, 10)
		for _, want := range c.want {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%+v: %v\nwant %s", c.setup, err, want)
			}
		}
	}
	for _, v := range []string{"standard", "plus", "rand", "custom", "quick"} {
		for _, classes := range []int{-1, 0, 1} {
			if _, err := autoattack(v, Linf).Make(0.1, classes); err == nil ||
				!strings.Contains(err.Error(), "classes, the model has") {
				t.Errorf("%s on %d classes: %v", v, classes, err)
			}
		}
	}
}

// TestSpecs: what a row says agrees with the attack that it makes.
func TestSpecs(t *testing.T) {
	t.Parallel()
	for _, s := range Specs {
		if s.Title == "" || s.Doc == "" || strings.HasSuffix(s.Doc, ".") {
			t.Errorf("%s: title %q, doc %q", s.Kind, s.Title, s.Doc)
		}
		for _, p := range s.Accepts() {
			if p.Doc == "" || (p.Default == nil) != (p.Rule != "") {
				t.Errorf("%s.%s: doc %q, default %v, rule %q", s.Kind, p.Name, p.Doc, p.Default, p.Rule)
			}
			if _, err := p.Read(p.Default); p.Default != nil && err != nil {
				t.Errorf("%s.%s: the default %v", s.Kind, p.Name, err)
			}
		}
		if s.Versions != nil {
			continue
		}
		for _, n := range Norms() {
			if want := s.CheckNorm(n); want != nil {
				_, err := Setup{Kind: s.Kind, Norm: n}.Make(0.5, 10)
				if err == nil || err.Error() != want.Error() {
					t.Errorf("%s in %v: %v, want %v", s.Kind, n, err, want)
				}
				continue
			}
			r := recipe(t, Setup{Kind: s.Kind, Norm: n}, map[bool]float64{false: 0.5, true: 5}[n == L0], 10)
			name := fmt.Sprintf("%s/%d", s.Kind, s.Revision)
			if a := r.Methods()[0]; a.Name() != s.Kind || r.Name != name || r.Minimises != s.minimises ||
				s.proves != (r.Certificate != nil) {
				t.Errorf("%s: %+v", s.Kind, r)
			}
		}
	}
}
