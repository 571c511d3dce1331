// Package forecast says what a plan would do, and estimates how long that takes, without attacking anything.
// [Describe] lists the cells and the passes that attacks need at most; [Measure] times the passes of the plan's
// networks on this machine, for Describe to turn into times. Both walk over the plan as a run does, and need no file
// that is absent.
package forecast

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"selfheal/attacks"
	"selfheal/control"
	"selfheal/harness/cell"
	"selfheal/harness/config"
	"selfheal/harness/dataset"
	"selfheal/harness/open"
	"selfheal/harness/plan"
	"selfheal/harness/result"
	"selfheal/internal/lists"
	"selfheal/internal/number"
	"selfheal/models/onnx"
	"selfheal/models/onnx/simplify"
)

// effort is the cost of cells, in passes of one image. A controlled pass costs several passes of the undefended
// network.
type effort struct {
	forward, backward, controlled int64
	judged                        int64   // forward passes of undefended networks outside of attacks
	seconds                       float64 // for the passes on undefended networks
	unrated                       []string
}

func (e *effort) add(o effort) {
	e.forward = number.Sum(e.forward, o.forward)
	e.backward = number.Sum(e.backward, o.backward)
	e.controlled = number.Sum(e.controlled, o.controlled)
	e.seconds += o.seconds
	for _, m := range o.unrated {
		e.unrated = lists.Once(e.unrated, m)
	}
}

func (e effort) String() string {
	return fmt.Sprintf("at most %s forward and %s backward passes of one image; controlled passes: %s",
		count(e.forward), count(e.backward), count(e.controlled))
}

// Describe prints the cells of a plan and the passes that attacks need at most, as if no image were misclassified. It
// says for which absent files it takes limits and classes from the config, and which cells have no published number.
// rates are speeds by model, in passes of one image a second; that of "" serves the other models. times, unless nil,
// has the time of jobs whose models have no rate.
func Describe(p *plan.Plan, rates map[string]float64, times *Times) (string, error) {
	d := &description{plan: p, rates: rates, times: times, sets: map[string]imageSet{},
		read: map[readModel]int{}, made: map[cell.Made]string{}}
	if err := p.Walk(d); err != nil {
		return "", err
	}
	d.endSuite()
	fmt.Fprintf(&d.text, "%d cells; attacks: %s\n", p.Cells(), d.total)
	d.disk()
	switch {
	case d.span != nil:
		fmt.Fprintf(&d.text, "time: %s, on this machine, if as many images stand as after %d steps", d.span,
			pilotSteps)
		if d.total.seconds > 0 {
			fmt.Fprintf(&d.text, "; at the given rates at most %s more, controlled passes not included",
				Duration(d.total.seconds))
		}
		if len(d.total.unrated) > 0 {
			fmt.Fprintf(&d.text, "; not known: %s", strings.Join(d.total.unrated, ", "))
		}
		d.text.WriteString("\n")
	case len(d.total.unrated) == 0:
		fmt.Fprintf(&d.text, "time: at most %s at the given rates, controlled passes not included\n",
			Duration(d.total.seconds))
	case len(rates) == 0:
		d.text.WriteString("time: no rate is known; --rate [MODEL=]N, the passes of one image " +
			"that the machine makes in a second, gives them\n")
	default:
		fmt.Fprintf(&d.text, "time: no rate is known for %s; the others: at most %s, controlled passes not included\n",
			strings.Join(d.total.unrated, ", "), Duration(d.total.seconds))
	}
	return d.text.String(), nil
}

// description is the visitor that describes a plan.
type description struct {
	plan  *plan.Plan
	rates map[string]float64
	times *Times
	text  strings.Builder
	sets  map[string]imageSet
	read  map[readModel]int    // classes of the models that were opened, 0 for one that can't be
	made  map[cell.Made]string // the suite in which images are made first
	total effort
	span  *Span // sum over the timed jobs; nil if there are none

	// The state of the present suite and job.
	known    *comparison
	sum      effort
	job      effort
	set      imageSet
	under    *plan.Job
	classes  int
	attack   string // name of the last corruption
	listed   string // its line
	defenses string // its defenses
}

// readModel is a model and the shape of the images it is opened for.
type readModel struct {
	*config.Model
	shape [3]int
}

type imageSet struct {
	n, classes int
	shape      [3]int // of an image, 0 if unknown
	note       string // the assumptions about absent files; "" if they are there
}

// set looks at a data set that is scored.
func (d *description) setOf(name string) (imageSet, error) {
	if s, ok := d.sets[name]; ok {
		return s, nil
	}
	cfg := d.plan.Config
	spec := cfg.Dataset(name).Spec
	var s imageSet
	if plan.Absent(cfg.Files, spec.Path) {
		s = assumed(spec, cfg.Limit)
	} else {
		data, err := dataset.Open(open.Spec(cfg, name, ""), cfg.Files, cfg.Limit)
		if err != nil {
			return s, fmt.Errorf("dataset %s: %w", name, err)
		}
		defer data.Close()
		s = imageSet{n: data.Len(), classes: data.Classes(), shape: data.Shape()}
	}
	d.sets[name] = s
	return s, nil
}

// assumed describes a data set with absent files by its config.
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
		s.n, from = plan.AssumedImages, "assumed"
	}
	if limit > 0 && limit < s.n {
		s.n, from = limit, "as --limit says"
	}
	s.note = fmt.Sprintf("%s is absent (%d images %s", spec.Path, s.n, from)
	if s.classes == 0 {
		s.classes = plan.AssumedClasses
		s.note += fmt.Sprintf(", %d classes assumed", s.classes)
	}
	s.note += ")"
	return s
}

// classesOf returns the classes of a model or, if it can't be read, of the data set. The note says that the model is
// absent.
func (d *description) classesOf(m *config.Model, s imageSet) (classes int, note string) {
	files := d.plan.Config.Files
	if plan.Absent(files, m.Path) {
		return s.classes, fmt.Sprintf("%s is absent (%d classes as the data set)", m.Path, s.classes)
	}
	key := readModel{m, s.shape}
	if n, ok := d.read[key]; ok {
		return cmp.Or(n, s.classes), ""
	}
	file, err := open.ReadModel(files, m.Path)
	if err == nil {
		o := simplify.Options{Layout: m.Layout, Output: m.OutputName}
		if s.shape != [3]int{} {
			o.Size = func() ([3]int, error) { return s.shape, nil }
		}
		if g, err := simplify.Open(file.Data, o); err == nil {
			classes = int(g.Outputs[0].Shape.Items())
		}
	}
	d.read[key] = classes
	return cmp.Or(classes, s.classes), ""
}

func (d *description) endSuite() {
	if d.under == nil {
		return
	}
	s := d.under.Suite
	if d.known != nil {
		fmt.Fprintf(&d.text, "suite %s: %s; %s\n", s.Name, d.known, d.sum)
	}
	if s.Solver != nil {
		fmt.Fprintf(&d.text, "suite %s: solver study of at most %d images, %d models × %d controls, not counted\n",
			s.Name, s.Solver.Images, len(s.Solver.Models), len(s.Solver.Controls))
	}
	d.total.add(d.sum)
}

// Begin prints a job's heading.
func (d *description) Begin(j *plan.Job) error {
	if d.under == nil || j.Suite != d.under.Suite {
		d.endSuite()
		d.known, d.sum = newComparison(d.plan.Config, j.Suite), effort{}
	}
	set, err := d.setOf(j.Suite.Dataset)
	if err != nil {
		return err
	}
	classes, note := d.classesOf(j.Model, set)
	d.under = j
	d.set, d.classes, d.job, d.attack, d.listed = set, classes, effort{}, "", ""
	fmt.Fprintf(&d.text, "suite %s, model %s, %d images of %s, %s\n", j.Suite.Name, j.Model.Name, set.n,
		j.Suite.Dataset, strings.Join(j.Suite.Attackers(), ", "))
	if notes := slices.DeleteFunc([]string{set.note, note}, func(s string) bool { return s == "" }); len(notes) > 0 {
		fmt.Fprintf(&d.text, "  an estimate, as %s\n", strings.Join(notes, " and "))
	}
	fmt.Fprintf(&d.text, "  %-24s defenses: %s\n", "none (clean)", d.known.defenses(j, cell.None, 0))
	if seeds := len(d.plan.Seeds()); seeds > 1 {
		fmt.Fprintf(&d.text, "  %d seeds of every attack\n", seeds)
	}
	return nil
}

func (d *description) Clean(_ *plan.Job, g plan.Group) error {
	d.answers(g, votes(d.under.Model), &d.job.judged)
	return nil
}

// votes returns how many passes a model's answer to the judge takes.
func votes(m *config.Model) int64 { return int64(max(1, m.Votes)) }

// answers counts so many answers to every image, by each classifier of a group. The undefended network's are added to
// undefended.
func (d *description) answers(g plan.Group, each int64, undefended *int64) {
	for _, defense := range g.Scored {
		if defense == cell.None {
			*undefended += each * int64(d.set.n)
		} else {
			d.job.controlled += each * int64(d.set.n)
		}
	}
}

// Try counts a trial's passes and lists it once.
func (d *description) Try(s plan.Step) error { return s.Do(d, s) }

// Attack counts an attack's passes and the answers to its images.
func (d *description) Attack(s plan.Step) error {
	d.answers(s.Group, votes(d.under.Model), &d.job.judged)
	if s.First { // the smoothed classifiers' answers
		for _, t := range s.Trials {
			d.answers(s.Group, t.Samples(), &d.job.forward)
		}
	}
	return d.passes(s)
}

func (d *description) Certify(s plan.Step) error { return d.passes(s) }

// passes counts a trial's passes at its first seed, for all seeds, without images that an earlier trial makes. Images
// of another source are counted with its job.
func (d *description) passes(s plan.Step) error {
	if !s.First {
		return nil
	}
	if s.From != s.Job {
		fmt.Fprintf(&d.text, "  %-24s defenses: %s; made on model %s\n", s.Trial.Name(),
			strings.Join(s.Scored, ", "), s.From.Model.Name)
		return nil
	}
	r, err := s.Setting().Make(float64(cmp.Or(s.Epsilon(), 1)), d.classes) // an attack without epsilon has 1
	f, b := r.Passes(d.classes)
	each := int64(d.set.n * len(d.plan.Seeds()))
	if s.Crafted() {
		each *= int64(control.QuestionPasses(d.under.Model.Votes))
	}
	f, b = number.Product(f, each), number.Product(b, each)
	shared := ""
	for _, k := range s.Keys() {
		if suite := d.made[k]; suite != "" || err != nil {
			if k.Defense == cell.None && err == nil {
				shared = ", made once with suite " + suite
			}
			continue
		}
		d.made[k] = s.Suite.Name
		if k.Defense == cell.None {
			d.job.forward, d.job.backward = number.Sum(d.job.forward, f), number.Sum(d.job.backward, b)
		} else {
			d.job.controlled = number.Sum(d.job.controlled, f, b)
		}
	}
	switch {
	case s.Attacked != cell.None: // already listed
		if d.known != nil && s.Knows != s.Suite.Attackers()[0] {
			d.known.cells += len(s.Scored)
		}
	case err != nil:
		fmt.Fprintf(&d.text, "  %-24s %v\n", s.Trial.Name(), err)
	default:
		strength := ""
		if norm := s.Norm(); norm != nil {
			strength = ", " + *norm
		}
		if s.Epsilon() != 0 {
			strength += ", epsilon " + s.Epsilon().String()
		}
		fmt.Fprintf(&d.text, "  %-24s defenses: %s; %s%s: %s%s\n", s.Trial.Name(),
			d.known.defenses(s.Job, s.Trial.Name(), s.Epsilon()), r.Name, strength, s.Cost(f, b, count), shared)
	}
	return nil
}

// Corrupt lists all severities of a corruption in one line. A published number is the mean over all corruptions.
func (d *description) Corrupt(s plan.Step, c attacks.Corruption) error {
	d.answers(s.Group, votes(d.under.Model), &d.job.judged)
	if !s.First || s.Attacked != cell.None {
		return nil
	}
	attack, _, _ := strings.Cut(s.Trial.Name(), ":")
	if attack != d.attack {
		d.defenses = d.known.defenses(s.Job, attack, 0)
	} else if d.known != nil {
		d.known.cells += len(s.Defenses())
	}
	line := attack + ":" + c.Name
	if line != d.listed {
		var severities []string
		for _, o := range d.plan.Config.Attack(attack).Corruptions {
			if o.Name == c.Name {
				severities = append(severities, strconv.Itoa(o.Severity))
			}
		}
		fmt.Fprintf(&d.text, "  %-24s defenses: %s; %s, severities %s\n", line, d.defenses, attacks.CorruptionRecipe,
			strings.Join(severities, ", "))
	}
	d.attack, d.listed = attack, line
	return nil
}

func (d *description) End(j *plan.Job) error {
	e := d.job
	rate := cmp.Or(d.rates[j.Model.Name], d.rates[""])
	switch {
	case rate > 0:
		e.seconds = float64(e.judged+e.forward+e.backward) / rate
	case !d.timed(j):
		e.unrated = []string{j.Model.Name}
	}
	d.sum.add(e)
	return nil
}

func (d *description) timed(j *plan.Job) bool {
	if d.times == nil {
		return false
	}
	t := d.times.jobs[j]
	if t.why != "" {
		fmt.Fprintf(&d.text, "  time: not known: %s\n", t.why)
		return false
	}
	if d.span == nil {
		d.span = &Span{}
	}
	d.span.add(t.Span)
	fmt.Fprintf(&d.text, "  time: %s; right without attack: %d of the %d images looked at", t.Span, t.right,
		t.looked)
	if len(t.pilots) > 0 {
		fmt.Fprintf(&d.text, "; stand after %d steps: %s", pilotSteps,
			strings.Join(onnx.Each(t.pilots, (*pilot).String), ", "))
	}
	d.text.WriteString("\n")
	return true
}

// disk prints the room that the attacks' images take if they are kept.
func (d *description) disk() {
	bytes, known := int64(0), true
	d.plan.EachMade(func(s plan.Step, _ cell.Made) {
		if s.Kept(s.Suite.SaveAdversarial) {
			set := d.sets[s.Suite.Dataset]
			known = known && set.shape[0] > 0
			bytes += 4 * int64(set.n) * int64(set.shape[0]*set.shape[1]*set.shape[2])
		}
	})
	if known && bytes > 0 {
		fmt.Fprintf(&d.text, "disk: crafted images, where they are kept, take %s: 4 bytes a value\n",
			number.Bytes(bytes))
	}
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

// Duration writes seconds, minutes or hours with two significant digits, or as a whole number.
func Duration(seconds float64) string {
	return in(seconds, unitOf(seconds)) + " " + unitOf(seconds).name
}

type unit struct {
	name    string
	seconds float64
}

func unitOf(seconds float64) unit {
	switch {
	case seconds < 100:
		return unit{"s", 1}
	case seconds < 100*60:
		return unit{"min", 60}
	}
	return unit{"h", 3600}
}

func in(seconds float64, u unit) string {
	v := seconds / u.seconds
	if v >= 9.95 {
		return fmt.Sprintf("%.0f", v)
	}
	return strconv.FormatFloat(v, 'g', 2, 64)
}

// comparison finds which cells of a suite have a published number. A nil comparison finds none.
type comparison struct {
	source string
	models []string               // of the suite
	left   []result.PublishedCell // published numbers without a cell so far
	total  int                    // number of published numbers
	cells  int                    // number of cells so far
}

// newComparison returns nil for a suite without published numbers.
func newComparison(cfg *config.Config, s *config.Suite) *comparison {
	p := cfg.PublishedNumbers(s)
	if p == nil {
		return nil
	}
	return &comparison{source: p.Source, models: s.Models, left: p.Cells, total: len(p.Cells)}
}

// defenses lists the defenses that a job scores under an attack, none first. It marks defenses whose cells have no
// published number as extra, and removes the others' numbers from left.
func (c *comparison) defenses(j *plan.Job, attack string, epsilon cell.Epsilon) string {
	names := j.Defenses()
	for k := 0; c != nil && k < len(names); k++ {
		c.cells++
		i := slices.IndexFunc(c.left, func(p result.PublishedCell) bool {
			return p.Model == j.Model.Name && p.Defense == names[k] && p.Attack == attack &&
				(p.Epsilon == 0 || p.Epsilon == epsilon)
		})
		if i < 0 {
			names[k] += " (extra)"
		} else {
			c.left = slices.Delete(c.left, i, i+1)
		}
	}
	return strings.Join(names, ", ")
}

// String says how many cells there are, and which published numbers have no cell.
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
		lacking = lists.Once(lacking, name)
	}
	if len(lacking) > 0 {
		text += "; not run: " + strings.Join(lacking, ", ")
	}
	return text
}
