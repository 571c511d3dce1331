package folder

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"syscall"
	"testing"
	"time"

	"selfheal/harness/result"
	"selfheal/internal/atomicfile"
	"selfheal/internal/checksum"
	"selfheal/internal/filelock"
	"selfheal/internal/journal"
	"selfheal/internal/must"
)

// A run removes the files of an earlier one after it has published its own results, whatever the folder is called. It
// removes nothing from a folder without results.
func TestWhatARunRemoves(t *testing.T) {
	for _, c := range []struct {
		name    string
		results bool
		left    []string
	}{
		{"plain", true, []string{".selfheal.files", ".selfheal.lock", "mine.txt", "records.jsonl", "results.json"}},
		{"gl[1", true, []string{".selfheal.files", ".selfheal.lock", "mine.txt", "records.jsonl", "results.json"}},
		{"other", false, []string{".selfheal.files", ".selfheal.lock", "adversarial/a.npy", "control-panel.png",
			"junit.xml", "mine.txt", "records.jsonl", "results.json"}},
	} {
		dir := filepath.Join(t.TempDir(), c.name)
		must.Do(t, os.MkdirAll(filepath.Join(dir, "adversarial"), 0o755))
		held := []string{"mine.txt", "junit.xml", "control-panel.png", "adversarial/a.npy"}
		if c.results {
			held = append(held, "radar-s.png", "curve-s.svg", "waterfall-s.png", "solver-s.png", "corruptions-s.png",
				"certified-s.svg", "theory-margins.svg")
		}
		for _, name := range held {
			must.Do(t, os.WriteFile(filepath.Join(dir, name), nil, 0o644))
		}
		f := &result.File{Schema: result.Schema}
		if c.results {
			must.Do(t, result.Write(filepath.Join(dir, "results.json"), f))
		} else {
			_, err := Open(dir, atomicfile.Rule{})
			must.Refuse(t, err, "no file as selfheal wrote it", "--force")
		}
		o := must.Get(Open(dir, atomicfile.Rule{Force: true}))(t)
		j := must.Get(o.Begin(Planned{Run: f}))(t)
		must.Do(t, o.Cell(f, nil))
		if _, err := os.Stat(filepath.Join(dir, "junit.xml")); err != nil {
			t.Errorf("%s: removed before there are results: %v", c.name, err)
		}
		f.Finished = new(time.Now())
		must.Get(o.Publish(f, nil))(t)
		must.Do(t, j.Close())
		must.Do(t, o.Finish())
		var left []string
		must.Do(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if name, _ := filepath.Rel(dir, path); err == nil && !d.IsDir() {
				left = append(left, name)
			}
			return err
		}))
		if !slices.Equal(left, c.left) {
			t.Errorf("%s: %q are left, want %q", c.name, left, c.left)
		}
	}
}

// A refused run leaves nothing, not even its lock, and keeps all files.
func TestRefusedRunLeavesNothing(t *testing.T) {
	for _, held := range [][]string{nil, {}, {"mine.txt"}, {"mine.txt", "report.html"}, {lockFile, "mine.txt"}} {
		parent := t.TempDir()
		dir := filepath.Join(parent, "out")
		if held != nil {
			must.Do(t, os.Mkdir(dir, 0o755))
		}
		for _, name := range held {
			must.Do(t, os.WriteFile(filepath.Join(dir, name), nil, 0o644))
		}
		f, err := Open(dir, atomicfile.Rule{})
		if slices.Contains(held, "report.html") {
			must.Refuse(t, err, "is no file as selfheal wrote it")
		} else {
			must.Do(t, err)
			_, err = Open(dir, atomicfile.Rule{})
			must.Refuse(t, err, "another run")
			f.Unlock()
		}
		var left []string
		for _, e := range must.Get(os.ReadDir(parent))(t) {
			for _, e := range must.Get(os.ReadDir(filepath.Join(parent, e.Name())))(t) {
				left = append(left, e.Name())
			}
		}
		if _, err := os.Stat(dir); !slices.Equal(left, held) || (err == nil) != (held != nil) {
			t.Errorf("of %q in a folder, %q is left: %v", held, left, err)
		}
	}
}

// Inputs are copied to the folder with the results, but not over somebody else's. A run without inputs leaves
// existing ones, which it may read.
func TestInputs(t *testing.T) {
	dir, from := t.TempDir(), t.TempDir()
	publish := func(inputs string, force bool) {
		f := must.Get(Open(dir, atomicfile.Rule{Force: force}))(t)
		defer f.Unlock()
		f.KeepInputs = inputs
		file := &result.File{Schema: result.Schema, Finished: new(time.Now())}
		must.Do(t, must.Get(f.Begin(Planned{Run: file}))(t).Close())
		must.Do(t, f.Cell(file, nil))
		must.Get(f.Publish(file, nil))(t)
		must.Do(t, f.Finish())
	}
	held := func() (names []string) {
		for _, e := range must.Get(os.ReadDir(filepath.Join(dir, InputFolder)))(t) {
			names = append(names, e.Name())
		}
		return names
	}
	must.Do(t, os.Mkdir(filepath.Join(dir, InputFolder), 0o755))
	must.Do(t, os.WriteFile(filepath.Join(dir, InputFolder, "mine"), nil, 0o644))
	f := must.Get(Open(dir, atomicfile.Rule{}))(t) // without inputs it would keep them
	f.KeepInputs = from
	must.Refuse(t, f.Claim(), "selfheal-input/mine is there, and is no file as selfheal wrote it", "--force")
	f.Unlock()
	must.Do(t, os.RemoveAll(filepath.Join(dir, InputFolder)))
	for _, name := range []string{".lock", "config.json", "data.npz"} {
		must.Do(t, os.WriteFile(filepath.Join(from, name), []byte(name), 0o644))
	}
	must.Do(t, os.Mkdir(filepath.Join(from, "folder"), 0o755))
	publish(from, false)
	if names := held(); !slices.Equal(names, []string{"config.json", "data.npz"}) {
		t.Errorf("%q are there", names)
	}
	publish("", true)
	if names := held(); !slices.Equal(names, []string{"config.json", "data.npz"}) {
		t.Errorf("a run without inputs leaves %q", names)
	}
	must.Do(t, os.Remove(filepath.Join(from, "data.npz")))
	publish(from, true)
	if names := held(); !slices.Equal(names, []string{"config.json"}) {
		t.Errorf("another run's inputs are %q", names)
	}
}

// On a file system without locks, the text of the lock's file keeps others out while its process lives.
func TestLockByName(t *testing.T) {
	defer func() { tryLock = filelock.Lock }()
	tryLock = func(*os.File) error { return syscall.ENOLCK }
	dir := t.TempDir()
	l := must.Get(LockFolder(dir, "run"))(t)
	_, err := LockFolder(dir, "run")
	must.Refuse(t, err, fmt.Sprintf("another run (process %d on ", os.Getpid()))
	l.Free()
	must.Get(LockFolder(dir, "run"))(t).Free()
	host := must.Get(os.Hostname())(t)
	for owner, want := range map[string]string{
		"process 999999999 on " + host + ", since 2026": "", "process 1 on elsewhere, since 2026": "on elsewhere",
		"somebody": "somebody", "": "",
	} {
		must.Do(t, os.WriteFile(filepath.Join(dir, ".selfheal.lock"), []byte(owner), 0o644))
		if l, err := LockFolder(dir, "run"); want != "" {
			must.Refuse(t, err, want)
		} else if err != nil || l.Before != owner {
			t.Errorf("%q: %v", owner, err)
		} else {
			l.Free()
		}
	}
}

// A journal that cannot be opened is an error that names it.
func TestNoJournal(t *testing.T) {
	for what, spoil := range map[string]func(path string) error{
		"is a folder, not a file": func(path string) error { return os.Mkdir(path, 0o755) },
		"has a line of more than 64 MiB, which no run writes": func(path string) error {
			f, err := os.Create(path)
			if err == nil {
				err = errors.Join(f.Truncate(65<<20), f.Close())
			}
			return err
		},
	} {
		o := must.Get(Open(t.TempDir(), atomicfile.Rule{}))(t)
		must.Do(t, os.MkdirAll(o.Work(""), 0o755))
		must.Do(t, spoil(o.Work(journal.File)))
		j, _, err := o.Continue()
		must.Refuse(t, err, "journal "+o.Work(""), what)
		if j != nil {
			t.Errorf("%s: a journal of nothing", what)
		}
	}
}

// An error says whether finished work is kept. It is not if the folder or its journal is gone.
func TestUnfinish(t *testing.T) {
	o := must.Get(Open(filepath.Join(t.TempDir(), "out"), atomicfile.Rule{}))(t)
	j := must.Get(o.Begin(Planned{Run: &result.File{Schema: result.Schema}}))(t)
	defer j.Close()
	if err := o.Unfinish(fs.ErrPermission); !errors.As(err, new(Unfinished)) || !errors.Is(err, fs.ErrPermission) {
		t.Errorf("with its journal: %v", err)
	}
	must.Do(t, os.Remove(o.Work(journal.File)))
	must.Refuse(t, o.Unfinish(fs.ErrPermission), "journal.jsonl was removed while the run was at work")
	must.Do(t, os.RemoveAll(o.Dir))
	must.Refuse(t, o.Unfinish(fs.ErrPermission), "out was removed while the run was at work")
}

// Every field of a key is in its text, which tells blocks apart, and is read back from there.
func TestKeysKeepEveryField(t *testing.T) {
	var k Key
	var fill func(v reflect.Value)
	fill = func(v reflect.Value) {
		switch v.Kind() {
		case reflect.Struct:
			for i := range v.NumField() {
				fill(v.Field(i))
			}
		case reflect.Pointer:
			v.Set(reflect.New(v.Type().Elem()))
			fill(v.Elem())
		case reflect.String:
			v.SetString("s")
		case reflect.Int:
			v.SetInt(3)
		case reflect.Uint64:
			v.SetUint(3)
		case reflect.Float64:
			v.SetFloat(0.5)
		default:
			t.Fatalf("a key has a %s", v.Kind())
		}
	}
	fill(reflect.ValueOf(&k).Elem())
	if got := must.Get(ParseKey(k.JSON()))(t); !reflect.DeepEqual(got, k) {
		t.Errorf("%+v, from %s", got, k.JSON())
	}
}

// A file has a checksum if it has the same bytes, and as many.
func TestChecksum(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	c := Checksum{3, checksum.Of([]byte("abc"))}
	for text, want := range map[string]bool{"abc": true, "abd": false, "ab": false, "abcd": false} {
		must.Do(t, os.WriteFile(path, []byte(text), 0o600))
		if c.Is(path) != want {
			t.Errorf("%s: %v", text, !want)
		}
	}
	if c.Is(path + "s") {
		t.Error("no file is as it was written")
	}
}
