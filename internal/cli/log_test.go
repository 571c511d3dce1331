package cli

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"

	"selfheal/attacks"
	"selfheal/internal/testinput"
)

// decoded returns the records of --log-format json; each line must be one.
func decoded(t *testing.T, stderr string) (list []map[string]any) {
	t.Helper()
	for line := range strings.Lines(stderr) {
		record := map[string]any{}
		err := json.Unmarshal([]byte(line), &record)
		if err != nil || record["time"] == nil || record["level"] == nil || record["msg"] == nil {
			t.Fatalf("%v: no record: %s", err, line)
		}
		list = append(list, record)
	}
	return list
}

// checkLog checks that a run's records agree with its results.json.
func checkLog(t *testing.T, out, stderr string) {
	t.Helper()
	file, _ := results(t, out)
	records := decoded(t, stderr)
	of := func(msg string) (list []map[string]any) {
		for _, r := range records {
			if r["msg"] == msg {
				list = append(list, r)
			}
		}
		return list
	}
	if first := records[0]; first["msg"] != "run started" || first["config_sha256"] != file.ConfigSHA256 ||
		first["cells"] != float64(len(file.Cells)) || first["out"] != out {
		t.Errorf("the first record is %v", first)
	}
	if last := records[len(records)-2]; last["msg"] != "run finished" || last["cells"] != float64(len(file.Cells)) {
		t.Errorf("the last record but one is %v", last)
	}
	if last := records[len(records)-1]; last["msg"] != "answered" {
		t.Errorf("the last record is %v", last)
	}
	cells, components, warnings, seeds := of("cell finished"), 0, 0, 0
	for i, c := range file.Cells {
		if i >= len(cells) {
			t.Fatalf("%d records of %d cells", len(cells), len(file.Cells))
		}
		epsilon := any(nil)
		if c.Epsilon != 0 {
			epsilon = float64(c.Epsilon)
		}
		r := cells[i]
		if r["suite"] != c.Suite || r["model"] != c.Model || r["defense"] != c.Defense || r["mode"] != c.Mode ||
			r["attack"] != c.Attack || r["epsilon"] != epsilon || r["correct"] != float64(c.Correct) ||
			r["n"] != float64(c.N) || r["accuracy"] != c.Accuracy || r["cell"] != float64(i+1) {
			t.Errorf("the cell %+v has the record %v", c, r)
		}
		steps := len(c.Steps)
		if attacks.Proves(file.Attacks[c.Attack].Kind) {
			steps = 1
		}
		components += steps * max(len(c.Seeds), 1)
		warnings += len(c.Warnings)
		if c.Seeds != nil {
			seeds += len(c.Seeds) - 1
		}
	}
	for msg, want := range map[string]int{"component finished": components, "cell warning": warnings,
		"seed finished": seeds} {
		if got := len(of(msg)); got != want {
			t.Errorf("%d records %q, want %d", got, msg, want)
		}
	}
	solvers := of("solver studied")
	if n := len(solvers); n < len(file.Solver) || n > 0 && solvers[n-1]["study"] != solvers[n-1]["studies"] {
		t.Errorf("%d solver studies have the records %v", len(file.Solver), solvers)
	}
	share, moved := 0.0, 0 // fraction done of the work under way, and how often it rose while no image was finished
	for _, r := range records {
		switch r["msg"] {
		case "component finished":
			share = 0
		case "component progress":
			if r["share"].(float64) > share && r["images_done"] == 0.0 {
				moved++
			}
			if share = r["share"].(float64); share < 0 || share > 1 {
				t.Errorf("%v", r)
			}
		}
	}
	if moved == 0 {
		t.Error("no component moved before its first image was finished")
	}
	for _, r := range of("component finished") {
		if n, ok := r["robust"].(float64); !ok || n != math.Trunc(n) || n > r["n"].(float64) || r["component"] == "" {
			t.Errorf("%v", r)
		}
	}
}

// With --log-format json an error is a record too, wherever the flag stands; with --quiet it is the only one.
func TestErrorsAreRecords(t *testing.T) {
	t.Parallel()
	for _, line := range []string{
		"run --log-format json --config absent.yaml", "run --config absent.yaml --log-format=json --quiet",
		"run --log-format json --nonsense", "attack --epsilon --nonsense x.onnx --log-format json",
		"run surplus --log-format json", "fit --log-format json", "predict --log-format json --model no image.png",
		"theory --log-format json --seed -1",
	} {
		code, stdout, stderr := call(strings.Fields(line)...)
		records := decoded(t, stderr)
		if code != exitUsage || stdout != "" || len(records) != 1 || records[0]["level"] != "ERROR" ||
			records[0]["msg"] != "failed" || records[0]["exit_code"] != float64(exitUsage) ||
			records[0]["error"] == "" {
			t.Errorf("%s: exit %d, %q, %v", line, code, stdout, records)
		}
	}
	refused(t, exitUsage, "it must be text or json; see selfheal run --help", "run", "--log-format", "xml")
}

// shortFit returns a command line that trains for two steps.
func shortFit(t *testing.T, dir string) []string {
	t.Helper()
	testinput.Runtime(t)
	return []string{"fit", "--config", written(t, dir, fitText), "--control", "both", "--set",
		"controls.both.layers.0=null"}
}

// A training's records.
func TestFitLog(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	code, _, stderr := call(append(shortFit(t, dir), "--log-format", "json")...)
	var messages []string
	records := decoded(t, stderr)
	for _, r := range records {
		messages = append(messages, r["msg"].(string))
	}
	if code != exitOK || !slices.Equal(messages, []string{"training started", "training progress"}) {
		t.Fatalf("exit %d, %v", code, records)
	}
	if r := records[1]; r["step"] != 2. || r["of"] != 2. || !(r["cross_entropy"].(float64) > 0) ||
		r["seconds_left"] != 0. {
		t.Errorf("%v", r)
	}
}
