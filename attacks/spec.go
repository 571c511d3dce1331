package attacks

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"selfheal/internal/lists"
	"selfheal/internal/setting"
)

// given maps the names of parameters to values.
type given = map[string]any

// Spec is a row of the table of attacks. Configs, the command line, results, reports and the documentation take what
// they say about a kind of attack from it.
type Spec struct {
	Kind  string
	Title string // for readers: "PGD"
	short string // for the head of a column; "" is the title
	Doc   string // one line
	// Revision is the number in the recipe's name, "pgd/1". It rises when results may change.
	Revision   int
	Parameters []Parameter // its own; see [Spec.Accepts]
	climbs     Loss        // the loss that it maximises by default
	Norms      []Norm      // the norms that it exists in; nil: ℓ∞, ℓ2 and ℓ1
	minimises  bool        // it minimises the norm
	spans      bool        // one run at the largest epsilon gives the result at every smaller one
	free       bool        // it has neither norm nor epsilon
	labels     bool        // it sees classes alone
	proves     bool        // it is a certificate: it proves that no attack within epsilon can succeed
	Reason     string      // why its proofs hold for a classifier as it is: "its outputs …"
	Component  bool        // it may be a component of a custom AutoAttack
	// custom holds the defaults that differ in a custom AutoAttack.
	custom   given
	Versions []Version // AutoAttack's, the default first

	listed  []string            // see [Listed]
	variant string              // see [Variant]: a format of the value
	heading string              // the title with the settings that readers expect: "PGD-{steps}"; "" is the title
	start   func(common) Method // the attack, without its parameters
}

// Version is a version of AutoAttack: attacks in order, each run on the images that those before it left unbroken.
type Version struct {
	Name       string
	short      string // for the head of a column: "AA+"
	Doc        string // one line
	Revision   int    // as in Spec
	components func(Norm) []Component
}

// Listed reports whether the config lists the components: version custom.
func (v Version) Listed() bool { return v.components == nil }

// Specs is the table of attacks: a new attack is its file and a row here. Defaults come from the paper, otherwise from
// the reference code.
var Specs = []Spec{
	{
		Kind: "autoattack", Title: "AutoAttack", climbs: CrossEntropy, Versions: versions,
		Doc: "several attacks, each made on the images that those before it left unbroken (Croce & Hein 2020)",
	},
	{
		Kind: "apgd-ce", Title: "APGD-CE", Revision: 1, Component: true, climbs: CrossEntropy,
		Doc:        "Auto-PGD on cross-entropy: momentum, and a step that halves when progress stalls",
		Parameters: without("targets", apgdParameters), custom: given{"restarts": 5},
		start: newAPGD,
	},
	{
		Kind: "apgd-dlr", Title: "APGD-DLR", Revision: 1, Component: true, climbs: DLR,
		Doc:        "Auto-PGD on the difference of logits ratio, which no scale of the logits changes; needs 3 classes",
		Parameters: append(without("targets", apgdParameters), climbed(DLR, Margin, ProbabilityMargin)),
		custom:     given{"restarts": 5},
		start:      newAPGD,
	},
	{
		Kind: "apgd-t", Title: "APGD-T", Revision: 1, Component: true, climbs: TargetedDLR,
		Doc: "Auto-PGD on the targeted difference of logits ratio, one target after another; needs 4 classes",
		Parameters: append(slices.Clip(apgdParameters), climbed(TargetedDLR, TargetedCrossEntropy, LogitDifference),
			choice("order", "what ranks the wrong classes: their logits, or the distance to their linearised boundary",
				"logits", byDistance).later()),
		start: newAPGD,
	},
	{
		Kind: "fab", Title: "FAB", Revision: 2, Component: true, climbs: LogitDifference, minimises: true,
		Doc:        "Fast Adaptive Boundary: the nearest misclassified point, by steps onto linearised boundaries",
		Parameters: without("targets", fabParameters), custom: given{"restarts": 5},
		start: func(c common) Method { return fab{common: c} },
	},
	{
		Kind: "fab-t", Title: "FAB-T", Revision: 2, Component: true, climbs: LogitDifference, minimises: true,
		Doc:        "FAB at the boundary to one target after another",
		Parameters: fabParameters,
		start:      func(c common) Method { return fab{common: c, Targeted: true} },
	},
	{
		Kind: "square", Title: "Square", Revision: 1, Component: true, climbs: Margin,
		heading: "Square, {queries} queries",
		Doc:     "a random search that changes square windows and sees only logits",
		Parameters: []Parameter{
			whole("queries", 5000, "queries of a run after that of its start"),
			whole("restarts", 1, "runs, each from its own start"),
			decimal("p_init", .8, setting.Fraction, "fraction of the pixels in the first windows"),
			flag("rescale_schedule", "stretch the windows' schedule, made for 10000 queries, to the number of queries"),
		},
		start: func(c common) Method { return square{common: c} },
	},
	{
		Kind: "pgd", Title: "PGD", Revision: 1, climbs: CrossEntropy, heading: "PGD-{steps}",
		Doc: "projected gradient ascent in steps of a given length, from a random start",
		Parameters: []Parameter{
			whole("steps", 20, "steps of a run"),
			whole("restarts", 1, "runs, each from its own random start"),
			stepSize("epsilon/4 in linf, 2.5·epsilon/steps in l2 and l1", "length of the first step in the norm"),
			choice("schedule", "how the steps of a run shrink towards 0", "constant", "linear", "cosine"),
			climbed(CrossEntropy, DLR, Margin, ProbabilityMargin),
		},
		start: func(c common) Method { return pgd{common: c} },
	},
	{
		Kind: "fgsm", Title: "FGSM", Revision: 1, climbs: CrossEntropy,
		Doc:        "one step of length epsilon along the gradient's sign",
		Parameters: []Parameter{climbed(CrossEntropy, DLR, Margin, ProbabilityMargin)},
		start:      func(c common) Method { return fgsm{c} },
	},
	{
		Kind: "deepfool", Title: "DeepFool", Revision: 2, climbs: LogitDifference, minimises: true,
		Doc: "steps onto the nearest linearised boundary until the image is broken", Norms: []Norm{Linf, L2},
		Parameters: []Parameter{
			whole("steps", 50, "most steps"),
			decimal("overshoot", .02, setting.Positive, "by which fraction the steps' sum is stretched"),
		},
		start: func(c common) Method { return deepFool{common: c} },
	},
	{
		Kind: "mi-fgsm", Title: "MI-FGSM", Revision: 1, climbs: CrossEntropy,
		Doc: "steps along a momentum of gradients, from the clean image",
		Parameters: []Parameter{
			whole("steps", 10, "steps from the clean image"),
			decimal("decay", 1, setting.Positive, "factor on the momentum from step to step"),
			stepSize("epsilon/steps", "length of a step in the norm"),
			climbed(CrossEntropy, DLR, Margin, ProbabilityMargin),
		},
		start: func(c common) Method { return miFGSM{common: c} },
	},
	{
		Kind: "bisection", Title: "Bisection", Revision: 1, climbs: LogitDifference, minimises: true,
		Doc: "the smallest norm that breaks an image, up to epsilon: Auto-PGD at one radius after another",
		Parameters: []Parameter{
			whole("steps", 50, "iterations of a run of Auto-PGD"),
			whole("restarts", 1, "runs for each radius and target"),
			targets,
			decimal("tolerance", .01, setting.Interval{Min: 1e-6, Max: .5}, "relative width at which halving ends"),
			climbed(LogitDifference, Margin),
		},
		start: func(c common) Method { return bisection{common: c} },
	},
	{
		Kind: "ddn", Title: "DDN", Revision: 2, climbs: CrossEntropy, minimises: true, spans: true, Norms: []Norm{L2},
		heading: "DDN-{steps}",
		Doc:     "the smallest ℓ2 norm: steps along the gradient, and a norm that shrinks and grows (Rony et al. 2019)",
		Parameters: []Parameter{ // algorithm 1
			whole("steps", 1000, "steps"),
			refine,
			decimal("gamma", .05, setting.Fraction, "fraction by which the norm changes in a step"),
			decimal("init_norm", 1, setting.Positive, "norm of the first step"),
		},
		start: func(c common) Method { return ddn{descent: descent{common: c}} },
	},
	{
		Kind: "fmn", Title: "FMN", Revision: 2, climbs: Margin, minimises: true, spans: true, heading: "FMN-{steps}",
		Norms: Norms(),
		Doc: "the smallest norm: steps along the margin's gradient, projected onto a ball that shrinks and grows " +
			"(Pintor et al. 2021)",
		Parameters: []Parameter{ // algorithm 1
			whole("steps", 1000, "steps"),
			refine,
			decimal("step_size", 1, setting.Positive, "length of the first step, in ℓ2"),
			decimal("gamma", .05, setting.Fraction, "fraction by which the radius changes in the first step"),
			decimal("gamma_final", .001, setting.Fraction, "and in the last"),
		},
		start: func(c common) Method { return fmn{descent: descent{common: c}} },
	},
	{
		Kind: "pdpgd", Title: "PDPGD", Revision: 2, climbs: Margin, minimises: true, spans: true,
		heading: "PDPGD-{steps}",
		Doc: "the smallest norm: proximal descent on norm and margin, whose weights are learnt too " +
			"(Matyasko & Chau 2021)",
		Parameters: []Parameter{ // algorithm 1
			whole("steps", 500, "steps"),
			refine,
			decimal("primal_rate", .1, setting.Positive, "rate of the perturbation's first step"),
			decimal("primal_decrease", .01, setting.Fraction, "fraction of it that the last step has"),
			decimal("dual_ratio", .01, setting.Positive, "weight of the norm to that of the margin at the start"),
			decimal("dual_rate", .1, setting.Positive, "first step of that ratio's logarithm"),
			decimal("dual_decrease", .1, setting.Fraction, "fraction of it that the last step has"),
			decimal("dual_average", .9, setting.Fraction, "fraction of the old weights in their moving average"),
			whole("proximal_steps", 5, "most proximal steps in a step"),
		},
		start: func(c common) Method { return pdpgd{descent: descent{common: c}} },
	},
	{
		Kind: "sigma-zero", Title: "σ-zero", Revision: 2, climbs: Margin, minimises: true, spans: true,
		heading: "σ-zero-{steps}", Norms: []Norm{L0},
		Doc: "the fewest changed values: descent on a smooth count of them, cut at a threshold (Cinà et al. 2024)",
		Parameters: []Parameter{ // algorithm 1
			whole("steps", 1000, "steps"),
			refine,
			decimal("rate", 1, setting.Positive, "rate of the first step of Adam"),
			decimal("sigma", .001, setting.Interval{Min: 1e-12, Max: 1e6}, "smoothness of the count"),
			decimal("threshold", .3, setting.Fraction, "size below which values become 0 at the start"),
			decimal("threshold_factor", .01, setting.Positive, "how far it moves, in steps"),
		},
		start: func(c common) Method { return sigmaZero{descent: descent{common: c}} },
	},
	{
		Kind: "hop-skip-jump", Title: "HopSkipJump", Revision: 1, Component: true, climbs: Margin, minimises: true,
		spans: true, labels: true, Norms: []Norm{Linf, L2}, heading: "HopSkipJump, {queries} queries",
		Doc: "the smallest norm, by classes alone: along the boundary, whose direction random points tell " +
			"(Chen, Jordan & Wainwright 2020)",
		Parameters: []Parameter{
			whole("queries", 20_000, "forward passes"),
			whole("initial_points", 100, "points of the first estimate of a direction"), // B₀
		},
		start: func(c common) Method { return hopSkipJump{common: c} },
	},
	{
		Kind: "rays", Title: "RayS", Revision: 1, Component: true, climbs: Margin, minimises: true, spans: true,
		Norms: []Norm{Linf}, labels: true, heading: "RayS, {queries} queries",
		Doc: "the smallest ℓ∞ norm, by classes alone: a search for the direction of a near boundary " +
			"(Chen & Gu 2020)",
		Parameters: []Parameter{whole("queries", 10_000, "forward passes")},
		start:      func(c common) Method { return rays{common: c} },
	},
	{
		Kind: SpatialKind, Title: "Spatial", Revision: 1, climbs: Margin, free: true, Norms: []Norm{Linf},
		labels: true, heading: "Rotations up to {rotation}°, translations up to {translation} pixels",
		Doc: "rotations and translations, without norm and epsilon (Engstrom et al. 2019)",
		Parameters: []Parameter{
			decimal("rotation", 30, setting.Interval{Max: 180}, "largest rotation, in degrees"),
			decimal("translation", 3, setting.NotNegative, "largest translation on each axis, in pixels"),
			{Setting: setting.Setting{Name: "queries", Type: setting.Whole, Within: setting.Count,
				Rule: "a grid of 31 × 7 × 7", Doc: "poses drawn at random"}},
		},
		start: func(c common) Method { return spatial{common: c} },
	},
	{
		Kind: PatchKind, Title: "Patch", Revision: 1, climbs: CrossEntropy, free: true, Norms: []Norm{Linf},
		listed: []string{SideName}, variant: "%[1]s×%[1]s",
		Doc: "a square of any pixels anywhere, without norm and epsilon: steps in its pixels and its place (Rao, " +
			"Stutz & Schiele 2020)",
		Parameters: []Parameter{
			whole(SideName, 1, "side of the square, in pixels; a config has a list of them"),
			whole("steps", 100, "iterations of a run"),
			whole("restarts", 1, "runs, the first where the clean image's gradient is largest"),
			decimal("step_size", .05, setting.Fraction, "length of a step in each value"),
			whole("stride", 2, "by how many pixels a try moves the square"),
			climbed(CrossEntropy, DLR, Margin, ProbabilityMargin),
		},
		start: func(c common) Method { return patch{common: c} },
	},
	{
		Kind: SmoothingKind, Title: "Randomised smoothing", short: "Smoothing", Revision: 1, proves: true,
		labels: true, heading: "Smoothing, σ = {sigma}", Norms: []Norm{L2},
		Doc: "a certificate: the class that is answered most often under Gaussian noise stays within epsilon " +
			"(Cohen, Rosenfeld & Kolter 2019)",
		Parameters: []Parameter{
			decimal("sigma", .25, setting.Positive, "deviation of the noise, in pixel units of [0,1]"),
			whole("n0", 100, "samples that choose the class"),
			whole("n", 10_000, "samples that bound its probability"),
			decimal("alpha", .001, setting.Interval{Min: 1e-12, Max: .25},
				"probability that an image's certificate is wrong"),
			flag("stopping", "end an image's samples as soon as every epsilon is decided"),
		},
		start: func(c common) Method { return Smoothing{common: c} },
	},
	{
		Kind: BoundsKind, Title: "Bounds", Revision: 2, proves: true, heading: "Bounds, {method}",
		Doc: "a certificate: linear bounds of the logits leave no other class within epsilon (Zhang et al. 2018, " +
			"Xu et al. 2021)",
		Reason: "bounds of its logits over the ball leave no other class, with slack for all rounding in float32",
		Parameters: []Parameter{
			choice("method", "how the logits are bounded; alpha-crown, crown, ibp: from the tightest to the fastest; "+
				"beta-crown cuts the ball besides, by the signs of ReLUs' values (Wang et al. 2021)",
				"alpha-crown", "beta-crown", "crown", "ibp"),
			{Setting: setting.Setting{Name: "budget", Type: setting.Time, Within: setting.Positive,
				Rule: "30s", Doc: "time of an image by beta-crown"}},
		},
		start: func(c common) Method { return Bounds{common: c} },
	},
	{
		Kind: BracketKind, Title: "Bracket", Revision: 4, proves: true, heading: "Bracket, {budget} an image",
		Doc: "a certificate and attacks at once: of each image the largest radius proven by bounds and the smallest " +
			"broken by attacks that minimise the norm",
		Parameters: []Parameter{{Setting: setting.Setting{Name: "budget", Type: setting.Time, Within: setting.Positive,
			Default: setting.Seconds(10), Doc: "time of work, times the number of images"}}},
		start: func(c common) Method { return Bracket{common: c} },
	},
}

// versions are AutoAttack's. A parameter that a component does not list has its kind's default.
var versions = []Version{
	{"standard", "AA", "apgd-ce, apgd-t, fab-t and square: the reference", 1, standard},
	{"plus", "AA+", "apgd-ce, apgd-dlr and fab, 5 restarts each, square, apgd-t, fab-t", 1, func(Norm) []Component {
		five := given{"restarts": 5}
		return []Component{{Kind: "apgd-ce", Parameters: five}, {Kind: "apgd-dlr", Parameters: five},
			{Kind: "fab", Parameters: five}, {Kind: "square"}, {Kind: "apgd-t"}, {Kind: "fab-t"}}
	}},
	{"rand", "AA-rand", "for randomised models: apgd-ce and apgd-dlr, 20 passes a gradient", 1, func(Norm) []Component {
		twenty := given{"eot_iter": 20}
		return []Component{{Kind: "apgd-ce", Parameters: twenty}, {Kind: "apgd-dlr", Parameters: twenty}}
	}},
	{"custom", "AA-custom", "the components that the config lists", 2, nil},
	{"quick", "AA-quick", "runs of Auto-PGD that give up early: near standard for under a twentieth of its passes", 3,
		quick},
	{"adaptive", "AA-adaptive", "standard, then losses and gradients for what hides its own", 3, adaptive},
}

func standard(n Norm) []Component {
	ce, t := given{}, given{}
	if n == L1 {
		ce, t = given{"restarts": 5, "large_radii": true}, given{"targets": 5, "large_radii": true}
	}
	return []Component{{Kind: "apgd-ce", Parameters: ce}, {Kind: "apgd-t", Parameters: t}, {Kind: "fab-t"},
		{Kind: "square"}}
}

// targets is how many wrong classes an attack aims at.
var targets = whole("targets", 9, "wrong classes aimed at, the nearest first; at most as many as there are")

// apgdParameters are the parameters of all forms of Auto-PGD. The sections belong to Croce & Hein 2020, "Reliable
// evaluation…", or with the year to 2021, "Mind the box…".
var apgdParameters = []Parameter{
	whole("steps", 100, "iterations of a run"), // 3.2
	whole("restarts", 1, "runs, for each target, from random starts"),
	targets, // 5
	whole("eot_iter", 1, "passes that a gradient is averaged over, for randomised models"),
	decimal("rho", .75, setting.Fraction, // 3.2
		"fraction of steps that must raise the loss, else the step is halved"),
	flag("large_radii", "spend a run on radii 3·epsilon, 2·epsilon and epsilon").only(L1), // 2021, 3.4
	flag("from_clean", "start at the clean image, not at random"),
	decimal("sparsity", .2, setting.Fraction, // 2021, 3.3
		"fraction of the values that a run's first steps move, unless large_radii is set").only(L1),
	flag("from_others", "start at the nearest images of other classes, one after another, moved into the ball").later(),
	flag("give_up", "end a run that rises too slowly to break the image; restart only after one that came near"),
}

// fabParameters cite sections of Croce & Hein 2020, "Minimally distorted Adversarial Examples…".
var fabParameters = []Parameter{
	whole("steps", 100, "iterations of a run"),
	whole("restarts", 1, "runs, for each target, the first from the clean image"),
	targets,
	decimal("alpha_max", .1, setting.Fraction, "largest weight of the clean image's projection"),           // 2.3
	decimal("eta", 1.05, setting.Interval{Min: 1, Max: 1e6}, "extrapolation beyond the boundary"),          // 2.3
	decimal("beta", .9, setting.Fraction, "step back from a misclassified point, towards the clean image"), // 2.4
}

// Kinds returns the attacks' names, in the table's order.
func Kinds() []string { return kinds(Specs) }

func kinds(of []Spec) []string { return lists.Map(of, func(s Spec) string { return s.Kind }) }

// ByLabels returns the kinds that see classes alone.
func ByLabels() []string { return kinds(lists.Only(Specs, func(s Spec) bool { return s.labels })) }

// ByScores returns the kinds that take no gradients: those that see classes alone, and those that see scores too.
func ByScores() []string { return kinds(lists.Only(Specs, Spec.blind)) }

// blind reports whether the attack asks for answers alone.
func (s Spec) blind() bool {
	const classes = 10
	r, err := Setup{Kind: s.Kind, Norm: s.In()[0]}.Make(1, classes)
	_, backward := r.Passes(classes)
	return s.labels || !s.proves && err == nil && backward == 0
}

// Traits say of a kind of attack, to other programs, which arguments it takes and what it needs.
type Traits struct {
	Kind      string   `json:"kind"`
	Versions  []string `json:"versions,omitempty"`
	Norms     []string `json:"norms,omitempty"` // none: it takes neither norm nor epsilon
	Minimises bool     `json:"minimises,omitempty"`
	Proves    bool     `json:"proves,omitempty"`
	Blind     bool     `json:"blind,omitempty"` // it takes no gradients
}

// AllTraits returns the traits of each kind and of corruptions.
func AllTraits() []Traits {
	all := lists.Map(Specs, func(s Spec) Traits {
		t := Traits{Kind: s.Kind, Minimises: s.minimises, Proves: s.proves, Blind: s.blind(),
			Versions: lists.Map(s.Versions, func(v Version) string { return v.Name })}
		if !s.free {
			t.Norms = lists.Map(s.In(), Norm.String)
		}
		return t
	})
	return append(all, Traits{Kind: CorruptionKind, Blind: true})
}

// WithoutGradients returns the attacks of [ByScores] that have a norm.
func WithoutGradients() []string {
	return kinds(lists.Only(Specs, func(s Spec) bool { return !s.free && !s.proves && s.blind() }))
}

// ShortNames maps recipes' names without the revision to their headings in columns: "autoattack-plus" to "AA+". A
// recipe from an old file that names no version of AutoAttack has the default one.
func ShortNames() map[string]string {
	all := map[string]string{}
	for _, s := range Specs {
		all[s.Kind] = cmp.Or(s.short, s.Title)
		for i, v := range s.Versions {
			all[s.Kind+"-"+v.Name] = v.short
			if i == 0 {
				all[s.Kind] = v.short
			}
		}
	}
	return all
}

// Lookup returns the row of a kind. The error names all kinds.
func Lookup(kind string) (Spec, error) {
	if s := lists.Find(Specs, func(s Spec) bool { return s.Kind == kind }); s != nil {
		return *s, nil
	}
	return Spec{}, fmt.Errorf("unknown attack %q (want %s)", kind, strings.Join(Kinds(), ", "))
}

// Accepts lists the parameters that a config may give the kind: its own and, for AutoAttack, those that its version
// custom may set for all components at once.
func (s Spec) Accepts() []Parameter {
	if s.Versions == nil {
		return s.Parameters
	}
	var all []Parameter
	for _, c := range Specs {
		for _, p := range c.Parameters {
			listed := slices.ContainsFunc(all, func(q Parameter) bool { return q.Name == p.Name })
			if c.Component && p.shared() && !listed {
				p.Default, p.Rule = nil, "each component's own"
				all = append(all, p)
			}
		}
	}
	return all
}

// Minimises reports whether a kind looks for the smallest perturbation.
func Minimises(kind string) bool {
	s, _ := Lookup(kind)
	return s.minimises
}

// Proves reports whether a kind is a certificate.
func Proves(kind string) bool {
	s, _ := Lookup(kind)
	return s.proves
}

// ProofOf returns how a kind proves, by default parameters; the zero value for a kind that is no certificate.
func ProofOf(kind string) Proof {
	if s, _ := Lookup(kind); s.proves {
		return s.start(common{}).(Certificate).Proof()
	}
	return Proof{}
}

// Brackets reports whether a kind finds for each image the radii that it withstands, without an epsilon.
func Brackets(kind string) bool { return ProofOf(kind).Gaps }

// Listed returns the parameters of a kind that have several values, each with cells of its own: NAME:fog:3, NAME:4.
func Listed(kind string) []string {
	if kind == CorruptionKind {
		return []string{"names", "severities"}
	}
	s, _ := Lookup(kind)
	return s.listed
}

// Variant returns how the title of a kind names one value of its list, such as 4×4; "" if titles do not name it.
func Variant(kind, value string) string {
	if s, _ := Lookup(kind); s.variant != "" && value != "" {
		return fmt.Sprintf(s.variant, value)
	}
	return ""
}

// Free reports whether a kind has neither norm nor epsilon.
func Free(kind string) bool {
	s, _ := Lookup(kind)
	return s.free || kind == CorruptionKind
}

// CheckNorm returns an error if the attack does not exist in a norm.
func (s Spec) CheckNorm(n Norm) error {
	in := s.In()
	if slices.Contains(in, n) {
		return nil
	}
	known := strings.Join(lists.Map(in[:len(in)-1], Norm.String), ", ")
	if known != "" {
		known += " and "
	}
	return fmt.Errorf("%s exists only in %s, not in %s", s.Kind, known+in[len(in)-1].String(), n)
}

// In lists the norms that the kind exists in.
func (s Spec) In() []Norm {
	if s.Norms != nil {
		return s.Norms
	}
	return []Norm{Linf, L2, L1}
}

// version returns AutoAttack's version of that name, by default the first.
func (s Spec) version(name string) (Version, error) {
	if name == "" {
		return s.Versions[0], nil
	}
	if v := lists.Find(s.Versions, func(v Version) bool { return v.Name == name }); v != nil {
		return *v, nil
	}
	known := lists.Map(s.Versions, func(v Version) string { return v.Name })
	return Version{}, fmt.Errorf("unknown version %q of %s (want %s)", name, s.Kind, strings.Join(known, ", "))
}
