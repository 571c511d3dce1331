package gate

import (
	"flag"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"

	"selfheal/harness/stats"
	"selfheal/internal/must"
)

var update = flag.Bool("update", false, "write the tables of docs/gate.md anew")

// documented holds that docs/gate.md shows a table between its marks, or writes it there.
func documented(t *testing.T, name, table string) {
	t.Helper()
	const path = "../../docs/gate.md"
	data := must.Get(os.ReadFile(path))(t)
	begin, end := "<!-- "+name+" -->\n", "<!-- end of "+name+" -->\n"
	before, rest, ok := strings.Cut(string(data), begin)
	old, after, closed := strings.Cut(rest, end)
	switch {
	case !ok || !closed:
		t.Fatalf("%s has no place for %s", path, name)
	case old == table:
	case *update:
		must.Do(t, os.WriteFile(path, []byte(before+begin+table+end+after), 0o644))
	default:
		t.Errorf("%s shows for %s\n%s, it is (go test -update rewrites it)\n%s", path, name, old, table)
	}
}

// The tables of docs/gate.md are what the statistics say.
func TestDocumentedTables(t *testing.T) {
	documented(t, "images", imagesTable())
	documented(t, "detects", detectsTable())
}

func imagesTable() string {
	flips := []float64{0, 0.002, 0.005, 0.01, 0.02, 0.05}
	var b strings.Builder
	b.WriteString("| `max_drop` |")
	for _, f := range flips {
		fmt.Fprintf(&b, " %s %% flip |", points(f))
	}
	b.WriteString("\n|---:|" + strings.Repeat("---:|", len(flips)) + "\n")
	for _, drop := range []float64{0.005, 0.01, 0.02, 0.03, 0.05, 0.1} {
		fmt.Fprintf(&b, "| %s points |", points(drop))
		for _, f := range flips {
			fmt.Fprintf(&b, " %s |", thousands(stats.ImagesToPass(drop, f, 0.05, power)))
		}
		b.WriteString("\n")
	}
	return b.String()
}

func detectsTable() string {
	var b strings.Builder
	b.WriteString("| images | 1 cell | 12 cells | 48 cells | 1 cell, 1 % flip | 12 cells, 1 % flip " +
		"| 48 cells, 1 % flip |\n|---:|---:|---:|---:|---:|---:|---:|\n")
	for _, n := range []int{100, 200, 500, 1000, 2000, 5000, 10000} {
		fmt.Fprintf(&b, "| %s |", thousands(n))
		for _, flips := range []float64{0, 0.01} {
			for _, cells := range []float64{1, 12, 48} {
				fmt.Fprintf(&b, " %s |", percent(stats.Detectable(n, int(math.Round(float64(n)*flips/2)), 0.02,
					0.05/cells, power)))
			}
		}
		b.WriteString("\n")
	}
	return b.String()
}
