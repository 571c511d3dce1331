package cli

import (
	"bytes"
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"selfheal/attacks"
	"selfheal/harness"
	"selfheal/internal/must"
	"selfheal/internal/testinput"
)

func TestVersion(t *testing.T) {
	testinput.Runtime(t)
	v := fromJSON[version](t, done(t, "version", "--json"))
	if v.Selfheal != harness.Version || !strings.HasPrefix(v.Go, "go1.") || v.OS == "" || v.Arch == "" ||
		v.Config != 1 ||
		!v.ONNXRuntime.Found || v.ONNXRuntime.Version == "" || v.ONNXRuntime.Origin == "" ||
		v.ONNXRuntime.Problem != "" {
		t.Errorf("%+v", v)
	}
	if _, err := os.Stat(v.ONNXRuntime.Library); err != nil {
		t.Error(err)
	}
	want := []string{"autoattack-standard/1", "autoattack-plus/1", "autoattack-rand/1", "autoattack-custom/2",
		"autoattack-quick/3", "autoattack-adaptive/3"}
	for _, s := range attacks.Specs {
		if s.Versions == nil {
			want = append(want, fmt.Sprintf("%s/%d", s.Kind, s.Revision))
		}
	}
	if !slices.Equal(v.Recipes, want) {
		t.Errorf("recipes %v, want %v", v.Recipes, want)
	}
	for i, name := range []string{"results", "gallery", "baseline"} {
		if len(v.Schemas) != 3 || !strings.Contains(done(t, "schema", name), fmt.Sprintf("%q", v.Schemas[i])) {
			t.Errorf("the schema of %s is of another version than %v", name, v.Schemas)
		}
	}
	text := done(t, "version")
	r := v.ONNXRuntime
	must.Have(t, text, append(want, "selfheal      "+v.Selfheal, v.Go+" "+v.OS+"/"+v.Arch,
		r.Version+", "+r.Origin+", "+r.Library, "selfheal.results/1")...)
}

func TestVersionOfACheckout(t *testing.T) {
	for _, c := range []struct {
		settings []debug.BuildSetting
		module   string
		want     string
	}{
		{nil, "", "commit        not recorded\n"},
		{nil, "(devel)", "commit        not recorded\n"},
		{nil, "v0.1.0", "commit        v0.1.0\n"},
		{[]debug.BuildSetting{{Key: "vcs.revision", Value: "abc"}, {Key: "vcs.time", Value: "2025-03-14T15:09:26Z"},
			{Key: "vcs.modified", Value: "false"}}, "v0.1.1-0.1", "commit        abc of 2025-03-14T15:09:26Z\n"},
		{[]debug.BuildSetting{{Key: "vcs.revision", Value: "abc"}, {Key: "vcs.modified", Value: "true"}}, "",
			"commit        abc, with changes\n"},
	} {
		var v version
		v.built(&debug.BuildInfo{Main: debug.Module{Version: c.module}, Settings: c.settings})
		var out bytes.Buffer
		if err := v.write(&out); err != nil || !strings.Contains(out.String(), c.want) {
			t.Errorf("%v: %v\n%swant %s", c.settings, err, out.String(), c.want)
		}
	}
}

// Without ONNX Runtime `selfheal version` says so, fetches none and ends well. The library
// is loaded once in a process, so this one asks another.
func TestVersionWithoutRuntime(t *testing.T) {
	t.Parallel()
	empty := t.TempDir()
	for _, c := range []struct{ args, says []string }{
		{[]string{"version"}, []string{"ONNX Runtime  not found: ONNX Runtime", "--onnxruntime PATH"}},
		{[]string{"version", "--json"}, []string{`"found": false`, `"problem": "`}},
	} {
		p := program(t, c.args...)
		p.Env = append(p.Env, "HOME="+empty, "XDG_CACHE_HOME="+empty, "ONNXRUNTIME_SHARED_LIBRARY=")
		out, err := p.CombinedOutput()
		for _, part := range c.says {
			if err != nil || !strings.Contains(string(out), part) {
				t.Errorf("%s: %v, without %q:\n%s", c.args, err, part, out)
			}
		}
	}
	if left, err := os.ReadDir(empty); err != nil || len(left) > 0 {
		t.Errorf("the cache has %v (%v)", left, err)
	}
}
