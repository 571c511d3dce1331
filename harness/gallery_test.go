package harness_test

import (
	"bytes"
	"fmt"
	"image/png"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"selfheal/attacks"
	"selfheal/harness/dataset"
	"selfheal/harness/result"
	"selfheal/harness/run"
	"selfheal/internal/atomicfile"
	"selfheal/internal/must"
	"selfheal/internal/testinput"
	"selfheal/internal/testplan"
)

// exhibited is the smallest run with a full gallery: both kinds, a control at the input and one elsewhere, attacks in
// two norms.
var exhibited = []string{"suites.small.attacks=[apgd-linf, pgd-l2]", "attacks.apgd-linf.epsilon=8/255",
	"datasets.test.limit=16", "datasets.test.classes=[c0, c1, c2, c3, c4, c5, c6, c7, c8, c9]"}

func readGallery(t *testing.T, out string) *result.Gallery {
	t.Helper()
	return must.Get(result.ReadGallery(filepath.Join(out, "gallery.json")))(t)
}

// recordOf finds an image's line in a cell.
func recordOf(t *testing.T, records []result.Record, defense, attack string, id int) result.Record {
	t.Helper()
	i := slices.IndexFunc(records,
		func(r result.Record) bool { return r.Defense == defense && r.Attack == attack && r.Image == id })
	if i < 0 {
		t.Fatalf("no record of image %d under %s, %s", id, attack, defense)
	}
	return records[i]
}

// pixelsOf decodes a picture of 3 channels into values of [0,1], channels first.
func pixelsOf(t *testing.T, data []byte) []float64 {
	t.Helper()
	img := must.Get(png.Decode(bytes.NewReader(data)))(t)
	w, h := img.Bounds().Dx(), img.Bounds().Dy()
	out := make([]float64, 3*w*h)
	for i := range w * h {
		r, g, b, _ := img.At(i%w, i/w).RGBA()
		for c, v := range []uint32{r, g, b} {
			out[c*w*h+i] = float64(v>>8) / 255
		}
	}
	return out
}

// Every case is the first image of its kind from the start of its search, its answers equal the records', and its
// pictures show the images that were scored.
func TestGalleryShowsWhatTheRunFound(t *testing.T) {
	p := testplan.Plan(t, testplan.Small, 2, 64, exhibited...)
	f, records, out := runFor(t, p)
	g := readGallery(t, out)
	if g.ConfigSHA256 != f.ConfigSHA256 || len(g.Notes) != 0 || len(g.Cases) == 0 {
		t.Fatalf("%d cases of %s, notes %v", len(g.Cases), g.ConfigSHA256, g.Notes)
	}
	images := must.Get(dataset.Open(p.Config.Dataset("test").Spec, p.Config.Files, 0))(t)
	kinds := map[string]int{}
	for _, c := range g.Cases {
		name := fmt.Sprintf("%s of %s, image %d", c.Kind, c.Attack, c.Image)
		kinds[c.Kind]++
		// The rule, from the records alone.
		first := -1
		place := 4*slices.Index([]string{"apgd-linf", "pgd-l2"}, c.Attack) +
			2*slices.Index(p.Config.Suites[0].Controls, c.Defense)
		if c.Kind == result.NotHealed {
			place++
		}
		for i := range images.Len() { // of 12 cases that the run may have
			id := images.ID((place*7%12*images.Len()/12 + i) % images.Len())
			alone, under := recordOf(t, records, "none", c.Attack, id), recordOf(t, records, c.Defense, c.Attack, id)
			if alone.FirstSuccess != nil && alone.Verdict == 0 && (under.Verdict == 1) == (c.Kind == result.Healed) {
				first = id
				break
			}
		}
		if c.Image != first {
			t.Errorf("%s: the first one is %d", name, first)
		}
		for _, a := range []struct {
			what            string
			got             result.GalleryAnswer
			defense, attack string
		}{{"undefended, clean", c.Undefended.Clean, "none", "none"}, {"undefended", c.Undefended.Adversarial, "none",
			c.Attack},
			{"controlled, clean", c.Controlled.Clean, c.Defense, "none"}, {"controlled", c.Controlled.Adversarial,
				c.Defense, c.Attack}} {
			r := recordOf(t, records, a.defense, a.attack, c.Image)
			if math.Float64bits(a.got.Margin) != math.Float64bits(float64(r.Margin)) ||
				(a.got.Class == c.Label) != (r.Verdict == 1) || c.Label != r.Label || a.got.Name != fmt.Sprint("c",
				a.got.Class) || c.LabelName != fmt.Sprint("c", c.Label) {
				t.Errorf("%s: %s is %+v, in the records %+v", name, a.what, a.got, r)
			}
		}
		if r := recordOf(t, records, "none", c.Attack, c.Image); c.Perturbation != r.Norm ||
			c.Norm != p.Config.Attack(c.Attack).Norm.String() {
			t.Errorf("%s: perturbation %v in %s, in the records %v", name, c.Perturbation, c.Norm, r.Norm)
		}
		_, clean, _ := must.Get3(images.Image(c.Image))(t)
		adversarial := savedImage(t, out, c)
		shown := pixelsOf(t, c.Pictures.Clean)
		attacked, magnified := pixelsOf(t, c.Pictures.Adversarial), pixelsOf(t, c.Pictures.Perturbation)
		const half = 0.5/255 + 1e-6
		widest := 0.0
		for i := range shown {
			d := float64(adversarial[i]) - float64(clean[i])
			widest = max(widest, math.Abs(d)*c.Pictures.Magnification)
			if math.Abs(shown[i]-float64(clean[i])) > half || math.Abs(attacked[i]-float64(adversarial[i])) > half ||
				math.Abs(magnified[i]-0.5-c.Pictures.Magnification*d) > half {
				t.Fatalf("%s: value %d is shown as %v, %v and %v; it is %v and %v", name, i, shown[i], attacked[i],
					magnified[i], clean[i], adversarial[i])
			}
		}
		if widest > 0.5+1e-5 || widest < 0.25 {
			t.Errorf("%s: magnified %v times the perturbation reaches %v", name, c.Pictures.Magnification, widest)
		}
		if (c.Pictures.Healed != nil) != (c.Defense == "auto-encoder") {
			t.Errorf("%s: a picture of the healed image: %v", name, c.Pictures.Healed != nil)
		}
		if want := map[string]int{"auto-encoder": 3, "pca": 1}[c.Defense]; len(c.Trace) != want ||
			c.Trace[0].Layers[0].At != map[string]string{"auto-encoder": "input", "pca": "last"}[c.Defense] {
			t.Errorf("%s: trace %+v", name, c.Trace)
		}
		// The distance to the adversarial image equals the control's norm, up to clipping and rounding.
		if c.Pictures.Healed != nil {
			d := 0.0
			for i, v := range pixelsOf(t, c.Pictures.Healed) {
				d += (v - float64(adversarial[i])) * (v - float64(adversarial[i]))
			}
			if norm := c.Trace[len(c.Trace)-1].Layers[0].ControlNorm; math.Abs(math.Sqrt(d)-norm) > 0.1*norm {
				t.Errorf("%s: healed by %v, its control has norm %v", name, math.Sqrt(d), norm)
			}
		}
	}
	if kinds[result.Healed] == 0 || kinds[result.NotHealed] == 0 ||
		kinds[result.Healed]+kinds[result.NotHealed] != len(g.Cases) {
		t.Errorf("kinds %v: this test shows little", kinds)
	}
}

// savedImage returns a case's adversarial image as save_adversarial wrote it.
func savedImage(t *testing.T, out string, c result.GalleryCase) []float32 {
	t.Helper()
	match, err := filepath.Glob(filepath.Join(out, "adversarial", "*_"+c.Attack+"_*.npy"))
	if err != nil || len(match) != 1 {
		t.Fatalf("%v, %v", match, err)
	}
	shape, values := must.Get2(dataset.ReadArray(os.DirFS(out), "adversarial/"+filepath.Base(match[0]), "x"))(t)
	size := shape[1] * shape[2] * shape[3]
	return values[c.Image*size : (c.Image+1)*size]
}

// The traces of a cell add up to its objective, and a gallery is the same bit for bit
// whatever the batch and the workers.
func TestControlTraces(t *testing.T) {
	few := append(exhibited[:2:2], "datasets.test.limit=6") // fewer than are followed
	f, _, out := runFor(t, testplan.Plan(t, testplan.Small, 2, 64, few...))
	near := func(a, b float64) bool { return math.Abs(a-b) <= 1e-9*math.Abs(b) }
	seen := 0
	for _, c := range f.Cells {
		if c.Defense == "none" {
			if c.Solver != nil {
				t.Errorf("%s: undefended, and traces", c.Attack)
			}
			continue
		}
		s, loss, norms := c.Solver, 0.0, 0.0
		for _, l := range s.Layers {
			loss, norms = loss+l.Loss, norms+l.ControlNorm
		}
		if len(s.Layers) != 1 || !near(loss, s.Objective) || !near(norms, s.ControlNorm) {
			t.Errorf("%s under %s: layers %+v of objective %v and norm %v", c.Attack, c.Defense, s.Layers, s.Objective,
				s.ControlNorm)
		}
		if s.Method == "greedy" {
			if s.Sweeps != nil || s.Traced != 0 {
				t.Errorf("greedy control has sweeps %v", s.Sweeps)
			}
			continue
		}
		seen++
		if s.Traced != 6 || len(s.Sweeps) != 3 || !near(s.Sweeps[0], s.Greedy) || !near(s.Sweeps[2], s.Objective) {
			t.Errorf("%s: sweeps %v of %d images, from %v to %v", c.Attack, s.Sweeps, s.Traced, s.Greedy, s.Objective)
		}
	}
	if seen != 3 {
		t.Errorf("%d cells with sweeps", seen)
	}
	_, _, again := runFor(t, testplan.Plan(t, testplan.Small, 1, 5, few...))
	identical(t, "another batch", out, again)
}

// The gallery shows images that an attack on the answering network broke. A suite without controls shows its
// undefended network's.
func TestGalleryOfBrokenImages(t *testing.T) {
	testinput.Runtime(t)
	for _, c := range []struct {
		sets     []string
		defenses []string
		verdicts bool // only verdicts were needed
	}{
		{[]string{"suites.small.mode=whitebox-detached", "suites.small.attacks=[pgd-l2]", "suites.small.controls=[pca]",
			"save_adversarial=false"}, []string{"pca"}, true},
		{[]string{"suites.small.attacks=[pgd-l2, apgd-linf]", "suites.small.controls=[]"}, []string{"none", "none"},
			false},
	} {
		f, _, out := runFor(t, testplan.Plan(t, testplan.Small, 2, 64, append(c.sets, "attacks.pgd-l2.epsilon=1",
			"attacks.apgd-linf.epsilon=8/255")...))
		var defenses []string
		for _, one := range readGallery(t, out).Cases {
			defenses = append(defenses, one.Defense)
			attacked := one.Undefended
			if one.Defense != "none" {
				attacked = *one.Controlled
			}
			if one.Kind != result.Broken || attacked.Clean.Class != one.Label ||
				attacked.Adversarial.Class == one.Label || one.VerdictOnly != c.verdicts {
				t.Errorf("%v: %+v", c.sets, one)
			}
		}
		if !slices.Equal(defenses, c.defenses) {
			t.Errorf("%v: cases of %v, want %v", c.sets, defenses, c.defenses)
		}
		if f.Gallery == nil || len(f.Gallery.Cases) != len(defenses) {
			t.Errorf("%v: the results hold another gallery than the file", c.sets)
		}
	}
}

// A stopped run leaves the gallery of the finished models. Another run begins without it.
func TestCancelKeepsTheGallery(t *testing.T) {
	sets := []string{"suites.small.models=[robust, standard]", "suites.small.attacks=[pgd-l2]",
		"suites.small.controls=[pca]", "attacks.pgd-l2.epsilon=1"}
	out := t.TempDir()
	run := func(words string, more ...string) {
		cancelled(t, testplan.Plan(t, testplan.Small, 1, 8, append(more, sets...)...), run.Options{Out: out,
			Rule: atomicfile.Rule{Force: true}}, words,
			nil)
	}
	run("standard, none, controlled by pca")
	g := readGallery(t, out)
	if len(g.Cases) == 0 || slices.ContainsFunc(g.Cases,
		func(c result.GalleryCase) bool { return c.Model != "robust" }) {
		t.Errorf("%d cases: %+v", len(g.Cases), g.Cases)
	}
	run("robust, none, undefended", "seed=4")
	if again := readGallery(t, out); !reflect.DeepEqual(again, g) {
		t.Error("another run, which was stopped, has changed the gallery")
	}
}

// Grey images of any shape are shown. If images can't be shown, the gallery says so and the run goes on.
func TestGalleryOfOtherImages(t *testing.T) {
	testinput.Runtime(t)
	for _, c := range []struct {
		shape attacks.Shape
		shown bool
	}{{attacks.Shape{C: 1, H: 3, W: 5}, true}, {attacks.Shape{C: 2, H: 4, W: 4}, false}} {
		p := testplan.Plan(t, brightness(t, c.shape)+`
attacks: {pgd: {kind: pgd, norm: linf, epsilon: 0.25, steps: 4}}
suites: {small: {dataset: test, models: [brightness], controls: [], attacks: [pgd]}}
`, 1, 8)
		f, _, out := runFor(t, p)
		g := readGallery(t, out)
		if c.shown && (len(g.Cases) != 1 || len(g.Notes) != 0 || g.Cases[0].Pictures.Width != c.shape.W ||
			g.Cases[0].Pictures.Height != c.shape.H) {
			t.Errorf("%v: cases %+v, notes %v", c.shape, g.Cases, g.Notes)
		}
		if !c.shown && (len(g.Cases) != 0 || len(g.Notes) != 1 || g.Notes[0].Suite != "small" ||
			!strings.Contains(g.Notes[0].Message, "2 channels")) {
			t.Errorf("%v: cases %+v, notes %v", c.shape, g.Cases, g.Notes)
		}
		if len(f.Cells) != 2 || f.Cells[0].Correct != 6 || f.Cells[1].Correct != 0 {
			t.Errorf("%v: %+v", c.shape, f.Cells)
		}
	}
}
