package reports

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"selfheal/harness/result"
	"selfheal/internal/must"
)

// The reports are tested with results that a run may write: the published schemas hold for the fixtures, the paper's
// numbers and the studies among them.
func TestFixturesObeyTheSchemas(t *testing.T) {
	ofResults, ofRecord, ofGallery := schemaFile(t, "results"), schemaFile(t, "records"), schemaFile(t, "gallery")
	lines, cases := 0, 0
	for name, f := range map[string]*result.File{"fixture": fixture(), "compared": compareFixture(),
		"study": studyFixture()} {
		// A run always writes these, and the fixtures leave them out.
		sum := strings.Repeat("5a", 32)
		f.ConfigSHA256 = sum
		for name, m := range f.Models {
			m.Output = "logits"
			f.Models[name] = m
		}
		if f.Attacks == nil {
			f.Attacks, f.Controls = map[string]result.Attack{}, map[string]result.Control{}
		}
		for i := range f.Cells {
			if f.Cells[i].Warnings == nil {
				f.Cells[i].Warnings = []result.Warning{}
			}
			if f.Cells[i].Steps == nil {
				f.Cells[i].Steps = []result.Step{}
			}
		}
		validate(t, name, ofResults, f)
		for _, r := range records(f) {
			validate(t, name+": a record", ofRecord, r)
			lines++
		}
		if f.Gallery != nil {
			f.Gallery.ConfigSHA256 = sum
			for i := range f.Gallery.Cases {
				f.Gallery.Cases[i].Mode = "oblivious"
			}
			validate(t, name+": its gallery", ofGallery, f.Gallery)
			cases += len(f.Gallery.Cases)
		}
	}
	if lines == 0 || cases == 0 {
		t.Errorf("%d records and %d cases of a gallery were looked at", lines, cases)
	}
}

func schemaFile(t *testing.T, name string) *jsonschema.Schema {
	t.Helper()
	f := must.Get(os.Open("../docs/schema/" + name + ".schema.json"))(t)
	defer f.Close()
	doc := must.Get(jsonschema.UnmarshalJSON(f))(t)
	c := jsonschema.NewCompiler()
	must.Do(t, c.AddResource(name+".json", doc))
	s := must.Get(c.Compile(name + ".json"))(t)
	return s
}

func validate(t *testing.T, name string, s *jsonschema.Schema, v any) {
	t.Helper()
	data := must.Get(json.Marshal(v))(t)
	read, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err == nil {
		err = s.Validate(read)
	}
	if err != nil {
		t.Errorf("%s: %v", name, err)
	}
}
