package harness_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"selfheal/attacks"
	"selfheal/harness/result"
	"selfheal/internal/must"
	"selfheal/internal/testinput"
	"selfheal/internal/testplan"
	"selfheal/models/onnx/onnxtest"
	"selfheal/models/ort"
)

// No certificate holds for a white image whose sums leave int32 and that the file takes for another class: by any
// method, by brackets, or beside AutoAttack. Within int32 the class is proven. The images are of 0.45 to 0.49.
// models/bounds tries every form; SELFHEAL_TEST_LARGE=1 five here.
func TestCertificatesKeepWithinInt32(t *testing.T) {
	testinput.NumbersAlone(t)
	if ort.Saturates() {
		t.Skip("no quantised file has bounds here")
	}
	all := onnxtest.Overflowing()
	forms := []string{"QLinearConv", "MatMulInteger and Add", "QDQ Gemm"}
	if testinput.Large() {
		forms = append(forms, "QGemm", "QDQ Conv")
	}
	for _, name := range forms {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			at := slices.IndexFunc(all, func(s onnxtest.Sums) bool { return s.Name == name })
			c, dir := all[at], t.TempDir()
			must.Do(t, os.WriteFile(filepath.Join(dir, "m.onnx"), c.Data, 0o644))
			testplan.Archive(t, filepath.Join(dir, "images.npz"), 1, attacks.Shape{C: 3, H: 8, W: 8})
			attacked := ""
			for _, method := range []string{"ibp", "crown", "alpha-crown", "beta-crown"} {
				attacked += fmt.Sprintf("  %s: {kind: bounds, norm: linf, epsilon: [0.1, 0.56], method: %[1]s}\n",
					method)
			}
			f, records, _ := runFor(t, testplan.Plan(t, `
version: 1
datasets: {test: {format: npz, path: `+dir+`/images.npz}}
models: {m: {path: `+dir+`/m.onnx}}
attacks:
`+attacked+`  between: {kind: bracket, norm: linf, budget: 500ms}
  aa: {kind: autoattack, norm: linf, epsilon: [0.1, 0.56], prove: true}
suites: {s: {dataset: test, models: [m], attacks: [ibp, crown, alpha-crown, beta-crown, between, aa]}}
`, 1, 4, "attacks.beta-crown.budget=1s"))
			for _, r := range records {
				if r.Proven != nil && !(*r.Proven > 0.1 && *r.Proven < 0.55) {
					t.Errorf("a radius of %g is proven", *r.Proven)
				}
			}
			for _, cell := range f.Cells {
				within := cell.Epsilon == 0.1
				if f.Attacks[cell.Attack].Proves() && !f.Attacks[cell.Attack].Brackets() &&
					cell.Verdicts != map[bool]string{true: "1", false: "0"}[within] {
					t.Errorf("%s at %g: %s", cell.Attack, cell.Epsilon, cell.Verdicts)
				}
				proven := slices.ContainsFunc(cell.Steps, func(s result.Step) bool { return s.Proven > 0 })
				if proven && !within || within && cell.Verdicts != "1" {
					t.Errorf("%s at %g: %s, %+v", cell.Attack, cell.Epsilon, cell.Verdicts, cell.Steps)
				}
			}
		})
	}
}
