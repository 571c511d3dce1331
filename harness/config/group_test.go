package config

import (
	"slices"
	"strings"
	"testing"
)

// A group stands for its suites, in their order and each once, wherever it is defined.
func TestGroups(t *testing.T) {
	c := mustParse(t, "groups: {all: {suites: [b, a], theory: true}, one: {suites: [a]}}\n"+full)
	for _, test := range []struct {
		names  []string
		want   string
		theory bool
	}{
		{[]string{"all"}, "b a", true}, {[]string{"one"}, "a", false}, {[]string{"a", "all", "one"}, "a b", true},
		{[]string{"b"}, "b", false},
	} {
		part, err := c.Selected(test.names)
		if err != nil {
			t.Fatal(err)
		}
		got := strings.Join(part.DefaultSuites, " ")
		if got != test.want || part.Theory != test.theory || !slices.Equal(namesOf(part.Suites, suiteName),
			part.DefaultSuites) {
			t.Errorf("%v: suites %s, theory %v", test.names, got, part.Theory)
		}
	}
	if _, err := c.Selected([]string{"alll"}); err == nil ||
		err.Error() != `there is no suite "alll"; did you mean "all"?` {
		t.Error(err)
	}
	for text, want := range map[string]string{
		"groups: {b: {suites: [a]}}\n":                 "groups.b: a suite has that name already",
		"groups: {g: {suites: [c]}}\n":                 `groups.g.suites[0] names "c", which is not in suites`,
		"groups: {g: {suites: []}}\n":                  "groups.g.suites",
		"groups: {g: {suites: [a], theory: yes}}\n":    "groups.g.theory must be true or false",
		"groups: {g: {suites: [a], theories: true}}\n": `unknown key "theories"`,
	} {
		if _, err := parse(text + full); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}
