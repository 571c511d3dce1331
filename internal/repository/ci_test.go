package repository

import (
	"fmt"
	"maps"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

// node is a mapping of a YAML file.
type node = map[string]any

// ciFile reads a YAML file of CI.
func ciFile(t *testing.T, path string) node {
	t.Helper()
	var v node
	if err := yaml.Unmarshal([]byte(read(t, path)), &v); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return v
}

// at returns what lies in v at a path of keys.
func at[T any](t *testing.T, v any, path ...string) (found T) {
	t.Helper()
	for _, key := range path {
		m, _ := v.(node)
		v = m[key]
	}
	found, ok := v.(T)
	if !ok {
		t.Fatalf("%s is %T %v", strings.Join(path, "."), v, v)
	}
	return found
}

// nodes are the mappings in the list that lies in v at a path of keys.
func nodes(t *testing.T, v any, path ...string) (list []node) {
	t.Helper()
	for _, item := range at[[]any](t, v, path...) {
		list = append(list, item.(node))
	}
	return list
}

// lines are the script that lies in v at a path of keys.
func lines(t *testing.T, v any, path ...string) string {
	t.Helper()
	var text []string
	for _, line := range at[[]any](t, v, path...) {
		text = append(text, line.(string))
	}
	return strings.Join(text, "\n")
}

// actionSteps are those of action.yml.
func actionSteps(t *testing.T) []node {
	t.Helper()
	return nodes(t, ciFile(t, "action.yml"), "runs", "steps")
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
	t.Parallel()
	action := ciFile(t, "action.yml")
	if at[string](t, action, "runs", "using") != "composite" || at[string](t, action, "name") == "" ||
		at[string](t, action, "description") == "" {
		t.Error("action.yml is no composite action with name and description")
	}
	inputs := at[node](t, action, "inputs")
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
	t.Parallel()
	inputs := at[node](t, ciFile(t, "action.yml"), "inputs")
	suites := at[node](t, ciFile(t, "docs/ci/robustness.yaml"), "suites")
	github := ciFile(t, "docs/ci/github-workflow.yml")
	for _, trigger := range []string{"push", "pull_request", "schedule", "workflow_dispatch"} {
		if _, ok := at[node](t, github, "on")[trigger]; !ok {
			t.Errorf("the workflow is not run on %s", trigger)
		}
	}
	jobs := at[node](t, github, "jobs")
	if len(jobs) != 2 {
		t.Errorf("the workflow has %d jobs", len(jobs))
	}
	for name := range jobs {
		at[string](t, jobs, name, "if")
		steps := nodes(t, jobs, name, "steps")
		if steps[0]["uses"] != "actions/checkout@v4" || steps[1]["uses"] != "OWNER/selfheal@v1" {
			t.Errorf("job %s uses %v and %v", name, steps[0]["uses"], steps[1]["uses"])
		}
		with := at[node](t, steps[1], "with")
		for input := range with {
			if inputs[input] == nil {
				t.Errorf("job %s: the action has no input %s", name, input)
			}
		}
		if suites[fmt.Sprint(with["suite"])] == nil || with["config"] != "robustness.yaml" ||
			with["baseline"] != fmt.Sprintf("baselines/%s.json", with["suite"]) {
			t.Errorf("job %s: %v", name, with)
		}
	}
	gitlab := ciFile(t, "docs/ci/gitlab-ci.yml")
	base := at[node](t, gitlab, ".robustness")
	if at[string](t, base, "artifacts", "reports", "junit") != "results/junit.xml" ||
		at[string](t, base, "artifacts", "when") != "always" {
		t.Errorf("artifacts: %v", base["artifacts"])
	}
	at[[]any](t, base, "cache", "paths")
	at[string](t, base, "artifacts", "expose_as")
	for _, part := range []string{"before_script", "script"} {
		bashTakes(t, "gitlab-ci.yml, "+part, lines(t, base, part))
	}
	for _, job := range []string{"robustness-quick", "robustness-full"} {
		if at[string](t, gitlab, job, "extends") != ".robustness" ||
			suites[at[string](t, gitlab, job, "variables", "TIER")] == nil {
			t.Errorf("job %s: %v", job, gitlab[job])
		}
		at[[]any](t, gitlab, job, "rules")
	}
}
