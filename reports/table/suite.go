package table

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/gonum/stat"

	"selfheal/attacks"
	"selfheal/harness/cell"
	"selfheal/harness/result"
	"selfheal/harness/result/published"
	"selfheal/internal/lists"
	"selfheal/internal/number"
	"selfheal/reports/view"
	"selfheal/reports/words"
)

// Details returns the suite's tables that a page folds if they are long.
func (s Suite) Details() []Table {
	return filled(append(s.CorruptionTables(), s.SpreadTable(), s.VotesTable(), s.DistanceTable(), s.WaterfallTable(),
		s.solverTable(), s.marginTable(), s.costTable())...)
}

func filled(all ...Table) []Table {
	return slices.DeleteFunc(all, func(t Table) bool { return len(t.Rows) == 0 })
}

// table starts a table whose numbers depend on the suite's attacker.
func (s Suite) table(caption string, lead int, head ...string) Table {
	return Table{Anchor: s.Slug, Caption: s.Caption(caption), Lead: lead, Head: head}
}

// byCell makes a table with the rows that of adds for every cell. The first columns name the cell; head names the
// others.
func (s Suite) byCell(caption string, head []string, of func(c *result.Cell, add func(cells ...any))) Table {
	t := s.table(caption, 3, "Model", "Defense", "Attack")
	t.head(true, head...)
	s.Each(func(c *result.Cell, col words.Column) {
		of(c, func(cells ...any) {
			t.add(c.Model, words.DefenseName(c.Defense), col.Title(), boxes(cells...))
		})
	})
	return t.marked()
}

// AccuracyTable is the paper's table: baseline / controlled under each attack.
func (s Suite) AccuracyTable() Table {
	several, what := len(s.Controls) > 1, versus(s.Controls)
	if s.Sides[0] != "" {
		several, what = false, ": "+words.Clean(s.Sides[0])+" / "+words.Clean(s.Sides[1])+" control"
	}
	t := s.table("Accuracy in %"+what+s.OverSeeds(), 1, "Model")
	t.Notes = footnotes(s)
	t.lead("Control", several)
	t.head(true, s.Heads()...)
	for _, r := range s.Rows() {
		line := boxes(r.Model, shown(several, r.Control))
		line[len(line)-1].mark(s.RowMarks(r.Model, r.Control))
		for i := range s.Columns {
			line = append(line, s.pair(r.Entry(i), view.Scored, true, r.Control != ""))
		}
		t.add(line)
	}
	return t.marked()
}

// IntervalTable gives every accuracy with its 95 % interval, one line per model and defense.
func (s Suite) IntervalTable() Table {
	t := s.table("Accuracy in % with 95 % Wilson intervals"+s.OfFirstSeed(), 2, "Model", "Defense")
	t.head(true, s.Heads()...)
	for _, one := range s.Lines() {
		values := lists.Map(one.Cells, func(c *result.Cell) string {
			return strings.TrimSpace(words.Accuracy(c) + " " + words.Interval(c))
		})
		who := text(words.DefenseName(one.Defense)).mark(s.RowMarks(one.Model, one.Defense))
		t.add(one.Model, who, values)
	}
	return t.marked()
}

// WaterfallTable gives for each component of an attack the number of images it ran on, the accuracy it left, and its
// cost.
func (s Suite) WaterfallTable() Table {
	head := []string{"Component", "Attacked", "Accuracy after (%)", "Forward passes", "Backward passes", "Time"}
	what := "Accuracy after each attack component" + s.OfFirstSeed()
	return s.byCell(what, head, func(c *result.Cell, add func(...any)) {
		for _, st := range c.Steps {
			after := text(words.Percent(st.Robust, c.N))
			after.Bar = st.Robust
			add(st.Attack, st.Attacked, after, st.Forward, st.Backward, timed(st.Seconds))
		}
	})
}

func (s Suite) solverTable() Table {
	head := []string{"Method", "Objective", "Greedy start", "Below greedy (%)", "Control norm",
		"Plain passes per controlled pass"}
	what := "Solver: running loss of the control problem, mean over the images" + s.OfFirstSeed()
	return s.byCell(what, head, func(c *result.Cell, add func(...any)) {
		if v := c.Solver; v != nil {
			add(v.Method, words.ThreeDigits(v.Objective), words.ThreeDigits(v.Greedy),
				words.Percent(v.BelowGreedy, c.N), words.ThreeDigits(v.ControlNorm), words.ThreeDigits(v.PassesPerRun))
		}
	})
}

func (s Suite) costTable() Table {
	what := "Time and model passes (in images)"
	if s.Seeds > 1 {
		what = fmt.Sprintf("Time over all %d seeds; model passes (in images) and "+
			"largest perturbation of the first seed", s.Seeds)
	}
	var seconds float64
	var forward, backward int64
	head := []string{"Forward passes", "Backward passes", "Largest perturbation", "Time"}
	t := s.byCell(what, head, func(c *result.Cell, add func(...any)) {
		f, b := Passes(c)
		time := c.Seconds // of the first seed
		for _, other := range c.Seeds[min(len(c.Seeds), 1):] {
			time += other.Seconds
		}
		seconds, forward, backward = seconds+time, forward+f, backward+b
		var ahead, back, norm any = words.Dash, words.Dash, words.Dash
		if len(c.Steps) > 0 {
			ahead, back = f, b
		}
		if c.Epsilon != 0 && c.Norm != nil {
			norm = words.Strength(*c.Norm, c.MaxNorm)
		}
		add(ahead, back, norm, timed(time))
	})
	if len(t.Rows) > 1 {
		t.add("Sum", "", "", forward, backward, "", timed(seconds))
		t.Sums = 1
	}
	if len(s.WaterfallTable().Rows) > 0 {
		t.note("", "A cell's time is that of its attack's components and of the judge's answers to its images.")
	}
	return t
}

// Passes sums a cell's forward and backward passes over its components.
func Passes(c *result.Cell) (forward, backward int64) {
	for _, st := range c.Steps {
		forward, backward = forward+st.Forward, backward+st.Backward
	}
	return forward, backward
}

// DistanceTable gives the sizes of the perturbations that break the images: the curves in numbers.
func (s Suite) DistanceTable() Table {
	what := "Smallest perturbation found that breaks an image that is right" + s.OfFirstSeed()
	head := []string{"Right images", "Unbroken", "10 % below", "Median", "90 % below", "Area"}
	pixels := false // for ℓ0
	s.Each(func(c *result.Cell, _ words.Column) {
		m := s.MarginsOf(c)
		pixels = pixels || m.Distances(c) && len(m.Pixels) > 0
	})
	if pixels {
		head = append(head, "Median pixels")
	}
	return s.byCell(what, head, func(c *result.Cell, add func(...any)) {
		m, ranks := s.MarginsOf(c), []string(nil)
		if !m.Distances(c) {
			return
		}
		standing := lists.Count(m.Reach, func(d float64) bool { return math.IsInf(d, 1) })
		for _, q := range []float64{0.1, 0.5, 0.9} {
			if d := lists.Quantile(m.Reach, q); math.IsInf(d, 1) {
				ranks = append(ranks, "> "+c.Epsilon.String())
			} else {
				ranks = append(ranks, words.Strength(*c.Norm, d))
			}
		}
		area := words.Dash
		if c.Area != nil {
			area = words.ThreeDigits(*c.Area)
		}
		if ranks = append(ranks, area); pixels {
			of := words.Dash
			if len(m.Pixels) > 0 {
				of = number.Format(lists.Median(m.Pixels))
			}
			ranks = append(ranks, of)
		}
		add(len(m.Reach), standing, ranks)
	})
}

func (s Suite) marginTable() Table {
	what := "Margins: the right class's logit minus the highest other one, on each cell's images" + s.OfFirstSeed()
	head := []string{"10 % below", "Median", "90 % below", "Median on clean images", "Perturbed images",
		"Median perturbation", "Median iteration of first success", "Median forward passes to it"}
	return s.byCell(what, head, func(c *result.Cell, add func(...any)) {
		if m := s.MarginsOf(c); m != nil {
			moved := words.Dash
			if len(m.Norm) > 0 && c.Norm != nil {
				moved = words.Strength(*c.Norm, lists.Median(m.Norm))
			}
			add(quantile(m.Margin, 0.1), quantile(m.Margin, 0.5), quantile(m.Margin, 0.9), quantile(m.Clean, 0.5),
				len(m.Norm), moved, quantile(m.First, 0.5), quantile(m.Queries, 0.5))
		}
	})
}

func percents(n int, shares ...float64) []string {
	return lists.Map(shares, func(share float64) string { return words.Percent(share, n) })
}

func quantile(xs []float64, q float64) string {
	if len(xs) == 0 {
		return words.Dash
	}
	return words.ThreeDigits(lists.Quantile(xs, q))
}

// SpreadTable gives the spread of accuracies over the attacks' seeds.
func (s Suite) SpreadTable() Table {
	head := []string{"Seeds", "Mean", "Standard deviation", "Lowest", "Highest", "Right under every seed"}
	return s.byCell("Spread over the seeds: accuracy in %", head, func(c *result.Cell, add func(...any)) {
		if v, ok := c.Spread(); ok {
			add(v.Seeds, percents(c.N, v.Mean, v.Deviation, v.Min, v.Max, v.Every))
		}
	})
}

// VotesTable gives, for networks that draw at random, the accuracy of a single pass and how certain the votes are.
func (s Suite) VotesTable() Table {
	head := []string{"Passes", "By votes (%)", "A single pass (%)", "Undecided images"}
	t := s.byCell("Networks that draw at random"+s.OfFirstSeed(), head, func(c *result.Cell, add func(...any)) {
		if v := c.Votes; v != nil {
			single := words.Percent(v.Expected, c.N) + " " + words.Range(words.Percent(v.CI95[0], c.N),
				words.Percent(v.CI95[1], c.N))
			add(v.Passes, words.Accuracy(c), single, v.Undecided)
		}
	})
	t.note("", "By votes: the class that most passes answer is the label. A single pass: the mean over all passes, "+
		"with the 95 %% interval that the draws leave on these images. Undecided: other draws may turn the verdict, "+
		"by the exact sign test between the two classes with most votes, at 5 %%.")
	return t
}

const (
	manyClasses = 20   // with more, a table shows only the ends
	endClasses  = 10   // at each end
	mostClasses = 1000 // rows of a page's table of all classes
)

// ends returns the classes of lowest and of highest weight; among equals the lower label comes first.
func ends(classes []view.Class, side int) []view.Class {
	by := slices.SortedStableFunc(slices.Values(classes),
		func(a, b view.Class) int { return cmp.Compare(a.Weight(side), b.Weight(side)) })
	return append(by[:endClasses:endClasses], by[len(by)-endClasses:]...)
}

// ClassTables gives the accuracy of each class, one line per class, model and control. They need records. If there are
// many classes, the first table has the ends, and a second one all of them.
func (s Suite) ClassTables() []Table {
	what, whose, side := "Accuracy in % by class"+s.OfFirstSeed()+versus(s.Controls), "of the network", 0
	if len(s.Controls) > 0 {
		what, whose, side = what+", upper / lower bar", "of the controlled network", 1
	}
	models, controls := len(s.Models) > 1, len(s.Controls) > 1
	t := s.table(what, 0)
	t.lead("Model", models)
	t.lead("Control", controls)
	t.lead("Class", true)
	t.head(true, "Images")
	t.head(true, s.Heads()...)
	whole, many := t, 0
	for _, r := range s.Rows() {
		classes := s.Classes(r)
		add := func(t *Table, classes []view.Class) {
			for _, c := range classes {
				t.add(shown(models, r.Model), shown(controls, r.Control), s.ClassName(c.Label), c.Images,
					classBoxes(c, r.Control != ""))
			}
		}
		add(&whole, classes)
		if many = max(many, len(classes)); len(classes) > manyClasses {
			classes = ends(classes, side)
		}
		add(&t, classes)
	}
	if many <= manyClasses {
		return []Table{t.marked()}
	}
	t.note("", "Of %d classes, the %d with the lowest and the %d with the highest mean accuracy %s over the "+
		"columns; of equal ones the lower label comes first.", many, endClasses, endClasses, whose)
	if len(whole.Rows) > mostClasses {
		t.note("", "All %d lines would be too many for a page: records.jsonl has label and verdict of every image.",
			len(whole.Rows))
		return []Table{t.marked()}
	}
	whole.Caption = "All classes. " + whole.Caption
	return []Table{t.marked(), whole.marked()}
}

func classBoxes(c view.Class, controlled bool) (line []Box) {
	for _, both := range c.Sides {
		b := text(both[0].String())
		if !controlled {
			b.Bar = both[0].Share()
		} else {
			b.Pair = &[2]float64{both[0].Share(), both[1].Share()}
			b.Spans = append(b.Spans, Span{Text: " / "}, Span{Text: both[1].String()})
		}
		line = append(line, b)
	}
	return line
}

// ComparisonTable puts our numbers beside the published ones, one line per cell; it has no rows if the suite has none.
// Published numbers of networks that the suite lacks are counted below it.
func (s Suite) ComparisonTable() Table {
	if s.Published == nil {
		return Table{}
	}
	ours := "ours" + words.If(s.Seeds > 1, s.OfFirstSeed()+",")
	t := s.table("Accuracy in %: "+ours+" beside "+publishedSource(s.Published.Source), 3, "Model", "Defense",
		"Attack", "Ours", "95 % interval", "Published", "Difference (points)", inIntervalHead)
	count := map[string]int{}
	var lacking []string
	for _, c := range s.Compared() {
		if !slices.Contains(s.Models, c.Model) {
			lacking = append(lacking, words.Clean(c.Model))
			continue
		}
		theirs, difference := words.Dash, words.Dash
		if c.Published != nil {
			theirs = words.Percent(*c.Published, 0)
			if c.Cell != nil {
				difference = words.Points(c.Difference(), 2)
			}
		}
		count[c.Verdict()]++
		t.add(c.Model, words.DefenseName(c.Defense), c.Column.Title(), words.Accuracy(c.Cell),
			cmp.Or(words.Interval(c.Cell), words.Dash), theirs, difference, c.Verdict())
	}
	t.note("", "%d of %s within our 95 %% intervals. Extra, as the source lacks them: %s. Published and not run: %s",
		count["yes"], words.Plural(count["yes"]+count["no, below"]+count["no, above"], "published number"),
		words.Plural(count["extra"], "cell"), words.Plural(count["not run"]+len(lacking), "number"))
	if len(lacking) > 0 {
		t.note("", "%s not in this table, of networks that the suite lacks: %s",
			words.Plural(len(lacking), "published number"), strings.Join(slices.Compact(lacking), ", "))
	}
	if mode := s.Published.Mode; mode != "" && len(s.Controls) > 0 && !strings.HasPrefix(s.Mode, mode) {
		t.note("", "Not the same attacker: the published one is %s, ours %s", words.Clean(mode), s.Attacker().Name)
	}
	return t.marked()
}

func publishedSource(source string) string {
	if t, known := published.Lookup(source); known {
		return "the paper's " + t.Name
	}
	if source == "config" {
		return "the numbers that the config gives"
	}
	return "the numbers of " + words.Clean(source)
}

// inclusionMark marks balls that are certified because they lie in a certified ℓ2 ball.
const inclusionMark = "⊂"

// CertifiedTables returns a table for each certificate: the accuracy proved for the classifiers, beside the accuracy
// that attacks leave.
func (s Suite) CertifiedTables() (list []Table) {
	for _, by := range s.Certified {
		smooths := by.Of.Smooths()
		t := s.table("Certified accuracy in % ("+words.Clean(by.Attack)+"): [proven, left by attacks]"+s.OfFirstSeed(),
			2, "Model", "Defense")
		attacked, included := false, false
		for _, b := range by.Brackets(s.Suite, s.Models[0], cell.None) {
			head := words.NormName(b.Norm) + " (" + b.Epsilon.String() + ")"
			if smooths && b.Norm != "l2" {
				head, included = head+words.Nbsp+inclusionMark, true
			}
			t.head(true, head)
		}
		t.head(smooths, "Mean radius")
		t.head(by.Of.Brackets(), "Mean gap")
		for _, of := range s.Lines() {
			var values []string
			for _, b := range by.Brackets(s.Suite, of.Model, of.Defense) {
				one := words.Dash
				if b.Proven >= 0 {
					one = words.Percent(b.Proven, s.N)
				}
				if b.Attacked >= 0 {
					one, attacked = words.Range(one, words.Percent(b.Attacked, s.N)), true
				}
				values = append(values, one)
			}
			mean := words.Dash
			if radii := by.RadiiOf(of.Model, of.Defense); len(radii) > 0 {
				mean = words.Strength("l2", stat.Mean(radii, nil))
			}
			t.add(of.Model, words.DefenseName(of.Defense), values, shown(smooths, mean),
				shown(by.Of.Brackets(), gapOf(by, of)))
		}
		switch {
		case smooths:
			noteSmoothing(by, &t, attacked, included)
		case by.Of.Brackets():
			noteBracket(by, &t)
		default:
			noteProof(by, &t, attacked)
		}
		list = append(list, t.marked())
	}
	return list
}

func noteSmoothing(by *view.Apart, t *Table, attacked, included bool) {
	t.note("", "%s. The smoothed classifier answers the class that the network, alone or controlled, answers most "+
		"often under Gaussian noise: another classifier than the one of the other tables. No perturbation within ε "+
		"changes its answer on a proven image; each such certificate is wrong with a probability of at most %v.",
		words.Clean(by.Of.Title), by.Of.Parameters["alpha"])
	if attacked {
		t.note("", "Left by attacks: images on which the smoothed classifier is right on what the suite's attacks "+
			"made of them, of several in one ball the fewest. They were made against the network, not against the "+
			"smoothed classifier: an attack through the noise may leave less.")
	}
	if included {
		t.note("", "%s: by inclusion. The ℓ∞ ball of ε lies in the ℓ2 ball of ε·√d, d being the values of "+
			"an image, the ℓ1 ball of ε in the ℓ2 ball of ε.", inclusionMark)
	}
	t.note("", "Mean radius: in ℓ2, over all images; it is 0 where another class is answered, or none.")
	if by.Of.Parameters["stopping"] == true {
		t.note("", "Sampling ended as soon as every ε of this certificate was decided: what is proven at others, and "+
			"radii, are lower bounds, which all samples might raise.")
	}
}

// gapOf returns the mean of a line's gaps.
func gapOf(by *view.Apart, of view.Series) string {
	if c := by.Cell(of.Model, of.Defense, by.Columns[0]); c != nil && c.Area != nil {
		return words.Strength(*c.Norm, *c.Area)
	}
	return words.Dash
}

func noteBracket(by *view.Apart, t *Table) {
	t.note("", "%s. Proven: no perturbation within ε changes the answer of the network, alone or controlled. Left: "+
		"none was found that does. Mean gap: between the largest radius proven and the smallest broken, over all "+
		"images; 0 where the network is wrong without a perturbation.", words.Clean(by.Of.Title))
}

func noteProof(by *view.Apart, t *Table, attacked bool) {
	reason := ""
	if spec, err := attacks.Lookup(by.Of.Kind); err == nil && spec.Reason != "" {
		reason = ": " + spec.Reason
	}
	t.note("", "%s. On a proven image no perturbation within ε changes the answer of the network, alone or "+
		"controlled%s.", words.Clean(by.Of.Title), reason)
	if attacked {
		t.note("", "Left by attacks: the least of the suite's attacks in that ball. The best attacker's lies between "+
			"both numbers.")
	}
}

// CorruptionTables gives the scores of the suite's corruptions, and the accuracy under each of them.
func (s Suite) CorruptionTables() (list []Table) {
	for _, by := range s.Corrupted {
		list = append(list, corruptionScores(s, by), corruptionTable(s, by))
	}
	return list
}

func corruptionScores(s Suite, by *view.Apart) Table {
	t := Table{Anchor: s.Slug, Lead: 2, Caption: "Common corruptions (" + words.Clean(by.Attack) +
		"): means over corruptions and severities, in %",
		Head: []string{"Model", "Defense", "Clean error", "Mean accuracy", "Mean corruption error"}}
	if t.head(by.Normalised, "mCE"); by.Normalised {
		t.note("", "mCE: each corruption's error divided by AlexNet's, as the corruptions' authors do it.")
	}
	for _, of := range s.Lines() {
		all := by.Mean(of.Model, of.Defense, by.Names, by.Severities)
		t.add(of.Model, words.DefenseName(of.Defense), wrong(of.Cells[0]), words.Accuracy(all), wrong(all),
			shown(by.Normalised, relative(by, of.Model, of.Defense)))
	}
	return t.marked()
}

func wrong(c *result.Cell) string {
	if c == nil {
		return words.Dash
	}
	return words.Percent(1-c.Accuracy, c.N)
}

// relative returns the mean corruption error over AlexNet's; a dash if AlexNet's is unknown or has other severities.
func relative(by *view.Apart, model, defense string) string {
	sum := 0.0
	for _, name := range by.Names {
		c := by.Mean(model, defense, []string{name}, by.Severities)
		if c == nil || c.AlexNetError == 0 || len(by.Severities) < 5 {
			return words.Dash
		}
		sum += (1 - c.Accuracy) / c.AlexNetError
	}
	return words.Percent(sum/float64(len(by.Names)), 1)
}

func corruptionTable(s Suite, by *view.Apart) Table {
	several := len(s.Controls) > 1
	t := Table{Anchor: s.Slug, Caption: "Accuracy in % by corruption (" + words.Clean(by.Attack) + ") and severity" +
		versus(s.Controls) + s.OfFirstSeed()}
	t.lead("Model", true)
	t.lead("Control", several)
	t.lead("Corruption", true)
	t.head(true, by.Severities...)
	t.head(true, "Mean")
	for _, r := range s.Rows() {
		add := func(title string, names []string) {
			line := boxes(r.Model, shown(several, r.Control), title)
			for _, severities := range append(slices.Collect(slices.Chunk(by.Severities, 1)), by.Severities) {
				e := view.Entry{by.Mean(r.Model, cell.None, names, severities),
					by.Mean(r.Model, cmp.Or(r.Control, cell.None), names, severities)}
				line = append(line, s.pair(e, words.Accuracy, true, r.Control != ""))
			}
			t.add(line)
		}
		for _, name := range by.Names {
			add(words.CorruptionTitle(name), []string{name})
		}
		if len(by.Names) > 1 {
			add("Mean", by.Names)
		}
	}
	return t.marked()
}
