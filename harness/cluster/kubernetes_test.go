package cluster

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	batch "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/yaml"

	"selfheal/internal/must"
)

var update = flag.Bool("update", false, "rewrite the golden files")

var eight = Kubernetes{Image: "registry.example/lab/selfheal:1", Claim: "lab", Namespace: "robust", CPU: "4",
	Memory: "8Gi", GPUs: 1, Parallelism: 4, User: 2001, Group: 3001}

func eightShards() Job {
	return Job{Shards: 8, Dir: "/data/out",
		Command: []string{"selfheal", "run", "--config", "mine.yaml", "--out", "/data/out"}}
}

// decoded returns a job's manifest as the API's types. A field that they lack is an error.
func decoded(t *testing.T, k Kubernetes, j Job) (text string, job batch.Job) {
	t.Helper()
	text = must.Get(k.Render(j))(t)
	must.Do(t, yaml.UnmarshalStrict([]byte(text), &job))
	return text, job
}

// The manifest is the golden one, whose keys are spelt as the API's.
func TestManifest(t *testing.T) {
	text, job := decoded(t, eight, eightShards())
	api := string(must.Get(json.Marshal(job))(t))
	for _, key := range regexp.MustCompile(`(?m)(?:^[ -]*|[{,] ?)([A-Za-z]+):`).FindAllStringSubmatch(text, -1) {
		must.Have(t, api, `"`+key[1]+`":`)
	}
	golden := filepath.Join("testdata", "job.yaml")
	if *update {
		must.Do(t, os.WriteFile(golden, []byte(text), 0o644))
	}
	if want := string(must.Get(os.ReadFile(golden))(t)); text != want {
		t.Errorf("%s is another one:\n%s", golden, text)
	}
}

// Nothing is requested for zero values, and nobody runs as root.
func TestManifestOfZeroValues(t *testing.T) {
	_, job := decoded(t, Kubernetes{Image: "i", Claim: "c"}, eightShards())
	pod := job.Spec.Template.Spec
	if job.Namespace != "" || *job.Spec.Parallelism != 8 || *pod.SecurityContext.RunAsUser < 1 ||
		*pod.SecurityContext.RunAsGroup < 1 || !reflect.ValueOf(pod.Containers[0].Resources).IsZero() {
		t.Errorf("%+v", job)
	}
	for asked, want := range map[int]int{7: 7, 0: 501} {
		if got := own(asked, func() int { return 501 }); got != want {
			t.Errorf("%d: %d", asked, got)
		}
	}
	if got := own(0, func() int { return 0 }); got != 1000 {
		t.Errorf("root's: %d", got)
	}
}

// A name is a DNS label that leaves room for a pod's index, and changes with any part of the job.
func TestNames(t *testing.T) {
	names := map[string]bool{}
	add := func(k Kubernetes, j Job) {
		_, job := decoded(t, k, j)
		if len(job.Name) > 50 || len(validation.IsDNS1123Label(job.Name)) > 0 {
			t.Errorf("%q", job.Name)
		}
		names[job.Name] = true
	}
	changes := []func(*Kubernetes, *Job){
		func(*Kubernetes, *Job) {},
		func(k *Kubernetes, _ *Job) { k.Image = "other" },
		func(k *Kubernetes, _ *Job) { k.Memory = "9Gi" },
		func(_ *Kubernetes, j *Job) { j.Shards = 9 },
		func(_ *Kubernetes, j *Job) { j.Command = append(j.Command, "--limit=3") },
	}
	for _, change := range slices.Concat(changes, changes) {
		k, j := eight, eightShards()
		change(&k, &j)
		add(k, j)
	}
	if len(names) != len(changes) {
		t.Errorf("%d names of %d jobs", len(names), len(changes))
	}
}

var hostile = []string{"two words", "", " ", "'", `"`, `\`, `\n`, "a\nb\n", "\t\r\n", "$HOME", "$(HOME)", "$$(HOME)",
	"$$", "$((1+1))", "`id`", "# no comment", "- item", "key: value", "*x", "&x", "!!int 3", "yes", "0x1F", "~",
	"{a: [b", "|", ">-", "%", "@", "---", "...", "Ünï→😀", "\u0085\u2028\u2029", "\x7f\x1b\u009f", "\ufeff", "--",
	"{{.Image}}"}

// expanded expands a text in command and args as Kubernetes does: $(NAME) becomes a variable's value if there is one
// and else stays, $$ becomes $.
func expanded(text string, env map[string]string) string {
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		rest := text[i:]
		end := strings.IndexByte(rest, ')')
		switch {
		case strings.HasPrefix(rest, "$$"):
			b.WriteByte('$')
			i++
		case strings.HasPrefix(rest, "$(") && end > 0:
			value, ok := env[rest[2:end]]
			if !ok {
				value = rest[:end+1]
			}
			b.WriteString(value)
			i += end
		default:
			b.WriteByte(text[i])
		}
	}
	return b.String()
}

// started runs the command of the pod with an index, and returns the program's arguments.
func started(t *testing.T, job batch.Job, index string) []string {
	t.Helper()
	c, env := job.Spec.Template.Spec.Containers[0], map[string]string{"JOB_COMPLETION_INDEX": index}
	for _, v := range c.Env {
		env[v.Name] = v.Value
	}
	var args []string
	for _, text := range slices.Concat(c.Command, c.Args) {
		args = append(args, expanded(text, env))
	}
	run := exec.Command(args[0], args[1:]...)
	for name, value := range env {
		run.Env = append(run.Env, name+"="+value)
	}
	out := must.Get(run.Output())(t)
	return strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
}

// program returns a script in place of another program.
func program(t *testing.T, name, script string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	must.Do(t, os.WriteFile(path, []byte("#!/bin/sh\n"+script), 0o755))
	return path
}

func TestArgumentsArriveAsTheyWere(t *testing.T) {
	j := eightShards()
	j.Command = append([]string{program(t, "self heal $x", `printf '%s\0' "$@"`)}, hostile...)
	_, job := decoded(t, eight, j)
	want := slices.Concat(hostile, []string{"--shard", "3/8", "--attempt"})
	if got := started(t, job, "2"); !slices.Equal(got, want) {
		t.Errorf("%q, not %q", got, want)
	}
	k := eight
	k.Mount = "/vol 'x' # $(HOME) \"y\"\n{z"
	j.Dir = k.Mount + "/out"
	_, job = decoded(t, k, j)
	c := job.Spec.Template.Spec.Containers[0]
	if c.WorkingDir != k.Mount || c.VolumeMounts[0].MountPath != k.Mount {
		t.Errorf("%q", c.WorkingDir)
	}
}

// Each index runs one shard, and each shard has one index.
func TestIndicesAreTheShards(t *testing.T) {
	show := program(t, "selfheal", `printf '%s\0' "$@"`)
	_, job := decoded(t, eight, Job{Shards: 12, Dir: "/data/out", Command: []string{show}})
	if *job.Spec.Completions != 12 || *job.Spec.Parallelism != 4 {
		t.Errorf("%d indices, %d at once", *job.Spec.Completions, *job.Spec.Parallelism)
	}
	for i := range 12 {
		want := []string{"--shard", fmt.Sprintf("%d/12", i+1), "--attempt"}
		if got := started(t, job, fmt.Sprint(i)); !slices.Equal(got, want) {
			t.Errorf("index %d: %q", i, got)
		}
	}
}

func TestWhatCantBeWritten(t *testing.T) {
	for want, change := range map[string]func(*Kubernetes, *Job){
		"--image":               func(k *Kubernetes, _ *Job) { k.Image = "" },
		"--claim":               func(k *Kubernetes, _ *Job) { k.Claim = "" },
		`at "."`:                func(_ *Kubernetes, j *Job) { j.Dir = "out" },
		`at "/"`:                func(_ *Kubernetes, j *Job) { j.Dir = "/out" },
		`at "/tmp"`:             func(_ *Kubernetes, j *Job) { j.Dir = "/tmp/out" },
		`at "/a:b"`:             func(k *Kubernetes, _ *Job) { k.Mount = "/a:b" },
		"folder /data/out: it":  func(k *Kubernetes, _ *Job) { k.Mount = "/dat" },
		"folder /data/../x: it": func(k *Kubernetes, _ *Job) { k.Folder = "/data/../x" },
		"negative":              func(k *Kubernetes, _ *Job) { k.GPUs = -1 },
		"not UTF-8":             func(_ *Kubernetes, j *Job) { j.Command[0] = "\xff" },
	} {
		k, j := eight, eightShards()
		change(&k, &j)
		if text, err := k.Render(j); err == nil || text != "" || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

func TestSpans(t *testing.T) {
	if text := Spans([]int{0, 5, 6, 9}); text != "0,5-6,9" {
		t.Error(text)
	}
}

// The program does not contain the API's types, which are many megabytes.
func TestTypesAreOfTestsOnly(t *testing.T) {
	deps := strings.Fields(string(must.Get(exec.Command("go", "list", "-deps", "selfheal").Output())(t)))
	if !slices.Contains(deps, "selfheal/harness") {
		t.Fatal(deps)
	}
	for _, path := range deps {
		if strings.Contains(path, "k8s.io/") {
			t.Errorf("%s is linked", path)
		}
	}
}
