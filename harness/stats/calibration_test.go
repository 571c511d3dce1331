package stats

import (
	"encoding/json"
	"math"
	"os"
	"slices"
	"testing"

	"selfheal/internal/must"
)

// Calibration errors are torchmetrics', risks and areas torch-uncertainty's (scripts/goldens/calibration.py).
func TestCalibration(t *testing.T) {
	var cases []struct {
		Confidence        []float64
		Right             []bool
		ECE, Area, Risk80 float64
	}
	must.Do(t, json.Unmarshal(must.Get(os.ReadFile("testdata/calibration.json"))(t), &cases))
	for i, c := range cases {
		risks := Risks(c.Confidence, c.Right)
		for name, of := range map[string][2]float64{
			"calibration error": {CalibrationError(c.Confidence, c.Right), c.ECE},
			"area":              {RiskArea(risks), c.Area}, "risk at 80 %": {RiskAt(risks, 0.8), c.Risk80},
		} {
			if !(math.Abs(of[0]-of[1]) < 1e-6) {
				t.Errorf("case %d: %s %v, want %v", i, name, of[0], of[1])
			}
		}
	}
	if len(cases) < 4 {
		t.Errorf("%d cases", len(cases))
	}
}

// Among equal confidences the order of the answers does not matter: risks are means over all orders.
func TestEqualConfidences(t *testing.T) {
	confidence := []float64{.9, .5, .5, .5, .1}
	got := Risks(confidence, []bool{true, true, false, true, false})
	for _, other := range [][]bool{{true, false, true, true, false}, {true, true, true, false, false}} {
		if again := Risks(confidence, other); !slices.Equal(got, again) {
			t.Errorf("%v and %v", got, again)
		}
	}
	for k, want := range []float64{0, 1. / 6, 2. / 9, .25, .4} {
		if math.Abs(got[k]-want) > 1e-12 {
			t.Errorf("risk of %d: %v, want %v", k+1, got[k], want)
		}
	}
	if !math.IsNaN(CalibrationError(nil, nil)) || !math.IsNaN(RiskAt(nil, .5)) || RiskAt(got, 1) != .4 ||
		RiskAt(got, 0) != 0 || CalibrationError([]float64{0, 1}, []bool{false, true}) != 0 {
		t.Error("at the ends")
	}
}
