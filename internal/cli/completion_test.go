package cli

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"selfheal/harness/dataset"
)

// complete asks as a shell does: the words so far, the last of them to be completed. It
// returns the candidates, each with its description behind a tab, and cobra's directive.
func complete(t *testing.T, words ...string) (list []string, directive cobra.ShellCompDirective) {
	t.Helper()
	lines := strings.Split(strings.TrimSpace(done(t, append([]string{"__complete"}, words...)...)), "\n")
	last := len(lines) - 1
	if _, err := fmt.Sscanf(lines[last], ":%d", &directive); err != nil {
		t.Fatalf("%v: %v\n%s", words, err, lines)
	}
	return lines[:last], directive
}

func TestCompletion(t *testing.T) {
	t.Parallel()
	other := filepath.Join(t.TempDir(), "other.yaml")
	broken := filepath.Join(t.TempDir(), "broken.yaml")
	put(t, broken, []byte("version: ["))
	put(t, other, []byte(`version: 1
datasets: {pictures: {format: npz, path: a.npz}}
models: {first: {path: a.onnx}, second: {path: b.onnx}}
controls: {calm: {layers: [{at: input, embedding: {kind: identity}}]}}
attacks: {storm: {kind: pgd, norm: l2, epsilon: 1}}
suites:
  all: {title: "Every\ncell\tthere is", dataset: pictures, models: [first], controls: [calm], attacks: [storm],
        mode: oblivious}
  alone: {dataset: pictures, models: [second], attacks: []}
groups: {both: {suites: [all, alone]}}
`))
	const none, noSpace = cobra.ShellCompDirectiveNoFileComp,
		cobra.ShellCompDirectiveNoSpace | cobra.ShellCompDirectiveNoFileComp
	const extension, dirs = cobra.ShellCompDirectiveFilterFileExt, cobra.ShellCompDirectiveFilterDirs
	for _, c := range []struct {
		line      string // its last word is completed; @ is an empty one
		want      []string
		directive cobra.ShellCompDirective
	}{
		{"exp", []string{"export"}, none},
		{"run --config " + other + " --suite @", []string{"all", "alone", "both"}, none},
		{"run --config " + other + " --suite al", []string{"all", "alone"}, none},
		{"run --config=" + other + " --suite=bo", []string{"both"}, none},
		{"run --suite b --config " + other + " --suite all --suite bo", []string{"both"}, none},
		{"run --config " + broken + " --suite @", nil, none},
		{"run --config absent.yaml --suite @", nil, none},
		{"run --suite bundled-table2", []string{"bundled-table2-standard", "bundled-table2-robust"}, none},
		// of ./config.yaml
		{"predict --config " + other + " --model @", []string{"first", "second"}, none},
		{"export --config " + other + " --control @", []string{"calm"}, none},
		{"fit --config " + other + " --control c", []string{"calm"}, none},
		{"fit --config " + other + " --model s", []string{"second"}, none},
		{"verify --config " + other + " --attack @", []string{"storm"}, none},
		{"verify --config " + other + " --dataset @", []string{"pictures"}, none},
		{"verify --adversarial @", []string{"npy", "npz"}, extension},
		{"run --config " + other + " --set a", []string{"attacks.storm."}, noSpace},
		{"run --config " + other + " --set suites.al", []string{"suites.all.", "suites.alone."}, noSpace},
		{"run --set runtime.w", []string{"runtime.workers=", "runtime.winograd="}, noSpace},
		{"run --config @", []string{"yaml", "yml"}, extension},
		{"run --out @", nil, dirs},
		{"run --limit @", nil, none},
		{"run --log-format @", logFormats, none},
		{"run @", nil, none},
		{"attack model.onnx --norm @", []string{"linf", "l2", "l1", "l0"}, none},
		{"attack model.onnx --norm l", []string{"linf", "l2", "l1", "l0"}, none},
		{"attack model.onnx --format @", dataset.Formats(), none},
		{"attack model.onnx --attack aa", []string{"aa", "aa-plus", "aa-rand", "aa-quick", "aa-adaptive"}, none},
		{"attack model.onnx --attack square --param @",
			[]string{"restarts=", "queries=", "p_init=", "rescale_schedule="}, noSpace},
		{"attack model.onnx --param @", nil, none},
		{"attack model.onnx --data @", nil, cobra.ShellCompDirectiveDefault},
		{"attack @", []string{"onnx"}, extension},
		{"attack model.onnx @", nil, none},
		{"inspect one.onnx @", []string{"onnx"}, extension},
		{"report @", nil, dirs},
		{"predict @", []string{"onnx", "png", "jpg", "jpeg", "webp"}, extension},
		{"check @", nil, dirs},
		{"compare results @", nil, dirs},
		{"compare --out @", nil, dirs},
		{"check --baseline @", []string{"json"}, extension},
		{"schema @", []string{"baseline", "comparison", "config", "gallery", "records", "results"}, none},
		{"completion @", shells, none},
	} {
		words := strings.Fields(c.line)
		if last := len(words) - 1; words[last] == "@" {
			words[last] = ""
		}
		got, directive := complete(t, words...)
		for i := range got {
			got[i], _, _ = strings.Cut(got[i], "\t")
		}
		if !slices.Equal(slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(c.want))) ||
			directive != c.directive {
			t.Errorf("%s: %v and directive %d, want %v and %d", c.line, got, directive, c.want, c.directive)
		}
	}
	// Titles and paths come from configs: what a shell shows of them is one line.
	if got, _ := complete(t, "run", "--config", other, "--suite", "all"); !slices.Equal(got,
		[]string{"all\tEvery cell there is"}) {
		t.Errorf("%q", got)
	}
}

// Every flag that takes a value and every command that takes arguments has a completion.
func TestCompletionsAreWhole(t *testing.T) {
	t.Parallel()
	for _, c := range (&globals{files: repository}).rootCommand().Commands() {
		c.Flags().AddFlagSet(c.InheritedFlags())
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if _, ok := c.GetFlagCompletionFunc(f.Name); !ok && f.Value.Type() != "bool" {
				t.Errorf("%s --%s: nothing says what its value may be", c.Name(), f.Name)
			}
		})
		argument := strings.Fields(c.Use + " -")[1]
		if argument[0] != '-' && c.ValidArgsFunction == nil && len(c.ValidArgs) == 0 {
			t.Errorf("%s: nothing says what its arguments may be", c.Use)
		}
	}
}

func TestCompletionScripts(t *testing.T) {
	t.Parallel()
	for _, shell := range shells {
		whole, plain := done(t, "completion", shell), done(t, "completion", shell, "--no-descriptions")
		if len(plain) < 1000 || whole == plain {
			t.Errorf("%s: %d bytes, without descriptions %d", shell, len(whole), len(plain))
		}
	}
}
