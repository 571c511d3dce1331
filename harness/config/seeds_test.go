package config

import (
	"slices"
	"testing"
)

func TestSeeds(t *testing.T) {
	for _, c := range []struct {
		sets  []string
		seed  uint64
		other []uint64
	}{
		{[]string{"seed=5"}, 5, nil},
		{[]string{"seed=5", "seeds=1"}, 5, nil},
		{[]string{"seed=5", "seeds=3"}, 5, []uint64{6, 7}},
		{[]string{"seed=null", "seeds=[4, 0]"}, 4, []uint64{0}},
	} {
		cfg := mustParse(t, small, c.sets...)
		if cfg.Seed != c.seed || !slices.Equal(cfg.OtherSeeds, c.other) {
			t.Errorf("%v: seed %d, others %v", c.sets, cfg.Seed, cfg.OtherSeeds)
		}
	}
	one, same, more := mustParse(t, small, "seed=5"), mustParse(t, small, "seed=5", "seeds=1"), mustParse(t, small,
		"seed=5", "seeds=2")
	if one.Hash() != same.Hash() || one.Hash() == more.Hash() {
		t.Error("the hash tells something else than whether there are further seeds")
	}
}
