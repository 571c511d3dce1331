package suggest

import "testing"

func TestWord(t *testing.T) {
	known := []string{"epsilon", "norm", "steps", "step_size", "datasets", "linf", "l2", "cifar10-bin", "cifar10-c"}
	for word, want := range map[string]string{
		"epsilom": "epsilon", "eps": "epsilon", "nrom": "norm", "Steps": "steps", "stepsize": "step_size",
		"dataset": "datasets", "linff": "linf", "l3": "l2", "cifar10": "cifar10-bin", "colour": "", "": "",
	} {
		if want != "" {
			want = `; did you mean "` + want + `"?`
		}
		if got := Word(word, known); got != want {
			t.Errorf("%s: %q, want %q", word, got, want)
		}
	}
	for _, c := range []struct{ got, want string }{
		{Or("nrom", "keys", known), `; did you mean "norm"?`}, {Or("xyz", "keys", known[:2]), "; keys: epsilon, norm"},
		{Or("xyz", "keys", nil), "; none is defined"},
	} {
		if c.got != c.want {
			t.Errorf("%q, want %q", c.got, c.want)
		}
	}
}
