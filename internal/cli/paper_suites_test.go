package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"selfheal/harness/config"
	"selfheal/harness/result/published"
	"selfheal/internal/must"
)

// tableSuites are the suites of the paper's tables in the bundled config.
var tableSuites = []string{"table2-standard", "table2-robust", "table3", "table4", "table5", "table6", "table7"}

// withSuites returns arguments of run that select suites.
func withSuites(suites ...string) []string {
	args := []string{"run"}
	for _, s := range suites {
		args = append(args, "--suite", s)
	}
	return args
}

// A dry run of the tables' suites needs no file, and has every cell of the paper: 125 of two numbers each, on
// the paper's networks, under its attacks at its epsilons. Only the undefended networks of Table 5 are more.
func TestPaperSuitesDryRun(t *testing.T) {
	t.Chdir(t.TempDir()) // only the built-in config is left
	text := done(t, append(withSuites(tableSuites...), "--dry-run")...)
	head := regexp.MustCompile(`^suite (\S+), model (\S+), 10000 images of \S+, (\S+)$`)
	attacked := regexp.MustCompile(`^  \S+ +defenses: (.+); (\S+)/1, (\S+), epsilon (\S+): ` +
		`at most \S+ forward, \S+ backward`)
	clean := regexp.MustCompile(`^  none \(clean\) +defenses: (.+)$`)
	type cell struct{ suite, model, attack string }
	found, suite, model := map[cell][]string{}, "", ""
	for _, line := range strings.Split(text, "\n") {
		if m := head.FindStringSubmatch(line); m != nil {
			suite, model = m[1], m[2]
			want := "oblivious"
			if suite == "table7" {
				want = "whitebox-through"
			}
			if m[3] != want {
				t.Errorf("suite %s is %s", suite, m[3])
			}
		} else if m := clean.FindStringSubmatch(line); m != nil {
			found[cell{suite, model, "none"}] = strings.Split(m[1], ", ")
		} else if m := attacked.FindStringSubmatch(line); m != nil {
			found[cell{suite, model, strings.TrimSuffix(m[2], "-standard") + " " + m[3] + " " +
				m[4]}] = strings.Split(m[1], ", ")
		}
	}
	cells, extras := 0, 0
	for _, table := range published.Tables() {
		suite := table.Name
		if strings.HasPrefix(suite, "table6") {
			suite = "table6" // one suite of both halves
		}
		for _, c := range table.Cells {
			attack := "none"
			if c.Attack.Name != "none" {
				epsilon := strconv.FormatFloat(c.Attack.Epsilon, 'g', -1, 64)
				if c.Attack.Norm == "linf" {
					epsilon = fmt.Sprintf("%.0f/255", 255*c.Attack.Epsilon)
				}
				attack = c.Attack.Kind + " " + c.Attack.Norm + " " + epsilon
			}
			k := cell{suite, strings.ToLower(c.Model) + "-" + c.Training, attack}
			defenses := found[k]
			beside := func(d string) bool { return !strings.HasSuffix(d, " (extra)") }
			extra := slices.DeleteFunc(slices.Clone(defenses), beside)
			if len(defenses)-len(extra) != 2 {
				t.Errorf("%+v: defenses %q, where the paper has two", k, defenses)
			}
			if len(extra) > 0 && (suite != "table5" || defenses[0] != "none (extra)") {
				t.Errorf("%+v: %q are extra", k, extra)
			}
			cells, extras = cells+1, extras+len(extra)
			delete(found, k)
		}
	}
	if cells != 125 || extras != 12 || len(found) > 0 {
		t.Errorf("%d cells and %d extras, want 125 and 12; besides the paper's: %v", cells, extras, found)
	}
	must.Have(t, text, "\n262 cells; attacks: at most ")
	if t.Failed() {
		t.Log("\n" + text)
	}
}

// The same in words, for the two smallest tables, with hours.
func TestPaperSuitesInWords(t *testing.T) {
	t.Chdir(t.TempDir())
	args := append(withSuites("table5", "table7"),
		"--dry-run", "--limit", "1000", "--rate", "150", "--rate", "rn-50-standard=60")
	golden(t, "dry-run-paper", fmt.Sprintf("$ selfheal %s\n%s", strings.Join(args, " "), done(t, args...)))
}

// Without any of the files the command lists all of them, with exit code 2 and nothing computed; a file that is added
// leaves the list.
func TestPaperSuitesMissing(t *testing.T) {
	t.Chdir(t.TempDir())
	code, list, stderr := call(append(withSuites("table2-standard", "table6"), "--out", "out")...)
	golden(t, "missing",
		fmt.Sprintf("$ selfheal run --suite table2-standard --suite table6\nexit %d\n%sstderr: %s", code, list, stderr))
	if entries, err := os.ReadDir("."); err != nil || len(entries) > 0 {
		t.Errorf("the run left %v (%v)", entries, err)
	}
	code, list, _ = call(withSuites(append(tableSuites, "table7-detached")...)...)
	missing := regexp.MustCompile(`(?m)^  (\S+)$`).FindAllStringSubmatch(list, -1)
	if code != exitUsage || len(missing) != 6+16+8 { // data sets, networks, embeddings
		t.Errorf("exit %d, %d files are listed:\n%s", code, len(missing), list)
	}
	for _, m := range missing {
		path := strings.ReplaceAll(m[1], "{size}", "512")
		if filepath.Ext(path) == "" {
			path = filepath.Join(path, "file") // it is a folder
		}
		put(t, path, nil)
	}
	if code, list, stderr := call(append(withSuites(tableSuites...), "--limit", "2")...); code == exitOK ||
		list != "" ||
		strings.Contains(stderr, "missing:") {
		t.Errorf("with empty files at all places: exit %d\n%s%s", code, list, stderr)
	}

	// The scripts contain the commands.
	scripts := read(t, filepath.Join(root, "scripts/zoo/train.py")) +
		read(t, filepath.Join(root, "scripts/zoo/export.py")) // shared arguments
	commands := regexp.MustCompile(`python3 scripts/zoo/train.py .+`).FindAllString(list, -1)
	if len(commands) != 16 {
		t.Errorf("%d networks are trained, want 16", len(commands))
	}
	for _, c := range commands {
		for _, flag := range regexp.MustCompile(`--\S+`).FindAllString(c, -1) {
			must.Have(t, scripts, `"`+flag+`"`)
		}
		architecture := strings.Fields(c)[3]
		if _, err := os.Stat(filepath.Join(root, "models/zoo/skeletons", architecture+".onnx")); err != nil {
			t.Errorf("%s: %v", c, err)
		}
	}
	cfg := must.Get(config.Load(filepath.Join(root, "config.yaml")))(t)
	fits := regexp.MustCompile(`selfheal fit --control (\S+)`).FindAllStringSubmatch(list, -1)
	for _, m := range fits {
		if cfg.Control(m[1]) == nil {
			t.Errorf("%s: there is no such control", m[0])
		}
	}
	if len(fits) < 5 {
		t.Errorf("%d embeddings are fitted:\n%s", len(fits), list)
	}
}
