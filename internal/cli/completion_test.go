package cli

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"selfheal/harness/dataset"
)

// complete asks as a shell does: the words so far, the last of them to be completed. It
// returns the candidates without their descriptions, and cobra's directive.
func complete(t *testing.T, words ...string) (list []string, directive cobra.ShellCompDirective) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	if code := run(context.Background(), repository, append([]string{"__complete"}, words...), &stdout, &stderr); code != 0 {
		t.Fatalf("%v: exit %d\n%s", words, code, stderr.String())
	}
	lines := strings.Split(strings.TrimSpace(stdout.String()), "\n")
	for _, line := range lines[:len(lines)-1] {
		word, _, _ := strings.Cut(line, "\t")
		list = append(list, word)
	}
	if _, err := fmt.Sscanf(lines[len(lines)-1], ":%d", &directive); err != nil {
		t.Fatalf("%v: %v\n%s", words, err, stdout.String())
	}
	return list, directive
}

func TestCompletion(t *testing.T) {
	other := filepath.Join(t.TempDir(), "other.yaml")
	broken := filepath.Join(t.TempDir(), "broken.yaml")
	for path, text := range map[string]string{broken: "version: [", other: `version: 1
datasets: {pictures: {format: npz, path: a.npz}}
models: {first: {path: a.onnx}, second: {path: b.onnx}}
controls: {calm: {layers: [{at: input, embedding: {kind: identity}}]}}
attacks: {storm: {kind: pgd, norm: l2, epsilon: 1}}
suites: {all: {title: Every cell, dataset: pictures, models: [first], controls: [calm], attacks: [storm]}, alone: {dataset: pictures, models: [second], attacks: []}}
groups: {both: {suites: [all, alone]}}
`} {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	const none, noSpace = cobra.ShellCompDirectiveNoFileComp, cobra.ShellCompDirectiveNoSpace | cobra.ShellCompDirectiveNoFileComp
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
		{"run --suite bundled-table2", []string{"bundled-table2-standard", "bundled-table2-robust"}, none}, // of ./config.yaml
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
		{"run @", nil, none},
		{"attack model.onnx --norm @", []string{"linf", "l2", "l1"}, none},
		{"attack model.onnx --norm l", []string{"linf", "l2", "l1"}, none},
		{"attack model.onnx --format @", dataset.Formats(), none},
		{"attack model.onnx --attack aa", []string{"aa", "aa-plus", "aa-rand", "aa-quick"}, none},
		{"attack model.onnx --attack square --param @", []string{"restarts=", "queries=", "p_init=", "rescale_schedule="}, noSpace},
		{"attack model.onnx --param @", nil, none},
		{"attack model.onnx --data @", nil, cobra.ShellCompDirectiveDefault},
		{"attack @", []string{"onnx"}, extension},
		{"attack model.onnx @", nil, none},
		{"inspect one.onnx @", []string{"onnx"}, extension},
		{"report @", nil, dirs},
		{"predict @", []string{"png", "jpg", "jpeg"}, extension},
		{"check @", nil, dirs},
		{"check --baseline @", []string{"json"}, extension},
		{"schema @", bundledGlobals().schemaNames(), none},
		{"completion @", shells, none},
	} {
		words := strings.Fields(strings.ReplaceAll(c.line, " @", " @"))
		if last := len(words) - 1; words[last] == "@" {
			words[last] = ""
		}
		got, directive := complete(t, words...)
		if !slices.Equal(slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(c.want))) || directive != c.directive {
			t.Errorf("%s: %v and directive %d, want %v and %d", c.line, got, directive, c.want, c.directive)
		}
	}
}

// Titles and paths come from configs: what a shell shows of them is one line.
func TestCompletionShowsOneLine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.yaml")
	text := `version: 1
datasets: {d: {format: npz, path: a.npz}}
models: {m: {path: a.onnx}}
suites: {s: {title: "two\nlines\tand a tab", dataset: d, models: [m], attacks: []}}
`
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	var stdout, stderr bytes.Buffer
	run(context.Background(), repository, []string{"__complete", "run", "--config", path, "--suite", ""}, &stdout, &stderr)
	if want := "s\ttwo lines and a tab\n:4\n"; stdout.String() != want {
		t.Errorf("%q, want %q", stdout.String(), want)
	}
}

// Every flag that takes a value and every command that takes arguments says what completes
// them.
func TestCompletionsAreWhole(t *testing.T) {
	used := map[string]bool{}
	for _, c := range rootCommand(repository).Commands() {
		c.Flags().AddFlagSet(c.InheritedFlags())
		c.Flags().VisitAll(func(f *pflag.Flag) {
			used[f.Name] = true
			if _, ok := c.GetFlagCompletionFunc(f.Name); !ok && f.Value.Type() != "bool" {
				t.Errorf("%s --%s: completion.go does not say what its value may be", c.Name(), f.Name)
			}
		})
		used["argument of "+c.Name()] = true
		if strings.ContainsAny(strings.TrimPrefix(c.Use, c.Name()), "ABCDEFGHIJKLMNOPQRSTUVWXYZ") && strings.Fields(c.Use + " -")[1][0] != '-' && argumentWords[c.Name()] == nil && len(c.ValidArgs) == 0 {
			t.Errorf("%s: completion.go does not say what its arguments may be", c.Use)
		}
	}
	for name := range flagWords(bundledGlobals()) {
		if !used[name] {
			t.Errorf("completion.go completes --%s, which no command has", name)
		}
	}
	for name := range argumentWords {
		if !used["argument of "+name] {
			t.Errorf("completion.go completes the arguments of %s, which is no command", name)
		}
	}
}

func TestCompletionScripts(t *testing.T) {
	for _, shell := range shells {
		for _, args := range [][]string{{"completion", shell}, {"completion", shell, "--no-descriptions"}} {
			var stdout, stderr bytes.Buffer
			if code := run(context.Background(), repository, args, &stdout, &stderr); code != 0 || stdout.Len() < 1000 {
				t.Errorf("%v: exit %d, %d bytes\n%s", args, code, stdout.Len(), stderr.String())
			}
		}
	}
	var stdout, stderr bytes.Buffer
	if code := run(context.Background(), repository, []string{"completion", "tcsh"}, &stdout, &stderr); code != exitUsage || strings.Count(stderr.String(), "\n") != 1 {
		t.Errorf("tcsh: exit %d\n%s", code, stderr.String())
	}
}

// A real bash takes the script and completes with it. The program that it asks is this test.
func TestCompletionInBash(t *testing.T) {
	const alone = "SELFHEAL_TEST_COMPLETION"
	if os.Getenv(alone) != "" {
		run(context.Background(), repository, os.Args[slices.Index(os.Args, "--")+1:], os.Stdout, os.Stderr)
		os.Exit(0)
	}
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("there is no bash")
	}
	dir := t.TempDir()
	var script, stderr bytes.Buffer
	if code := run(context.Background(), repository, []string{"completion", "bash"}, &script, &stderr); code != 0 {
		t.Fatal(stderr.String())
	}
	program := fmt.Sprintf("#!%s\n%s=1 exec %q -test.run='^TestCompletionInBash$' -- \"$@\"\n", bash, alone, os.Args[0])
	for name, text := range map[string]string{"selfheal": program, "completion.bash": script.String()} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for line, want := range map[string]string{
		"selfheal exp": "export ", "selfheal run --suite bundled-gr": "bundled-greedy", "selfheal attack m.onnx --norm li": "linf", "selfheal --vers": "--version",
	} {
		// What the package bash-completion would do before: split the line into words.
		text := fmt.Sprintf(`set -u
PATH=%q:$PATH
_get_comp_words_by_ref() { words=(%s); cword=$((${#words[@]} - 1)); cur=${words[cword]}; prev=${words[cword-1]}; }
__ltrim_colon_completions() { :; }
source %q
COMP_LINE=%q COMP_POINT=${#COMP_LINE} COMP_TYPE=9 COMP_WORDS=(%s) COMP_CWORD=%d
compopt() { :; }
__start_selfheal
printf '%%s\n' "${COMPREPLY[@]}"
`, dir, line, filepath.Join(dir, "completion.bash"), line, line, len(strings.Fields(line))-1)
		out, err := exec.Command(bash, "--noprofile", "--norc", "-c", text).CombinedOutput()
		if err != nil || strings.TrimSpace(string(out)) != strings.TrimSpace(want) {
			t.Errorf("%s: %v\n%s, want %s", line, err, out, want)
		}
	}
}
