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

var update = flag.Bool("update", false, "write the generated parts of docs/results.md anew")

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

// docs/warnings.md has each kind of warning, in the table's order: what it does to the number, whether it is a sign,
// what it means and what to do.
func TestWarningsPage(t *testing.T) {
	page := string(must.Get(os.ReadFile("../../docs/warnings.md"))(t))
	sections := strings.Split(page, "\n## ")[1:]
	if len(sections) != len(WarningKinds) {
		t.Fatalf("%d sections, %d warnings", len(sections), len(WarningKinds))
	}
	for i, k := range WarningKinds {
		begins := "`" + k.ID + "` **The number.** " + k.Number
		if slices.Contains(Signs, k.ID) {
			begins += " A sign of a hidden gradient (`masking`)."
		}
		words := strings.Join(strings.Fields(sections[i]), " ")
		begins += " **What it means.** "
		if !strings.HasPrefix(words, begins) || !strings.Contains(words, " **What to do.** ") {
			t.Errorf("docs/warnings.md has at place %d\n%s\nnot\n%s", i, words, begins)
		}
		if !strings.HasSuffix(k.Number, ".") || len(k.Number) > 200 {
			t.Errorf("%s says %q of the number, which is no line", k.ID, k.Number)
		}
	}
}

func TestModesTable(t *testing.T) {
	b := "| mode | the attacker |\n|---|---|\n"
	for _, m := range Modes {
		b += fmt.Sprintf("| `%s` | %s |\n", m.Name, m.Knows)
	}
	generated(t, "../../docs/results.md", "<!-- modes, from harness/result/mode.go -->\n", "<!-- end of modes -->\n", b)
}

// docs/results.md has every figure, in the table's order.
func TestFiguresTable(t *testing.T) {
	_, page, _ := strings.Cut(string(must.Get(os.ReadFile("../../docs/results.md"))(t)), "and these figures:\n")
	rows := strings.Split(page, "\n| `")[1:]
	for i, name := range Figures {
		if i >= len(rows) || !strings.HasPrefix(rows[i], name+"-") {
			t.Errorf("docs/results.md lacks %s at place %d", name, i)
		}
	}
}
