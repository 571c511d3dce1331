package config

import (
	"io/fs"
	"path/filepath"
	"slices"
	"testing"

	"selfheal/attacks"
	"selfheal/internal/must"
	"selfheal/internal/testinput"
)

func TestRealConfig(t *testing.T) {
	dir := filepath.Dir(testinput.Real(t, "config.yaml"))
	c := must.Get(Load(filepath.Join(dir, "config.yaml")))(t)
	if want := []string{"real", "standard"}; !slices.Equal(c.DefaultSuites, want) {
		t.Errorf("default suites %v, want %v", c.DefaultSuites, want)
	}
	if a := c.Attack("aa-linf"); a == nil || !slices.Equal(a.Epsilons, []float64{2.0 / 255}) ||
		a.Version != "standard" || a.Norm != attacks.Linf {
		t.Errorf("aa-linf is %+v", a)
	}
	if s := c.Control("pca").Solver; s != (DefaultSolver()) {
		t.Errorf("pca's solver is %+v", s)
	}
	part := must.Get(c.Selected([]string{"real"}))(t)
	if len(part.Models) != 1 || len(part.Attacks) != 3 || len(part.Datasets) != 2 {
		t.Errorf("suite real uses %v, %v and %v", part.Models, part.Attacks, part.Datasets)
	}
	for _, m := range c.Models {
		if _, err := fs.Stat(c.Files, m.Path); err != nil {
			t.Error(err)
		}
	}
}
