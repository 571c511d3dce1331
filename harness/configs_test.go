package harness_test

import (
	"cmp"
	"path/filepath"
	"strings"
	"testing"

	"selfheal/attacks"
	"selfheal/control"
	"selfheal/harness/config"
	"selfheal/harness/plan"
	"selfheal/harness/result"
	"selfheal/internal/lists"
	"selfheal/internal/must"
)

// The configs that compare two versions of the program (make compare-results) can be planned, and together have every
// kind in the tables: a new row also goes into one of them.
func TestConfigsCoverTheTables(t *testing.T) {
	paths := must.Get(filepath.Glob("testdata/configs/*.yaml"))(t)
	used := map[string]bool{}
	for _, path := range paths {
		cfg := must.Get(must.Get(config.Load(path))(t).Selected(nil))(t)
		must.Get(plan.New(cfg))(t)
		for _, a := range cfg.Attacks {
			used["attack "+a.Kind], used["norm "+a.Norm.String()] = true, true
			used["version "+cmp.Or(a.Version, "standard")] = true
			used["pixels "+cmp.Or(a.Pixels, "float")], used["prove"] = true, used["prove"] || a.Prove
			for name, value := range a.Parameters {
				if text, ok := value.(string); ok {
					used[a.Kind+" "+name+" "+text] = true
				}
				used[name] = true
			}
			for _, c := range a.Components {
				used["component "+c.Kind] = true
			}
		}
		for _, c := range cfg.Controls {
			used["solver "+c.Solver.Method.String()] = true
			for _, l := range c.Layers {
				used["embedding "+l.Embedding.Kind] = true
				if t := l.Embedding.Training; t != nil {
					kind := map[bool]string{false: control.Autoencoder, true: control.Along}[t.IsAlong]
					used["embedding "+kind] = true
				}
			}
		}
		for _, s := range cfg.Suites {
			for _, mode := range s.Attackers() {
				used["mode "+mode] = true
			}
			used["save_adversarial"] = used["save_adversarial"] || s.SaveAdversarial
			used["pairs"], used["solver"] = used["pairs"] || len(s.Pairs) > 0, used["solver"] || s.Solver != nil
		}
		for _, m := range cfg.Models {
			used["votes"] = used["votes"] || m.Votes > 0
			used["label"] = used["label"] || m.Output == "label"
		}
		for _, d := range cfg.Datasets {
			used["format "+d.Format] = true
		}
		used["seeds"] = used["seeds"] || len(cfg.OtherSeeds) > 0
	}
	wanted := strings.Fields("prove refine save_adversarial pairs solver votes label seeds")
	for _, s := range attacks.Specs {
		wanted = append(wanted, "attack "+s.Kind)
		if s.Component {
			wanted = append(wanted, "component "+s.Kind)
		}
		for _, v := range s.Versions {
			wanted = append(wanted, "version "+v.Name)
		}
		for _, p := range s.Parameters {
			if s.Kind == attacks.BoundsKind {
				wanted = append(wanted, lists.Map(p.Choices, func(c string) string {
					return strings.Join([]string{s.Kind, p.Name, c}, " ")
				})...)
			}
		}
	}
	for _, table := range []struct {
		what string
		rows []string
	}{
		{"norm", config.Norms},
		{"pixels", attacks.PixelForms},
		{"solver", lists.Map(control.Solvers, func(s control.Spec) string { return string(s.Method) })},
		{"embedding", lists.Map(control.EmbeddingKinds, func(k control.EmbeddingKind) string { return k.Name })},
		{"mode", lists.Map(result.Modes, func(m result.Mode) string { return m.Name })},
		{"format", []string{"cifar10-bin", "npz", "image-folder"}}, // package dataset tests the other formats
	} {
		for _, row := range table.rows {
			wanted = append(wanted, table.what+" "+row)
		}
	}
	for _, w := range wanted {
		if !used[w] {
			t.Errorf("no config of testdata/configs has %s", w)
		}
	}
	if len(paths) != 10 {
		t.Errorf("%d configs", len(paths))
	}
}
