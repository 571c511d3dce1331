package cli

import (
	"cmp"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"selfheal/attacks"
	"selfheal/harness"
	"selfheal/harness/config"
	"selfheal/harness/gate"
	"selfheal/harness/result"
	"selfheal/models/ort"
)

// version is the output of `selfheal version`; its JSON is for other programs.
type version struct {
	Selfheal string `json:"selfheal"`
	// Commit is the commit the program was built from, Time the commit's time, Modified whether files differed from it;
	// absent if Go did not record it.
	Commit   string `json:"commit,omitempty"`
	Time     string `json:"time,omitempty"`
	Modified bool   `json:"modified,omitempty"`
	// Module is the module's version if the program was built by `go install MODULE@VERSION`, without a checkout.
	Module      string           `json:"module,omitempty"`
	Go          string           `json:"go"`
	OS          string           `json:"os"`
	Arch        string           `json:"arch"`
	ONNXRuntime installedRuntime `json:"onnxruntime"`
	Recipes     []string         `json:"recipes"` // of attacks, with their versions
	Attacks     []attacks.Traits `json:"attacks"`
	Config      int              `json:"config"`  // version of its layout
	Schemas     []string         `json:"schemas"` // of the files that the program writes
}

// installedRuntime is the ONNX Runtime that a run would use without a download.
type installedRuntime struct {
	Found   bool   `json:"found"`
	Version string `json:"version,omitempty"`
	Library string `json:"library,omitempty"`
	Origin  string `json:"origin,omitempty"`  // where the library was found: a flag, a variable, the cache
	Problem string `json:"problem,omitempty"` // why none was found
}

func versionCommand(g *globals) *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "version",
		Short: "Print versions: program, ONNX Runtime, attack recipes, file layouts",
		Long: `Prints the version of selfheal, the commit that it was built from, Go's, the ONNX
Runtime that a run would take without downloading it, and the versions of attack
recipes and file layouts. A recipe's version rises when its numbers may change.`,
		Example: "  selfheal version\n  selfheal version --json",
		Args:    exactly(0, "no argument"),
		RunE: func(c *cobra.Command, _ []string) error {
			v, err := readVersion(c, g)
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(c, v)
			}
			return v.write(c.OutOrStdout())
		},
	}
	flags{c}.on(&asJSON, "json", "print JSON")
	flags{c}.only(when{never.holds, "has no use here: version never downloads"}, "offline")
	return c
}

func readVersion(c *cobra.Command, g *globals) (version, error) {
	v := version{Selfheal: harness.Version, Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH,
		Attacks: attacks.AllTraits(),
		Config:  config.Version, Schemas: []string{result.Schema, result.GallerySchema, gate.Schema}}
	if info, ok := debug.ReadBuildInfo(); ok {
		v.built(info)
	}
	if err := ort.Init(c.Context(), ort.Options{Library: g.library, Offline: true}); err != nil {
		v.ONNXRuntime.Problem = strings.Join(strings.Fields(err.Error()), " ")
	} else {
		v.ONNXRuntime = installedRuntime{Found: true, Version: ort.Version(), Library: ort.LibraryPath(),
			Origin: ort.Origin()}
	}
	var err error
	v.Recipes, err = recipes()
	return v, err
}

// built stores what Go recorded of the checkout or the module that the program was built from.
func (v *version) built(info *debug.BuildInfo) {
	if info.Main.Version != "(devel)" {
		v.Module = info.Main.Version
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			v.Commit = s.Value
		case "vcs.time":
			v.Time = s.Value
		case "vcs.modified":
			v.Modified = s.Value == "true"
		}
	}
}

// recipes returns the names of attacks' recipes in results, in the config's order.
func recipes() ([]string, error) {
	var names []string
	for _, spec := range attacks.Specs {
		var setups []attacks.Setup
		for _, v := range spec.Versions {
			s := attacks.Setup{Kind: spec.Kind, Version: v.Name}
			if v.Listed() {
				s.Components = []attacks.Component{{Kind: "apgd-ce"}}
			}
			setups = append(setups, s)
		}
		if setups == nil {
			setups = []attacks.Setup{{Kind: spec.Kind, Norm: spec.In()[0]}}
		}
		for _, s := range setups {
			d, err := s.Describe()
			if err != nil {
				return nil, err
			}
			names = append(names, d.Recipe)
		}
	}
	return names, nil
}

func (v version) write(out io.Writer) error {
	w := columns(out)
	row := func(name string, words ...string) { fmt.Fprintf(w, "%s\t%s\n", name, strings.Join(words, ", ")) }
	row("selfheal", v.Selfheal)
	commit := cmp.Or(v.Commit, v.Module, "not recorded")
	if v.Time != "" {
		commit += " of " + v.Time
	}
	if v.Modified {
		commit += ", with changes"
	}
	row("commit", commit)
	row("Go", fmt.Sprintf("%s %s/%s", v.Go, v.OS, v.Arch))
	if r := v.ONNXRuntime; r.Found {
		row("ONNX Runtime", r.Version, r.Origin, r.Library)
	} else {
		row("ONNX Runtime", "not found: "+r.Problem)
	}
	row("recipes", v.Recipes...)
	row("config", fmt.Sprint("version ", v.Config))
	row("files", v.Schemas...)
	return w.Flush()
}
