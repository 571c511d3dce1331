package cell

import (
	"encoding/json"
	"slices"
	"testing"

	"selfheal/internal/must"
)

// A record begins with the identity's JSON; null and a missing epsilon are none.
func TestJSON(t *testing.T) {
	attacked := Of("s", "m", "none", "pgd", 0.03)
	attacked.Source, attacked.Mode = "other", "transfer"
	clean := Of("s", "m", "c", None, 0).In("d", "oblivious")
	const named = `"model":"m","defense":`
	for text, id := range map[string]ID{
		`{"suite":"s",` + named + `"none","mode":"transfer","source":"other","attack":"pgd","epsilon":0.03}`: attacked,
		`{"suite":"s","dataset":"d",` + named + `"c","mode":"oblivious","attack":"none","epsilon":null}`:     clean,
	} {
		if got := string(must.Get(json.Marshal(id))(t)); got != text {
			t.Errorf("%s, not %s", got, text)
		}
		var read ID
		if must.Do(t, json.Unmarshal([]byte(text), &read)); read != id {
			t.Errorf("%s is read as %+v", text, read)
		}
	}
	column := Column{Epsilon: 3}
	if must.Do(t, json.Unmarshal([]byte(`{"epsilon": null}`), &column)); column.Epsilon != 0 {
		t.Errorf("null is read as %v", column.Epsilon)
	}
	for _, wrong := range []string{`{"epsilon": "8/255"}`, `{"epsilon": []}`, `{"epsilon": 1e999}`} {
		if json.Unmarshal([]byte(wrong), &column) == nil {
			t.Errorf("%s is read as %v", wrong, column.Epsilon)
		}
	}
}

// The data set follows from the suite: it does not tell cells of a run apart. The mode does.
func TestKey(t *testing.T) {
	id := Of("s", "m", "none", "pgd", 2./255)
	if got := id.In("d", "oblivious").Key(); got != id.In("", "oblivious") || got == id {
		t.Errorf("%+v", got)
	}
	carried := id
	carried.Source = "other"
	for got, want := range map[string]string{id.Name(): "m/none/pgd@2/255",
		carried.Name(): "m/none/pgd@2/255 from other", Of("s", "m", "c", None, 0).Name(): "m/c/none",
		Of("s", "m", "c", "aa", 0).In("", "whitebox-through").Name(): "m/c:whitebox-through/aa"} {
		if got != want {
			t.Errorf("%s, not %s", got, want)
		}
	}
}

func TestOrder(t *testing.T) {
	carried := Of("a", "m", "c", "pgd", 0.1)
	carried.Source = "other"
	sorted := []ID{Of("a", "m", "c", "fgsm", 0.2), Of("a", "m", "c", "pgd", 0), Of("a", "m", "c", "pgd", 0.1), carried,
		Of("a", "m", "d", "aa", 0), Of("a", "n", "c", "aa", 0), Of("b", "a", "a", "a", 0)}
	mixed := slices.Clone(sorted)
	slices.Reverse(mixed)
	if slices.SortFunc(mixed, Compare); !slices.Equal(mixed, sorted) {
		t.Errorf("%v", mixed)
	}
	rows := []Row{{"z", "a", "x"}, {"d", "m", "a"}, {"e", "m", "a"}, {"a", "m", "b"}}
	if !slices.IsSortedFunc(rows, CompareRows) || CompareRows(rows[0], rows[0]) != 0 {
		t.Errorf("%v", rows)
	}
}
