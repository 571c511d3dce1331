package cli

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"selfheal/internal/lists"
	"selfheal/internal/must"
	"selfheal/internal/testinput"
)

// unwritten lists outputs that no short call writes.
var unwritten = map[string]string{
	"submit out": "it needs a scheduler; what it merges goes where a run's results do",
}

// atWork lists the paths that exist in a verb's output folder only while it works.
var atWork = map[string][]string{"attack": {"selfheal-journal"}, "report": {"selfheal-journal"},
	"run": {"selfheal-journal", "selfheal-journal/plan.json", "selfheal-journal/journal",
		"selfheal-journal/records.jsonl", "selfheal-journal/results.json", "selfheal-journal/gallery.json",
		"selfheal-journal/adversarial", ".selfheal-journal-gone"}}

// appended lists outputs that are appended to a user's file.
var appended = map[string]bool{"check markdown": true}

// No verb replaces a user's file or folder in the place of an output without --force, nor an input even with it; it
// replaces the files that it wrote itself.
func TestOutputsReplaceNothing(t *testing.T) {
	testinput.Runtime(t)
	w := newWorld(t)
	root := (&globals{files: w}).rootCommand()
	for _, c := range root.Commands() {
		var names []string // of flags; "" for an argument
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if isOutput(f) {
				names = append(names, f.Name)
			}
		})
		if _, is := c.Annotations[outputPath]; is {
			names = append(names, "")
		}
		for _, name := range names {
			own := strings.TrimSpace(c.Name() + " " + name)
			if unwritten[own] != "" {
				continue
			}
			t.Run(own, func(t *testing.T) {
				wrote := false
				for _, line := range callings[c.Name()] {
					o := outputCall{w, c, name, line}
					wrote = o.try(t) || wrote
				}
				if !wrote {
					t.Error("no call writes it")
				}
			})
		}
		if c.Name() == "run" {
			for _, more := range []string{" --shard 1/2", " --set save_adversarial=true"} {
				o := outputCall{w, c, "out", callings["run"][0] + more}
				made, code, _ := o.makes(t)
				o.replaces(t, code, slices.Sorted(maps.Keys(made)))
			}
		}
	}
}

// outputCall is a verb called in one way, with a path for one of its outputs.
type outputCall struct {
	*world
	verb       *cobra.Command
	flag, line string
}

// args returns the command line for a path.
func (o outputCall) args(path string, more ...string) []string {
	words := strings.Fields(o.line)
	if o.flag == "" {
		words[0] = path
	} else if i := slices.Index(words, "--"+o.flag); i >= 0 {
		words[i+1] = path
	} else {
		words = append(words, "--"+o.flag, path)
	}
	return slices.Concat([]string{o.verb.Name()}, words, more)
}

// contents reads a folder's files and links, except those that the program keeps for itself.
func contents(t *testing.T, dir string) map[string]string {
	all := map[string]string{}
	for _, name := range walked(t, dir) {
		path := filepath.Join(dir, name)
		info := must.Get(os.Lstat(path))(t)
		switch {
		case strings.HasPrefix(name, "cache") || strings.Contains(name, ".selfheal") || info.IsDir():
		case info.Mode().IsRegular():
			all[name] = read(t, path)
		default:
			all[name] = "→ " + must.Get(os.Readlink(path))(t)
		}
	}
	return all
}

// output is the path of the output of an [outputCall], a file or a folder.
const output = "made"

// makes returns the files that the call makes in a new folder.
func (o outputCall) makes(t *testing.T) (made map[string]string, code int, stderr string) {
	dir := o.folder(t, o.args(output))
	before := contents(t, dir)
	code, stderr = o.in(t, dir, o.args(output)...)
	made = contents(t, dir)
	maps.DeleteFunc(made, func(name, _ string) bool {
		_, there := before[name]
		return there || name != output && !strings.HasPrefix(name, output+"/")
	})
	return made, code, stderr
}

// try reports whether the call writes to the output.
func (o outputCall) try(t *testing.T) bool {
	made, code, stderr := o.makes(t)
	if len(made) == 0 {
		return false
	}
	dir := filepath.Join(o.calls, "folder")
	if again, stderr := o.in(t, dir, o.args(output)...); again != code {
		t.Errorf("%s: exit %d, and %d where it has written before\n%s", o.line, code, again, stderr)
	}
	if code > exitInconclusive {
		t.Errorf("%s: exit %d\n%s", o.line, code, stderr)
	}
	var some []string // one of each kind
	for _, name := range slices.Sorted(maps.Keys(made)) {
		if !slices.ContainsFunc(some, func(s string) bool { return filepath.Ext(s) == filepath.Ext(name) }) {
			some = append(some, name)
		}
	}
	for _, name := range some {
		o.refuses(t, output, "a user's "+name, func(dir string) { put(t, filepath.Join(dir, name), []byte("mine")) })
	}
	dir = o.folder(t, o.args(output))
	for _, name := range some {
		put(t, filepath.Join(dir, name), []byte("mine"))
	}
	if forced, stderr := o.in(t, dir, o.args(output, "--force")...); forced != code {
		t.Errorf("%s: forced: exit %d, not %d\n%s", o.line, forced, code, stderr)
	}
	for _, name := range some {
		if read(t, filepath.Join(dir, name)) == "mine" {
			t.Errorf("%s: a user's %s is not replaced by --force", o.line, name)
		}
	}
	links := func(dir string) {
		for name := range made {
			put(t, filepath.Join(dir, "kept", name), []byte("kept"))
			at := filepath.Join(dir, name)
			must.Do(t, os.MkdirAll(filepath.Dir(at), 0o755))
			must.Do(t, os.Symlink(filepath.Join(dir, "kept", name), at))
		}
	}
	o.refuses(t, output, "links", links)
	if !appended[o.verb.Name()+" "+o.flag] {
		o.replaces(t, code, slices.Sorted(maps.Keys(made)))
	}
	if made[output] != "" {
		dangling := func(dir string) {
			must.Do(t, os.Symlink(filepath.Join(dir, "absent"), filepath.Join(dir, output)))
		}
		o.refuses(t, output, "a link to nothing", dangling)
		for _, input := range o.inputs(t) {
			o.refuses(t, input, "the input "+input, func(string) {})
			o.refuses(t, input, "the input "+input+", forced", func(string) {}, "--force")
			linked := func(dir string) { must.Do(t, os.Link(filepath.Join(dir, input), filepath.Join(dir, output))) }
			o.refuses(t, output, "another name of the input "+input, linked)
		}
	}
	return true
}

// replaces checks that a forced call writes its files in the place of links, be these in the place of files or of
// folders, and leaves what they lead to.
func (o outputCall) replaces(t *testing.T, want int, made []string) {
	t.Helper()
	names := slices.Clone(made)
	for _, name := range atWork[o.verb.Name()] {
		names = append(names, output+"/"+name)
	}
	var folders []string
	for _, name := range names {
		if in := filepath.Dir(name); in != "." && in != output {
			folders = lists.Once(folders, in)
		}
	}
	for _, linked := range [][]string{names, folders} {
		dir := o.folder(t, o.args(output))
		for _, name := range linked {
			kept := filepath.Join(dir, "kept", strings.NewReplacer("/", "+", ".", "").Replace(name))
			if slices.Equal(linked, folders) {
				put(t, filepath.Join(kept, "file"), []byte("kept"))
			} else if put(t, kept, []byte("kept")); slices.Contains(folders, name) {
				continue
			}
			must.Do(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755))
			must.Do(t, os.Symlink(kept, filepath.Join(dir, name)))
		}
		before := contents(t, filepath.Join(dir, "kept"))
		code, stderr := o.in(t, dir, o.args(output, "--force")...)
		if now := contents(t, filepath.Join(dir, "kept")); code != want || !maps.Equal(now, before) {
			t.Errorf("%s: exit %d; behind links %v were %v\n%s", o.line, code, now, before, stderr)
		}
		for _, name := range made {
			if info, err := os.Lstat(filepath.Join(dir, name)); err != nil || !info.Mode().IsRegular() {
				t.Errorf("%s: %s was not written in a link's place: %v", o.line, name, err)
			}
		}
		if folders == nil {
			return
		}
	}
}

// inputs returns the files that the call reads.
func (o outputCall) inputs(t *testing.T) (all []string) {
	dir := o.folder(t, o.args("made"))
	for name := range contents(t, dir) {
		top, _, inside := strings.Cut(name, "/")
		named := slices.Contains(strings.Fields(o.line), top)
		byConfig := strings.Contains(o.line, "c.yaml") && name == "net.onnx"
		if named && !inside || byConfig || named && (top == "asked" || name == "run/results.json") {
			all = append(all, name)
		}
	}
	if len(all) == 0 && o.line != "" {
		t.Errorf("%s has no inputs", o.line)
	}
	return all
}

// refuses checks that a call is refused and changes nothing.
func (o outputCall) refuses(t *testing.T, path, what string, prepare func(dir string), more ...string) {
	t.Helper()
	dir := o.folder(t, o.args(path))
	prepare(dir)
	before := contents(t, dir)
	code, stderr := o.in(t, dir, o.args(path, more...)...)
	now := contents(t, dir)
	for name, text := range before {
		isAppended := appended[o.verb.Name()+" "+o.flag] && text == "mine" && strings.HasPrefix(now[name], text)
		if now[name] != text && !isAppended {
			t.Errorf("%s: %s: %s is replaced or gone (exit %d)\n%s", o.line, what, name, code, stderr)
		}
		if isAppended {
			return
		}
	}
	if code == exitOK || stderr == "" {
		t.Errorf("%s: %s: exit %d\n%s", o.line, what, code, stderr)
	}
	if _, err := os.Lstat(filepath.Join(dir, "absent")); err == nil {
		t.Errorf("%s: %s: written through a link", o.line, what)
	}
}
