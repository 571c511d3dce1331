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

// ciFile reads a YAML file of CI.
func ciFile[T any](t *testing.T, path string) (v T) {
	t.Helper()
	if err := yaml.Unmarshal([]byte(read(t, path)), &v); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return v
}

// step is a step of an action or of a workflow's job.
type step struct {
	Name, Uses, If, Shell, Run string
	Env, With                  map[string]any
}

type action struct {
	Inputs map[string]struct{ Description, Default string }
	Runs   struct {
		Using string
		Steps []step
	}
}

// script returns the script of a step of action.yml.
func script(t *testing.T, name string) string {
	t.Helper()
	for _, s := range ciFile[action](t, "action.yml").Runs.Steps {
		if s.Name == name {
			return s.Run
		}
	}
	t.Fatalf("action.yml has no step %q", name)
	return ""
}

// gitlabJob is a job of docs/ci/gitlab-ci.yml.
type gitlabJob struct {
	Extends   string
	Script    []string
	Before    []string `yaml:"before_script"`
	Passes    any      `yaml:"allow_failure"`
	Variables map[string]string
}

func gitlabJobs(t *testing.T) map[string]gitlabJob {
	t.Helper()
	return ciFile[map[string]gitlabJob](t, "docs/ci/gitlab-ci.yml")
}

var (
	expression = regexp.MustCompile(`\$\{\{\s*(.*?)\s*\}\}`)
	input      = regexp.MustCompile(`inputs\.([a-z-]+)`)
	pinned     = regexp.MustCompile(`^actions/[a-z-]+@[0-9a-f]{40}$`)
)

// The action's steps use its inputs, all of them, and pass them to scripts by the environment alone.
func TestAction(t *testing.T) {
	t.Parallel()
	a := ciFile[action](t, "action.yml")
	for name, in := range a.Inputs {
		if in.Description == "" {
			t.Errorf("input %s has no description", name)
		}
	}
	used := map[string]bool{}
	for _, s := range a.Runs.Steps {
		switch {
		case s.Run == "" && !pinned.MatchString(s.Uses):
			t.Errorf("step %s uses %s, which is no action of GitHub's, pinned by commit", s.Name, s.Uses)
		case s.Run != "" && s.Shell != "bash":
			t.Errorf("step %s: its shell is %v", s.Name, s.Shell)
		case expression.MatchString(s.Run):
			t.Errorf("step %s: an expression in a script lets its value be run; pass it by env", s.Name)
		}
		bashTakes(t, "action.yml, step "+s.Name, s.Run)
		said := append(expression.FindAllString(fmt.Sprint(s), -1), s.If)
		for _, m := range input.FindAllStringSubmatch(strings.Join(said, " "), -1) {
			used[m[1]] = true
		}
	}
	if last := a.Runs.Steps[len(a.Runs.Steps)-1]; !strings.Contains(last.Uses, "upload-artifact") ||
		last.If != "always()" {
		t.Error("the report is not kept, last and whatever happened")
	}
	if a, b := slices.Sorted(maps.Keys(used)), slices.Sorted(maps.Keys(a.Inputs)); !slices.Equal(a, b) {
		t.Errorf("the steps use the inputs %v, declared are %v", a, b)
	}
}

// bashTakes checks a script's syntax by bash without running it.
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

// The example workflows give the action inputs that it has, and name suites that the example config has.
func TestWorkflows(t *testing.T) {
	t.Parallel()
	inputs := ciFile[action](t, "action.yml").Inputs
	suites := ciFile[struct{ Suites map[string]any }](t, "docs/ci/robustness.yaml").Suites
	workflow := ciFile[struct {
		Jobs map[string]struct{ Steps []step }
	}](t, "docs/ci/github-workflow.yml")
	if len(workflow.Jobs) != 2 {
		t.Errorf("the workflow has %d jobs", len(workflow.Jobs))
	}
	for name, job := range workflow.Jobs {
		with := job.Steps[1].With
		for input := range with {
			if _, ok := inputs[input]; !ok {
				t.Errorf("job %s: the action has no input %s", name, input)
			}
		}
		if suites[fmt.Sprint(with["suite"])] == nil || with["config"] != "robustness.yaml" ||
			with["baseline"] != fmt.Sprintf("baselines/%s.json", with["suite"]) {
			t.Errorf("job %s: %v", name, with)
		}
	}
	jobs := gitlabJobs(t)
	bashTakes(t, "gitlab-ci.yml, before_script", strings.Join(jobs[".robustness"].Before, "\n"))
	for _, name := range []string{"robustness-quick", "robustness-full"} {
		if job := jobs[name]; job.Extends != ".robustness" || suites[job.Variables["TIER"]] == nil {
			t.Errorf("job %s: %+v", name, job)
		}
	}
}
