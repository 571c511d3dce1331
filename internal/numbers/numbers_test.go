package numbers

import (
	"slices"
	"strings"
	"testing"

	"selfheal/internal/must"
)

// Rows are read from CSV and JSON lines; a line that is no row is named.
func TestParse(t *testing.T) {
	for text, named := range map[string]bool{
		"1,2\n3,4\n": false, "[1, 2]\r\n[3, 4]\r\n": false, "angle,speed\n1, 2\n3,4": false,
		"\n\"a, b\",\"c\"\n\n\"1\",2\n \n3,4": false, "file,a,b\nx.png,1,2\ny.png,3,4": true,
		"1.png,1,2\n2.png,3,4": true,
	} {
		width, values := must.Get2(Parse(text, named))(t)
		if width != 2 || !slices.Equal(values, []float32{1, 2, 3, 4}) {
			t.Errorf("%q: %d, %v", text, width, values)
		}
	}
	if width, values := must.Get2(Parse("1\n2\n", false))(t); width != 1 || len(values) != 2 {
		t.Error(width, values)
	}
	for text, want := range map[string]string{
		"1,2\n3": "line 2 has 1 numbers, those before it 2", "1\nx\n": `line 2: "x" is no number`,
		"": "no numbers", "a,b\n\n": "no numbers", "1,2\n\"3,4": "line 2: \"\\\"3,4\" is no row",
		"nan": "line 1", "1\ninf": "line 2", "1\n1e99": "line 2", "1,\n": "line 1", "[[1]]": "no numbers",
		"a\nb": "line 2",
	} {
		if _, _, err := Parse(text, false); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
	if _, _, err := Parse("x.png\n", true); err == nil || !strings.Contains(err.Error(), "line 1 has no numbers") {
		t.Error(err)
	}
}

// Pairs are read from LFW's form and from CSV; a line that is none is refused by its number.
func TestPairs(t *testing.T) {
	want := []Pair{{"A_B/A_B_0001", "A_B/A_B_0012", 1}, {"A_B/A_B_0003", "C/C_0004", 0}}
	if got := must.Get(Pairs("10\t300\nA_B\t1\t12\r\n \r\nA_B\t3\tC\t4\n", false))(t); !slices.Equal(got, want) {
		t.Error(got)
	}
	want = []Pair{{"a.png", "b/c.png", 1}, {"d.png", "a.png", 0}}
	text := "first,second,same\n\na.png,b/c.png,1\n\"d.png\",a.png,0\n"
	if got := must.Get(Pairs(text, true))(t); !slices.Equal(got, want) {
		t.Error(got)
	}
	for text, commas := range map[string]bool{"a.png,b.png\n": true, "A 1\nA 1 2": false} {
		_, err := Pairs(text, commas)
		must.Refuse(t, err, "line 1 is no pair")
	}
	for text, commas := range map[string]bool{"A 1 2\nA 1\n": false, "A 1 2\nA x 2": false, "a,b,1\na,b,2": true,
		"a,b,1\na,b": true, "a,b,1\n,b,1": true} {
		_, err := Pairs(text, commas)
		must.Refuse(t, err, "line 2 is no pair")
	}
}
