package cli

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"selfheal/attacks"
	"selfheal/control/train"
	"selfheal/harness"
	"selfheal/harness/config"
	"selfheal/harness/dataset"
	"selfheal/harness/result/published"
)

// readConfig reads a config as far as the program does before it opens a file.
func readConfig(text string) error {
	cfg, err := config.Parse("config.yaml", []byte(text), os.DirFS("."))
	if err != nil {
		return err
	}
	for _, a := range cfg.Attacks {
		norm, err := attacks.ParseNorm(a.Norm)
		if err != nil {
			return err
		}
		if _, err := (harness.PlannedAttack{Attack: &a, Epsilon: a.Epsilons[0], Norm: norm}).Recipe(1000, attacks.Shape{C: 3, H: 32, W: 32}); err != nil {
			return err
		}
	}
	return nil
}

// Every config of this repository is valid: those that run, and each that a test of the
// config's package reads without an error.
func TestConfigSchemaAccepts(t *testing.T) {
	s := schema(t, "config")
	texts := map[string]string{}
	for _, pattern := range []string{"config.yaml", "models/zoo/*.yaml", "internal/cli/testdata/schema/config.yaml", "docs/ci/*.yaml"} {
		maps.Copy(texts, readTestFiles(t, os.DirFS("."), pattern))
	}
	if real, err := os.ReadFile("../shared/real/config.yaml"); err == nil {
		texts["real"] = string(real)
	}
	literals := 0
	for name, file := range readTestFiles(t, os.DirFS("harness/config"), "*_test.go") {
		for i, text := range goStrings(t, file) {
			if readConfig(text) == nil {
				texts[fmt.Sprintf("%s, text %d", name, i)] = text
				literals++
			}
		}
	}
	if literals < 2 {
		t.Errorf("only %d configs were found in the tests of package config", literals)
	}
	for name, text := range texts {
		if err := readConfig(text); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		v, err := fromYAML([]byte(text))
		if err == nil {
			err = s.Validate(v)
		}
		if err != nil {
			t.Errorf("%s: the program reads it, but\n%v", name, err)
		}
	}
}

// goStrings are the string constants of Go code, concatenations put together.
func goStrings(t *testing.T, code string) (list []string) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "", code, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		if e, ok := n.(ast.Expr); ok {
			if text, ok := constant(e); ok {
				list = append(list, text)
				return false
			}
		}
		return true
	})
	return list
}

// constant is the value of a string expression.
func constant(e ast.Expr) (string, bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		text, err := strconv.Unquote(e.Value)
		return text, err == nil && e.Kind == token.STRING
	case *ast.BinaryExpr:
		a, ok1 := constant(e.X)
		b, ok2 := constant(e.Y)
		return a + b, e.Op == token.ADD && ok1 && ok2
	}
	return "", false
}

// onlyTheProgram are the errors that a schema can't find: of names, numbers and keys that
// must go together, and of one value that is written in a way that the program does not take.
var onlyTheProgram = regexp.MustCompile(`which is not in|is a parameter of none of the components|there is an embedding at|mean has \d values and std has|` +
	`duplicate key|stands for seed too|not "0x40"$`)

// yamlOnly are the errors of what YAML has beside JSON.
var yamlOnly = regexp.MustCompile(`anchors, aliases|tags \(|complex keys`)

// What the tests of package config show to be refused, the schema refuses too, but for what
// only the program can know.
func TestConfigSchemaRefuses(t *testing.T) {
	s := schema(t, "config")
	cases := errorCases(t)
	if len(cases) < 80 {
		t.Fatalf("only %d error cases were found in the tests of package config", len(cases))
	}
	held := 0
	for _, c := range cases {
		err := readConfig(c.text)
		if err == nil || err.Error() != c.want {
			t.Fatalf("%s: %v, want %s", c.text, err, c.want)
		}
		v, yerr := fromYAML([]byte(c.text))
		if yerr != nil || yamlOnly.MatchString(c.want) { // no schema is asked
			continue
		}
		refused := s.Validate(v) != nil
		switch beyond := onlyTheProgram.MatchString(c.want); {
		case beyond && refused:
			t.Errorf("the schema does find\n%s", c.want)
		case beyond:
		case !refused:
			t.Errorf("the schema accepts what is refused with\n%s", c.want)
		default:
			held++
		}
	}
	t.Logf("%d of %d refused by both", held, len(cases))
}

type errorCase struct{ text, want string }

// errorCases are those of the tests of package config: their const small, with one text
// replaced by another, and the error.
func errorCases(t *testing.T) (cases []errorCase) {
	t.Helper()
	small := ""
	var triples [][3]string
	for name, code := range readTestFiles(t, os.DirFS("harness/config"), "*_test.go") {
		file, err := parser.ParseFile(token.NewFileSet(), name, code, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.ValueSpec:
				if n.Names[0].Name == "small" && len(n.Values) == 1 {
					small, _ = constant(n.Values[0])
				}
			case *ast.CompositeLit:
				list, ok := n.Type.(*ast.ArrayType)
				if !ok {
					break
				}
				if elem, ok := list.Elt.(*ast.Ident); !ok || elem.Name != "errorCase" {
					break
				}
				for _, e := range n.Elts {
					var triple [3]string
					all := true
					for i, part := range e.(*ast.CompositeLit).Elts {
						triple[i], ok = constant(part)
						all = all && ok
					}
					if all {
						triples = append(triples, triple)
					}
				}
			}
			return true
		})
	}
	for _, c := range triples {
		text := strings.Replace(small, c[0], c[1], 1)
		if text == small {
			t.Fatalf("%q is not in the config", c[0])
		}
		cases = append(cases, errorCase{text, c[2]})
	}
	return cases
}

// The lists of words in the schema are the program's.
func TestConfigSchemaWords(t *testing.T) {
	s := schema(t, "config")
	at := func(path string) []string {
		t.Helper()
		var v any = s.root
		for _, key := range strings.Split(path, "/") {
			switch in := v.(type) {
			case schemaNode:
				v = in[key]
			case []any:
				i, _ := strconv.Atoi(key)
				v = in[i]
			}
		}
		var words []string
		list, ok := v.([]any)
		if !ok {
			t.Fatalf("%s is %v", path, v)
		}
		for _, w := range list {
			words = append(words, w.(string))
		}
		return words
	}
	same := func(path string, want []string) {
		t.Helper()
		if got := at(path); !slices.Equal(slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(want))) {
			t.Errorf("%s has %v, the program %v", path, got, want)
		}
	}
	for path, want := range map[string][]string{
		"$defs/runtime/properties/provider/enum":                      config.Providers,
		"$defs/dataset/properties/format/enum":                        dataset.Formats(),
		"$defs/model/properties/output/enum":                          config.Outputs,
		"$defs/gate/properties/fail_on/items/enum":                    config.WarningIDs,
		"$defs/solver/properties/method/enum":                         config.Methods,
		"$defs/attack/properties/kind/enum":                           config.AttackKinds,
		"$defs/attack/properties/version/enum":                        config.AttackVersions,
		"$defs/attack/properties/norm/enum":                           config.Norms,
		"$defs/suite/properties/mode/enum":                            config.Modes,
		"$defs/suite/properties/published/anyOf/0/enum":               published.Names(),
		"$defs/autoencoder/properties/schedule/enum":                  config.Schedules,
		"$defs/autoencoder/properties/architecture/enum":              train.Architectures(),
		"$defs/schedule/enum":                                         attackWords(t, "pgd", "schedule"),
		"$defs/autoencoder/properties/optimizer/properties/kind/enum": config.Optimizers,
	} {
		same(path, want)
	}
	// An attack's own parameters, and the losses that it takes.
	common := []string{"kind", "norm", "epsilon"}
	same("$defs/attack/allOf/1/then/then/propertyNames/enum", slices.Concat(common, []string{"version", "components"}, config.AttackParams("autoattack")))
	same("$defs/attack/allOf/1/then/else/propertyNames/enum", append(common, "version"))
	var kinds, losses []string
	for i, rule := range items(s.root["$defs"].(schemaNode)["kindParameters"].(schemaNode)["allOf"]) {
		kind := rule["if"].(schemaNode)["properties"].(schemaNode)["kind"].(schemaNode)["const"].(string)
		kinds = append(kinds, kind)
		then := fmt.Sprintf("$defs/kindParameters/allOf/%d/then/", i)
		same(then+"propertyNames/enum", slices.Concat(common, config.AttackParams(kind)))
		if slices.Contains(config.AttackParams(kind), "loss") {
			same(then+"properties/loss/enum", attackWords(t, kind, "loss"))
			losses = append(losses, at(then+"properties/loss/enum")...)
		}
	}
	if want := slices.DeleteFunc(slices.Clone(config.AttackKinds), func(k string) bool { return k == "autoattack" }); !slices.Equal(slices.Sorted(slices.Values(kinds)), slices.Sorted(slices.Values(want))) {
		t.Errorf("parameters of %v, the program has %v", kinds, want)
	}
	slices.Sort(losses)
	same("$defs/loss/enum", slices.Compact(losses))
}

// attackWords are the values that an attack's parameter may have, by what it says of another.
func attackWords(t *testing.T, kind, name string) []string {
	t.Helper()
	_, err := attacks.New(kind, attacks.Params{Norm: attacks.Linf, Epsilon: 0.1, Options: map[string]any{name: "zzqx"}})
	if err == nil {
		t.Fatalf("%s takes any %s", kind, name)
	}
	_, list, ok := strings.Cut(err.Error(), "must be one of ")
	list, _, ok2 := strings.Cut(list, ", not ")
	if !ok || !ok2 {
		t.Fatal(err)
	}
	return strings.Split(list, ", ")
}
