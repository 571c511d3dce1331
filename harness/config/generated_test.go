package config

import (
	"bytes"
	"cmp"
	goflag "flag"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"selfheal/attacks"
	"selfheal/control"
	"selfheal/harness/dataset"
	"selfheal/harness/result"
	"selfheal/internal/lists"
	"selfheal/internal/must"
	"selfheal/internal/number"
	"selfheal/models/ort"
)

var update = goflag.Bool("update", false, "write the schema and the tables of the documentation anew")

// The schema and the tables of docs/config.md are made from the decoder's rows: go test ./harness/config -update
func TestGenerated(t *testing.T) {
	t.Parallel()
	const docs = "../../docs/config.md"
	text := read(t, docs)
	block := regexp.MustCompile(`(?s)<!-- table: ([a-z-]+) -->\n.*?<!-- end -->`)
	made := block.ReplaceAllFunc(text, func(block []byte) []byte {
		name := strings.Fields(string(block))[2]
		rows, ok := tables()[name]
		if !ok {
			t.Errorf("%s: there is no table %s", docs, name)
		}
		return fmt.Appendf(nil, "<!-- table: %s -->\n%s<!-- end -->", name, rows)
	})
	for _, name := range slices.AppendSeq(slices.Clone(tabled), maps.Keys(tables())) {
		if !bytes.Contains(made, []byte("<!-- table: "+name+" -->")) {
			t.Errorf("%s lacks the table %s", docs, name)
		}
	}
	for file, want := range map[string][]byte{docs: made, "../../docs/schema/config.schema.json": Schema()} {
		if *update {
			must.Do(t, os.WriteFile(file, want, 0o644))
		}
		if !bytes.Equal(read(t, file), want) {
			t.Errorf("%s is out of date; make it anew by go test ./harness/config -update", file)
		}
	}
}

func read(t *testing.T, file string) []byte {
	t.Helper()
	data := must.Get(os.ReadFile(file))(t)
	return data
}

// tables returns the tables of docs/config.md.
func tables() map[string]string {
	attack := attackObject("", &Attack{})
	own := map[string]bool{}
	for _, spec := range attacks.Specs {
		for _, p := range spec.Parameters {
			own[p.Name] = true
		}
	}
	attack.rows = slices.DeleteFunc(attack.rows, func(r row) bool { // the kinds' table has them
		return r.applied && own[r.key]
	})
	data := datasetObject("", &Dataset{})
	gate := (&Gate{}).object()
	data.rows[0].doc, data.rows[0].value.want = "how the images are stored", "a format below"
	attack.rows[0].value.want, gate.rows[3].value.want = "a kind below", "a list"
	e, training := Embedding{}, Training{}
	list := func(head string, rows ...string) string { return head + strings.Join(rows, "\n") + "\n" }
	var formats, methods, embeddings, kinds, versions, modes []string
	explained := map[string]bool{}
	for _, f := range dataset.Table {
		guessed := f.Layout
		if f.Ext != "" {
			guessed = strings.TrimSuffix("`"+f.Ext+"`, "+f.Layout, ", ")
		}
		formats = append(formats, fmt.Sprintf("| `%s` | %s | %s |", f.Name, f.Doc, guessed))
	}
	for _, s := range control.Solvers {
		methods = append(methods, fmt.Sprintf("| `%s` | %s: %s |", s.Method, s.Title, s.Doc))
	}
	for _, k := range control.EmbeddingKinds {
		embeddings = append(embeddings, fmt.Sprintf("| `%s` | %s |", k.Name, k.Doc))
	}
	for _, s := range attacks.Specs {
		for _, v := range s.Versions {
			versions = append(versions, fmt.Sprintf("| `%s` | %s |", v.Name, v.Doc))
		}
		own := parameters(s, explained)
		if s.Versions != nil {
			own = "of version `custom`: those of its components"
		}
		doc := s.Doc
		if s.Norms != nil && !attacks.Free(s.Kind) {
			doc += ", only in " + strings.Join(lists.Map(s.Norms, attacks.Norm.String), ", ")
		}
		kinds = append(kinds, fmt.Sprintf("| `%s` | %s: %s | %s |", s.Kind, s.Title, doc, own))
	}
	kinds = append(kinds, fmt.Sprintf("| `%s` | %s | `names` and `severities`, above |", attacks.CorruptionKind,
		corruptionDoc))
	for _, m := range result.Modes[1:] { // whitebox is no choice
		modes = append(modes, fmt.Sprintf("| `%s` | %s | %s |", m.Name, m.Made, m.Knows))
	}
	c := &Config{}
	return map[string]string{
		"top": keysTable(c.object()), "runtime": keysTable(c.Runtime.object()),
		"datasets": keysTable(data), "transform": keysTable(transformObject(&Dataset{})),
		"formats":  list("| format | images | guessed by `attack --data` from |\n|---|---|---|\n", formats...),
		"models":   keysTable(modelObject("", &Model{})),
		"controls": keysTable(controlObject("", &Control{})), "layers": keysTable(layerObject(&Layer{})),
		"solver": keysTable(solverObject(&control.Solver{})), "methods": list("| method | |\n|---|---|\n", methods...),
		"embeddings": list("| kind | E |\n|---|---|\n", embeddings...), "embedding": keysTable(e.object()),
		"optimizer": keysTable(training.optimizer()), "objective": keysTable(training.objectiveObject()),
		"augment": keysTable(training.augment()),
		"attacks": keysTable(attack), "kinds": list("| kind | | parameters (default) |\n|---|---|---|\n", kinds...),
		"versions": list("| version | |\n|---|---|\n", versions...),
		"suites":   keysTable((&Config{}).suiteObject("", &Suite{})),
		"modes":    list("| mode | adversarial images | the attacker |\n|---|---|---|\n", modes...),
		"study":    keysTable((&SolverStudy{}).object()), "groups": keysTable(groupObject("", &Group{})),
		"gate": keysTable(gate),
	}
}

// tabled are the mappings that have a table of their own. The keys of others follow their own key.
var tabled = []string{"runtime", "transform", "solver", "embedding", "optimizer", "augment", "objective", "gate"}

// keysTable has a line for each row.
func keysTable(o object) string {
	return "| key | value | default | meaning |\n|---|---|---|---|\n" + keysRows("", o.rows)
}

// terse shortens a message's sentence for a table.
var terse = strings.NewReplacer("a list, each item ", "list: ",
	"a whole number", "integer", "the name of a", "name of a", ", such as 0.5 or 8/255", "", "a number", "number",
	"a mapping from names to settings", "mapping by name", "a mapping", "mapping", ", or a list of such", ", or a list",
	"true or false", "flag", " up and below", " to below").Replace

func keysRows(of string, rows []row) (text string) {
	for _, r := range rows {
		byDefault, meaning := r.def, r.doc
		switch {
		case r.required:
			byDefault = "required"
		case byDefault == "{}":
			byDefault = ""
		case len(byDefault) > 40:
			byDefault = "all"
		case byDefault != "":
			byDefault = "`" + byDefault + "`"
		}
		if r.only != nil {
			meaning += " (" + cmp.Or(r.forms, "only "+strings.Join(r.only, ", ")) + ")"
		}
		text += fmt.Sprintf("| `%s` | %s | %s | %s |\n", of+r.key, terse(r.value.want), byDefault, meaning)
		if r.value.object != nil && !slices.Contains(tabled, r.key) {
			text += keysRows(of+r.key+".", r.value.object.rows)
		}
	}
	return text
}

// parameters lists an attack's parameters with their defaults and, at their first occurrence, with their meaning.
func parameters(s attacks.Spec, explained map[string]bool) string {
	var list []string
	for _, p := range s.Parameters {
		text := fmt.Sprintf("`%s` (%s): %s", p.Name, p.DefaultText(), p.Doc)
		if p.Choices != nil {
			text += ": " + strings.Join(p.Choices, ", ")
		}
		if p.Norms != nil {
			text += fmt.Sprintf(", only in %s", p.Norms[0])
		}
		if explained[text] {
			text, _, _ = strings.Cut(text, "):")
			text += ")"
		}
		explained[text] = true
		list = append(list, text)
	}
	return strings.Join(list, "; ")
}

// asJSON returns a config as an editor reads it, by YAML 1.2.
func asJSON(n *node) any {
	switch {
	case n.kind == mapNode:
		m := map[string]any{}
		for _, e := range n.entries {
			m[e.key] = asJSON(e.value)
		}
		return m
	case n.kind == listNode:
		l := []any{}
		for _, item := range n.items {
			l = append(l, asJSON(item))
		}
		return l
	case n.isNull():
		return nil
	case !n.quoted && (n.text == "true" || n.text == "false"):
		return n.text == "true"
	}
	if v, ok := number.Parse(n.text); ok && !n.quoted && !strings.Contains(n.text, "/") {
		return v
	}
	return n.text
}

func compile(t *testing.T) *jsonschema.Schema {
	t.Helper()
	doc := must.Get(jsonschema.UnmarshalJSON(bytes.NewReader(Schema())))(t)
	c := jsonschema.NewCompiler()
	must.Do(t, c.AddResource("config.json", doc))
	s := must.Get(c.Compile("config.json"))(t)
	return s
}

// The schema is not empty, and the decoder knows every key: a config with every key is valid; with any key misspelt
// or any value of another kind, both refuse it.
func TestEveryKey(t *testing.T) {
	t.Parallel()
	s, tried := compile(t), map[string]bool{}
	root := complete(t, string(read(t, completeFile)), ort.ProviderCUDA, attacks.Kinds()...)
	must.Do(t, s.Validate(asJSON(root)))
	refused := func(v value, n *node, what string) {
		t.Helper()
		d := decoder{}
		if v.decode(&d, n, ""); d.errs == nil {
			t.Errorf("the program reads it %s", what)
		}
		if s.Validate(asJSON(root)) == nil {
			t.Errorf("the schema accepts it %s", what)
		}
	}
	wrong := &node{kind: mapNode, entries: []entry{{key: "zzqx", value: &node{text: "1"}}}}
	bound(t, root).walk(root, "", func(n *node, where string, v value, _ bool) {
		if v.object == nil {
			return
		}
		d := decoder{}
		if v.decode(&d, n, ""); d.errs != nil {
			t.Errorf("%s alone, unchanged: %v", where, d.errs)
		}
		for i := range n.entries {
			e := &n.entries[i]
			key := chosen.ReplaceAllString(join(where, e.key), "$1")
			if tried[key] { // as in another of the same kind
				continue
			}
			tried[key] = true
			was := *e
			e.key += "x"
			refused(v, n, key+" with an x")
			if *e = was; key != "gate.min" && key != "suites.published" { // they take mappings with any keys
				e.value = wrong
				refused(v, n, key+" as a mapping")
			}
			*e = was
		}
	})
	if len(tried) < 100 {
		t.Errorf("only %d keys were tried", len(tried))
	}
}

// The schema finds the decoder's errors too, except rules between keys and matters of YAML.
func TestSchemaFindsErrors(t *testing.T) {
	t.Parallel()
	s, held := compile(t), 0
	for _, c := range errorCases {
		root, err := parseTree("", []byte(strings.Replace(small, c.old, c.new, 1)))
		if err == nil && s.Validate(asJSON(root)) != nil {
			held++
		}
	}
	if held < 70 {
		t.Errorf("the schema finds %d of %d errors", held, len(errorCases))
	}
}

// Every config of the repository is valid.
func TestConfigsObeyTheSchema(t *testing.T) {
	t.Parallel()
	s := compile(t)
	bundled, ci := string(read(t, "../../config.yaml")), string(read(t, "../../docs/ci/robustness.yaml"))
	for _, text := range []string{small, full, bundled, ci} {
		root, err := parseTree("", []byte(text))
		if err == nil {
			err = s.Validate(asJSON(root))
		}
		if err != nil {
			t.Error(err)
		}
	}
}
