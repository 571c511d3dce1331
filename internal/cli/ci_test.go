package cli

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/spf13/cobra"

	"selfheal/internal/testinput"
)

// ciFile reads a YAML file of CI.
func ciFile(t *testing.T, path string) schemaNode {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var v schemaNode
	if err := yaml.Unmarshal(data, &v); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return v
}

// at returns what lies in v at a path of keys.
func at[T any](t *testing.T, v any, path ...string) (found T) {
	t.Helper()
	for _, key := range path {
		m, _ := v.(schemaNode)
		v = m[key]
	}
	found, ok := v.(T)
	if !ok {
		t.Fatalf("%s is %T %v", strings.Join(path, "."), v, v)
	}
	return found
}

// actionSteps are those of action.yml.
func actionSteps(t *testing.T) []schemaNode {
	t.Helper()
	return items(at[[]any](t, ciFile(t, "action.yml"), "runs", "steps"))
}

// script is what a step of action.yml runs.
func script(t *testing.T, step string) string {
	t.Helper()
	for _, s := range actionSteps(t) {
		if s["name"] == step {
			return at[string](t, s, "run")
		}
	}
	t.Fatalf("action.yml has no step %q", step)
	return ""
}

var (
	expression = regexp.MustCompile(`\$\{\{\s*(.*?)\s*\}\}`)
	pinned     = regexp.MustCompile(`^actions/[a-z-]+@v[0-9]+$`)
)

func TestAction(t *testing.T) {
	action := ciFile(t, "action.yml")
	if at[string](t, action, "runs", "using") != "composite" || at[string](t, action, "name") == "" || at[string](t, action, "description") == "" {
		t.Error("action.yml is no composite action with name and description")
	}
	inputs := at[schemaNode](t, action, "inputs")
	for name := range inputs {
		if at[string](t, inputs, name, "description") == "" {
			t.Errorf("input %s has no description", name)
		}
		at[string](t, inputs, name, "default")
	}
	steps := actionSteps(t)
	used, kept := map[string]bool{}, []string{}
	for i, s := range steps {
		name := at[string](t, s, "name")
		if run, ok := s["run"].(string); ok {
			if s["shell"] != "bash" {
				t.Errorf("step %s: its shell is %v", name, s["shell"])
			}
			if expression.MatchString(run) {
				t.Errorf("step %s: an expression in a script lets its value be run; pass it by env", name)
			}
			bashTakes(t, "action.yml, step "+name, run)
		} else if uses := at[string](t, s, "uses"); !pinned.MatchString(uses) {
			t.Errorf("step %s uses %s, which is no major version of an action of GitHub's", name, uses)
		} else {
			kept = append(kept, strings.Split(uses, "@")[0])
		}
		if strings.Contains(fmt.Sprint(s["uses"]), "upload-artifact") && (i != len(steps)-1 || s["if"] != "always()") {
			t.Error("the report is not kept, last and whatever happened")
		}
		for _, m := range expression.FindAllStringSubmatch(fmt.Sprint(s), -1) {
			if input, ok := strings.CutPrefix(strings.Fields(m[1])[0], "inputs."); ok {
				used[input] = true
			}
		}
		if condition, ok := s["if"].(string); ok {
			for _, m := range regexp.MustCompile(`inputs\.([a-z-]+)`).FindAllStringSubmatch(condition, -1) {
				used[m[1]] = true
			}
		}
	}
	if want := []string{"actions/setup-go", "actions/cache", "actions/upload-artifact"}; !slices.Equal(kept, want) {
		t.Errorf("it uses %v, want %v", kept, want)
	}
	if a, b := slices.Sorted(maps.Keys(used)), slices.Sorted(maps.Keys(inputs)); !slices.Equal(a, b) {
		t.Errorf("the steps use the inputs %v, declared are %v", a, b)
	}
}

// bashTakes has bash read a script without running it.
func bashTakes(t *testing.T, where, text string) {
	t.Helper()
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("there is no bash")
	}
	c := exec.Command(bash, "-n")
	c.Stdin = strings.NewReader(text)
	if out, err := c.CombinedOutput(); err != nil {
		t.Errorf("%s: %v\n%s", where, err, out)
	}
}

// The example workflows give the action inputs that it has, and name suites that the example
// config has.
func TestWorkflows(t *testing.T) {
	inputs := at[schemaNode](t, ciFile(t, "action.yml"), "inputs")
	suites := at[schemaNode](t, ciFile(t, "docs/ci/robustness.yaml"), "suites")
	github := ciFile(t, "docs/ci/github-workflow.yml")
	for _, trigger := range []string{"push", "pull_request", "schedule", "workflow_dispatch"} {
		if _, ok := at[schemaNode](t, github, "on")[trigger]; !ok {
			t.Errorf("the workflow is not run on %s", trigger)
		}
	}
	jobs := at[schemaNode](t, github, "jobs")
	if len(jobs) != 2 {
		t.Errorf("the workflow has %d jobs", len(jobs))
	}
	for name := range jobs {
		at[string](t, jobs, name, "if")
		steps := items(at[[]any](t, jobs, name, "steps"))
		if steps[0]["uses"] != "actions/checkout@v4" || steps[1]["uses"] != "OWNER/selfheal@v1" {
			t.Errorf("job %s uses %v and %v", name, steps[0]["uses"], steps[1]["uses"])
		}
		with := at[schemaNode](t, steps[1], "with")
		for input := range with {
			if inputs[input] == nil {
				t.Errorf("job %s: the action has no input %s", name, input)
			}
		}
		if suites[fmt.Sprint(with["suite"])] == nil || with["config"] != "robustness.yaml" || with["baseline"] != fmt.Sprintf("baselines/%s.json", with["suite"]) {
			t.Errorf("job %s: %v", name, with)
		}
	}
	gitlab := ciFile(t, "docs/ci/gitlab-ci.yml")
	base := at[schemaNode](t, gitlab, ".robustness")
	if junit := at[string](t, base, "artifacts", "reports", "junit"); junit != "results/junit.xml" || at[string](t, base, "artifacts", "when") != "always" {
		t.Errorf("artifacts: %v", base["artifacts"])
	}
	at[[]any](t, base, "cache", "paths")
	at[string](t, base, "artifacts", "expose_as")
	for _, part := range []string{"before_script", "script"} {
		var lines []string
		for _, line := range at[[]any](t, base, part) {
			lines = append(lines, line.(string))
		}
		bashTakes(t, "gitlab-ci.yml, "+part, strings.Join(lines, "\n"))
	}
	for _, job := range []string{"robustness-quick", "robustness-full"} {
		if at[string](t, gitlab, job, "extends") != ".robustness" || suites[at[string](t, gitlab, job, "variables", "TIER")] == nil {
			t.Errorf("job %s: %v", job, gitlab[job])
		}
		at[[]any](t, gitlab, job, "rules")
	}
}

var (
	continued = regexp.MustCompile(`\\\n\s*`)
	called    = regexp.MustCompile(`(?:selfheal|go run \.) +([a-z]+)((?: +[^\s;&|)]+)*)`)
	inline    = regexp.MustCompile("`(?:selfheal|go run \\.)\\s[^`]*`|(?m)^    (?:selfheal|go run \\.) .*$")
	longFlag  = regexp.MustCompile(`(?:^|[\s(])--([a-z][a-z-]*)`)
)

// Every command line of the CI's files, and of what explains them, names a verb and flags
// that there are.
func TestCommandLinesOfCI(t *testing.T) {
	texts := map[string]string{}
	for _, s := range actionSteps(t) {
		if run, ok := s["run"].(string); ok {
			texts["action.yml, step "+fmt.Sprint(s["name"])] = run
		}
	}
	gitlab := ciFile(t, "docs/ci/gitlab-ci.yml")
	texts["gitlab-ci.yml"] = fmt.Sprintln(append(at[[]any](t, gitlab, ".robustness", "before_script"), at[[]any](t, gitlab, ".robustness", "script")...)...)
	texts["gitlab-ci.yml"] = strings.ReplaceAll(texts["gitlab-ci.yml"], " selfheal ", "\nselfheal ")
	for _, path := range []string{"docs/ci/robustness.yaml", "docs/ci.md"} {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for i, block := range strings.Split(string(data), "```") {
			if strings.HasSuffix(path, ".md") && i%2 == 0 {
				for k, code := range inline.FindAllString(block, -1) {
					texts[fmt.Sprint(path, ", text ", i, ".", k)] = strings.Join(strings.Fields(code), " ")
				}
			} else {
				texts[fmt.Sprint(path, ", block ", i)] = block
			}
		}
	}
	lines, flags := 0, 0
	for where, text := range texts {
		text = continued.ReplaceAllString(text, " ")
		for _, m := range called.FindAllStringSubmatch(text, -1) {
			c, _, err := rootCommand(repository).Find([]string{m[1]})
			if err != nil || c == nil || c.Name() != m[1] {
				if strings.HasPrefix(where, "docs/ci/robustness.yaml") { // its comments also speak of selfheal
					continue
				}
				t.Errorf("%s: %q: there is no verb %s", where, m[0], m[1])
				continue
			}
			lines++
			arguments := m[2]
			if strings.Contains(arguments, "${args[@]}") {
				arguments = text // that the script collects
			}
			flags += knownFlags(t, where+": "+m[0], c, arguments)
		}
	}
	if lines < 12 || flags < 30 {
		t.Errorf("only %d command lines with %d flags were found", lines, flags)
	}
}

func knownFlags(t *testing.T, where string, c *cobra.Command, arguments string) (n int) {
	t.Helper()
	for _, f := range longFlag.FindAllStringSubmatch(arguments, -1) {
		n++
		if c.Flags().Lookup(f[1]) == nil && c.InheritedFlags().Lookup(f[1]) == nil {
			t.Errorf("%s: %s has no flag --%s", where, c.Name(), f[1])
		}
	}
	return n
}

// The example config does what docs/ci.md says, from a first baseline on: both tiers run,
// and each passes or is inconclusive beside its own baseline.
func TestTiers(t *testing.T) {
	testinput.Runtime(t)
	for _, tier := range []string{"quick", "full"} {
		out, baseline := t.TempDir(), filepath.Join(t.TempDir(), tier+".json")
		for _, step := range []struct {
			args string
			exit []int
		}{
			{"run --config docs/ci/robustness.yaml --suite " + tier + " --limit 4 --set attacks.aa-linf.version=quick --set attacks.aa-l2.version=quick --quiet --out " + out, []int{0}},
			{"check --update --config docs/ci/robustness.yaml --baseline " + baseline + " " + out, []int{0}},
			{"check --config docs/ci/robustness.yaml --baseline " + baseline + " " + out, []int{0, 1, 2}},
			{"check --config docs/ci/robustness.yaml --set gate.min={} --baseline " + baseline + " " + out, []int{2}}, // 4 images tell nothing
		} {
			var stdout, stderr bytes.Buffer
			if code := run(context.Background(), repository, strings.Fields(step.args), &stdout, &stderr); !slices.Contains(step.exit, code) {
				t.Fatalf("%s: exit %d\n%s%s", step.args, code, stdout.String(), stderr.String())
			}
		}
		validateRun(t, out)
		data, err := os.ReadFile(baseline)
		if err != nil {
			t.Fatal(err)
		}
		validateJSON(t, schema(t, "baseline"), data)
	}
}
