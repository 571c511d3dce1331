package result

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"selfheal/internal/must"
)

var update = flag.Bool("update", false, "write the generated parts of docs/results.md and docs/warnings.md anew")

// generated checks that a part of a page, from one mark to another or to the end, is want, or with -update writes it.
func generated(t *testing.T, path, from, to, want string) {
	t.Helper()
	data := must.Get(os.ReadFile(path))(t)
	before, behind, found := strings.Cut(string(data), from)
	if !found {
		t.Fatalf("%s lacks %q", path, from)
	}
	got, after := behind, ""
	if to != "" {
		if got, after, found = strings.Cut(behind, to); !found {
			t.Fatalf("%s lacks %q", path, to)
		}
	}
	if got == want {
		return
	}
	if !*update {
		t.Errorf("%s differs from its table; go test ./harness/result -update writes it", path)
		return
	}
	must.Do(t, os.WriteFile(path, []byte(before+from+want+to+after), 0o644))
}

// wrapped returns a paragraph in lines of at most 100 characters.
func wrapped(text string) string {
	var b strings.Builder
	width := 0
	for _, word := range strings.Fields(text) {
		n := len([]rune(word))
		switch {
		case width == 0:
		case width+1+n > 100:
			b.WriteByte('\n')
			width = 0
		default:
			b.WriteByte(' ')
			width++
		}
		b.WriteString(word)
		width += n
	}
	return b.String()
}

func TestWarningsPage(t *testing.T) {
	var b strings.Builder
	for _, k := range WarningKinds {
		number := wrapped("**The number.** " + k.Number)
		if strings.Count(number, "\n") > 1 || !strings.HasSuffix(k.Number, ".") {
			t.Errorf("%s says %q of the number, which is no line", k.ID, k.Number)
		}
		if slices.Contains(Signs, k.ID) {
			number += "\nA sign of a hidden gradient (`masking`)."
		}
		fmt.Fprintf(&b, "\n## `%s`\n\n%s\n\n%s\n\n%s\n", k.ID, number, wrapped("**What it means.** "+k.Means),
			wrapped("**What to do.** "+k.Do))
	}
	generated(t, "../../docs/warnings.md", "<!-- from harness/result/warning.go -->\n", "", b.String())
}

func TestModesTable(t *testing.T) {
	b := "| mode | the attacker |\n|---|---|\n"
	for _, m := range Modes {
		b += fmt.Sprintf("| `%s` | %s |\n", m.Name, m.Knows)
	}
	generated(t, "../../docs/results.md", "<!-- modes, from harness/result/mode.go -->\n", "<!-- end of modes -->\n", b)
}

func TestFiguresTable(t *testing.T) {
	b := "| figure | what |\n|---|---|\n"
	for _, f := range Figures {
		b += fmt.Sprintf("| `%s-%s.png`, `.svg`, `.pdf` | %s |\n", f.Name, f.Of, f.Shows)
	}
	generated(t, "../../docs/results.md", "<!-- figures, from harness/result/figure.go -->\n",
		"<!-- end of figures -->\n", b)
}
