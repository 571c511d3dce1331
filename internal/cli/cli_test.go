package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"selfheal/internal/must"
	"selfheal/internal/testbrowser"
	"selfheal/internal/testinput"
	"selfheal/models/ort"
)

// Every verb has help with an example of its own.
func TestHelp(t *testing.T) {
	golden(t, "help", said(t, "--help"))
	for _, c := range (&globals{files: repository}).rootCommand().Commands() {
		golden(t, "help-"+c.Name(), said(t, c.Name()+" --help"))
		must.Have(t, c.Example, "selfheal "+c.Name())
	}
}

// said writes a command line with its output. OUT is a new folder.
func said(t *testing.T, line string) string {
	t.Helper()
	out := t.TempDir()
	stdout := done(t, strings.Fields(strings.ReplaceAll(line, "OUT", out))...)
	return fmt.Sprintf("$ selfheal %s\nexit 0\n%s", line, strings.ReplaceAll(stdout, out, "OUT"))
}

func TestOutput(t *testing.T) {
	const standard = "models/zoo/preact_standard.onnx"
	for name, line := range map[string]string{
		"version":      "--version",
		"dry-run":      "run --dry-run --limit 100 --rate 150",
		"mode":         "run --dry-run --set suites.bundled.modes=[whitebox-through] --shard 2/4 --rate 150",
		"inspect":      "inspect " + standard,
		"inspect-json": "inspect --json --mean 0.5 --std 0.25 " + robustModel,
		"split":        "split " + standard + " --out OUT",
		"grad":         "grad " + standard + " --out OUT/vjp.onnx",
	} {
		golden(t, name, said(t, line))
	}
}

// The whole job on a handful of bundled images, in an empty folder, with the config that is built into the program:
// controls, a solver study, published numbers, several seeds and a certificate. Its files are valid, its log agrees
// with them, and its report is the same when it is rendered again.
func TestRunBundled(t *testing.T) {
	testinput.Runtime(t)
	t.Chdir(t.TempDir())
	args := append([]string{"run"}, strings.Fields(`--limit 4 --log-format json --log-every 10ms --set seeds=2
		--set suites.bundled.attacks=[pgd-20] --set suites.bundled.models=[preact-robust]
		--set suites.bundled.published={preact-robust:{none:[90,80]}}
		--set suites.bundled.solver={images:1,controls:[msa]}
		--set suites.bundled-certified.attacks=[smoothing] --set suites.bundled-certified.models=[preact-robust]
		--set attacks.smoothing.n=100 --set attacks.smoothing.epsilon=0.25`)...)
	code, _, stderr := call(args...)
	if code != exitOK {
		t.Fatalf("exit %d\n%s", code, stderr)
	}
	validateRun(t, "results")
	checkLog(t, "results", stderr)
	done(t, "report", "results", "--out", "again")
	for _, name := range []string{
		"results.json", "records.jsonl", "report.html", "tables.md", "tables.tex", "tables.csv", "radar-bundled.png",
		"radar-bundled.svg",
	} {
		first := read(t, filepath.Join("results", name))
		if first == "" {
			t.Errorf("%s is empty", name)
		}
		if ext := filepath.Ext(name); !strings.HasPrefix(ext, ".json") &&
			read(t, filepath.Join("again", name)) != first {
			t.Errorf("%s differs when rendered again", name)
		}
	}
	args[2] = "3"
	code, _, stderr = call(args...)
	if code != exitUsage || !strings.Contains(stderr, "holds another run: ") {
		t.Errorf("another run: exit %d\n%s", code, stderr)
	}
	args[2] = "4"
	t.Run("browser", func(t *testing.T) { openReport(t, filepath.Join("results", "report.html"), args) })
}

// openReport opens a run's report in a browser: it fetches nothing, complains of nothing and shows how to repeat the
// run. args are the run's arguments.
func openReport(t *testing.T, page string, args []string) {
	path := must.Get(filepath.Abs(page))(t)
	p := testbrowser.Open(t, testbrowser.Start(t), path)
	p.Check(1280, 390)
	command := testbrowser.Eval[string](p, "document.querySelector('#provenance code').textContent")
	must.Have(t, command, append([]string{"selfheal"}, args...)...)
	p.Quiet()
}

// `selfheal schema` prints the files in docs/schema.
func TestSchemaCommand(t *testing.T) {
	files, err := filepath.Glob("docs/schema/*.json")
	if err != nil || len(files) < 5 {
		t.Fatalf("%v, %v", files, err)
	}
	for _, path := range files {
		if name := strings.TrimSuffix(filepath.Base(path), ".schema.json"); done(t, "schema", name) != read(t, path) {
			t.Errorf("schema %s prints another file than %s", name, path)
		}
	}
}

// A run writes valid files, and a log that agrees with them, in other modes than the bundled run's and for several
// epsilons too.
func TestRunsObeyTheSchemas(t *testing.T) {
	testinput.Runtime(t)
	for name, args := range map[string]string{
		"white box": `run --limit 2 --suite greedy --set suites.greedy.attacks=[pgd-20]
			--set suites.greedy.modes=[whitebox-through] --set suites.greedy.models=[preact-robust]`,
		"attack": `attack models/zoo/preact_robust.onnx --data models/zoo/shapes10/test.bin --norm l2 --attack fab
			--epsilon 0.5,1 --param steps=5 --limit 3`,
	} {
		t.Run(name, func(t *testing.T) {
			out := t.TempDir()
			code, _, stderr := call(append(strings.Fields(args), "--out", out, "--log-format", "json",
				"--log-every", "10ms")...)
			if code != exitOK {
				t.Fatalf("exit %d\n%s", code, stderr)
			}
			validateRun(t, out)
			checkLog(t, out, stderr)
		})
	}
}

// validateRun checks the files of a run against their schemas.
func validateRun(t *testing.T, dir string) {
	t.Helper()
	for name, schema := range map[string]string{"results.json": "results", "records.jsonl": "records",
		"gallery.json": "gallery"} {
		validate(t, schema, filepath.Join(dir, name))
	}
}

// validate checks a file, or each line of a .jsonl file, against a schema, and the schema against the standard's.
func validate(t *testing.T, schema, path string) {
	t.Helper()
	doc := must.Get(jsonschema.UnmarshalJSON(strings.NewReader(done(t, "schema", schema))))(t)
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	must.Do(t, c.AddResource("schema.json", doc))
	compiled := must.Get(c.Compile("schema.json"))(t)
	documents := []string{read(t, path)}
	if filepath.Ext(path) == ".jsonl" {
		documents = strings.Split(strings.TrimSpace(documents[0]), "\n")
	}
	for _, text := range documents {
		v, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
		if err == nil {
			err = compiled.Validate(v)
		}
		if err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// Without a driver for CUDA, every command that should use it says so in one line before anything is fetched.
func TestCUDAWithoutDriver(t *testing.T) {
	if (ort.Target{Provider: ort.ProviderCUDA}).Ready() == nil {
		t.Skip("there is a driver")
	}
	cache := t.TempDir()
	t.Setenv("XDG_CACHE_HOME", cache)
	t.Setenv("ONNXRUNTIME_SHARED_LIBRARY", "")
	attack := "attack " + robustModel + " --norm linf --epsilon 8/255 --data " + testImages
	for _, line := range []string{"run --quiet --out " + t.TempDir(), attack + " --out " + t.TempDir(), "doctor"} {
		refused(t, exitUsage, "selfheal: runtime.provider cuda: NVIDIA's driver ",
			append(strings.Fields(line), "--provider", "cuda")...)
	}
	if left := must.Get(os.ReadDir(cache))(t); len(left) > 0 {
		t.Errorf("the cache holds %v", left)
	}
}

// A page for each command, with its flags and examples; the same bytes at the same date.
func TestManual(t *testing.T) {
	t.Setenv("SOURCE_DATE_EPOCH", "0")
	pages := func() map[string]string {
		dir, read := filepath.Join(t.TempDir(), "man1"), map[string]string{}
		done(t, "man", dir)
		for _, e := range must.Get(os.ReadDir(dir))(t) {
			read[e.Name()] = string(must.Get(os.ReadFile(filepath.Join(dir, e.Name())))(t))
		}
		return read
	}
	first := pages()
	for page, holds := range map[string]string{"selfheal.1": "AutoAttack", "selfheal-attack.1": "apgd-ce",
		"selfheal-check.1": "baseline.json", "selfheal-fit.1": "Jan 1970"} {
		must.Have(t, first[page], holds, `.TH "SELFHEAL`)
	}
	if again := pages(); len(again) != len(first) || again["selfheal-run.1"] != first["selfheal-run.1"] {
		t.Error("pages differ from one time to the next")
	}
	refused(t, exitUsage, "", "man", filepath.Join(os.DevNull, "man1"))
}
