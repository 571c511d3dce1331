package view

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"selfheal/harness/result/published"

	"selfheal/harness/result"
	"selfheal/reports/words"
)

// mostSentences is how many lines of a report are also said in words: more are easier read in the table.
const mostSentences = 2

// Fact is a term and what it says.
type Fact struct{ Term, Text string }

// Sentences say the report in words, where they are few.
func (v *Report) Sentences() (out []string) {
	lines := 0
	for _, s := range v.Suites {
		for _, r := range s.Rows() {
			lines++
			if said := s.summary(r); said != "" {
				out = append(out, said)
			}
		}
	}
	if v.Quoted || lines > mostSentences {
		return nil
	}
	return out
}

// Recorded reports whether there are records of the suite.
func (s *Suite) Recorded() bool { return len(s.margins) > 0 }

// EndsEarly reports whether some attacks ended at an image's first success.
func (s *Suite) EndsEarly() bool {
	ends := false
	s.Each(func(c *result.Cell, _ words.Column) { ends = ends || c.VerdictOnly })
	return ends
}

// Attackers explains the modes of the file's suites.
func (v *Report) Attackers() (out []Fact) {
	for _, m := range append([]result.Mode{result.Whitebox}, result.Modes...) {
		if slices.ContainsFunc(v.Suites, func(s *Suite) bool { return s.Attacker().Name == m.Name }) {
			out = append(out, Fact{m.Name, m.Knows})
		}
	}
	return out
}

// Headline counts what was tested.
func (v *Report) Headline() string {
	models, cells, missing := map[string]bool{}, 0, 0
	for _, s := range v.Suites {
		for _, m := range s.Models {
			models[m] = true
		}
		cells, missing = cells+len(s.cells), missing+s.Missing()
	}
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

// Tested says what was tested, over all suites.
func (v *Report) Tested() (out []Fact) {
	said := map[string][]string{}
	add := func(term string, names ...string) {
		for _, name := range names {
			if name != "" {
				said[term] = Once(said[term], words.Clean(name))
			}
		}
	}
	for _, s := range v.Suites {
		add("Models", s.Models...)
		add("Controllers", s.Controls...)
		add("Attacks", s.Heads()[1:]...)
		for _, by := range s.Certified {
			add("Certificates", by.Of.Title)
		}
		sample := s.Dataset
		if s.N > 0 {
			sample += fmt.Sprintf(" (n = %d)", s.N)
		}
		add("Data", sample)
		add("Attacker", s.Attacker().Name)
	}
	for _, term := range []string{"Models", "Controllers", "Data", "Attacks", "Certificates", "Attacker"} {
		if said[term] != nil {
			out = append(out, Fact{term, words.Some(said[term])})
		}
	}
	return out
}

// summary says a row in one sentence: clean accuracy, and the attack that hurts most,
// before and after. That is the undefended network's worst where it was attacked alone,
// else the controlled network's. "" while the clean cells are missing.
func (s *Suite) summary(r Row) string {
	hurt, whose := 0, "the baseline's worst attack"
	if r.Control != "" && s.Mode != result.Oblivious {
		hurt, whose = 1, "the controlled network's worst attack"
	}
	clean, who := r.Entry(0), words.Clean(r.Model)
	if clean[0] == nil || r.Control != "" && clean[1] == nil {
		return ""
	}
	if r.Control != "" {
		who += " with " + words.Clean(r.Control)
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
		out += fmt.Sprintf("; %s (%s), %s, %s", whose, s.Attacker().Name, column, say(both))
	}
	return out + "."
}

// Provenance says with what the numbers were made.
func (v *Report) Provenance() []Fact {
	if v.Quoted {
		return []Fact{{"Paper", published.Title}, {"Authors", published.Authors}}
	}
	f, e := v.File, v.File.Environment
	where := func(is bool, text string) string { return map[bool]string{true: text}[is] }
	return Only([]Fact{
		{"Created", where(!f.Created.IsZero(), f.Created.UTC().Format(time.RFC3339))},
		{"Plan (SHA-256)", f.ConfigSHA256}, {"Seed", fmt.Sprint(f.Seed)},
		{"Seeds of the attacks", v.seeds()}, {"Schema", f.Schema}, {"selfheal", e.Selfheal}, {"Go", e.Go},
		{"ONNX Runtime", e.ONNXRuntime}, {"Provider", e.Provider}, {"CPU", e.CPU},
		{"Workers, batch", fmt.Sprintf("%d, %d", e.Workers, e.Batch)},
		{"Threads of a pass", where(e.Threads != 0, fmt.Sprint(e.Threads))}, // files of older versions don't say
		{"Winograd", where(e.Winograd, "convolutions rewritten for the CPU")},
	}, func(x Fact) bool { return x.Text != "" })
}

// seeds names all seeds that some cell has an accuracy under, in their order; "" where cells have one.
func (v *Report) seeds() string {
	var names []string
	for _, c := range Only(v.File.Cells, func(c result.Cell) bool { return len(c.Seeds) > 1 }) {
		for _, one := range c.Seeds {
			names = Once(names, fmt.Sprint(one.Seed))
		}
	}
	return words.Some(names)
}

var (
	plainArgument = regexp.MustCompile(`^[A-Za-z0-9_@%+=:,./-]+$`)
	unshown       = regexp.MustCompile("[^!-~]|['\"\\\\%]")
)

// Command repeats the run, as one types it; "" where that is not known.
func (v *Report) Command() string { return shellCommand(v.File.Command) }

func shellCommand(args []string) string {
	quoted := make([]string, len(args))
	for i, a := range args {
		switch {
		case plainArgument.MatchString(a):
			quoted[i] = a
		case words.Clean(a) != a:
			quoted[i] = "\"$(printf '" + printfEscaped(a) + "')\""
		default:
			quoted[i] = "'" + strings.ReplaceAll(a, "'", `'\''`) + "'"
		}
	}
	return strings.Join(quoted, " ")
}

// printfEscaped writes what a terminal does not show as bytes in octal, for printf.
func printfEscaped(s string) string {
	return unshown.ReplaceAllStringFunc(s, func(of string) (out string) {
		for _, b := range []byte(of) {
			out += fmt.Sprintf(`\%03o`, b)
		}
		return out
	})
}
