package harness

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"selfheal/attacks"
	"selfheal/harness/config"
	"selfheal/harness/dataset"
	"selfheal/harness/result"
	"selfheal/internal/number"
	"selfheal/models/onnx/simplify"
)

// effort is what cells cost: passes count images. Those on controlled networks are
// counted as controlled passes, each of which costs several plain ones.
type effort struct {
	forward, backward, controlled int64
	hours                         float64 // of the passes on undefended networks
	unrated                       []string
}

func (e *effort) add(o effort) {
	e.forward += o.forward
	e.backward += o.backward
	e.controlled += o.controlled
	e.hours += o.hours
	for _, m := range o.unrated {
		if !slices.Contains(e.unrated, m) {
			e.unrated = append(e.unrated, m)
		}
	}
}

func (e effort) String() string {
	return fmt.Sprintf("at most %s forward and %s backward passes of one image; controlled passes: %s",
		count(e.forward), count(e.backward), count(e.controlled))
}

// Describe prints the cells and the passes that the attacks need at most: every
// image attacked by every component, as if none were ever misclassified. It needs no
// file. Where a data set or a network is absent, the number of images is that of the
// config's limit and the classes are those of the data set, and it says that this is
// an estimate. Cells of a suite with published numbers that are not among these are
// marked as extra. Rates are measured speeds by model, in passes of one image a second,
// forward and backward ones counted alike; that of "" serves models without one of their own. Costs, unless
// nil, give the hours of jobs whose models have no rate.
func (p *Plan) Describe(rates map[string]float64, costs *Costs) (string, error) {
	d := &description{plan: p, rates: rates, costs: costs, sets: map[string]imageSet{}, made: map[craftKey]string{}}
	var total effort
	for i := range p.Config.Suites {
		e, err := d.suite(&p.Config.Suites[i])
		if err != nil {
			return "", err
		}
		total.add(e)
	}
	fmt.Fprintf(&d.text, "%d cells; attacks: %s\n", p.Cells(), total)
	d.disk()
	switch {
	case d.total != nil:
		d.hours(total)
	case len(total.unrated) == 0:
		fmt.Fprintf(&d.text, "hours: at most %s at the given rates, controlled passes not included\n",
			duration(total.hours))
	case len(rates) == 0:
		d.text.WriteString("hours: no rate is known; --rate [MODEL=]N, the passes of one image " +
			"that the machine makes in a second, gives them\n")
	default:
		fmt.Fprintf(&d.text, "hours: no rate is known for %s; the others: at most %s, controlled passes not included\n",
			strings.Join(total.unrated, ", "), duration(total.hours))
	}
	return d.text.String(), nil
}

// description is a plan being described.
type description struct {
	plan  *Plan
	rates map[string]float64
	costs *Costs
	total []float64 // seconds of the jobs that are forecast, a draw each; nil where none is
	text  strings.Builder
	sets  map[string]imageSet
	made  map[craftKey]string // in which suite images are made first

	corrupted string // the defenses of the corruptions that are being described
}

// imageSet is what is known of a data set.
type imageSet struct {
	n, classes int
	size       int    // values of an image, 0 where that is not known
	note       string // what was assumed, since the files are absent; "" if they are there
}

// set surveys a data set that is scored.
func (d *description) set(name string) (imageSet, error) {
	if s, ok := d.sets[name]; ok {
		return s, nil
	}
	cfg := d.plan.Config
	spec := cfg.Dataset(name).Spec
	var s imageSet
	if absent(cfg.Files, spec.Path) {
		s = assumed(spec, cfg.Limit)
	} else {
		data, err := dataset.Open(spec, cfg.Files, cfg.Limit)
		if err != nil {
			return s, fmt.Errorf("dataset %s: %w", name, err)
		}
		defer data.Close()
		shape := data.Shape()
		s = imageSet{n: data.Len(), classes: data.Classes(), size: shape[0] * shape[1] * shape[2]}
	}
	d.sets[name] = s
	return s, nil
}

// What is assumed of absent images about which the config says nothing.
const (
	assumedImages  = 10_000 // the size of the test sets of CIFAR and of Tiny-ImageNet's validation set
	assumedClasses = 10
)

// assumed is what the config says of a data set whose files are absent.
func assumed(spec dataset.Spec, limit int) imageSet {
	s := imageSet{n: len(spec.Indices),
		classes: cmp.Or(len(spec.ClassNames), spec.Classes, dataset.Find(spec.Format).Classes)}
	from := "as the config says"
	limits := []int{spec.Limit}
	if spec.Sample != nil {
		limits = append(limits, spec.Sample.N)
	}
	for _, n := range limits {
		if n > 0 && (s.n == 0 || n < s.n) {
			s.n = n
		}
	}
	if s.n == 0 {
		s.n, from = assumedImages, "assumed"
	}
	if limit > 0 && limit < s.n {
		s.n, from = limit, "as --limit says"
	}
	s.note = fmt.Sprintf("%s is absent (%d images %s", spec.Path, s.n, from)
	if s.classes == 0 {
		s.classes = assumedClasses
		s.note += fmt.Sprintf(", %d classes assumed", s.classes)
	}
	s.note += ")"
	return s
}

// classes are those of a model, or where it can't be read, those of the data set:
// note says so of an absent one; a broken one is for the run itself to refuse.
func (d *description) classes(m *config.Model, s imageSet) (classes int, note string) {
	files := d.plan.Config.Files
	if absent(files, m.Path) {
		return s.classes, fmt.Sprintf("%s is absent (%d classes as the data set)", m.Path, s.classes)
	}
	file, err := readModel(files, m.Path)
	if err == nil {
		o := simplify.Options{Layout: m.Layout, Output: m.OutputName}
		if g, err := simplify.Open(file.Data, o); err == nil {
			return int(g.Outputs[0].Shape.Items()), ""
		}
	}
	return s.classes, ""
}

// suite describes the jobs of a suite. What an earlier suite has made already costs
// nothing here.
func (d *description) suite(s *config.Suite) (effort, error) {
	var sum effort
	known := newComparison(d.plan.Config, s)
	for _, j := range d.plan.Jobs {
		if j.Suite != s {
			continue
		}
		e, err := d.job(j, known)
		if err != nil {
			return sum, err
		}
		sum.add(e)
	}
	if known != nil {
		fmt.Fprintf(&d.text, "suite %s: %s; %s\n", s.Name, known, sum)
	}
	if s.Solver != nil {
		fmt.Fprintf(&d.text, "suite %s: solver study of at most %d images, %d models × %d controls, not counted\n",
			s.Name, s.Solver.Images, len(s.Solver.Models), len(s.Solver.Controls))
	}
	return sum, nil
}

func (d *description) job(j Job, known *comparison) (effort, error) {
	set, err := d.set(j.Suite.Dataset)
	if err != nil {
		return effort{}, err
	}
	classes, note := d.classes(j.Model, set)
	n := int64(set.n)
	fmt.Fprintf(&d.text, "suite %s, model %s, %d images of %s, %s\n", j.Suite.Name, j.Model.Name, n, j.Suite.Dataset,
		result.AttackerOf(j.Suite.Mode, len(j.Suite.Controls) > 0).Name)
	if notes := slices.DeleteFunc([]string{set.note, note}, func(s string) bool { return s == "" }); len(notes) > 0 {
		fmt.Fprintf(&d.text, "  an estimate, as %s\n", strings.Join(notes, " and "))
	}
	fmt.Fprintf(&d.text, "  %-24s defenses: %s\n", "none (clean)", known.defenses(j, config.None, 0))
	seeds := int64(1 + len(d.plan.Config.OtherSeeds))
	if seeds > 1 {
		fmt.Fprintf(&d.text, "  %d seeds of every attack\n", seeds)
	}
	controls := int64(len(j.Suite.Controls))
	judged, polled := n, int64(0) // by each classifier; certificates say themselves what is proven
	for _, a := range j.Attacks {
		if !a.proves() {
			judged += n * seeds
		}
		if a.searches() { // the smoothed classifiers' answers
			polled += n * j.polls()
		}
	}
	e := effort{forward: polled, controlled: (judged + polled) * controls}
	for i, a := range j.Attacks {
		if a.corruption() != nil {
			d.corruption(j, i, known)
			continue
		}
		r, err := a.Make(a.Epsilon, classes)
		if err != nil {
			fmt.Fprintf(&d.text, "  %-24s %v\n", a.Name, err)
			continue
		}
		f, g := r.Passes(classes)
		f, g = f*n*seeds, g*n*seeds
		shared, defenses := "", j.attacked()
		if a.proves() {
			defenses = append([]string{config.None}, j.Suite.Controls...)
		}
		for _, defense := range defenses {
			switch k := j.key(a, defense, d.plan.Config.Seed); {
			case d.made[k] != "" && defense == config.None:
				shared = ", made once with suite " + d.made[k]
			case d.made[k] != "":
			case defense == config.None:
				d.made[k] = j.Suite.Name
				e.forward, e.backward = e.forward+f, e.backward+g
			default:
				d.made[k] = j.Suite.Name
				e.controlled += f + g
			}
		}
		passes := fmt.Sprintf("at most %s forward, %s backward", count(f), count(g))
		switch s := r.Certificate.(type) {
		case attacks.Smoothing:
			if passes = count(f) + " forward for each defense"; s.Stopping {
				passes = "at most " + passes
			}
		case attacks.Bounds:
			passes = "no passes, bounds for each defense"
		}
		fmt.Fprintf(&d.text, "  %-24s defenses: %s; %s, %s, epsilon %s: %s%s\n", a.Name,
			known.defenses(j, a.Name, a.Epsilon), r.Name, a.Norm, number.Format(a.Epsilon), passes, shared)
	}
	rate := cmp.Or(d.rates[j.Model.Name], d.rates[""])
	if rate <= 0 && d.forecast(j) {
		return e, nil
	}
	if rate > 0 {
		e.hours = float64(judged+e.forward+e.backward) / rate / 3600
	} else {
		e.unrated = []string{j.Model.Name}
	}
	return e, nil
}

// corruption says what cells the i-th attack of a job makes, in one line for all severities.
func (d *description) corruption(j Job, i int, known *comparison) {
	a := j.Attacks[i]
	name, severity := cutLast(a.Name)
	if base, _, _ := strings.Cut(name, ":"); i == 0 || !strings.HasPrefix(j.Attacks[i-1].Name, base+":") {
		d.corrupted = known.defenses(j, base, 0) // a published number is of their mean
	} else if known != nil {
		known.cells += 1 + len(j.Suite.Controls)
	}
	if i > 0 && strings.HasPrefix(j.Attacks[i-1].Name, name+":") {
		return
	}
	list := severity
	for _, next := range j.Attacks[i+1:] {
		if other, severity := cutLast(next.Name); next.corruption() != nil && other == name {
			list += ", " + severity
		}
	}
	fmt.Fprintf(&d.text, "  %-24s defenses: %s; %s, severities %s\n", name, d.corrupted, attacks.CorruptionRecipe, list)
}

// cutLast cuts a text at its last colon.
func cutLast(s string) (before, after string) {
	i := strings.LastIndex(s, ":")
	return s[:max(i, 0)], s[i+1:]
}

// count writes a number of passes with its thousands.
func count(n int64) string {
	switch {
	case n >= 1e9:
		return fmt.Sprintf("%.1fG", float64(n)/1e9)
	case n >= 1e6:
		return fmt.Sprintf("%.1fM", float64(n)/1e6)
	case n >= 1e4:
		return fmt.Sprintf("%.0fk", float64(n)/1e3)
	}
	return fmt.Sprint(n)
}

// duration writes hours with two digits that count.
func duration(hours float64) string {
	if hours >= 10 {
		return fmt.Sprintf("%.0f", hours)
	}
	return strconv.FormatFloat(hours, 'g', 2, 64)
}

// comparison tells which cells of a suite have a published number. A nil one compares
// with nothing.
type comparison struct {
	source string
	models []string               // of the suite
	left   []result.PublishedCell // published, no cell seen for it yet
	total  int                    // published numbers
	cells  int                    // seen
}

// newComparison is nil for a suite that names no published numbers.
func newComparison(cfg *config.Config, s *config.Suite) *comparison {
	p := cfg.PublishedNumbers(s)
	if p == nil {
		return nil
	}
	return &comparison{source: p.Source, models: s.Models, left: p.Cells, total: len(p.Cells)}
}

// defenses lists those that a job scores under an attack, none first, and marks as
// extra those whose cells have no published number. It strikes off the numbers of the others.
func (c *comparison) defenses(j Job, attack string, epsilon float64) string {
	names := append([]string{config.None}, j.Suite.Controls...)
	for k := 0; c != nil && k < len(names); k++ {
		c.cells++
		i := slices.IndexFunc(c.left, func(p result.PublishedCell) bool {
			return p.Model == j.Model.Name && p.Defense == names[k] && p.Attack == attack &&
				(p.Epsilon == nil || *p.Epsilon == epsilon)
		})
		if i < 0 {
			names[k] += " (extra)"
		} else {
			c.left = slices.Delete(c.left, i, i+1)
		}
	}
	return strings.Join(names, ", ")
}

// String says how many cells there are, and which published numbers have none.
func (c *comparison) String() string {
	of, found := c.source, c.total-len(c.left)
	if of == "config" {
		of = "the config"
	}
	text := fmt.Sprintf("%d cells, %d of the %d numbers of %s, %d extra", c.cells, found, c.total, of, c.cells-found)
	var lacking []string
	for _, p := range c.left {
		name := p.Model // of a network that the suite lacks, once
		if slices.Contains(c.models, p.Model) {
			name += " / " + p.Defense + " / " + p.Attack
		}
		if !slices.Contains(lacking, name) {
			lacking = append(lacking, name)
		}
	}
	if len(lacking) > 0 {
		text += "; not run: " + strings.Join(lacking, ", ")
	}
	return text
}
