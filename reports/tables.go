package reports

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"selfheal/harness/result"
)

// table is a table as data, in plain text; the formats only escape and lay out.
type table struct {
	Anchor  string // for the links of footnote marks: the suite's; of several suites one that begins with a dot
	Caption string
	Lead    int // how many first columns are row headings
	Head    []string
	Rows    [][]box
	Sums    int // how many last rows sum up those above
	Notes   []footnote
}

// manyRows is how many rows a reader takes in at once: a page folds longer tables away where
// they are details, and lets all of them be filtered.
const manyRows = 12

// Long reports whether the table has more rows than that.
func (t table) Long() bool { return len(t.Rows) > manyRows }

// Room is the width of the first column in digits, so that usual names stay on one line.
func (t table) Room() int {
	most := 0
	for _, r := range t.Rows {
		if len(r) > 0 {
			most = max(most, utf8.RuneCountInString(r[0].plain()))
		}
	}
	return min(most, 26)
}

// Body are the rows without the sums, Foot the sums.
func (t table) Body() [][]box { return t.Rows[:len(t.Rows)-t.Sums] }

// Foot are the sums.
func (t table) Foot() [][]box { return t.Rows[len(t.Rows)-t.Sums:] }

// wordHeads head columns of words behind the row headings.
var wordHeads = []string{"Component", "Method", "Recipe", inIntervalHead, lowestHead, attackerHead,
	formatHead, chosenHead, takenHead, settingsHead, claimHead, outcomeHead, runHead}

// Words reports whether column i holds words, which align left; numbers align right.
func (t table) Words(i int) bool {
	return i < t.Lead || slices.Contains(wordHeads, t.Head[i]) || strings.HasPrefix(t.Head[i], "SHA-256")
}

// box is the content of one table cell.
type box struct {
	Spans  []span
	Repeat bool        // says what the box above says
	Bar    float64     // a share to draw behind the text, −1 for none
	Pair   *[2]float64 // two shares to draw, the baseline's over the controlled one's
	Link   string      // the id of what the text leads to on a page
	Value  string      // what a page sorts by, where the text does not begin with that number
	Anchor string      // of the suite that the marks are of, where the table is of several
}

// span is a piece of text; Mark holds marks of footnotes, with commas between them.
type span struct {
	Text  string
	Bold  bool
	Small bool // less than what it follows
	Mark  string
}

func text(s string) box { return box{Spans: []span{{Text: s}}, Bar: -1} }

// boxes are a row's, of strings and of boxes.
func boxes(cells ...any) (row []box) {
	for _, c := range cells {
		if s, plain := c.(string); plain {
			c = text(s)
		}
		row = append(row, c.(box))
	}
	return row
}

// lead appends a column of row headings where it is shown.
func (t *table) lead(head string, show bool) {
	if show {
		t.Head, t.Lead = append(t.Head, head), t.Lead+1
	}
}

// add appends a row of strings and of boxes.
func (t *table) add(cells ...any) { t.Rows = append(t.Rows, boxes(cells...)) }

// note appends a footnote; without a mark it is about the whole table.
func (t *table) note(mark, format string, args ...any) {
	t.Notes = append(t.Notes, footnote{mark, fmt.Sprintf(format, args...)})
}

// byCell is a table with a row or more for every cell, which of adds. The first columns name
// the cell, head the others.
func (s suiteTables) byCell(caption string, head []string, of func(c *result.Cell, add func(cells ...any))) table {
	t := table{Anchor: s.Slug, Lead: 3, Caption: s.caption(caption),
		Head: append([]string{"Model", "Defense", "Attack"}, head...)}
	s.each(func(c *result.Cell, col column) {
		of(c, func(cells ...any) {
			t.add(slices.Concat([]any{clean(c.Model), defenseName(c.Defense), col.Title()}, cells)...)
		})
	})
	return t.marked()
}

// timed is a duration, which sorts by its seconds.
func timed(seconds float64) box {
	b := text(duration(seconds))
	b.Value = strconv.FormatFloat(seconds, 'g', 6, 64)
	return b
}

func (b box) plain() (out string) {
	for _, s := range b.Spans {
		out += s.Text
	}
	return out
}

// written is the box in a format that writes a span so; "" where it repeats the one above.
func (b box) written(how func(span) string) (out string) {
	for _, s := range b.Spans {
		if !b.Repeat {
			out += how(s)
		}
	}
	return out
}

// versus says in a caption what the two sides of an entry are.
func versus(controls []string) string {
	switch len(controls) {
	case 0:
		return " (no controller)"
	case 1:
		return ": baseline / controlled (" + clean(controls[0]) + ")"
	}
	return ": baseline / controlled"
}

// AccuracyTable is the paper's table: baseline / controlled under each attack.
func (s suiteTables) AccuracyTable() table {
	several, what := len(s.Controls) > 1, "Accuracy in %"
	t := table{Anchor: s.Slug, Lead: 1, Head: []string{"Model"}, Notes: s.footnotes()}
	if s.sides[0] != "" {
		several = false
		what += ": " + clean(s.sides[0]) + " / " + clean(s.sides[1]) + " control"
	} else {
		what += versus(s.Controls)
	}
	t.Caption = s.caption(what + s.overSeeds())
	t.lead("Control", several)
	t.Head = append(t.Head, s.heads()...)
	for _, r := range s.Rows() {
		line := boxes(clean(r.Model))
		if several {
			line = append(line, text(clean(r.Control)))
		}
		line[len(line)-1].Spans[0].Mark = s.RowMarks(r.Model, r.Control)
		for _, e := range r.Entries {
			better := e.better()
			b := box{Bar: -1, Spans: []span{{Text: scored(e.Baseline), Bold: better < 0, Mark: s.Marks(e.Baseline)}}}
			if r.Control != "" {
				b.Spans = append(b.Spans, span{Text: " / "},
					span{Text: scored(e.Controlled), Bold: better > 0, Mark: s.Marks(e.Controlled)})
			}
			line = append(line, b)
		}
		t.Rows = append(t.Rows, line)
	}
	return t.marked()
}

// marked flags the row headings that repeat the line above.
func (t table) marked() table {
	for i := 1; i < len(t.Rows); i++ {
		for j := 0; j < t.Lead && t.Rows[i][j].plain() == t.Rows[i-1][j].plain(); j++ {
			t.Rows[i][j].Repeat = true
		}
	}
	return t
}

// IntervalTable gives every accuracy with its 95 % interval, a line a model and defense.
func (s suiteTables) IntervalTable() table {
	t := table{Anchor: s.Slug, Lead: 2, Head: []string{"Model", "Defense"},
		Caption: s.caption("Accuracy in % with 95 % Wilson intervals" + s.ofFirstSeed())}
	t.Head = append(t.Head, s.heads()...)
	for _, m := range s.Models {
		for _, one := range s.Series(m) {
			line := boxes(clean(m), defenseName(one.Defense))
			line[1].Spans[0].Mark = s.RowMarks(m, one.Defense)
			for _, c := range one.Cells {
				line = append(line, text(strings.TrimSpace(accuracy(c)+" "+interval(c))))
			}
			t.Rows = append(t.Rows, line)
		}
	}
	return t.marked()
}

// waterfallTable says what each component of an attack did: how many images it
// was run on, the accuracy left over all images, and its cost.
func (s suiteTables) waterfallTable() table {
	head := []string{"Component", "Attacked", "Accuracy after (%)", "Forward passes", "Backward passes", "Time"}
	what := "Accuracy after each attack component" + s.ofFirstSeed()
	return s.byCell(what, head, func(c *result.Cell, add func(...any)) {
		for _, st := range c.Steps {
			after := text(percent(st.Robust, c.N))
			after.Bar = st.Robust
			add(clean(st.Attack), thousands(st.Attacked), after, thousands(st.Forward), thousands(st.Backward),
				timed(st.Seconds))
		}
	})
}

// solverTable says how the closed loop did against its greedy start.
func (s suiteTables) solverTable() table {
	head := []string{"Method", "Objective", "Greedy start", "Below greedy (%)", "Control norm",
		"Plain passes per controlled pass"}
	what := "Solver: running loss of the control problem, mean over the images" + s.ofFirstSeed()
	return s.byCell(what, head, func(c *result.Cell, add func(...any)) {
		if v := c.Solver; v != nil {
			add(clean(v.Method), threeDigits(v.Objective), threeDigits(v.Greedy), percent(v.BelowGreedy, c.N),
				threeDigits(v.ControlNorm), threeDigits(v.PassesPerRun))
		}
	})
}

// costTable gives time and passes of every cell, and their sum.
func (s suiteTables) costTable() table {
	what := "Time and model passes (in images)"
	if n := s.seeds(); n > 1 {
		what = fmt.Sprintf("Time over all %d seeds; model passes (in images) and "+
			"largest perturbation of the first seed", n)
	}
	var seconds float64
	var forward, backward int64
	head := []string{"Forward passes", "Backward passes", "Largest perturbation", "Time"}
	t := s.byCell(what, head, func(c *result.Cell, add func(...any)) {
		f, b := passes(c)
		time := c.Seconds // of the first seed
		for _, other := range c.Seeds[min(len(c.Seeds), 1):] {
			time += other.Seconds
		}
		seconds, forward, backward = seconds+time, forward+f, backward+b
		ahead, back, norm := dash, dash, dash
		if len(c.Steps) > 0 {
			ahead, back = thousands(f), thousands(b)
		}
		if c.Epsilon != nil && c.Norm != nil {
			norm = strength(*c.Norm, c.MaxNorm)
		}
		add(ahead, back, norm, timed(time))
	})
	if len(t.Rows) > 1 {
		t.add("Sum", "", "", thousands(forward), thousands(backward), "", timed(seconds))
		t.Sums = 1
	}
	return t
}

// passes sums a cell's forward and backward passes over its components.
func passes(c *result.Cell) (forward, backward int64) {
	for _, st := range c.Steps {
		forward, backward = forward+st.Forward, backward+st.Backward
	}
	return forward, backward
}

// FitTable lists the embeddings that were fitted.
func (v reportTables) FitTable() table {
	t := table{Lead: 3, Caption: "Fitted embeddings",
		Head: []string{"Control", "Model", "At", "Dimension", "Rank", "Variance kept (%)", "Samples", "Time"}}
	for _, f := range v.File.Fits {
		time := timed(f.Seconds)
		if f.Cached {
			time = text("cached")
		}
		t.add(clean(f.Control), clean(f.Model), clean(f.At), thousands(f.Dim), thousands(f.Rank),
			percent(f.Variance, 1000), thousands(f.Samples), time)
	}
	return t.marked()
}

// summary says a row in one sentence: clean accuracy, and the attack that hurts most,
// before and after. That is the undefended network's worst where it was attacked alone,
// else the controlled network's. "" while the clean cells are missing.
func (s *suite) summary(r row) string {
	hurt, whose := baselineOf, "the baseline's worst attack"
	if r.Control != "" && s.Mode != result.Oblivious {
		hurt, whose = controlledOf, "the controlled network's worst attack"
	}
	if r.Entries[0].Baseline == nil || r.Control != "" && r.Entries[0].Controlled == nil {
		return ""
	}
	say := func(e entry) string {
		if r.Control == "" {
			return scored(e.Baseline) + " %"
		}
		return scored(e.Baseline) + " → " + scored(e.Controlled) + " %"
	}
	who := clean(r.Model)
	if r.Control != "" {
		who += " with " + clean(r.Control)
	}
	out := fmt.Sprintf("%s: clean images %s", who, say(r.Entries[0]))
	if low := s.lowest(r, hurt); low.Cell != nil {
		both := r.Entries[slices.IndexFunc(s.Columns, low.Column.same)]
		out += fmt.Sprintf("; %s (%s), %s, %s", whose, s.Attacker().Name, low.Column.Title(), say(both))
	}
	return out + "."
}
