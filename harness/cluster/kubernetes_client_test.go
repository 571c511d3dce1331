package cluster

import (
	"context"
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"selfheal/internal/must"
)

// kubectl returns a script in place of the client, in a folder of its own. It notes each call in calls, answers with
// the Job in job and the pods in pods, and stores and deletes Jobs there.
func kubectl(t *testing.T, job, pods string) (k Kubernetes, dir string) {
	k = eight
	k.program = program(t, "kubectl", `cd "$(dirname "$0")" && echo "$*" >> calls
case "$1 $2" in
"get job") [ ! -e job ] || cat job ;;
"get pods") cat pods ;;
"create -f") [ ! -e job ] || { echo 'Error from server (AlreadyExists): it is there' >&2; exit 1; }
	cat > manifest; sed -n 's|^  name: |robust/|p' manifest ;;
"delete job") rm job ;;
*) echo "error: what is $1?" >&2; exit 1 ;;
esac`)
	dir = filepath.Dir(k.program)
	must.Do(t, os.WriteFile(filepath.Join(dir, "pods"), []byte(pods), 0o644))
	if job != "" {
		must.Do(t, os.WriteFile(filepath.Join(dir, "job"), []byte(job), 0o644))
	}
	return k, dir
}

// read returns a file's text.
func read(t *testing.T, dir, name string) string {
	t.Helper()
	return string(must.Get(os.ReadFile(filepath.Join(dir, name)))(t))
}

func TestSubmit(t *testing.T) {
	name, manifest, err := eight.manifest(eightShards())
	must.Do(t, err)
	get := "get job " + name + " --ignore-not-found -o json --namespace=robust --request-timeout=60s\n"
	create := "create -f - -o jsonpath={.metadata.namespace}/{.metadata.name} " +
		"--namespace=robust --request-timeout=60s\n"
	remove := "delete job " + name + " --ignore-not-found --namespace=robust --request-timeout=60s\n"
	meta := `{"metadata": {"namespace": "robust", "annotations": {"selfheal/shards": "1-8"}}, "status": {`
	conditions := meta + `"conditions": [{"type": `
	for what, c := range map[string]struct{ job, calls string }{
		"new":      {"", get + create},
		"running":  {conditions + `"Failed", "status": "False"}, {"type": "Suspended", "status": "True"}]}}`, get},
		"given up": {meta + `"completedIndexes": "0-6", "failedIndexes": "7"}}`, get + remove + create},
		"failed":   {conditions + `"Failed", "status": "True"}]}}`, get + remove + create},
		"complete": {conditions + `"Complete", "status": "True"}]}}`, get + remove + create},
	} {
		k, dir := kubectl(t, c.job, "")
		id, err := k.Submit(t.Context(), eightShards())
		if err != nil || id != "robust/"+name {
			t.Errorf("%s: %q, %v", what, id, err)
		}
		if calls := read(t, dir, "calls"); calls != c.calls {
			t.Errorf("%s:\n%snot\n%s", what, calls, c.calls)
		}
		if strings.Contains(c.calls, create) && read(t, dir, "manifest") != manifest {
			t.Errorf("%s: another manifest", what)
		}
	}
}

func TestStates(t *testing.T) {
	const of = `{"metadata": {"namespace": "robust", "annotations": {"selfheal/shards": "2-4,7,9-10"}}, "status": {`
	for what, c := range map[string]struct {
		job, pods string
		want      map[int]State
	}{
		"deleted": {"", "", nil},
		"submitted": {of + `}}`, "",
			map[int]State{2: Waiting, 3: Waiting, 4: Waiting, 7: Waiting, 9: Waiting, 10: Waiting}},
		"under way": {of + `"active": 3, "completedIndexes": "0,3-4", "failedIndexes": "1"}}`, "2,2,77,",
			map[int]State{4: Running, 10: Waiting}},
		"a pod outlives its index": {of + `"completedIndexes": "0-4"}}`, "0,5,", map[int]State{10: Running}},
		"all are over":             {of + `"completedIndexes": "0-4", "failedIndexes": "5"}}`, "", nil},
		"failed": {of + `"failedIndexes": "1", "conditions": [{"type": "Failed", "status": "True"}]}}`, "3,",
			nil},
		"failing": {of + `"failedIndexes": "1", "conditions": [{"type": "FailureTarget", "status": "True"}]}}`, "3,",
			map[int]State{2: Waiting, 4: Waiting, 7: Running, 9: Waiting, 10: Waiting}},
	} {
		k, dir := kubectl(t, c.job, c.pods)
		got, err := k.States(t.Context(), "robust/selfheal-x")
		if err != nil || !maps.Equal(got, c.want) {
			t.Errorf("%s: %v, not %v (%v)", what, got, c.want, err)
		}
		pods := "get pods -l batch.kubernetes.io/job-name=selfheal-x --field-selector status.phase=Running"
		if calls := read(t, dir, "calls"); strings.Contains(calls, pods) != (len(c.want) > 0) ||
			strings.Count(calls, "--namespace=robust") != strings.Count(calls, "\n") {
			t.Errorf("%s: %s", what, calls)
		}
	}
}

func TestErrorsOfTheClient(t *testing.T) {
	saying := func(script string) Kubernetes {
		k := eight
		k.program = program(t, "kubectl", script)
		return k
	}
	absent := eight
	absent.program = "no-such-kubectl"
	for want, k := range map[string]Kubernetes{
		"no-such-kubectl is not on this machine": absent,
		"kubectl: Error from server (Forbidden): jobs.batch is forbidden ask somebody (exit status 1)": saying(
			"printf 'Error from server (Forbidden): jobs.batch is forbidden\\r\\n\\nask somebody\\n' >&2; exit 1"),
		"kubectl: Unable to connect to the server": saying(
			"(echo 'E1122 15:11:08.2 153 memcache.go:265] no list'; echo Unable to connect to the server) >&2; exit 1"),
		"exit status 3":         saying("exit 3"),
		"its answer is no JSON": saying("echo yes"),
	} {
		_, err := k.Submit(t.Context(), eightShards())
		_, also := k.States(t.Context(), "robust/selfheal-x")
		_, third := k.Nodes(t.Context())
		for _, err := range []error{err, also, third} {
			if err == nil || !strings.Contains(err.Error(), want) || strings.ContainsAny(err.Error(), "\r\n") {
				t.Errorf("%v, not %s", err, want)
			}
		}
	}
	for want, job := range map[string]string{ // the server's state of the Job
		"does not say which": `{"metadata": {}}`,
		`"3-x" is no list`:   `{"metadata":{"annotations":{"selfheal/shards":"1"}},"status":{"failedIndexes":"3-x"}}`,
		`"x" is no list`:     `{"metadata": {"annotations": {"selfheal/shards": "x"}}}`,
	} {
		k, _ := kubectl(t, job, "")
		if _, err := k.States(t.Context(), "robust/selfheal-x"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, not %s", err, want)
		}
	}
	for _, id := range []string{"", "x", "/x", "x/", "-n/x", "a/b/c", "a/-b"} {
		if states, err := absent.States(t.Context(), id); err == nil || !strings.Contains(err.Error(), "is no Job") {
			t.Errorf("%q: %v, %v", id, states, err)
		}
	}
	stopped, stop := context.WithCancel(t.Context())
	stop()
	if _, err := saying("sleep 9").Submit(stopped, eightShards()); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// The printed command ends the job as users would type it.
func TestCancelling(t *testing.T) {
	k, dir := kubectl(t, "{}", "")
	line := k.Cancelling("robust/selfheal-x")
	must.Do(t, exec.Command("sh", "-c", line).Run())
	if _, err := os.Stat(filepath.Join(dir, "job")); err == nil || !strings.HasSuffix(line, "selfheal-x -n robust") {
		t.Errorf("%s: %v", line, err)
	}
	if got := (Kubernetes{}).Cancelling("a/b"); got != "kubectl delete job b -n a" {
		t.Error(got)
	}
}

// The program does not contain the API's types, which are many megabytes; its quantities are a small part.
func TestTypesAreOfTestsOnly(t *testing.T) {
	deps := strings.Fields(string(must.Get(exec.Command("go", "list", "-deps", "selfheal").Output())(t)))
	if !slices.Contains(deps, "selfheal/harness") {
		t.Fatal(deps)
	}
	for _, path := range deps {
		if strings.Contains(path, "k8s.io/api/") {
			t.Errorf("%s is linked", path)
		}
	}
}

// A node counts if it is ready and takes pods without tolerations.
func TestKubernetesNodes(t *testing.T) {
	node := func(spec, ready string) string {
		return `{"spec": {` + spec + `}, "status": {"conditions": [{"type": "MemoryPressure", "status": "True"},
			{"type": "Ready", "status": "` + ready + `"}]}}`
	}
	k := eight
	k.program = program(t, "kubectl", `[ "$1 $2" = "get nodes" ] && cat <<'end'
{"kind": "NodeList", "items": [`+strings.Join([]string{node("", "True"), node("", "Unknown"),
		node(`"unschedulable": true`, "True"), node(`"taints": [{"key": "a", "effect": "NoSchedule"}]`, "True"),
		node(`"taints": [{"key": "a", "effect": "PreferNoSchedule"}]`, "True")}, ",")+`]}
end`)
	if n, err := k.Nodes(t.Context()); n != 2 || err != nil {
		t.Errorf("%d nodes, %v", n, err)
	}
}
