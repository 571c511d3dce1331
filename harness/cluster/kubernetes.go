package cluster

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"text/template"
	"unicode/utf8"

	"selfheal/internal/lists"

	"github.com/distribution/reference"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"
)

// Kubernetes runs the shards of a job as the indices of one indexed Job, by kubectl. Brackets hold the meaning of
// a field's zero value.
type Kubernetes struct {
	Image string // has the program, a shell and ONNX Runtime's library
	Claim string // the PersistentVolumeClaim that holds config, models, data and results

	// Mount is the absolute path at which the claim's volume is mounted, here as in the pods, so that a path means the
	// same file in both [the folder that holds the run's: with DIR at the top of the volume it is right, and elsewhere
	// the pods find no config and end with exit code 2].
	Mount string
	// Folder is the one from which relative paths in the command count; it lies in Mount [Mount].
	Folder string

	Namespace string // [the one that kubectl is set to]
	CPU       string // cores that a pod asks for, such as "4"; it may use more where there are more [none]
	Memory    string // that a pod asks for and may use, such as "8Gi" [none, and no limit]
	GPUs      int    // NVIDIA's, for each pod [none]

	// Parallelism is how many shards run at once [all].
	Parallelism int
	// User and Group are the ids that the pods run as; neither may be root's. The files on the volume must be readable,
	// and the run's folder writable, for them [those of who submits, as the files are theirs; 1000 where that is root].
	User, Group int

	program string // the program to call [kubectl]
}

// Annotations of a Job: the run's folder, and the shards that its indices are, in order ("1-3,7").
const (
	folderKey = "selfheal/folder"
	shardsKey = "selfheal/shards"
)

//go:embed kubernetes.yaml
var kubernetesText string

var kubernetesJob = template.Must(template.New("").Option("missingkey=error").Parse(kubernetesText))

// Render writes the manifest of the Job. It bounds failures per shard and not in all, so that what one shard does takes
// nothing from the others, and lets the Job stay when it has ended: its state and its pods' logs are wanted then.
func (k Kubernetes) Render(j Job) (string, error) {
	_, manifest, err := k.manifest(j)
	return manifest, err
}

// manifest is the manifest of a job, and the name in it: the job's, and a hash of all the rest.
func (k Kubernetes) manifest(j Job) (name, text string, err error) {
	if k.Mount == "" {
		k.Mount = path.Dir(j.Dir)
	}
	k.Folder = cmp.Or(k.Folder, k.Mount)
	if err := k.check(j); err != nil {
		return "", "", err
	}
	list := Spans(j.Which)
	values := map[string]any{
		"Namespace": k.Namespace, "FolderKey": folderKey, "Dir": j.Dir, "ShardsKey": shardsKey, "Shards": list,
		"Completions": len(j.Which), "Parallelism": min(cmp.Or(k.Parallelism, len(j.Which)), len(j.Which)),
		"User": own(k.User, os.Getuid), "Group": own(k.Group, os.Getgid), "Image": k.Image, "Folder": k.Folder,
		"Ranges": strings.ReplaceAll(list, ",", " "), "Of": j.Shards, "Args": dollars(j.Command),
		"CPU": k.CPU, "Memory": k.Memory, "GPUs": k.GPUs, "Mount": k.Mount, "Claim": k.Claim, "Name": "",
	}
	var b bytes.Buffer
	if err := kubernetesJob.Execute(&b, values); err != nil {
		return "", "", err
	}
	name = fmt.Sprintf("selfheal-%.5x", sha256.Sum256(b.Bytes()))
	values["Name"] = name
	b.Reset()
	err = kubernetesJob.Execute(&b, values)
	return name, b.String(), err
}

// scattered is the longest list of shards that a manifest takes: Linux ends a program with an argument above 128 KiB.
const scattered = 100_000

func (k Kubernetes) check(j Job) error {
	for _, text := range slices.Concat([]string{j.Dir, k.Image, k.Claim, k.Mount, k.Folder, k.Namespace, k.CPU,
		k.Memory}, j.Command) {
		if !utf8.ValidString(text) || strings.ContainsRune(text, 0) {
			return fmt.Errorf("%q can't be written to a manifest: it is not UTF-8, or has a zero byte", text)
		}
	}
	if _, err := reference.ParseAnyReference(k.Image); k.Image != "" && err != nil {
		return fmt.Errorf("--image %q is no image: %w", k.Image, err)
	}
	for _, asked := range []struct{ flag, text string }{{"cpu", k.CPU}, {"memory", k.Memory}} {
		if q, err := resource.ParseQuantity(asked.text); asked.text != "" && (err != nil || q.Sign() <= 0) {
			return fmt.Errorf("--%s %q is no quantity of Kubernetes above 0, such as 4, 500m or 8Gi", asked.flag,
				asked.text)
		}
	}
	within := func(dir string) bool {
		rel, err := filepath.Rel(k.Mount, dir)
		return err == nil && path.IsAbs(dir) && filepath.IsLocal(rel)
	}
	switch {
	case k.Image == "":
		return errors.New("no image: --image names the one that the pods run")
	case k.Claim == "":
		return errors.New("no claim: --claim names the PersistentVolumeClaim with config, models, data and results")
	case !path.IsAbs(k.Mount), path.Clean(k.Mount) != k.Mount, k.Mount == "/", k.Mount == "/tmp",
		strings.Contains(k.Mount, ":"):
		return fmt.Errorf("a volume can't be mounted at %q: it takes an absolute path without a colon, "+
			"neither / nor /tmp, and the same one here", k.Mount)
	case !within(j.Dir):
		return fmt.Errorf("output folder %s: it must lie on the claim's volume, which is mounted at %s", j.Dir, k.Mount)
	case !within(k.Folder):
		return fmt.Errorf("working folder %s: it must lie on the claim's volume, which is mounted at %s", k.Folder,
			k.Mount)
	case k.GPUs < 0 || k.Parallelism < 0 || k.User < 0 || k.Group < 0:
		return errors.New("GPUs, parallelism and ids of user and group can't be negative")
	case k.Namespace != "" && len(validation.IsDNS1123Label(k.Namespace)) > 0:
		return fmt.Errorf("--namespace %q is no namespace: it has small letters, digits and hyphens", k.Namespace)
	case len(validation.IsDNS1123Subdomain(k.Claim)) > 0:
		return fmt.Errorf("--claim %q is no claim's name: it has small letters, digits, hyphens and dots", k.Claim)
	case len(Spans(j.Which)) > scattered:
		return fmt.Errorf("the %d shards to run are too scattered for one Job: run all %d", len(j.Which), j.Shards)
	}
	return nil
}

// own is an id: the one that is asked for, who calls has, or the first that systems give to people.
func own(asked int, here func() int) int {
	if asked == 0 {
		asked = here()
	}
	if asked <= 0 { // root's; -1 where the system has none
		asked = 1000
	}
	return asked
}

// dollars doubles each $, of which Kubernetes makes one again; $(NAME) would be a variable's value.
func dollars(args []string) []string {
	return lists.Map(args, func(arg string) string { return strings.ReplaceAll(arg, "$", "$$") })
}

// Submit creates the Job, and returns its namespace/name. One of the same content that still has work is the job
// already, as after a submission whose answer was lost; one that has none makes place.
func (k Kubernetes) Submit(ctx context.Context, j Job) (id string, err error) {
	name, manifest, err := k.manifest(j)
	if err != nil {
		return "", err
	}
	there, err := k.job(ctx, k.Namespace, name)
	if err != nil {
		return "", err
	}
	if there != nil {
		_, left, err := there.left()
		if err != nil || len(left) > 0 {
			return there.Metadata.Namespace + "/" + name, err
		}
		if _, err := k.call(ctx, k.Namespace, "", "delete", "job", name, "--ignore-not-found"); err != nil {
			return "", err
		}
	}
	return k.call(ctx, k.Namespace, manifest, "create", "-f", "-",
		"-o", "jsonpath={.metadata.namespace}/{.metadata.name}")
}

// States asks for the Job and, where it has work, for its pods that run.
func (k Kubernetes) States(ctx context.Context, id string) (map[int]State, error) {
	if !anID.MatchString(id) {
		return nil, fmt.Errorf("%q is no Job: it takes a namespace, a slash and a name", id)
	}
	namespace, name, _ := strings.Cut(id, "/")
	job, err := k.job(ctx, namespace, name)
	if err != nil || job == nil {
		return nil, err
	}
	shards, left, err := job.left()
	if err != nil || len(left) == 0 {
		return nil, err
	}
	list, err := k.call(ctx, namespace, "", "get", "pods", "-l", "batch.kubernetes.io/job-name="+name,
		"--field-selector", "status.phase=Running", "-o",
		`jsonpath={range .items[*]}{.metadata.annotations.batch\.kubernetes\.io/job-completion-index},{end}`)
	if err != nil {
		return nil, err
	}
	running, err := numbers(strings.Trim(list, ","))
	for _, i := range running {
		if i < len(shards) && left[shards[i]] == Waiting { // and not gone: a pod may outlive its index
			left[shards[i]] = Running
		}
	}
	return left, err
}

var anID = regexp.MustCompile(`^[a-z0-9][a-z0-9-]*/[a-z0-9][a-z0-9.-]*$`)

// Logs is kubectl's command.
func (k Kubernetes) Logs(id, _ string) string {
	namespace, name, _ := strings.Cut(id, "/")
	return fmt.Sprintf("%s logs -n %s -l batch.kubernetes.io/job-name=%s", k.client(), namespace, name)
}

// Cancelling deletes the Job and its pods; what they have done stays.
func (k Kubernetes) Cancelling(id string) string {
	namespace, name, _ := strings.Cut(id, "/")
	return fmt.Sprintf("%s delete job %s -n %s", k.client(), name, namespace)
}

type indexedJob struct {
	Metadata struct {
		Namespace, Name string
		Annotations     map[string]string
	}
	Status struct {
		CompletedIndexes, FailedIndexes string
		Conditions                      []struct{ Type, Status string }
	}
}

// left are the shards by their index, and as waiting those of them that are neither done nor given up.
func (j *indexedJob) left() (shards []int, left map[int]State, err error) {
	shards, err = numbers(j.Metadata.Annotations[shardsKey])
	completed, cerr := numbers(j.Status.CompletedIndexes)
	failed, ferr := numbers(j.Status.FailedIndexes)
	if err == nil && len(shards) == 0 {
		err = fmt.Errorf("its annotation %s does not say which shards it runs", shardsKey)
	}
	if err = cmp.Or(err, cerr, ferr); err != nil {
		return nil, nil, fmt.Errorf("job %s/%s: %w", j.Metadata.Namespace, j.Metadata.Name, err)
	}
	for _, c := range j.Status.Conditions {
		if c.Status == "True" && (c.Type == "Complete" || c.Type == "Failed") {
			return shards, nil, nil
		}
	}
	left = map[int]State{}
	for _, shard := range shards {
		left[shard] = Waiting
	}
	for _, i := range slices.Concat(completed, failed) {
		if i < len(shards) {
			delete(left, shards[i])
		}
	}
	return shards, left, nil
}

func (k Kubernetes) job(ctx context.Context, namespace, name string) (*indexedJob, error) {
	out, err := k.call(ctx, namespace, "", "get", "job", name, "--ignore-not-found", "-o", "json")
	if err != nil || out == "" {
		return nil, err
	}
	j := &indexedJob{}
	if err := json.Unmarshal([]byte(out), j); err != nil {
		return nil, fmt.Errorf("%s get job %s: its answer is no JSON: %w", k.client(), name, err)
	}
	return j, nil
}

// node is what kubectl tells of a machine.
type node struct {
	Spec struct {
		Unschedulable bool
		Taints        []struct{ Effect string }
	}
	Status struct {
		Conditions []struct{ Type, Status string }
	}
}

// takesPods says whether pods that tolerate nothing may run there.
func (n node) takesPods() bool {
	for _, t := range n.Spec.Taints {
		if t.Effect != "PreferNoSchedule" {
			return false
		}
	}
	return !n.Spec.Unschedulable && slices.Contains(n.Status.Conditions, struct{ Type, Status string }{"Ready", "True"})
}

// Nodes counts the machines that take the job's pods.
func (k Kubernetes) Nodes(ctx context.Context) (int, error) {
	out, err := k.call(ctx, "", "", "get", "nodes", "-o", "json")
	if err != nil {
		return 0, err
	}
	var nodes struct{ Items []node }
	if err := json.Unmarshal([]byte(out), &nodes); err != nil {
		return 0, fmt.Errorf("%s get nodes: its answer is no JSON: %w", k.client(), err)
	}
	return lists.Count(nodes.Items, node.takesPods), nil
}

// Ready looks for the client.
func (k Kubernetes) Ready() error { return found(k.client()) }

func (k Kubernetes) client() string { return cmp.Or(k.program, "kubectl") }

// call calls kubectl, which asks for at most a minute.
func (k Kubernetes) call(ctx context.Context, namespace, input string, args ...string) (string, error) {
	if namespace != "" {
		args = append(args, "--namespace="+namespace)
	}
	out, err := output(ctx, input, k.client(), append(args, "--request-timeout=60s")...)
	return strings.TrimSpace(out), err
}

// Spans writes ascending numbers as Kubernetes and Slurm do: "1,3-5,7".
func Spans(all []int) string {
	var b strings.Builder
	for i := 0; i < len(all); i++ {
		first := all[i]
		for i+1 < len(all) && all[i+1] == all[i]+1 {
			i++
		}
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.Itoa(first))
		if all[i] > first {
			fmt.Fprintf(&b, "-%d", all[i])
		}
	}
	return b.String()
}

// numbers reads what Spans writes; "" has none.
func numbers(text string) (all []int, err error) {
	for part := range strings.SplitSeq(text, ",") {
		if text == "" {
			break
		}
		from, to, several := strings.Cut(part, "-")
		if !several {
			to = from
		}
		first, err := strconv.Atoi(from)
		last, also := strconv.Atoi(to)
		if err != nil || also != nil || first < 0 || last < first || last-first > 1<<24 {
			return nil, fmt.Errorf("%q is no list of numbers", text)
		}
		for ; first <= last; first++ {
			all = append(all, first)
		}
	}
	return all, nil
}
