package cluster

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"text/template"
	"unicode/utf8"

	"selfheal/internal/lists"
)

// Kubernetes writes the manifest of an indexed Job, a pod for each shard. Brackets hold the meaning of a field's zero
// value.
type Kubernetes struct {
	Image string // has the program, a shell and ONNX Runtime's library
	Claim string // the PersistentVolumeClaim that holds config, models, data and results

	// Mount is the absolute path at which the claim's volume is mounted, on this machine as in the pods, so that a
	// path means the same file in both [the folder that holds the run's folder; this is right if DIR lies at the top
	// of the volume, otherwise the pods find no config and end with exit code 2].
	Mount string
	// Folder is the base of relative paths in the command; it lies in Mount [Mount].
	Folder string

	Namespace string // [kubectl's present one]
	CPU       string // cores that a pod requests, such as "4"; it may use more if there are more [none]
	Memory    string // memory that a pod requests and may use, such as "8Gi" [none, and no limit]
	GPUs      int    // NVIDIA GPUs for each pod [none]

	// Parallelism is how many shards run at once [all].
	Parallelism int
	// User and Group are the ids that the pods run as; neither may be root's. They must be able to read the files on
	// the volume and to write to the run's folder [the submitter's, as the files are; 1000 if that is root].
	User, Group int
}

//go:embed kubernetes.yaml
var kubernetesText string

var kubernetesJob = template.Must(template.New("").Option("missingkey=error").Parse(kubernetesText))

// Render writes the Job. It bounds failures for each shard, not in all, so that a failing shard takes nothing from
// others. The Job stays after its end, because its state and its pods' logs are then needed. The Job's name has a
// hash of everything else.
func (k Kubernetes) Render(j Job) (string, error) {
	if k.Mount == "" {
		k.Mount = path.Dir(j.Dir)
	}
	k.Folder = cmp.Or(k.Folder, k.Mount)
	if err := k.check(j); err != nil {
		return "", err
	}
	values := map[string]any{
		"Namespace": k.Namespace, "Shards": j.Shards, "Parallelism": min(cmp.Or(k.Parallelism, j.Shards), j.Shards),
		"User": own(k.User, os.Getuid), "Group": own(k.Group, os.Getgid), "Image": k.Image, "Folder": k.Folder,
		"Args": dollars(j.Command), "CPU": k.CPU, "Memory": k.Memory, "GPUs": k.GPUs, "Mount": k.Mount,
		"Claim": k.Claim, "Name": "",
	}
	var b bytes.Buffer
	if err := kubernetesJob.Execute(&b, values); err != nil {
		return "", err
	}
	values["Name"] = fmt.Sprintf("selfheal-%.5x", sha256.Sum256(b.Bytes()))
	b.Reset()
	err := kubernetesJob.Execute(&b, values)
	return b.String(), err
}

// check refuses a job that no cluster could run. kubectl create reports all other faults of a name or a quantity.
func (k Kubernetes) check(j Job) error {
	for _, text := range slices.Concat([]string{j.Dir, k.Image, k.Claim, k.Mount, k.Folder, k.Namespace, k.CPU,
		k.Memory}, j.Command) {
		if !utf8.ValidString(text) || strings.ContainsRune(text, 0) {
			return fmt.Errorf("%q can't be written to a manifest: it is not UTF-8, or has a zero byte", text)
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
	}
	return nil
}

// own returns an id: the one asked for, the caller's, or the first that systems give to people.
func own(asked int, here func() int) int {
	if asked == 0 {
		asked = here()
	}
	if asked <= 0 { // root; -1 on a system without ids
		asked = 1000
	}
	return asked
}

// dollars doubles each $, as Kubernetes reads $$ as $ and $(NAME) as a variable's value.
func dollars(args []string) []string {
	return lists.Map(args, func(arg string) string { return strings.ReplaceAll(arg, "$", "$$") })
}
