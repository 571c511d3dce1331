package reports

import (
	"slices"
	"testing"

	"selfheal/harness/result"
)

// whole is what a chart shows: defense, then the accuracy in % on clean images and after each component.
func whole(w waterfall) (out []string) {
	for _, l := range w.Lines {
		line := defenseName(l.Defense)
		for i := range l.Left {
			line += " " + l.value(i)
		}
		out = append(out, line)
	}
	return out
}

func TestWaterfalls(t *testing.T) {
	suites := map[string]*suite{}
	f := fixture()
	for i, c := range f.Cells { // the third component of one attack left no image to the last
		if c.Suite == "detached" && c.Attack == "aa-l2" && c.Defense == "none" {
			f.Cells[i].Steps = c.Steps[:3]
			f.Cells[i].Steps[2].Robust = 0
		}
	}
	for _, s := range derive(f).Suites {
		suites[s.Name] = s
	}
	oblivious := suites["real"].Waterfalls()
	if len(oblivious) != 3 || oblivious[0].Attack.Title() != "AA ℓ∞ (8/255)" ||
		!slices.Equal(oblivious[0].Components, []string{"APGD-CE", "APGD-T", "FAB-T", "Square"}) {
		t.Fatalf("%d charts, of %v with %v", len(oblivious), oblivious[0].Attack.Title(), oblivious[0].Components)
	}
	for i, want := range [][]string{{"baseline 82.0 32.5 27.0 25.5 25.5"}, {"baseline 82.0 36.0 31.0 29.5 29.5"},
		{"baseline 82.0 13.5 6.0 4.5 4.0"}} {
		if got := whole(oblivious[i]); !slices.Equal(got, want) {
			t.Errorf("oblivious, chart %d: %q, want %q", i, got, want)
		}
	}
	known := suites["detached"].Waterfalls()
	if want := []string{"baseline 82.0 32.5 27.0 25.5 25.5", "pca 80.5 40.5 36.0 35.0 35.0"}; len(known) != 2 ||
		!slices.Equal(whole(known[0]), want) {
		t.Errorf("white box: %q, want %q", whole(known[0]), want)
	}
	if want := []string{"baseline 82.0 36.0 31.0 0.0 –", "pca 80.5 48.5 45.0 44.0 44.0"}; !slices.Equal(whole(known[1]),
		want) {
		t.Errorf("white box, broken by FAB-T: %q, want %q", whole(known[1]), want)
	}
	// A single component is no waterfall, and of more charts than a page holds there is a table only.
	for i := range f.Cells {
		f.Cells[i].Steps = f.Cells[i].Steps[:min(1, len(f.Cells[i].Steps))]
	}
	for _, s := range derive(f).Suites {
		if s.Waterfalls() != nil {
			t.Errorf("%s: a waterfall of one component", s.Name)
		}
	}
	if s := derive(crowded(1)).Suites[0]; s.Waterfalls() != nil {
		t.Error("15 charts are drawn")
	}
}

// Components that run twice are told apart, and names without a usual form are taken as they are.
func TestComponentNames(t *testing.T) {
	got := componentNames([]result.Step{{Attack: "apgd-ce"}, {Attack: "my\nown"}, {Attack: "apgd-ce"}})
	if want := []string{"APGD-CE", "my own", "APGD-CE 2"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
