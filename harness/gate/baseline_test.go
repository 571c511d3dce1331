package gate

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"selfheal/harness/cell"
	"selfheal/harness/config"
	"selfheal/harness/result"
	"selfheal/internal/atomicfile"
	"selfheal/internal/must"
)

func written(t *testing.T, b *Baseline) (path, text string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "baseline.json")
	must.Do(t, b.Write(path, atomicfile.Rule{}, false))
	data := must.Get(os.ReadFile(path))(t)
	return path, string(data)
}

// Reading a baseline returns what was written. The file has each of a cell's keys on a line, sorted cells and short
// lines of verdicts.
func TestBaselineFile(t *testing.T) {
	f := file(3, same(130, 230)...)
	f.Datasets["unused"] = result.Dataset{N: 1, SHA256: strings.Repeat("e", 64)}
	rules := config.DefaultGate()
	rules.Min["*"] = 0.5
	b := must.Get(NewBaseline(f, rules))(t)
	path, text := written(t, b)
	again, err := Read(path)
	if err != nil || !again.Same(b) || !again.Created.Equal(b.Created) {
		t.Errorf("read %+v, %v", again, err)
	}
	if !slices.IsSortedFunc(b.Cells, func(x, y Cell) int { return cell.Compare(x.ID, y.ID) }) || len(b.Datasets) != 1 {
		t.Errorf("%+v", b)
	}
	for _, line := range strings.Split(text, "\n") {
		if len(line) > 110 {
			t.Errorf("a line of %d characters: %s", len(line), line)
		}
	}
	if !strings.HasSuffix(text, "}\n") || !strings.Contains(text, "\n   \"verdicts\": [\n    \"1111") {
		t.Errorf("the file is laid out otherwise:\n%s", text[:800])
	}
}

// One image more or less changes two lines: its verdicts' and the count.
func TestBaselineDiff(t *testing.T) {
	before, after := same(130, 230), same(130, 230)
	after[1] = after[1][:150] + "1" + after[1][151:]
	_, a := written(t, mustBaseline(t, file(0, before...)))
	_, b := written(t, mustBaseline(t, file(0, after...)))
	x, y := strings.Split(a, "\n"), strings.Split(b, "\n")
	differ := 0
	for i := range x {
		if x[i] != y[i] {
			differ++
		}
	}
	if len(x) != len(y) || differ != 2 {
		t.Errorf("%d lines differ of %d and %d", differ, len(x), len(y))
	}
}

// The order of a run's cells makes no other baseline; another verdict and a missing cell do.
func TestSame(t *testing.T) {
	old, f := mustBaseline(t, file(0, same(20, 40)...)), file(0, same(20, 40)...)
	slices.Reverse(f.Cells)
	if !mustBaseline(t, f).Same(old) {
		t.Error("the order of the cells makes another baseline")
	}
	f.Cells[0].Verdicts = "0" + f.Cells[0].Verdicts[1:]
	f.Cells[0].Correct--
	b := mustBaseline(t, f)
	b.Cells = b.Cells[1:]
	if added, removed, changed := b.Changes(old); b.Same(old) || added != 0 || removed != 1 || changed != 1 {
		t.Errorf("%d added, %d removed, %d changed", added, removed, changed)
	}
}

// A run that is not whole makes no baseline.
func TestPartialRun(t *testing.T) {
	for _, c := range []struct {
		change func(f *result.File)
		want   string
	}{
		{func(f *result.File) { f.Cells = f.Cells[:5] }, "it lacks main/net/heal/pgd;"},
		{func(f *result.File) { f.Cells = f.Cells[:4] }, "it lacks main/net/none/pgd and 1 more;"},
		{func(f *result.File) { f.Cells = f.Cells[1:] }, "it lacks main/net/none/none;"},
		{func(f *result.File) { e := 0.5; f.Cells[5].Epsilon = cell.Epsilon(e) }, "it lacks main/net/heal/pgd;"},
		{func(f *result.File) { f.Suites[0].Models = []string{"net", "other"} },
			"it lacks main/other/none/none and 5 more;"},
		{func(f *result.File) { f.Models["net"] = result.Model{SHA256: "?"} }, `model "net": sha256 "?" is none`},
	} {
		f := file(0, same(20, 40)...)
		c.change(f)
		_, err := NewBaseline(f, config.DefaultGate())
		must.Refuse(t, err, c.want)
	}
	rules := config.DefaultGate()
	rules.Min["nothing"] = 0.5
	_, err := NewBaseline(file(0, same(20, 40)...), rules)
	must.Refuse(t, err, "nothing names no cell")
}

// A file that --update did not write is refused in a line that says what is wrong.
func TestHostileBaselines(t *testing.T) {
	_, good := written(t, mustBaseline(t, file(0, same(20, 40)...)))
	if _, err := parse([]byte(good)); err != nil {
		t.Fatal(err)
	}
	verdict := `"` + verdictsOf(20, 40) + `"`
	for _, c := range []struct{ old, new, want string }{
		{good, "", "unexpected end of JSON input"}, {good, "[]", "cannot unmarshal array"},
		{good, "{}", `it has schema "", this version reads "selfheal.baseline/2"`},
		{good, good + "{}", "line "}, {good, strings.Repeat("[", 100000), "line 1: "},
		{"baseline/2", "baseline/3", `it has schema "selfheal.baseline/3"`},
		{`"seed": 0`, `"seed": -1`, "line 5: "}, {`"seed": 0`, `"seed": 0, "seeed": 1`, `unknown key "seeed"`},
		{`"seed": 0`, `"seed": 0, "SEED": 7`, `unknown key "SEED"`},
		{`"seed": 0,`, ``, `the key "seed" is missing`},
		{`"seed": 0`, `"seed": null`, "null is no value in seed"},
		{`"max_drop": 0.02,`, ``, `the key "max_drop" is missing in gate`},
		{`"max_drop": 0.02`, `"Max_Drop": 0.02`, `unknown key "Max_Drop" in gate`},
		{`"max_drop": 0.02`, `"max_drop": null`, "null is no value in max_drop"},
		{`"alpha": 0.05`, `"alpha": 1e-17`, "gate.alpha must be a number from 0.001 up and below 0.5"},
		{`"new_model": false`, `"new_model": false, "why": ""`, `unknown key "why" in gate`},
		{`"defense": "heal",`, ``, `the key "defense" is missing in cells`},
		{`"epsilon": null,`, ``, `the key "epsilon" is missing in cells`},
		{`"defense": "heal"`, `"Defense": "heal"`, `unknown key "Defense" in cells`},
		{`"sha256": "` + strings.Repeat("b", 64), `"SHA256": "` + strings.Repeat("b", 64),
			`unknown key "SHA256" in net`},
		{`"seed": 0`, `"seed": 0, "seed": 1`, `the key "seed" is there twice`},
		{`"n": 40`, `"n": 40, "n": 40`, `the key "n" is there twice in shapes`},
		{`"n": 40`, `"n": 41`, `n is 40, its dataset "shapes" has 41 images`},
		{`"max_drop": 0.02`, `"max_drop": NaN`, "line 7: invalid character 'N'"},
		{`"max_drop": 0.02`, `"max_drop": 1e999`, "line 7: "},
		{`"max_drop": 0.02`, `"max_drop": -0.02`, "gate.max_drop must be"},
		{`"correct": 20`, `"correct": 21`, "20 verdicts are 1, but correct is 21"},
		{`"correct": 20`, `"correct": 20.5`, "line "},
		{verdict, `"` + verdictsOf(20, 39) + `"`, "39 verdicts of 40 images"},
		{verdict, `"` + verdictsOf(20, 39) + `2"`, `its verdicts hold "2"`},
		{verdict, `"", ` + verdict + `, "1"`, "41 verdicts of 40 images"},
		{verdict, `7`, "verdicts must be a list of lines of 0 and 1"},
		{`"attack": "aa"`, `"attack": "none"`, "clean images have none of them"},
		{`"attack": "aa"`, `"attack": "pgd"`, "is there twice"},
		{`"model": "net"`, `"model": "x\u001b[31m"`,
			"cell main/x\ufffd[31m/heal/aa@8/255: its model is not among the models"},
		{strings.Repeat("b", 64), "abc", `model "net": sha256 "abc" is none`},
		{strings.Repeat("a", 64), strings.Repeat("A", 64), `dataset "shapes": n 40 or sha256`},
	} {
		text := strings.Replace(good, c.old, c.new, 1)
		if text == good {
			t.Fatalf("%q is not in the file", c.old)
		}
		_, err := parse([]byte(text))
		must.Refuse(t, err, c.want)
	}
	_, err := Read(filepath.Join(t.TempDir(), "absent.json"))
	must.Refuse(t, err, "selfheal check --update --baseline")
	if _, err := Read(t.TempDir()); err == nil {
		t.Error("a folder is read")
	}
}

// An accepted baseline is the same when it is written and read again, and can be compared with.
func FuzzParse(f *testing.F) {
	now := file(3, same(20, 40)...)
	f.Add(must.Get(json.Marshal(mustBaseline(f, now)))(f))
	f.Add([]byte(`{"schema": "selfheal.baseline/1", "gate": {"max_drop": 0.5}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var b *Baseline
		err := must.Survive(t, func() (err error) {
			b, err = parse(data)
			return err
		})
		if errors.Is(err, ErrOlder) {
			_ = must.Survive(t, func() error { return b.Gate.Set() })
		}
		if err != nil {
			return
		}
		again := must.Get(parse(must.Get(json.Marshal(b))(t)))(t)
		if !again.Same(b) {
			t.Fatalf("written and read again it says something else")
		}
		_ = must.Survive(t, func() error {
			_, err := Compare(t.Context(), b, now, b.Gate)
			return err
		})
	})
}
