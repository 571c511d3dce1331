package config

import (
	"fmt"
	"strings"
	"testing"

	"selfheal/attacks"
)

// An attack is read, and obeys the schema, in the norms that it exists in.
func TestNorms(t *testing.T) {
	t.Parallel()
	schema := compile(t)
	for _, s := range attacks.Specs {
		for _, n := range attacks.Norms() {
			text := fmt.Sprintf(`{version: 1, datasets: {d: {format: npz, path: d.npz}}, models: {m: {path: m.onnx}},
attacks: {a: {kind: %s, norm: %s, epsilon: 1}}, suites: {s: {dataset: d, models: [m], attacks: [a]}}}`, s.Kind, n)
			_, err := Parse("test.yaml", []byte(text), nil)
			root, treeErr := parseTree("test.yaml", []byte(text))
			if treeErr != nil {
				t.Fatal(treeErr)
			}
			against := schema.Validate(asJSON(root))
			if want := s.CheckNorm(n); want == nil && (err != nil || against != nil) || want != nil && (err == nil ||
				against == nil || !strings.Contains(err.Error(), want.Error())) {
				t.Errorf("%s in %v: %v; schema: %v; want %v", s.Kind, n, err, against, want)
			}
		}
	}
}
