package atomicfile

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"selfheal/internal/must"
)

func put(t *testing.T, path, text string) {
	t.Helper()
	must.Do(t, os.WriteFile(path, []byte(text), 0o644))
}

func holds(t *testing.T, path, want string) {
	t.Helper()
	if got, err := os.ReadFile(path); err != nil || string(got) != want {
		t.Errorf("%s holds %q, want %q (%v)", path, got, want, err)
	}
}

// Only what was written as a file of that kind, and is as it was written, is replaced.
func TestReplacesItsOwn(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a")
	to, forced := Rule{}.In(dir, "answer"), Rule{Force: true}.In(dir, "answer")
	put(t, path, "mine")
	must.Refuse(t, to.May("a"), "a is there, and is no answer as selfheal wrote it; choose another name or add --force")
	must.Refuse(t, to.Write("a", []byte("lost")), "is no answer")
	holds(t, path, "mine")
	must.Do(t, forced.Write("a", []byte("one")))
	must.Do(t, to.Write("a", []byte("two"))) // its own
	must.Do(t, to.Write("a", []byte("three")))
	holds(t, path, "three")
	must.Refuse(t, Rule{}.In(dir, "report").Write("a", nil), "is no report")
	put(t, path, "threE")
	must.Refuse(t, to.Write("a", nil), "is no answer")
	put(t, path, "three") // as it was
	must.Do(t, to.Write("a", []byte("four")))
	must.Do(t, os.Mkdir(filepath.Join(dir, "sub"), 0o755))
	must.Refuse(t, forced.Write("sub", nil), "is a folder, not a file")
	if err := to.Fill("new", func(io.Writer) error { return io.ErrShortWrite }); !errors.Is(err, io.ErrShortWrite) {
		t.Error(err)
	}
	// A file that is known to be the program's needs no list, and a torn line of that costs nothing.
	must.Do(t, os.WriteFile(filepath.Join(dir, ListFile), []byte(`{"name": "a", "ki`), 0o644))
	must.Refuse(t, to.Write("a", nil), "is no answer")
	known := to
	known.Known = true
	must.Do(t, known.Write("a", []byte("five")))
	must.Do(t, to.Write("a", []byte("six")))
	holds(t, path, "six")
}

// An input is not replaced even where that is forced, whatever it is called.
func TestInputsStay(t *testing.T) {
	dir := t.TempDir()
	path, other := filepath.Join(dir, "a"), filepath.Join(dir, "b")
	must.Do(t, Rule{}.In(dir, "answer").Write("a", []byte("own")))
	must.Do(t, os.Link(path, other))
	for _, input := range []string{path, other, dir + "/../" + filepath.Base(dir) + "/a"} {
		rule := Rule{Force: true, Inputs: []string{"absent", input}}
		must.Refuse(t, rule.In(dir, "answer").Write("a", nil), "a is an input of this command")
		to := rule.At(path, "answer")
		must.Refuse(t, to.Write(nil), "is an input of this command")
		must.Refuse(t, to.Append(nil), "is an input of this command")
	}
	holds(t, path, "own")
}

// Nothing is written through a link to a file, to a folder or to nothing; with Force the link itself is replaced.
func TestOutputLinks(t *testing.T) {
	outside, dir := t.TempDir(), t.TempDir()
	put(t, filepath.Join(outside, "kept"), "kept")
	link := filepath.Join(dir, "a")
	for _, target := range []string{"kept", "absent"} {
		must.Do(t, os.Symlink(filepath.Join(outside, target), link))
		to := Rule{}.At(link, "answer")
		must.Refuse(t, to.Write(nil), "is a link, and nothing is written through links; choose another")
		must.Refuse(t, to.Append(nil), "name the file itself")
		to.Known = true
		must.Refuse(t, to.Write(nil), "is a link")
		to.Force = true
		must.Do(t, to.Write([]byte("new")))
		holds(t, link, "new")
		must.Do(t, os.Remove(link))
	}
	must.Do(t, os.Symlink(outside, filepath.Join(dir, "sub")))
	must.Refuse(t, Rule{}.In(dir, "report").Write("sub/kept", nil), "sub is a link")
	must.Do(t, Rule{Force: true}.In(dir, "report").Write("sub/kept", []byte("new")))
	holds(t, filepath.Join(outside, "kept"), "kept")
	if _, err := os.Stat(filepath.Join(outside, "absent")); err == nil {
		t.Error("written through a link")
	}
	// Nor does the list lead out.
	must.Do(t, os.Remove(filepath.Join(dir, ListFile)))
	must.Do(t, os.Symlink(filepath.Join(outside, "kept"), filepath.Join(dir, ListFile)))
	must.Do(t, Rule{}.In(dir, "answer").Write("new", nil))
	holds(t, filepath.Join(outside, "kept"), "kept")
}

// Beside a file of an earlier version, which kept no list, names are enough; beside one of this version they are not.
func TestEarlierVersions(t *testing.T) {
	dir := t.TempDir()
	to := Rule{}.In(dir, "report")
	put(t, filepath.Join(dir, "report.html"), "page")
	to.Beside = "results.json"
	must.Refuse(t, to.Write("report.html", nil), "is no report")
	put(t, filepath.Join(dir, "results.json"), `{"schema": "another/1"}`)
	must.Refuse(t, to.Write("report.html", nil), "is no report")
	put(t, filepath.Join(dir, "results.json"), "{\n \"schema\": \"selfheal.results/1\"}")
	must.Do(t, to.May("report.html", "results.json"))
	put(t, filepath.Join(dir, "tables.md"), "table")
	must.Do(t, to.Claim("tables.md"))
	must.Do(t, to.Write("results.json", []byte(`{"schema": "selfheal.results/1"}`)))
	must.Refuse(t, to.Write("report.html", nil), "is no report")
	must.Do(t, to.Write("tables.md", nil))
}

// A claimed file is replaced later without --force, unless it has changed since; files are moved by the same rule.
func TestClaimAndMove(t *testing.T) {
	dir := t.TempDir()
	to := Rule{}.In(dir, "report")
	put(t, filepath.Join(dir, "a"), "mine")
	must.Do(t, os.Symlink("a", filepath.Join(dir, "b")))
	must.Refuse(t, to.Claim("a"), "is no report")
	must.Do(t, Rule{Force: true}.In(dir, "report").Claim("a", "b", "absent"))
	put(t, filepath.Join(dir, "from"), "new")
	must.Do(t, to.Move("from", "a"))
	must.Do(t, to.Write("b", []byte("file")))
	holds(t, filepath.Join(dir, "a"), "new")
	holds(t, filepath.Join(dir, "b"), "file")
	must.Do(t, to.Write("a", []byte("newer")))
	put(t, filepath.Join(dir, "a"), "mine again")
	put(t, filepath.Join(dir, "from"), "new")
	must.Refuse(t, to.Move("from", "a"), "is no report")
	holds(t, filepath.Join(dir, "from"), "new")
	must.Do(t, Rule{}.In(filepath.Join(dir, "absent"), "").Claim("a"))
}

// Append keeps the content of a user's file.
func TestAppend(t *testing.T) {
	path := filepath.Join(t.TempDir(), "summary.md")
	to := Rule{}.At(path, "")
	for range 2 {
		must.Do(t, to.Append(func(w io.Writer) error {
			_, err := io.WriteString(w, "line\n")
			return err
		}))
	}
	holds(t, path, "line\nline\n")
	must.Refuse(t, to.Append(func(io.Writer) error { return io.ErrShortWrite }), path+": short write")
}

// The list does not grow without end, and then still knows each file.
func TestShortList(t *testing.T) {
	defer func(n int64) { fullList = n }(fullList)
	fullList = 2000
	dir := t.TempDir()
	to := Rule{}.In(dir, "answer")
	for i := range 200 {
		must.Do(t, to.Write([]string{"a", "b", "c"}[i%3], fmt.Append(nil, i)))
	}
	list := string(must.Get(os.ReadFile(filepath.Join(dir, ListFile)))(t))
	if int64(len(list)) > fullList+200 || !strings.Contains(list, `"name":"c"`) {
		t.Errorf("%d bytes:\n%s", len(list), list)
	}
	must.Do(t, to.May("a", "b", "c"))
}
