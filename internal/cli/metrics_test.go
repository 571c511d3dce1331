package cli

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"selfheal/harness/result"
	"selfheal/internal/must"
	"selfheal/internal/testinput"
)

// --union and --metrics end with what verdicts and records say together: the images that stand under all attacks, and
// the calibration error over the records' own probabilities.
func TestUnionAndMetrics(t *testing.T) {
	testinput.Runtime(t)
	w := newWorld(t)
	t.Chdir(w.dir)
	stdout := done(t, strings.Fields("run --config c.yaml --suite s --set suites.s.attacks=[a,fgsm] --union --metrics "+
		"--out told")...)
	stand := []byte("1111")
	gaps, right := map[int]float64{}, 0
	for _, r := range must.All(result.Records("told/records.jsonl"))(t) {
		if r.Attack == "none" { // by hand: bins of a fifteenth
			bin := int(math.Ceil(r.Confidence*15)) - 1
			gaps[bin] += r.Confidence
			if r.Predicted == r.Label {
				gaps[bin]--
				right++
			}
		} else if r.Verdict == 0 {
			stand[r.Image] = '0'
		}
	}
	sum := 0.0
	for _, g := range gaps {
		sum += math.Abs(g)
	}
	must.Have(t, stdout, fmt.Sprintf("robust accuracy %.1f %% [", 25*float64(strings.Count(string(stand), "1"))))
	must.Have(t, stdout, "] of m under each of a, fgsm, 4 images\n")
	must.Have(t, stdout, fmt.Sprintf("\ncalibration error %.1f %% of m, risk ", 25*sum))
	if sum == 0 || right == 0 {
		t.Errorf("%d right, gaps %v", right, gaps)
	}
}
