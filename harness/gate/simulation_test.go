package gate

import (
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"selfheal/harness/config"
	"selfheal/harness/result"
	"selfheal/harness/stats"
	"selfheal/internal/must"
	"selfheal/internal/testinput"
)

// images returns, for each cell and image, the probability of a right verdict: 0 or 1, except for a fraction unstable
// of the images, which are right in half of the runs. The verdicts of two runs differ on half of those.
func images(r *rand.Rand, n int, unstable float64) [][]float64 {
	sets := make([][]float64, len(accuracies))
	for i, a := range accuracies {
		for range n {
			p := 0.0
			if r.Float64() < unstable {
				p = 0.5
			} else if r.Float64() < a {
				p = 1
			}
			sets[i] = append(sets[i], p)
		}
	}
	return sets
}

// run draws the verdicts of a run.
func run(r *rand.Rand, sets [][]float64) *result.File {
	lists := make([]string, len(sets))
	for i, set := range sets {
		b := make([]byte, len(set))
		for k, p := range set {
			b[k] = '0'
			if r.Float64() < p {
				b[k] = '1'
			}
		}
		lists[i] = string(b)
	}
	return file(r.Uint64(), lists...)
}

// simulate counts the outcomes of so many pairs of runs.
func simulate(t *testing.T, repeats int, seed uint64, draw func(r *rand.Rand) (before,
	now *result.File)) map[Outcome]int {
	t.Helper()
	got, known := map[Outcome]int{}, newTests(config.DefaultGate())
	for i := range repeats {
		before, now := draw(rand.New(rand.NewPCG(seed, uint64(i))))
		before.Suites, now.Suites = nil, nil // there may be fewer cells
		r := must.Get(known.compare(t.Context(), mustBaseline(t, before), now))(t)
		got[r.Outcome]++
	}
	t.Logf("%d repeats: %v", repeats, got)
	return got
}

// noise is the fraction of the verdicts that another seed changes. If holds is set, the gate tells this change from a
// regression in so many cells of so many images.
var noise = []struct {
	flips    float64
	cells, n int
	holds    bool
}{
	{0, 6, 500, true}, {0.002, 6, 500, true}, {0.005, 6, 500, false}, {0.01, 1, 500, true}, {0.01, 6, 500, false},
	{0.01, 6, 1000, true}, {0.02, 6, 1000, false}, {0.02, 6, 2000, true},
}

// simulateNoise simulates row i of noise, without and with a regression of 5 points in one cell.
func simulateNoise(t *testing.T, i int) (unchanged, planted map[Outcome]int) {
	c := noise[i]
	unchanged = simulate(t, 100, 10+uint64(i), func(r *rand.Rand) (before, now *result.File) {
		sets := images(r, c.n, 2*c.flips)[6-c.cells:]
		return run(r, sets), run(r, sets)
	})
	planted = simulate(t, 100, 20+uint64(i), func(r *rand.Rand) (before, now *result.File) {
		sets := images(r, c.n, 2*c.flips)[6-c.cells:]
		before = run(r, sets)
		worse := sets[c.cells/2]
		for lost, order := 0, r.Perm(c.n); lost < c.n/20; order = order[1:] {
			if k := order[0]; worse[k] == 1 {
				worse[k] = 0
				lost++
			}
		}
		return before, run(r, sets)
	})
	return unchanged, planted
}

// Noise of the same run passes, and a regression of 5 points under it fails. If the images are too few for the noise,
// no decision is wrong. docs/gate.md has the table. The last two rows, which take longest, are simulated with
// SELFHEAL_TEST_LARGE.
func TestNoiseAndRegression(t *testing.T) {
	var b strings.Builder
	b.WriteString("| noise | cells | images | noise passes, of 100 | the regression fails, of 100 |\n" +
		"|---:|---:|---:|---:|---:|\n")
	for i, c := range noise {
		if c.flips > 0.01 && !whole() {
			b.WriteString(unread)
			continue
		}
		unchanged, planted := simulateNoise(t, i)
		if unchanged[Fail] > 0 || planted[Pass] > 0 || c.holds && (unchanged[Pass] < 95 || planted[Fail] < 95) {
			t.Errorf("%+v: %v of 100, with a regression %v", c, unchanged, planted)
		}
		fmt.Fprintf(&b, "| %s %% | %d | %s | %d | %d |\n", points(c.flips), c.cells, thousands(c.n), unchanged[Pass],
			planted[Fail])
	}
	documented(t, "noise", b.String())
}

// Twenty images tell nothing about another control, whether its verdicts are the same or not. An unchanged cell needs
// no test.
func TestFewImagesInconclusive(t *testing.T) {
	for i, flips := range []float64{0, 0.01} {
		got := simulate(t, 100, 30+uint64(i), func(r *rand.Rand) (before, now *result.File) {
			sets := images(r, 20, 2*flips)
			before, now = run(r, sets), run(r, sets)
			now.Controls["heal"].Layers[0].Embedding.SHA256 = "9"
			return before, now
		})
		if got[Inconclusive] < 100 {
			t.Errorf("flips of %v: %v of 100", flips, got)
		}
	}
	r, err := against(t, same(15, 20), file(0, same(15, 20)...), config.DefaultGate())
	if err != nil || r.Outcome != Pass {
		t.Errorf("nothing has changed: %v, %v", r, err)
	}
}

// A true drop of exactly max_drop, in every cell, fails with a probability of at most alpha. In one cell, with the
// others unchanged, it passes with at most that.
func TestBorder(t *testing.T) {
	const repeats, n, most = 200, 200, 200 * 5 / 100
	for i, c := range []struct {
		cells int // that have dropped
		won   float64
	}{{6, 0}, {6, 0.005}, {1, 0}, {1, 0.005}} {
		got := simulate(t, repeats, 40+uint64(i), func(r *rand.Rand) (before, now *result.File) {
			b, a := same(150, n), same(150, n)
			for k := range c.cells {
				x, y := make([]byte, n), make([]byte, n)
				for k := range x {
					switch u := r.Float64(); {
					case u < c.won+0.02:
						x[k], y[k] = '1', '0'
					case u < 2*c.won+0.02:
						x[k], y[k] = '0', '1'
					default:
						x[k], y[k] = '1', '1'
					}
				}
				b[k], a[k] = string(x), string(y)
			}
			return file(0, b...), file(1, a...)
		})
		if got[Fail] > most || got[Pass] > most || c.cells == 6 && got[Fail] == 0 || c.cells == 1 && got[Pass] == 0 {
			t.Errorf("%+v: %v of %d", c, got, repeats)
		}
	}
}

var update = flag.Bool("update", false, "write the tables of docs/gate.md anew")

// whole reports whether the rows of tables that take longest are computed.
func whole() bool { return *update || testinput.Large() }

// unread stands for a row of a table that is not computed.
const unread = "any\n"

// documented checks that docs/gate.md has a table between its marks, or with -update writes it there. A row may be
// unread.
func documented(t *testing.T, name, table string) {
	t.Helper()
	const path = "../../docs/gate.md"
	data := must.Get(os.ReadFile(path))(t)
	begin, end := "<!-- "+name+" -->\n", "<!-- end of "+name+" -->\n"
	before, rest, ok := strings.Cut(string(data), begin)
	old, after, closed := strings.Cut(rest, end)
	rows, there := strings.SplitAfter(table, "\n"), strings.SplitAfter(old, "\n")
	for i, row := range rows {
		if row == unread && i < len(there) {
			rows[i] = there[i]
		}
	}
	table = strings.Join(rows, "")
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

// The statistics give the tables of docs/gate.md: of small drops and many images with SELFHEAL_TEST_LARGE.
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
		if drop < 0.02 && !whole() {
			b.WriteString(unread)
			continue
		}
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
		if n > 2000 && !whole() {
			b.WriteString(unread)
			continue
		}
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
