package config

import (
	"reflect"
	"slices"
	"testing"

	"selfheal/internal/must"
)

func TestSelected(t *testing.T) {
	c := mustParse(t, full)
	names := func(c *Config) [][]string {
		return [][]string{c.DefaultSuites, namesOf(c.Suites, suiteName), namesOf(c.Datasets, datasetName),
			namesOf(c.Models, modelName), namesOf(c.Controls, controlName), namesOf(c.Attacks, attackName)}
	}
	for _, test := range []struct {
		suites []string
		want   [][]string
	}{
		{nil, [][]string{{"b"}, {"b"}, {"train"}, {"net"}, {}, {}}},
		{[]string{"a"}, [][]string{{"a"}, {"a"}, {"test", "train"}, {"net"}, {"pca", "fast"}, {"aa", "pgd"}}},
		{[]string{"b", "a", "b"}, [][]string{{"b", "a"}, {"b", "a"}, {"test", "train"}, {"net"}, {"pca", "fast"},
			{"aa", "pgd"}}},
	} {
		part := must.Get(c.Selected(test.suites))(t)
		if got := names(part); !reflect.DeepEqual(got, test.want) {
			t.Errorf("%v:\n got %v\nwant %v", test.suites, got, test.want)
		}
	}
	if got, want := c.fitDatasets(), []string{"train", "test"}; !slices.Equal(got, want) {
		t.Errorf("fitted on %v, want %v", got, want)
	}
	if len(c.Suites) != 2 || len(c.Datasets) != 2 || len(c.Attacks) != 4 {
		t.Error("Selected changed the config it was asked of")
	}

	c = mustParse(t, small)
	for name, want := range map[string]string{
		"mian": `there is no suite "mian"; did you mean "main"?`,
		"x":    `there is no suite "x"; suites: main`,
	} {
		if _, err := c.Selected([]string{name}); err == nil || err.Error() != want {
			t.Errorf("suite %s: %v, want %s", name, err, want)
		}
	}
}
