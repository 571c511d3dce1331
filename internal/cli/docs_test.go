package cli

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"selfheal/harness/config"
	"selfheal/internal/testinput"
)

// The README's console blocks show what the program prints ("…": and more), and its example config is one.
func TestReadme(t *testing.T) {
	text := read(t, "README.md")
	blocks := fenced(text, "console")
	if len(blocks) == 0 {
		t.Error("no console block")
	}
	for _, block := range blocks {
		command, want, _ := strings.Cut(block, "\n")
		args, ok := strings.CutPrefix(command, "$ selfheal ")
		if !ok {
			t.Fatalf("console block begins with %q", command)
		}
		got := done(t, strings.Fields(args)...)
		if start, more := strings.CutSuffix(want, "…\n"); more {
			want, got = start, got[:min(len(start), len(got))]
		}
		if got != want {
			t.Errorf("%s prints\n%s\nREADME shows\n%s", command, got, want)
		}
	}
	for _, block := range fenced(text, "yaml") {
		if _, err := config.Parse("README.md", []byte(block), config.Folder(".")); err != nil {
			t.Error(err)
		}
	}
}

// fenced returns the contents of the code blocks of one language.
func fenced(text, language string) []string {
	var out []string
	for _, part := range strings.Split(text, "```"+language+"\n")[1:] {
		block, _, _ := strings.Cut(part, "```")
		out = append(out, block)
	}
	return out
}

var (
	continued = regexp.MustCompile(`\\\n\s*`)
	comment   = regexp.MustCompile(`(?m)^\s*#.*$`)
	called    = regexp.MustCompile(`(?:selfheal|go run \.) +([a-z]+)((?: +[^\s;&|)]+)*)`)
	inline    = regexp.MustCompile("`(?:selfheal|go run \\.)\\s[^`]*`|(?m)^    (?:selfheal|go run \\.) .*$")
	longFlag  = regexp.MustCompile(`(?:^|[\s(])--([a-z][a-z-]*)`)
)

// Every command line of the CI's files and of the documentation names a verb and flags that there are.
func TestDocumentedCommandLines(t *testing.T) {
	t.Parallel()
	_, runs, _ := strings.Cut(read(t, "action.yml"), "\nruns:")
	texts := strings.Split(comment.ReplaceAllString(runs, ""), "- name: ")
	texts = append(texts, comment.ReplaceAllString(read(t, "docs/ci/gitlab-ci.yml"), ""))
	pages, err := filepath.Glob("docs/*.md")
	if err != nil || len(pages) < 5 {
		t.Fatal(pages, err)
	}
	for _, path := range append(pages, "README.md") {
		for i, block := range strings.Split(read(t, path), "```") {
			if i%2 == 0 {
				block = strings.Join(inline.FindAllString(block, -1), "\n")
			}
			texts = append(texts, block)
		}
	}
	lines, flags := 0, 0
	for _, text := range texts {
		text = continued.ReplaceAllString(text, " ")
		for _, m := range called.FindAllStringSubmatch(text, -1) {
			c, _, err := (&globals{files: repository}).rootCommand().Find([]string{m[1]})
			if err != nil || c.Name() != m[1] {
				t.Errorf("%q: there is no verb %s", m[0], m[1])
				continue
			}
			lines++
			if strings.Contains(m[2], "${args[@]}") {
				m[2] = text // that the script collects
			}
			for _, f := range longFlag.FindAllStringSubmatch(m[2], -1) {
				flags++
				if c.Flags().Lookup(f[1]) == nil && c.InheritedFlags().Lookup(f[1]) == nil {
					t.Errorf("%q: %s has no flag --%s", m[0], c.Name(), f[1])
				}
			}
		}
	}
	if lines < 40 || flags < 60 {
		t.Errorf("only %d command lines with %d flags were found", lines, flags)
	}
}

// The example config does what docs/ci.md says, from a first baseline on: both tiers run,
// and each passes or is inconclusive beside its own baseline.
func TestTiers(t *testing.T) {
	t.Parallel()
	testinput.Runtime(t)
	for _, tier := range []string{"quick", "full"} {
		out, baseline := t.TempDir(), filepath.Join(t.TempDir(), tier+".json")
		short := strings.NewReplacer("CONFIG", "--config docs/ci/robustness.yaml", "BASELINE", "--baseline "+baseline,
			"OUT", out)
		for _, step := range []struct {
			args string
			exit []int
		}{
			{"run CONFIG --suite " + tier +
				" --limit 4 --set attacks.aa-linf.version=quick --set attacks.aa-l2.version=quick --quiet --out OUT",
				[]int{exitOK}},
			{"check --update CONFIG BASELINE OUT", []int{exitOK}},
			{"check CONFIG BASELINE OUT", []int{exitOK, exitGateFailed, exitInconclusive}},
			{"check CONFIG --set gate.min={} BASELINE OUT", []int{exitOK}}, // nothing has changed
		} {
			if code, stdout, stderr := call(strings.Fields(short.Replace(step.args))...); !slices.Contains(step.exit,
				code) {
				t.Fatalf("%s: exit %d\n%s%s", step.args, code, stdout, stderr)
			}
		}
		validateRun(t, out)
		validate(t, "baseline", baseline)
	}
}
