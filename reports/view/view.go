// Package view arranges results and comparisons for reading. [Of] arranges a result file, [Groups] a comparison and
// [Paper] the paper's tables; packages table and figure read nothing else, so that tables and figures cannot disagree.
package view

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"selfheal/harness/cell"
	"selfheal/harness/result"
	"selfheal/harness/result/published"
	"selfheal/internal/lists"
	"selfheal/reports/words"
)

// Report is a result file arranged for reading. All formats render it, so that no two can disagree.
type Report struct {
	File   *result.File
	Suites []*Suite
	// Quoted is set if the cells are published numbers and nothing was run; the figures are then radar plots.
	Quoted bool
	radars []*Suite
}

// Drawn returns the suites that have figures.
func (v *Report) Drawn() []*Suite {
	if v.Quoted {
		return v.radars
	}
	return v.Suites
}

// Suite is one suite's cells by row and column.
type Suite struct {
	about
	cells           // including means over corruptions
	Slug     string // Name made safe for file names and anchors, unique in the file
	Columns  []words.Column
	Notes    notes
	File     *result.File
	Sets     []*Apart       // of cells that are no columns: corruptions, then certificates
	failed   []*result.Cell // cells with an error and without verdicts
	Studies  []Study
	margins  map[cell.ID]*result.Recorded
	Repeated []Pair    // of a paper's table: each of its pairs, beside what was run for it
	Sides    [2]string // the defenses on both sides of every row; "" for none and each control
}

// key identifies a cell in its suite.
func key(model, defense string, col cell.Column) cell.ID {
	return cell.ID{Row: cell.Row{Model: model, Defense: defense}, Column: col}
}

func keyOf(id cell.ID) cell.ID { return key(id.Model, id.Defense, id.Column) }

type cells map[cell.ID]*result.Cell

// Cell returns the cell of a model, a defense (cell.None or a control) and a column, or nil.
func (of cells) Cell(model, defense string, col words.Column) *result.Cell {
	return of[key(model, defense, col.Column)]
}

// Of arranges f in the order of f.Suites. Names that only cells mention follow in the cells' order.
func Of(f *result.File) *Report {
	sound := *f
	sound.Cells = slices.DeleteFunc(slices.Clone(f.Cells), func(c result.Cell) bool { return c.Error != "" })
	v := &Report{File: &sound}
	byName := map[string]*Suite{}
	suite := func(of result.Suite) *Suite {
		if s := byName[of.Name]; s != nil {
			return s
		}
		for _, names := range []*[]string{&of.Models, &of.Controls, &of.Attacks} {
			*names = slices.Clone(*names)
		}
		for i := len(of.Attacks) - 1; i >= 0; i-- {
			if a := f.Attacks[of.Attacks[i]]; !a.Corruptions() { // the means over corruptions are columns
				of.Attacks = slices.Replace(of.Attacks, i, i+1, a.Cells(of.Attacks[i])...)
			}
		}
		sides := sidesOf(of)
		if sides != nil {
			of.Controls = lists.Map(sides, func(one Side) string { return one.Name })
			of.Published = beside(of.Published, sides)
		}
		s := &Suite{about: about{Suite: of, sides: sides}, File: f, cells: cells{}}
		byName[of.Name], v.Suites = s, append(v.Suites, s)
		return s
	}
	for _, s := range f.Suites {
		suite(s)
	}
	for i := range f.Cells {
		c := &f.Cells[i]
		include(suite(result.Suite{Name: c.Suite, Dataset: c.Dataset, Mode: c.Mode}), c)
	}
	slugs, anchors := map[string]bool{}, map[string]bool{}
	for _, s := range v.Suites {
		s.Slug = words.UniqueSlug(s.Name, slugs)
		s.N = cmp.Or(s.N, f.Datasets[s.Dataset].N)
		s.arrangeColumns()
		s.Seeds = 1
		for _, c := range s.cells {
			s.Seeds = max(s.Seeds, len(c.Seeds))
		}
		s.Notes = notesOf(s)
		for i, of := range f.Solver {
			if of.Suite == s.Name {
				anchor := words.UniqueSlug(s.Slug+"-"+of.Model+"-"+of.Control, anchors)
				s.Studies = append(s.Studies, Study{&f.Solver[i], s.Heading(), anchor})
			}
		}
	}
	return v
}

func include(s *Suite, c *result.Cell) {
	for _, name := range s.Named(c.ID) {
		one := c
		if name != c.Defense {
			of := *c
			one, of.Defense = &of, name
		}
		put(s, one)
	}
}

func put(s *Suite, c *result.Cell) {
	apart := setApart(s, c)
	switch {
	case c.Error != "":
		s.failed = append(s.failed, c)
	case !apart:
		s.cells[keyOf(c.ID)] = c
	}
	s.N = max(s.N, c.N)
	s.Models = lists.Once(s.Models, c.Model)
	if c.Defense != cell.None {
		s.Controls = lists.Once(s.Controls, c.Defense)
	}
	if c.Attack != cell.None && !apart {
		s.Attacks = lists.Once(s.Attacks, c.Attack)
	}
}

// arrangeColumns lists the clean images, then each attack by epsilon. An attack without any cell keeps its columns: its
// cells are to come. The mean over an attack's corruptions becomes a cell of the suite when all of them are there.
func (s *Suite) arrangeColumns() {
	for _, of := range s.Lines() {
		for _, by := range s.Corrupted() {
			if c := by.Mean(of.Model, of.Defense, by.Names, by.Severities); c != nil {
				c.Attack = by.Attack
				s.cells[keyOf(c.ID)] = c
			}
		}
	}
	s.Columns = []words.Column{words.ColumnOf(cell.None)}
	for _, attack := range s.Attacks {
		as := s.File.Made(attack)
		if attack == cell.None || as.Proves() {
			continue
		}
		of := map[cell.Epsilon]words.Column{}
		for key, c := range s.cells {
			if c.Attack == attack {
				col := of[key.Epsilon]
				col.Epsilon = c.Epsilon
				col.Learn(c)
				of[key.Epsilon] = col
			}
		}
		if len(of) == 0 {
			for _, e := range as.Epsilons {
				of[cell.Epsilon(e)] = words.Column{Column: cell.Column{Epsilon: cell.Epsilon(e)}, Norm: *as.Norm}
			}
		}
		if len(of) == 0 { // corruptions, and files of older versions, have no epsilons
			of[0] = words.Column{}
		}
		for _, e := range slices.Sorted(maps.Keys(of)) {
			col := of[e]
			col.Attack, col.AttackTitle, col.Recipe = attack, as.TitleOf(attack), cmp.Or(col.Recipe, as.Recipe)
			for _, col.Source = range sources(s, as) {
				s.Columns = append(s.Columns, col)
			}
		}
	}
	heads := s.Heads()
	for i, head := range heads {
		s.Columns[i].Ambiguous = lists.Count(heads, func(other string) bool { return other == head }) > 1
	}
}

// sources returns the models that the images of an attack's columns were made on; "" if each network has its own.
func sources(s *Suite, of result.Attack) []string {
	if s.Mode == result.Transfer && of.Crafted() {
		return s.Models
	}
	return []string{""}
}

// Fact is a term and its text.
type Fact struct{ Term, Text string }

// Sentences returns the report in words, if that takes few of them.
func (v *Report) Sentences() []string {
	lines := slices.Concat(lists.Map(v.Suites, func(s *Suite) []string { return lists.Map(s.Rows(), s.summary) })...)
	if v.Quoted || len(lines) > 2 { // more are easier to read in the table
		return nil
	}
	return lists.Only(lines, func(said string) bool { return said != "" })
}

// Recorded reports whether the suite has records.
func (s *Suite) Recorded() bool { return len(s.margins) > 0 }

// EndsEarly reports whether some attacks ended at an image's first success.
func (s *Suite) EndsEarly() bool {
	ends := false
	s.Each(func(c *result.Cell, _ words.Column) { ends = ends || c.VerdictOnly })
	return ends
}

// Controlled reports whether some suite has a control.
func (v *Report) Controlled() bool {
	return slices.ContainsFunc(v.Suites, func(s *Suite) bool { return len(s.Controls) > 0 })
}

// Several reports whether the report has several models.
func (v *Report) Several() bool {
	return len(slices.Concat(lists.Map(v.Suites, func(s *Suite) []string { return s.Models })...)) > 1
}

// Looped reports whether some defense is an optimisation loop.
func (v *Report) Looped() bool {
	return slices.ContainsFunc(v.Suites, func(s *Suite) bool { return slices.ContainsFunc(s.Controls, s.Looped) })
}

// Componented reports whether some attack has several components.
func (v *Report) Componented() bool {
	several := func(c result.Cell) bool { return len(c.Steps) > 1 }
	return slices.ContainsFunc(v.File.Cells, several)
}

// Attackers explains the modes of the file's suites that are not plain.
func (v *Report) Attackers() []Fact {
	modes := lists.Only(result.Modes, func(m result.Mode) bool {
		return slices.ContainsFunc(v.Suites, func(s *Suite) bool {
			return !s.Plain() && (s.Attacker().Name == m.Name || slices.Contains(s.Modes, m.Name))
		})
	})
	return lists.Map(modes, func(m result.Mode) Fact { return Fact{m.Name, m.Knows} })
}

// Headline counts what was tested.
func (v *Report) Headline() string {
	var models []string
	cells, missing := 0, 0
	for _, s := range v.Suites {
		models = append(models, s.Models...)
		cells, missing = cells+len(s.cells), missing+s.Missing()
	}
	models = lists.Distinct(models, func(m string) string { return m })
	accuracies := words.Plural(cells, "accuracy", "accuracies")
	if v.Quoted {
		return fmt.Sprintf("%s as printed in Tables 2 to 7 of “%s” (%s). Nothing was run for this report.", accuracies,
			published.Title, published.Authors)
	}
	out := words.Plural(len(v.Suites), "suite") + ", " + words.Plural(len(models), "model") + ", " + accuracies
	if missing > 0 {
		out += fmt.Sprintf("; partial, %d still to measure", missing)
	}
	return out
}

// Tested describes what was tested, over all suites.
func (v *Report) Tested() []Fact {
	said := map[string][]string{}
	add := func(term string, names ...string) {
		for _, name := range names {
			if name != "" {
				said[term] = lists.Once(said[term], words.Clean(name))
			}
		}
	}
	for _, s := range v.Suites {
		add("Models", s.Models...)
		add("Controls", lists.Map(s.Controls, func(c string) string { return s.Side(c).Control })...)
		add("Attacks", s.Heads()[1:]...)
		add("Certificates", lists.Map(s.Certified(nil), func(by *Apart) string { return by.Of.Title })...)
		sample := s.Dataset
		if s.N > 0 {
			sample += fmt.Sprintf(" (n = %d)", s.N)
		}
		add("Data", sample)
		if s.sides != nil {
			add("Attacker", lists.Map(s.attackers(), func(m result.Mode) string { return m.Name })...)
		} else if !s.Plain() {
			add("Attacker", s.Attacker().Name)
		}
	}
	terms := []string{"Models", "Controls", "Data", "Attacks", "Certificates", "Attacker"}
	return lists.Map(lists.Only(terms, func(term string) bool { return said[term] != nil }),
		func(term string) Fact { return Fact{term, words.Some(said[term])} })
}

// summary describes a row in one sentence: clean accuracy, and accuracy under the most harmful attack, before and
// after. That is the attack worst for the undefended network, if it was attacked alone, otherwise for the controlled
// one. "" while the clean cells are missing.
func (s *Suite) summary(r Row) string {
	hurt, whose := 0, words.If(r.Control != "", "the undefended network's ")+"worst attack"
	if m := s.Side(r.Control).Mode; r.Control != "" && m != result.Oblivious && m != result.Transfer {
		hurt, whose = 1, "the controlled network's worst attack"
	}
	clean, who := r.Entry(0), words.Clean(r.Model)
	if clean[0] == nil || r.Control != "" && clean[1] == nil {
		return ""
	}
	if r.Control != "" {
		who += " with " + words.Clean(s.Side(r.Control).Control)
	}
	say := func(e Entry) string {
		if r.Control == "" {
			return Scored(e[0]) + " %"
		}
		return Scored(e[0]) + " → " + Scored(e[1]) + " %"
	}
	out := fmt.Sprintf("%s: clean images %s", who, say(clean))
	if low, column := s.Lowest(r.Sides[hurt]); low != nil {
		both := r.Entry(slices.Index(r.Sides[hurt], low))
		knows := words.If(!s.Plain(), " ("+s.AttackerOf(r.Control).Name+")")
		out += fmt.Sprintf("; %s%s, %s, %s", whose, knows, column.Title(), say(both))
	}
	return out + "."
}

// Provenance lists what the numbers were made with.
func (v *Report) Provenance() []Fact {
	if v.Quoted {
		return []Fact{{"Paper", published.Title}, {"Authors", published.Authors}}
	}
	f, e := v.File, v.File.Environment
	return lists.Only([]Fact{
		{"Created", words.If(!f.Created.IsZero(), f.Created.UTC().Format(time.RFC3339))},
		{"Plan (SHA-256)", f.ConfigSHA256}, {"Seed", fmt.Sprint(f.Seed)},
		{"Seeds of the attacks", v.seeds()}, {"Schema", f.Schema}, {"selfheal", e.Selfheal}, {"Go", e.Go},
		{"ONNX Runtime", e.ONNXRuntime}, {"Provider", e.Provider}, {"CPU", e.CPU},
		{"Workers, batch", fmt.Sprintf("%d, %d", e.Workers, e.Batch)},
		{"Threads of a pass", words.If(e.Threads != 0, fmt.Sprint(e.Threads))}, // missing in files of older versions
		{"Winograd", words.If(e.Winograd, "convolutions rewritten for the CPU")},
	}, func(x Fact) bool { return x.Text != "" })
}

// seeds lists all seeds that some cell has an accuracy under, in their order; "" if cells have one.
func (v *Report) seeds() string {
	var names []string
	for _, c := range lists.Only(v.File.Cells, func(c result.Cell) bool { return len(c.Seeds) > 1 }) {
		for _, one := range c.Seeds {
			names = lists.Once(names, fmt.Sprint(one.Seed))
		}
	}
	return words.Some(names)
}

var (
	plainArgument = regexp.MustCompile(`^[A-Za-z0-9_@%+=:,./-]+$`)
	unshown       = regexp.MustCompile("[^!-~]|['\"\\\\%]")
)

// Command returns the shell command that repeats the run; "" if it is unknown.
func (v *Report) Command() string { return shellCommand(v.File.Command) }

func shellCommand(args []string) string {
	quoted := make([]string, len(args))
	for i, a := range args {
		switch {
		case plainArgument.MatchString(a):
			quoted[i] = a
		case words.Clean(a) != a:
			octal := func(of string) (out string) {
				for _, b := range []byte(of) {
					out += fmt.Sprintf(`\%03o`, b)
				}
				return out
			}
			quoted[i] = "\"$(printf '" + unshown.ReplaceAllStringFunc(a, octal) + "')\"" // octal escapes can be seen
		default:
			quoted[i] = "'" + strings.ReplaceAll(a, "'", `'\''`) + "'"
		}
	}
	return strings.Join(quoted, " ")
}
