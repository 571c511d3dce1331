package reports

import (
	"fmt"
	"image/color"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"selfheal/harness/result"
	"selfheal/internal/must"
)

// plainly is a table in plain text, a row a line, columns with bars between them.
func plainly(t table) []string {
	var out []string
	for _, r := range t.Rows {
		var line []string
		for _, b := range r {
			line = append(line, b.plain())
		}
		out = append(out, strings.ReplaceAll(strings.Join(line, " | "), nbsp, " "))
	}
	return out
}

func wantRows(t *testing.T, got table, want []string) {
	t.Helper()
	if rows := plainly(got); !slices.Equal(rows, want) {
		t.Errorf("%s:\n%s\nwant\n%s", got.Caption, strings.Join(rows, "\n"), strings.Join(want, "\n"))
	}
	for _, r := range got.Rows {
		if len(r) != len(got.Head) {
			t.Errorf("%s: %d cells under %d heads", got.Caption, len(r), len(got.Head))
		}
	}
}

func TestHeadline(t *testing.T) {
	only := func(names ...string) *view {
		f := fixture()
		f.Suites = slices.DeleteFunc(f.Suites, func(s result.Suite) bool { return !slices.Contains(names, s.Name) })
		f.Cells = slices.DeleteFunc(f.Cells, func(c result.Cell) bool { return !slices.Contains(names, c.Suite) })
		return derive(f)
	}
	one := only("real").HeadlineTable()
	wantRows(t, one, []string{"resnet-2b | 82.0 / 80.5 | 4.0 / 33.0 | [2.0, 7.7] / [26.9, 39.8] | AA ℓ1 (12)"})
	if want := "Accuracy in %, on clean images and the lowest under attack: baseline / controlled (pca); attacker: " +
		"oblivious"; one.Caption != want {
		t.Errorf("caption %q", one.Caption)
	}
	if b := one.Rows[0][1].Spans; !b[0].Bold || b[2].Bold {
		t.Errorf("the better side of %v is not the one that is bold", b)
	}
	if b := one.Rows[0][2].Spans; b[0].Bold || !b[2].Bold {
		t.Errorf("the better side of %v is not the one that is bold", b)
	}

	// Suites, controls and attackers that differ have columns; each side names its own worst
	// attack, and what is not measured is a dash.
	several := only("../white box", "through")
	wantRows(t, several.HeadlineTable(), []string{
		"../white box | " + scriptName + " · pca | 57.70 / 59.90 | 0.00 / 30.10 | [0.00, 0.38] / [27.34, 33.01] | " +
			"AA ℓ∞ (8/255) | Detached",
		"../white box | " + scriptName + " · auto_encoder | 57.70 / 59.00 | 0.00 / 42.10 | [0.00, 0.38] / " +
			"[39.08, 45.18] | AA ℓ∞ (8/255) / AA ℓ∞ (4/255) | Detached",
		"../white box | " + texName + " · pca | 58.00 / 59.30 | 0.10 / 32.20 | [0.02, 0.56] / [29.38, 35.16] | " +
			"AA ℓ∞ (8/255) | Detached",
		"../white box | " + texName + " · auto_encoder | 58.00 / – | 0.10 / – | [0.02, 0.56] / – | AA ℓ∞ " +
			"(8/255) / – | Detached",
		"through | resnet-2b · pca | 82.0 / 80.5 | 29.5 / 24.5 | [23.6, 36.2] / [19.1, 30.9] | AA ℓ2 (0.5) / " +
			"PGD ℓ∞ (8/255) | Through",
	})
	if link := several.HeadlineTable().Rows[0][0].Link; link != "suite-"+several.Suites[0].Slug {
		t.Errorf("the suite's name leads to %q", link)
	}

	bare := only("real")
	for _, s := range bare.Suites {
		s.Controls = nil
	}
	wantRows(t, bare.HeadlineTable(), []string{"resnet-2b | 82.0 | 4.0 | [2.0, 7.7] | AA ℓ1 (12)"})
	if quoted := paperView().HeadlineTable(); len(quoted.Rows) > 0 {
		t.Errorf("published numbers have a headline of %d lines", len(quoted.Rows))
	}
}

// classed are records of one suite, a row a class: right answers of 10 images on the baseline
// clean and attacked, and on the controlled network.
func classed(t *testing.T, names []string, controls []string, right [][4]int) *suite {
	t.Helper()
	f := &result.File{Datasets: map[string]result.Dataset{"d": {ClassNames: names}}}
	e := 0.5
	var recs []result.Record
	for side, defense := range append([]string{"none"}, controls...) {
		for a, attack := range []string{"none", "aa-l2"} {
			c := result.Cell{Suite: "s", Dataset: "d", Model: "m", Defense: defense, Mode: "oblivious", Attack: attack,
				N: 10 * len(right)}
			if attack != "none" {
				c.Epsilon = &e
			}
			for label, row := range right {
				for i := range 10 {
					r := result.Record{Suite: "s", Model: "m", Defense: defense, Attack: attack, Epsilon: c.Epsilon,
						Image: i, Label: label}
					if i < row[2*side+a] {
						r.Verdict = 1
					}
					recs = append(recs, r)
				}
			}
			f.Cells = append(f.Cells, c)
		}
	}
	v := derive(f)
	v.addMargins(slices.Values(recs))
	return v.Suites[0]
}

func TestClasses(t *testing.T) {
	s := classed(t, []string{"cat", "dog\n"}, []string{"pca"}, [][4]int{{10, 0, 9, 7}, {8, 1, 8, 0}, {5, 5, 5, 5}})
	tables := s.ClassTables()
	if len(tables) != 1 {
		t.Fatalf("%d tables", len(tables))
	}
	wantRows(t, tables[0], []string{"cat | 10 | 100.0 / 90.0 | 0.0 / 70.0", "dog  | 10 | 80.0 / 80.0 | 10.0 / 0.0",
		"2 | 10 | 50.0 / 50.0 | 50.0 / 50.0"})
	if p := tables[0].Rows[0][3].Pair; p == nil || *p != [2]float64{0, 0.7} {
		t.Errorf("bars of %v", p)
	}
	alone := classed(t, nil, nil, [][4]int{{10, 3}}).ClassTables()[0]
	wantRows(t, alone, []string{"0 | 10 | 100.0 | 30.0"})
	if alone.Rows[0][3].Bar != 0.3 || alone.Rows[0][3].Pair != nil {
		t.Errorf("bars of %+v", alone.Rows[0][3])
	}
	if without := derive(fixture()).Suites[0].ClassTables(); len(without[0].Rows) > 0 {
		t.Errorf("without records there are %d classes", len(without[0].Rows))
	}

	// Of 25 classes the first table has the ends, by the mean of the controlled network's two
	// accuracies, here falling with the label, some equal.
	var right [][4]int
	for i := range 25 {
		right = append(right, [4]int{i % 10, 0, max(10-max(i, 1)/3, 0), max(10-max(i, 1)/2, 0)})
	}
	many := classed(t, nil, []string{"pca"}, right).ClassTables()
	if len(many) != 2 || len(many[1].Rows) != 25 || len(many[0].Rows) != 20 {
		t.Fatalf("%d tables", len(many))
	}
	var labels []string
	for _, r := range many[0].Rows {
		labels = append(labels, r[0].plain())
	}
	if want := strings.Fields("24 21 22 23 20 18 19 16 17 15 9 8 6 7 4 5 3 2 0 1"); !slices.Equal(labels, want) {
		t.Errorf("classes %v, want %v", labels, want)
	}
	if len(many[0].Notes) != 1 || !strings.Contains(many[0].Notes[0].Text, "Of 25 classes, the 10 with the lowest and "+
		"the 10 with the highest mean accuracy of the controlled network") {
		t.Errorf("the rule is not said: %v", many[0].Notes)
	}
}

func TestShellCommand(t *testing.T) {
	if got := shellCommand([]string{"selfheal", "run", "--set", "attacks.aa.epsilon=4/255"}); got != "selfheal run "+
		"--set attacks.aa.epsilon=4/255" {
		t.Errorf("command %s", got)
	}
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Skip(err)
	}
	args := []string{"a b", "it's", `"$HOME"`, "`id`", "*", "", "ε", "-", "tab\there", "esc\x1b[31m;'\\", "new\nline",
		"right\u202eleft", "a;b&c|d"}
	command := shellCommand(args)
	for _, r := range command {
		if r < ' ' || r == '\u202e' {
			t.Errorf("the command holds %q", r)
		}
	}
	out := must.Get(exec.Command(sh, "-c", "printf '%s\\0' "+command).Output())(t)
	if got := strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00"); !slices.Equal(got, args) {
		t.Errorf("a shell reads %q, want %q", got, args)
	}
}

// TestContrast holds the page's text to WCAG 2.2's level AA in both colour schemes, and the
// marks that carry meaning to the 3:1 of what is not text.
func TestContrast(t *testing.T) {
	variable := regexp.MustCompile(`--([a-z]+): #([0-9a-fA-F]+)\b`)
	schemes := map[string]map[string]color.NRGBA{"light": {}, "dark": {}}
	at := "light"
	for _, line := range strings.Split(styleSheet+string(seriesStyle()), "\n") {
		if strings.HasPrefix(line, "@media") {
			at = "light"
			if strings.Contains(line, "prefers-color-scheme: dark") {
				at = "dark"
			}
		}
		for _, m := range variable.FindAllStringSubmatch(line, -1) {
			digits := m[2]
			if len(digits) == 3 {
				digits = strings.Repeat(digits[:1], 2) + strings.Repeat(digits[1:2], 2) + strings.Repeat(digits[2:], 2)
			}
			v, err := strconv.ParseUint(digits, 16, 32)
			if err != nil || len(digits) != 6 {
				t.Fatalf("colour %s", m[0])
			}
			schemes[at][m[1]] = color.NRGBA{uint8(v >> 16), uint8(v >> 8), uint8(v), 255}
		}
		if line == "}" {
			at = "light"
		}
	}
	for name, c := range schemes {
		if len(c) < 10 {
			t.Errorf("%s has %d colours", name, len(c))
		}
		for _, pair := range []struct {
			ink, paper string
			least      float64
		}{
			{"ink", "paper", 4.5}, {"muted", "paper", 4.5}, {"accent", "paper", 4.5}, {"fail", "paper", 4.5},
			{"ink", "soft", 4.5}, {"muted", "soft", 4.5}, {"accent", "soft", 4.5}, {"ink", "bar", 4.5},
			{"baseline", "paper", 3}, {"controlled", "paper", 3},
		} {
			a, ok := c[pair.ink]
			b, there := c[pair.paper]
			if !ok || !there {
				t.Errorf("%s lacks %s or %s", name, pair.ink, pair.paper)
			} else if got := contrastOf(a, b); got < pair.least {
				t.Errorf("%s: contrast of %s on %s is %.2f, want %g", name, pair.ink, pair.paper, got, pair.least)
			}
		}
	}
	if lab(linear(schemes["light"]["paper"]))[0] < lab(linear(schemes["dark"]["paper"]))[0] {
		t.Error("the dark scheme is the light one")
	}
}

// A figure in a page is drawn once, and follows its colour scheme; so do its pictures.
func TestInline(t *testing.T) {
	t.Parallel()
	f := theoryFixture().Figures[0].Sheet()
	f.Alt = `a <sketch> & "more"`
	got := string(f.Drawing())
	paper := fmt.Sprintf("%s-%s", strings.ToUpper(cssColour(light.paper)[1:]),
		strings.ToUpper(cssColour(dark.paper)[1:]))
	must.Have(t, got,
		`<svg class="fig" role="img" aria-label="a &lt;sketch&gt; &amp; &#34;more&#34;" viewBox="0 0 489.6 `,
		`style="fill:var(--`+paper+
			`)"`, `stroke:var(--`, `<image class="day" x=`, `<image class="night" x=`, `>(a) Classes</text>`, `</svg>`)
	if strings.Contains(got, "font-family") || strings.Contains(got, "<?xml") {
		t.Error("the drawing has what the page says")
	}
	styled := withInks("<style>a{}</style><p>" + got + got)
	if n := strings.Count(styled, "--"+paper+":#"); n != 2 {
		t.Errorf("the paper's colour is defined %d times, want once a scheme:\n%.500s", n, styled)
	}
	for use := range strings.SplitSeq(got, "var(--") {
		if name, _, ok := strings.Cut(use, ")"); ok && len(name) == 13 &&
			!strings.Contains(styled, "--"+name+":#"+name[:6]) {
			t.Errorf("colour %s is used and not defined", name)
		}
	}
}
