package cli

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"selfheal/internal/must"
	"selfheal/internal/testinput"
)

// writing is a command that writes into DIR/out, with the files that it needs.
type writing struct {
	name, line string
	before     func(t *testing.T, d place)
	within     func(t *testing.T, d place) // needed in DIR/out itself
	// work lists paths that exist only while it runs.
	work    []string
	refuses bool // without --force
}

const tinyRun = "run --quiet --config DIR/c.yaml --suite healed --limit 2 --out DIR/out --force"

var writings = []writing{
	{name: "run", line: tinyRun, refuses: true, work: []string{"selfheal-journal", "selfheal-journal/plan.json",
		"selfheal-journal/journal", "selfheal-journal/records.jsonl", "selfheal-journal/results.json",
		"selfheal-journal/gallery.json", "selfheal-journal/adversarial", ".selfheal-journal-gone"}},
	{name: "shard", line: strings.Replace(tinyRun, "--force", "--force --shard 1/2", 1)},
	{name: "report", line: "report DIR/done --out DIR/out --force", refuses: true, before: func(t *testing.T, d place) {
		doneIn(t, d, strings.Replace(tinyRun, "DIR/out", "DIR/done", 1))
	}},
	{name: "merge", line: "report DIR/done --out DIR/out --force", before: func(t *testing.T, d place) {
		for _, i := range []string{"1", "2"} {
			doneIn(t, d, strings.Replace(tinyRun, "DIR/out --force", "DIR/done --shard "+i+"/2", 1))
		}
	}, work: []string{"selfheal-journal"}},
	{name: "merge in place", line: "report DIR/out --out DIR/out --force", within: func(t *testing.T, d place) {
		for _, i := range []string{"1", "2"} {
			doneIn(t, d, strings.Replace(tinyRun, "--force", "--shard "+i+"/2", 1))
		}
	}, work: []string{"selfheal-journal"}},
	{name: "check", refuses: true, within: func(t *testing.T, d place) {
		doneIn(t, d, tinyRun)
		doneIn(t, d, "check --update --baseline DIR/base.json DIR/out")
	}, line: "check --baseline DIR/base.json DIR/out --force", work: []string{"junit.xml"}},
	{name: "attack", line: "attack " + robustModel + " --attack fgsm --norm linf --epsilon 8/255 --limit 2 --quiet " +
		"--data " + testImages + " --out DIR/out --force", work: []string{"selfheal-journal"}},
	{name: "published", line: "report --published --out DIR/out --force", refuses: true},
	{name: "compare", refuses: true, before: func(t *testing.T, d place) {
		doneIn(t, d, strings.Replace(tinyRun, "DIR/out", "DIR/done", 1))
		doneIn(t, d, strings.Replace(tinyRun, "DIR/out", "DIR/other", 1)+" --set seed=4")
	}, line: "compare DIR/done DIR/other --out DIR/out --force"},
	{name: "split", line: "split " + robustModel + " --out DIR/out --force", refuses: true},
	{name: "theory", line: "theory --quick --out DIR/out --force", refuses: true},
	{name: "man", line: "man DIR/out --force", refuses: true},
}

// doneIn runs a command, which must succeed.
func doneIn(t *testing.T, d place, line string) {
	t.Helper()
	done(t, strings.Fields(strings.ReplaceAll(line, "DIR", d.dir))...)
}

// walked lists the files and folders in a folder, by their paths in it.
func walked(t *testing.T, dir string) (paths []string) {
	must.Do(t, filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if rel := must.Get(filepath.Rel(dir, path))(t); err == nil && rel != "." {
			paths = append(paths, rel)
		}
		return err
	}))
	return paths
}

// A command writes nothing outside of its output folder: where a link lies in a file's or a folder's place, its
// target is left as it is, also by a command that refuses.
func TestLinksLeadNoWriteOut(t *testing.T) {
	t.Parallel()
	testinput.Runtime(t)
	for _, w := range writings {
		t.Run(w.name, func(t *testing.T) {
			reference := place{t, t.TempDir()}
			prepare := func(d place) {
				d.config("suites:", "suites:\n")
				if w.before != nil {
					w.before(t, d)
				}
			}
			prepare(reference)
			var given []string // by others before
			if w.within != nil {
				w.within(t, reference)
				given = walked(t, reference.at("out"))
			}
			doneIn(t, reference, w.line)
			paths := append(slices.DeleteFunc(walked(t, reference.at("out")), func(p string) bool {
				return slices.Contains(given, p)
			}), w.work...)
			if len(paths) < 1 {
				t.Fatalf("it writes %v", paths)
			}
			d := place{t, t.TempDir()}
			prepare(d)
			// All at once, those in folders first; then a folder as a link.
			var folders []string
			for _, p := range paths {
				if dir := filepath.Dir(p); dir != "." && !slices.Contains(folders, dir) {
					folders = append(folders, dir)
				}
			}
			for _, asFolders := range []bool{false, true}[:min(2, 1+len(folders))] {
				must.Do(t, os.RemoveAll(d.at("out")))
				must.Do(t, os.RemoveAll(d.at("outside")))
				must.Do(t, os.Mkdir(d.at("outside"), 0o755))
				if w.within != nil {
					w.within(t, d)
				}
				held := map[string]string{}
				for _, p := range paths {
					isFolder := slices.Contains(folders, p)
					if isFolder != asFolders && (isFolder || slices.ContainsFunc(folders, func(f string) bool {
						return strings.HasPrefix(p, f+"/")
					})) {
						continue
					}
					victim := strings.ReplaceAll(p, "/", "+")
					if isFolder {
						d.put("outside/"+victim+"/kept", []byte("kept"))
						held[victim+"/kept"] = "kept"
					} else {
						d.put("outside/"+victim, []byte("kept"))
						held[victim] = "kept"
					}
					must.Do(t, os.MkdirAll(filepath.Dir(d.at("out/"+p)), 0o755))
					if _, err := os.Lstat(d.at("out/" + p)); err == nil {
						continue
					}
					d.link(d.at("outside/"+victim), "out/"+p)
				}
				check := func(when string) {
					t.Helper()
					now := map[string]string{}
					for _, p := range walked(t, d.at("outside")) {
						if info := must.Get(os.Stat(d.at("outside/" + p)))(t); !info.IsDir() {
							now[p] = read(t, d.at("outside/"+p))
						}
					}
					if !maps.Equal(now, held) {
						t.Errorf("%s: outside are %q, were %q", when, slices.Sorted(maps.Keys(now)),
							slices.Sorted(maps.Keys(held)))
					}
				}
				args := strings.Fields(strings.ReplaceAll(w.line, "DIR", d.dir))
				if w.refuses {
					timid := slices.DeleteFunc(slices.Clone(args), func(a string) bool { return a == "--force" })
					if code, _, stderr := call(timid...); code == exitOK {
						t.Errorf("a folder of links is taken: %s", stderr)
					}
					check("refused")
				}
				if code, _, stderr := call(args...); code != exitOK {
					t.Errorf("exit %d: %s", code, stderr)
				}
				check("done")
				for _, p := range walked(t, reference.at("out")) {
					if info, err := os.Lstat(d.at("out/" + p)); err != nil || info.Mode()&fs.ModeSymlink != 0 {
						t.Errorf("%s was not written in the link's place: %v", p, err)
					}
				}
			}
		})
	}
}

// Commands neither wait for what lies in an output folder nor read it without end, be it a pipe, a device or a link to
// one.
func TestPipesAndDevicesAreNotWaitedFor(t *testing.T) {
	t.Parallel()
	testinput.Runtime(t)
	made := place{t, t.TempDir()}
	made.config("suites:", "suites:\n")
	doneIn(t, made, strings.Replace(tinyRun, "--force", "--shard 1/2", 1))
	doneIn(t, made, strings.Replace(tinyRun, "DIR/out", "DIR/whole", 1))
	doneIn(t, made, strings.Replace(tinyRun, "DIR/out", "DIR/other", 1)+" --set seed=4")
	shard := must.Get(filepath.Glob(made.at("out/shard-*")))(t)
	if len(shard) != 1 {
		t.Fatal(walked(t, made.at("out")))
	}
	name := must.Get(filepath.Rel(made.dir, shard[0]))(t)
	type reading struct{ path, line string }
	var readings []reading
	for _, p := range walked(t, shard[0]) {
		for _, line := range []string{"report DIR/out --out DIR/merged",
			strings.Replace(tinyRun, "--force", "--shard 1/2", 1)} {
			readings = append(readings, reading{name + "/" + p, line})
		}
	}
	for _, p := range walked(t, made.at("whole")) {
		for _, line := range []string{"report DIR/whole --out DIR/merged",
			"compare DIR/whole DIR/other --out DIR/merged", "check --baseline DIR/base.json DIR/whole",
			strings.Replace(tinyRun, "DIR/out --force", "DIR/whole", 1)} {
			readings = append(readings, reading{"whole/" + p, line})
		}
	}
	readings = append(readings, reading{"out/shares-of-2.json", strings.Replace(tinyRun, "--force", "--shard 2/2", 1)},
		reading{"m.onnx", "run --dry-run --config DIR/c.yaml --suite plain"},
		reading{"m.onnx", "run --config DIR/c.yaml --suite plain --out DIR/new"},
		reading{"m.onnx", "vnnlib DIR/m.onnx DIR/p.vnnlib"},
		reading{"p.vnnlib", "vnnlib " + robustModel + " DIR/p.vnnlib"},
		reading{"m.onnx", "inspect DIR/m.onnx"}, reading{"m.onnx", "doctor DIR/m.onnx"},
		reading{"base.json", "check --baseline DIR/base.json DIR/whole"})
	doneIn(t, made, "check --update --baseline DIR/base.json DIR/whole")
	for _, r := range readings {
		for _, kind := range []string{"pipe", "device"} {
			d := place{t, t.TempDir()}
			must.Do(t, os.CopyFS(d.dir, os.DirFS(made.dir)))
			d.config("ZOO/preact_robust.onnx", "m.onnx")
			if info, err := os.Lstat(d.at(r.path)); err == nil && info.IsDir() {
				continue
			}
			_ = os.Remove(d.at(r.path))
			if kind == "pipe" {
				must.Do(t, syscall.Mkfifo(d.at(r.path), 0o600))
			} else {
				d.link("/dev/zero", r.path)
			}
			if r.path != "m.onnx" {
				d.config()
			}
			began := time.Now()
			code, _, stderr := call(strings.Fields(strings.ReplaceAll(r.line, "DIR", d.dir))...)
			if took := time.Since(began); took > 30*time.Second {
				t.Errorf("%s as %s: %s takes %s", r.path, kind, r.line, took)
			}
			if code != exitOK && strings.Count(stderr, "\n") != 1 {
				t.Errorf("%s as %s: %s: exit %d\n%s", r.path, kind, r.line, code, stderr)
			}
		}
	}
}
