package run

import (
	"bytes"
	"fmt"
	"image"
	"image/png"
	"math"
	"slices"
	"strings"
	"testing"

	"selfheal/attacks"
	"selfheal/harness/cell"
	"selfheal/harness/config"
	"selfheal/harness/open"
	"selfheal/harness/plan"
	"selfheal/harness/result"
	"selfheal/internal/must"
	"selfheal/internal/testplan"
)

// Suites and models share a gallery evenly, and their slots follow one another.
func TestGalleryQuotas(t *testing.T) {
	for _, c := range []struct {
		suites, models, most int
		first                []int // the shares of the first suite's models
	}{
		{1, 1, 12, []int{12}}, {1, 5, 12, []int{3, 3, 2, 2, 2}}, {1, 16, 12, []int{1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
			0, 0, 0, 0}},
		{4, 1, 48, []int{12}}, {5, 2, 48, []int{5, 5}}, {7, 3, 48, []int{3, 2, 2}}, {60, 2, 48, []int{1, 0}},
	} {
		cfg := &config.Config{}
		for s := range c.suites {
			suite := config.Suite{Name: fmt.Sprint("s", s), Mode: result.Oblivious, Controls: []string{"c"}}
			for m := range c.models {
				suite.Models = append(suite.Models, fmt.Sprint("m", m))
			}
			cfg.Suites = append(cfg.Suites, suite)
		}
		g, total := newGallery(cfg, &result.File{}), 0
		for s := range cfg.Suites {
			sum := 0
			for m, name := range cfg.Suites[s].Models {
				own, before := g.quota(&plan.Job{Suite: &cfg.Suites[s], Model: &config.Model{Name: name}})
				if before != sum || s == 0 && own != c.first[m] {
					t.Errorf("%d suites of %d models: model %d of suite %d has %d after %d, want after %d", c.suites,
						c.models, m, s, own, before, sum)
				}
				sum += own
			}
			total += sum
		}
		if total != c.most {
			t.Errorf("%d suites of %d models: %d cases", c.suites, c.models, total)
		}
	}
	j := &plan.Job{Suite: &config.Suite{Mode: result.Oblivious, Controls: []string{"c", "d"}}, Model: &config.Model{},
		Trials: trialsOf(t, "a", 1, 2)}
	var order []string
	for _, s := range slotsOf(j, 11) { // of 8 slots: from the fourth on
		order = append(order, fmt.Sprint(s.Epsilon, s.defense, s.kind[:1]))
	}
	if want := []string{"1dn", "2ch", "2cn", "2dh", "2dn", "1ch", "1cn", "1dh"}; !slices.Equal(order, want) {
		t.Errorf("slots %v, want %v", order, want)
	}
	both := &plan.Job{Suite: &config.Suite{Modes: []string{result.Oblivious, result.WhiteboxThrough},
		Controls: []string{"c"}}, Model: &config.Model{}, Trials: j.Trials}
	if kinds := kindsOf(both); !slices.Equal(kinds, []string{result.Healed, result.NotHealed, result.Broken}) {
		t.Errorf("a suite of two modes shows %v", kinds)
	}
	if slotsOf(&plan.Job{Suite: j.Suite}, 3) != nil {
		t.Error("slots without attacks")
	}
}

// The searches of a run's cases begin at different images: if every image qualifies, each case shows another.
func TestGalleryMovesOn(t *testing.T) {
	cfg := &config.Config{}
	for _, name := range []string{"s", "t"} {
		cfg.Suites = append(cfg.Suites, config.Suite{Name: name, Mode: result.Oblivious, Models: []string{"m", "n"},
			Controls: []string{"c", "d"}})
	}
	g, seen, cases := newGallery(cfg, &result.File{}), map[int]bool{}, 0
	const n = 100
	trials := append(trialsOf(t, "a", 1), trialsOf(t, "b", 1)...)
	for i := range cfg.Suites {
		for _, name := range cfg.Suites[i].Models {
			j := &plan.Job{Suite: &cfg.Suites[i], Model: &config.Model{Name: name}, Trials: trials}
			g.begin(j)
			own, before := g.quota(j)
			for _, k := range slotsOf(j, before)[:own] {
				seen[int(g.from[k]*n)] = true
				cases++
			}
		}
	}
	if cases != 24 || len(seen) != cases {
		t.Errorf("%d cases begin at %d images", cases, len(seen))
	}
}

// A gallery ends before its pictures are too large, and says so once for each suite.
func TestGalleryEnds(t *testing.T) {
	g := newGallery(&config.Config{}, &result.File{})
	c := result.GalleryCase{ID: cell.ID{Suite: "s"}, Pictures: result.GalleryPictures{Clean: make([]byte,
		result.GalleryBytes/3),
		Healed: make([]byte, 100)}}
	small := result.GalleryCase{ID: cell.ID{Suite: "t"}}
	for _, one := range []result.GalleryCase{c, c, c, small, c} {
		g.add(one)
	}
	if len(g.file.Cases) != 2 || len(g.file.Notes) != 2 || !strings.Contains(g.file.Notes[0].Message, "1.5 MiB") ||
		g.file.Notes[1].Suite != "t" {
		t.Errorf("%d cases, notes %v", len(g.file.Cases), g.file.Notes)
	}
}

// A perturbation's factor is the largest readable one that keeps it within the picture.
func TestReadableMagnification(t *testing.T) {
	for _, c := range []struct{ largest, want float64 }{{8. / 255, 15}, {float64(float32(8. / 255)), 15}, {0.5, 1}, {1,
		0.5}, {0.25, 2}, {0.05, 10}, {0.0501, 9}, {0.3, 1.5}, {1. / 255, 100}, {0.002, 200}, {1e-7, 5e6},
		{float64(float32(0.05)), 10}, {float64(float32(1. / 3)), 1.5}} {
		if got := readable(0.5 / c.largest); math.Abs(got-c.want) > 1e-9*c.want {
			t.Errorf("a perturbation of %g is magnified %v times, want %v", c.largest, got, c.want)
		}
	}
	c := &candidate{who: open.Classifier{Info: open.Info{Shape: attacks.Shape{C: 1, H: 1, W: 3}}},
		image: attacks.Image{Pixels: []float32{0.5, 0.5, 0.5}}, adversarial: []float32{0.55, 0.45, 0.5}}
	must.Do(t, c.draw(nil))
	img := must.Get(png.Decode(bytes.NewReader(c.Pictures.Perturbation)))(t).(*image.Gray)
	if c.Pictures.Magnification != 10 || !slices.Equal(img.Pix[:3], []uint8{255, 0, 128}) || c.Pictures.Healed != nil {
		t.Errorf("magnified %v times: %v", c.Pictures.Magnification, img.Pix)
	}
}

// Each attacked classifier's images have a file of their own in a suite of several modes.
func TestSavedImagesOfSeveralModes(t *testing.T) {
	p := testplan.Plan(t, testplan.Resumed, 1, 8,
		"suites.through.modes=[oblivious, whitebox-detached, whitebox-through]")
	names := map[string]cell.ID{}
	p.Each(func(s plan.Step) {
		id, name := madeOn(s), adversarialName(s)
		if other, taken := names[name]; s.First && s.Crafted() && taken && other != id {
			t.Errorf("%s has the images of %s and %s", name, other, id)
		} else if s.First && s.Crafted() {
			names[name] = id
		}
	})
	if len(names) != 9 {
		t.Errorf("%d files", len(names))
	}
}
