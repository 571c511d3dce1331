package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"selfheal/harness/config"
	"selfheal/harness/dataset"
	"selfheal/internal/must"
	"selfheal/internal/testinput"
	"selfheal/models/onnx"
)

// Every block of the README works as shown, in a folder with a network and images, in the README's order: commands
// succeed, their output equals the one shown ("…" matches anything), and later commands use the configs. Runs are cut
// to few images.
func TestReadme(t *testing.T) {
	testinput.Runtime(t)
	text := read(t, "README.md")
	dir := t.TempDir()
	put(t, filepath.Join(dir, "my.onnx"), []byte(read(t, "models/zoo/preact_standard.onnx")))
	put(t, filepath.Join(dir, "new.onnx"), []byte(read(t, "models/zoo/preact_standard.onnx")))
	for _, folder := range []string{"photos", "train"} {
		photographs(t, filepath.Join(dir, folder), 50)
	}
	must.Do(t, os.Symlink(must.Get(filepath.Abs("docs"))(t), filepath.Join(dir, "docs")))
	t.Chdir(dir)
	skips := map[string]string{"python": "it needs PyTorch: make test-torch runs it",
		"go test ./...": "it is this test", "go run . run": "TestRunBundled runs it"}
	skips["pip install selfheal_onnx-0.1.0-py3-none-manylinux_2_28_x86_64.whl"] = "make test-python does it"
	skips["tar xzf selfheal_0.1.0_linux_amd64.tar.gz selfheal"] = "make release unpacks and starts it"
	short := map[string]string{"run": "--limit 4 --batch 4 --set attacks.aa-linf.version=quick",
		"fit": "--set controls.healed.layers.0.embedding.epochs=1", "check": "--set gate.max_drop=0.9"}
	for i, block := range blocksOf(text) {
		t.Run(fmt.Sprint(i+1, " ", block.language), func(t *testing.T) {
			switch block.language {
			case "python":
				t.Skip(skips["python"])
			case "yaml":
				name := strings.TrimPrefix(strings.SplitN(block.text, "\n", 2)[0], "# ")
				put(t, name, []byte(block.text))
				return
			case "console", "sh":
			default:
				t.Fatalf("a block of %q: nothing runs it", block.language)
			}
			shown := strings.Split(strings.TrimSuffix(block.text, "\n"), "\n")
			for len(shown) > 0 {
				line, _, _ := strings.Cut(strings.TrimPrefix(shown[0], "$ "), "  #")
				want := len(shown)
				if block.language == "sh" {
					want = 1
				}
				output := strings.Join(shown[1:want], "\n")
				shown = shown[want:]
				if why := skips[strings.TrimSpace(line)]; why != "" {
					t.Log(line, "is not run:", why)
					continue
				}
				args, ok := strings.CutPrefix(line, "selfheal ")
				if !ok {
					t.Fatalf("%q is no command of selfheal", line)
				}
				words := strings.Fields(args)
				words = append(words, strings.Fields(short[words[0]])...)
				if got := done(t, words...); block.language == "console" && !matches(got, output) {
					t.Errorf("%s prints\n%s\nREADME shows\n%s", line, got, output)
				}
			}
		})
	}
}

// The README's table has every command, and the whole page at most 1,500 words.
func TestReadmeIsWhole(t *testing.T) {
	t.Parallel()
	text := read(t, "README.md")
	_, table, _ := strings.Cut(text, "\n| command |")
	table, _, _ = strings.Cut(table, "\n\n")
	for _, c := range (&globals{files: repository}).rootCommand().Commands() {
		if !c.Hidden && !regexp.MustCompile("(?m)^\\| [^|]*`"+c.Name()+"[ `]").MatchString(table) {
			t.Errorf("the table of commands lacks %s", c.Name())
		}
	}
	if n := len(strings.Fields(text)); n > 1500 {
		t.Errorf("the README has %d words", n)
	}
}

// Every command of docs/coming-from.md works in the page's order and prints what its row quotes, on networks that have
// the row's fault. Attacks are cut to few images.
func TestComingFrom(t *testing.T) {
	testinput.Runtime(t)
	page, dir := read(t, "docs/coming-from.md"), t.TempDir()
	standard := []byte(read(t, "models/zoo/preact_standard.onnx"))
	for name, data := range map[string][]byte{
		"my.onnx":      []byte(read(t, "models/zoo/preact_robust.onnx")),
		"int8.onnx":    []byte(read(t, "harness/testdata/quantised/preact_standard-qdq.onnx")),
		"two.onnx":     []byte(read(t, "harness/testdata/flat/linear.onnx")),
		"two.parquet":  []byte(read(t, "harness/testdata/flat/cancer.parquet")),
		"raw.onnx":     normalisedInput(t, standard),
		"softmax.onnx": softmaxOutput(t, standard),
	} {
		put(t, filepath.Join(dir, name), data)
	}
	photographs(t, filepath.Join(dir, "photos"), 20)
	t.Chdir(dir)
	photos := must.Get(dataset.Open(dataset.Spec{Format: "image-folder", Path: "photos"}, config.Folder("."), 0))(t)
	var x []float32
	for i := range 20 {
		_, image, _ := must.Get3(photos.Image(i))(t)
		x = append(x, image...)
	}
	writeNPZ(t, "theirs.npz", []int{20, 3, 32, 32}, map[string][]float32{"x_adv": x})
	rows := 0
	table := regexp.MustCompile("(?m)^\\| .* \\| `selfheal (.*)` \\| (.*) \\|$")
	for _, row := range table.FindAllStringSubmatch(page, -1) {
		words := strings.Fields(row[1])
		if words[0] == "attack" && !slices.Contains(words, "--limit") {
			words = append(words, "--limit", "6")
		}
		var quoted []string
		for _, q := range regexp.MustCompile("`([^`]*)`").FindAllStringSubmatch(row[2], -1) {
			quoted = append(quoted, q[1])
		}
		must.Have(t, done(t, words...), quoted...)
		rows++
	}
	if rows != strings.Count(page, "`selfheal ") || rows < 12 {
		t.Errorf("%d rows were run, of %d commands", rows, strings.Count(page, "`selfheal "))
	}
}

// normalisedInput makes a network of images in [0,1] one of images that are normalised as CIFAR-10's.
func normalisedInput(t *testing.T, data []byte) []byte {
	g := must.Get(onnx.Decode(data))(t)
	in := g.Inputs[0].Name
	for _, n := range g.Nodes {
		swap(n.Inputs, in, "pixels")
	}
	g.Consts["std"] = onnx.FloatTensor(onnx.Shape{3, 1, 1}, []float32{0.2471, 0.2435, 0.2616})
	g.Consts["mean"] = onnx.FloatTensor(onnx.Shape{3, 1, 1}, []float32{0.4914, 0.4822, 0.4465})
	g.Nodes = append([]*onnx.Node{{Op: "Mul", Inputs: []string{in, "std"}, Outputs: []string{"scaled"}},
		{Op: "Add", Inputs: []string{"scaled", "mean"}, Outputs: []string{"pixels"}}}, g.Nodes...)
	return must.Get(g.Encode())(t)
}

// swap puts another name in the place of one.
func swap(names []string, old, name string) {
	for i := range names {
		if names[i] == old {
			names[i] = name
		}
	}
}

// softmaxOutput puts a softmax behind a network.
func softmaxOutput(t *testing.T, data []byte) []byte {
	g := must.Get(onnx.Decode(data))(t)
	out := g.Outputs[0].Name
	for _, n := range g.Nodes {
		swap(n.Outputs, out, "scores")
	}
	g.Nodes = append(g.Nodes, &onnx.Node{Op: "Softmax", Inputs: []string{"scores"}, Outputs: []string{out},
		Attrs: onnx.Attrs{"axis": 1}})
	return must.Get(g.Encode())(t)
}

// matches reports whether text equals shown, in which a line "…" stands for any number of lines.
func matches(text, shown string) bool {
	var parts []string
	for _, part := range regexp.MustCompile("(?m)^…$\n?").Split(shown, -1) {
		parts = append(parts, regexp.QuoteMeta(strings.TrimSuffix(part, "\n")))
	}
	return regexp.MustCompile("(?s)^" + strings.Join(parts, ".*") + "\n?$").MatchString(text)
}

// block is a fenced block of a page.
type block struct{ language, text string }

func blocksOf(page string) (all []block) {
	for i, part := range strings.Split(page, "```") {
		if language, text, ok := strings.Cut(part, "\n"); i%2 == 1 && ok {
			all = append(all, block{language, text})
		}
	}
	return all
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
	pages := must.Get(filepath.Glob("docs/*.md"))(t)
	measured := must.Get(filepath.Glob("docs/measured/*.md"))(t)
	for _, path := range slices.Concat(pages, measured, []string{"README.md"}) {
		for i, block := range strings.Split(read(t, path), "```") {
			if i%2 == 0 {
				block = strings.Join(inline.FindAllString(block, -1), "\n")
			} else if strings.HasPrefix(block, "python\n") {
				continue
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
