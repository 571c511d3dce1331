package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"selfheal/harness"
	"selfheal/internal/testinput"
)

// askVersion runs `selfheal version` with arguments and returns what it prints.
func askVersion(t *testing.T, args ...string) string {
	t.Helper()
	var stdout, stderr bytes.Buffer
	if code := run(context.Background(), repository, append([]string{"version"}, args...), &stdout, &stderr); code != 0 || stderr.Len() > 0 {
		t.Fatalf("version %v: exit %d\n%s", args, code, stderr.String())
	}
	return stdout.String()
}

func TestVersion(t *testing.T) {
	testinput.Runtime(t)
	var v version
	if err := json.Unmarshal([]byte(askVersion(t, "--json")), &v); err != nil {
		t.Fatal(err)
	}
	if v.Selfheal != harness.Version || !strings.HasPrefix(v.Go, "go1.") || v.OS == "" || v.Arch == "" || v.Config != 1 ||
		!v.ONNXRuntime.Found || v.ONNXRuntime.Version == "" || v.ONNXRuntime.Origin == "" || v.ONNXRuntime.Problem != "" {
		t.Errorf("%+v", v)
	}
	if _, err := os.Stat(v.ONNXRuntime.Library); err != nil {
		t.Error(err)
	}
	want := []string{"autoattack-standard/1", "autoattack-plus/1", "autoattack-rand/1", "autoattack-custom/1", "autoattack-quick/1", "apgd-ce/1",
		"apgd-dlr/1", "apgd-t/1", "fab/1", "fab-t/1", "square/1", "pgd/1", "fgsm/1", "bisection/1"}
	if !slices.Equal(v.Recipes, want) {
		t.Errorf("recipes %v, want %v", v.Recipes, want)
	}
	for _, name := range []string{"results", "gallery", "baseline"} {
		s := schema(t, name)
		if declared := s.root["properties"].(schemaNode)["schema"].(schemaNode)["const"]; !slices.Contains(v.Schemas, declared.(string)) {
			t.Errorf("the schema of %s is of %v, version tells %v", name, declared, v.Schemas)
		}
	}
	text := askVersion(t)
	for _, part := range append(want, "selfheal      "+v.Selfheal, v.Go+" "+v.OS+"/"+v.Arch, v.ONNXRuntime.Version+", "+v.ONNXRuntime.Origin+", "+v.ONNXRuntime.Library, "selfheal.results/1") {
		if !strings.Contains(text, part) {
			t.Errorf("the text lacks %q:\n%s", part, text)
		}
	}
}

func TestVersionOfACheckout(t *testing.T) {
	for _, c := range []struct {
		settings []debug.BuildSetting
		want     string
	}{
		{nil, "commit        not recorded\n"},
		{[]debug.BuildSetting{{Key: "vcs.revision", Value: "abc123"}, {Key: "vcs.time", Value: "2025-03-14T15:09:26Z"}, {Key: "vcs.modified", Value: "false"}},
			"commit        abc123 of 2025-03-14T15:09:26Z\n"},
		{[]debug.BuildSetting{{Key: "vcs.revision", Value: "abc123"}, {Key: "vcs.modified", Value: "true"}}, "commit        abc123, with changes\n"},
	} {
		var v version
		v.built(c.settings)
		var out bytes.Buffer
		if err := v.print(&out); err != nil || !strings.Contains(out.String(), c.want) {
			t.Errorf("%v: %v\n%swant %s", c.settings, err, out.String(), c.want)
		}
	}
}

// Without ONNX Runtime `selfheal version` says so, fetches none and ends well. The library
// is loaded once in a process, so this one asks another.
func TestVersionWithoutRuntime(t *testing.T) {
	const alone = "SELFHEAL_TEST_VERSION"
	if os.Getenv(alone) != "" {
		os.Stdout.WriteString(askVersion(t) + askVersion(t, "--json"))
		return
	}
	c := exec.Command(os.Args[0], "-test.run=^TestVersionWithoutRuntime$")
	empty := t.TempDir()
	c.Env = append(os.Environ(), alone+"=1", "HOME="+empty, "XDG_CACHE_HOME="+empty, "ONNXRUNTIME_SHARED_LIBRARY=")
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, part := range []string{"ONNX Runtime  not found: ONNX Runtime", "--onnxruntime PATH", `"found": false`, `"problem": "`} {
		if !strings.Contains(string(out), part) {
			t.Errorf("it does not say %q:\n%s", part, out)
		}
	}
	if left, err := os.ReadDir(empty); err != nil || len(left) > 0 {
		t.Errorf("the cache has %v (%v)", left, err)
	}
}
