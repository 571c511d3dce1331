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
	one, same, more := mustParse(t, small, "seed=5"), mustParse(t, small, "seed=5", "seeds=1"), mustParse(t, small, "seed=5", "seeds=2")
	if one.Hash() != same.Hash() || one.Hash() == more.Hash() {
		t.Error("the hash tells something else than whether there are further seeds")
	}
}

func TestSeedsErrors(t *testing.T) {
	testErrors(t, []errorCase{
		{"seed: 0", "seeds: 0", `config.yaml:2:8: seeds must be how many seeds there are, from 1 to 1000, or a list of them, not "0"`},
		{"seed: 0", "seeds: 1.5", `config.yaml:2:8: seeds must be how many seeds there are, from 1 to 1000, or a list of them, not "1.5"`},
		{"seed: 0", "seeds: [1, 1]", `config.yaml:2:12: seeds[1]: seed 1 is listed twice`},
		{"seed: 0", "seeds: [1, -1]", `config.yaml:2:12: seeds[1] must be a whole number from 0 up, not "-1"`},
		{"seed: 0", "seeds: [1, 2]\nseed: 0", `config.yaml:2:8: seeds: a list of seeds stands for seed too; give one of the two, or how many seeds there are`},
	})
}
