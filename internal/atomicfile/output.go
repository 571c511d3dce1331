package atomicfile

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"selfheal/internal/checksum"
	"selfheal/internal/fault"
	"selfheal/internal/input"
)

// Rule says what a command may replace: a file that the program wrote and nobody has changed since; with Force, any
// file. A command never replaces its inputs and never writes through a link.
type Rule struct {
	Force  bool
	Inputs []string // files that the command reads
}

// Refused is an error about an existing file that may not be replaced.
type Refused struct{ error }

// Unwrap returns the wrapped error.
func (r Refused) Unwrap() error { return r.error }

func refused(format string, args ...any) error { return Refused{fmt.Errorf(format, args...)} }

// errForeign ends messages about files that the program did not write.
var errForeign = errors.New("choose another name or add --force")

// Output is the place for files of one kind: a folder that a user has named and that may be a link. Names are as for
// [Folder].
type Output struct {
	Rule
	Dir  string
	Kind string // what the files are, such as "segment"; files of another kind are not replaced
	// Beside is a JSON file, if any, that identifies results of earlier versions, which kept no list of the files they
	// wrote. If it is the program's and is not in the list, all files beside it count as the program's.
	Beside string
	Known  bool // the existing file itself says that it is the program's
	named  bool // a device or a pipe with the name of a file may be written to
}

// In returns the output for files of a kind in a folder.
func (r Rule) In(dir, kind string) Output { return Output{Rule: r, Dir: dir, Kind: kind} }

// File is an output file that a user has named. Its methods call those of [Output] with its name.
type File struct {
	Output
	Name string // in the output's folder
}

// At returns the file that a user has named.
func (r Rule) At(path, kind string) File {
	return File{Output{Rule: r, Dir: filepath.Dir(path), Kind: kind, named: true}, filepath.Base(path)}
}

// Path returns the file's path.
func (f File) Path() string { return f.Output.Path(f.Name) }

// May returns an error if the file may not be replaced.
func (f File) May() error { return f.Output.May(f.Name) }

// Claim is May, and makes an existing file the program's own.
func (f File) Claim() error { return f.Output.Claim(f.Name) }

// Write replaces the file by data.
func (f File) Write(data []byte) error { return f.Output.Write(f.Name, data) }

// WriteSynced replaces the file by data that survives a power cut.
func (f File) WriteSynced(data []byte) error { return f.Output.WriteSynced(f.Name, data) }

// Fill replaces the file by the output of fill.
func (f File) Fill(fill func(io.Writer) error) error { return f.Output.Fill(f.Name, fill) }

// Path joins the folder and a name.
func (o Output) Path(name string) string { return Folder(o.Dir).Path(name) }

// ListFile has a line for each file that the program wrote in its folder.
const ListFile = ".selfheal.files"

// Written is a line of [ListFile].
type Written struct {
	Name  string `json:"name"` // in the folder, with slashes
	Kind  string `json:"kind"`
	Bytes int64  `json:"bytes"`
	Sum   uint32 `json:"crc32c"` // CRC-32C of the content; for a link that was given up, of its target's path
}

// May returns an error for the first name whose file may not be replaced. Writing reports other faults.
func (o Output) May(names ...string) error {
	root, err := os.OpenRoot(o.Dir)
	if err != nil {
		return nil
	}
	defer root.Close()
	list := readList(root)
	for _, name := range names {
		if err := o.may(root, list, name); err != nil {
			return err
		}
	}
	return nil
}

func (o Output) may(root *os.Root, list []Written, name string) error {
	at := o.Path(name)
	there, err := os.Stat(at)
	if err == nil {
		if o.named && isDevice(there) {
			return nil
		}
		for _, path := range o.Inputs {
			if info, err := os.Stat(path); err == nil && os.SameFile(info, there) {
				return refused("%s is an input of this command; choose another name", at)
			}
		}
	}
	for i, c := range name {
		if c == '/' && !o.Force && isLink(root, name[:i]) {
			return refused("%s is a link, and %w; %w", o.Path(name[:i]), errLink, errForeign)
		}
	}
	info, err := root.Lstat(name)
	switch {
	case err != nil || o.Force && !info.IsDir():
		return nil
	case info.IsDir():
		return refused("%s is a folder, not a file", at)
	case o.wrote(root, list, name):
		return nil
	case isLink(root, name):
		return refused("%s is a link, and %w; %w", at, errLink, errForeign)
	}
	return refused("%s is there, and is no %s as selfheal wrote it; %w", at, cmp.Or(o.Kind, "file"), errForeign)
}

var errLink = errors.New("nothing is written through links")

func isLink(root *os.Root, name string) bool {
	info, err := root.Lstat(name)
	return err == nil && info.Mode()&fs.ModeSymlink != 0
}

// Wrote reports whether the program wrote the file with this name.
func (o Output) Wrote(name string) bool {
	root, err := os.OpenRoot(o.Dir)
	if err != nil {
		return false
	}
	defer root.Close()
	return o.wrote(root, readList(root), name)
}

func (o Output) wrote(root *os.Root, list []Written, name string) bool {
	return o.Known && !isLink(root, name) || listed(root, list, name, o.Kind) ||
		o.Beside != "" && !listed(root, list, o.Beside, "") && isOurs(root, o.Beside)
}

// listed reports whether the file with this name, unchanged, is in the list: as of a kind, or as of any for "".
func listed(root *os.Root, list []Written, name, kind string) bool {
	var now Written
	return slices.ContainsFunc(list, func(w Written) bool {
		if w.Name != name || kind != "" && w.Kind != kind {
			return false
		}
		if now.Name == "" {
			var err error
			if now, err = sumOf(root, name); err != nil {
				return false
			}
		}
		return w.Bytes == now.Bytes && w.Sum == now.Sum
	})
}

// sumOf returns a file's line for the list, without its kind.
func sumOf(root *os.Root, name string) (w Written, err error) {
	info, err := root.Lstat(name)
	if err != nil {
		return w, err
	}
	if !info.Mode().IsRegular() {
		to, err := root.Readlink(name)
		return Written{name, "", int64(len(to)), checksum.Of([]byte(to))}, err
	}
	f, err := root.Open(name)
	if err != nil {
		return w, err
	}
	defer f.Close()
	return sumFile(f, name)
}

func sumFile(f *os.File, name string) (w Written, err error) {
	n, sum, err := checksum.Read(io.NewSectionReader(f, 0, 1<<62))
	return Written{name, "", n, sum}, err
}

// isOurs reports whether a JSON file names one of the program's schemas.
func isOurs(root *os.Root, name string) bool {
	info, err := root.Lstat(name)
	if err != nil || !info.Mode().IsRegular() {
		return false
	}
	f, err := root.Open(name)
	if err != nil {
		return false
	}
	defer f.Close()
	head, err := io.ReadAll(io.LimitReader(f, 200))
	return err == nil && strings.Contains(string(head), `"schema": "selfheal.`)
}

const mostList = 64 << 20

// readList returns no lines if there is no list or it can't be read: then no file is known to be the program's.
func readList(root *os.Root) (list []Written) {
	if info, err := root.Lstat(ListFile); err != nil || !info.Mode().IsRegular() {
		return nil
	}
	data, err := input.Read(filepath.Join(root.Name(), ListFile), mostList)
	if err != nil {
		return nil
	}
	for line := range strings.Lines(string(data)) {
		var w Written
		if json.Unmarshal([]byte(line), &w) == nil {
			list = append(list, w)
		}
	}
	return list
}

// note adds lines to the list before their files exist, so that a kill in between leaves no unknown file. Several
// processes may add lines at once.
func (o Output) note(synced bool, lines ...Written) error {
	if len(lines) == 0 {
		return nil
	}
	list, err := Folder(o.Dir).Open(ListFile, os.O_APPEND)
	if err == nil {
		_, err = list.Write(append([]byte{'\n'}, encode(lines)...)) // the line feed ends a torn line
		var info fs.FileInfo
		if err == nil && synced {
			err = list.Sync()
		}
		if err == nil {
			info, err = list.Stat()
		}
		if err = cmp.Or(err, list.Close()); err == nil && info.Size() > fullList {
			err = o.shorten()
		}
	}
	return fault.At(ListFile, fault.Reason(err))
}

func encode(lines []Written) (text []byte) {
	for _, w := range lines {
		line, _ := json.Marshal(w) // of names and numbers
		text = append(append(text, line...), '\n')
	}
	return text
}

// fullList is the size of a list, in bytes, from which superseded lines are dropped; a variable for tests.
var fullList int64 = 1 << 20

// shorten keeps the last two lines of each file: the last line's file may not exist yet. A line that another process
// adds meanwhile may be lost; its file then counts as somebody else's.
func (o Output) shorten() error {
	root, err := os.OpenRoot(o.Dir)
	if err != nil {
		return err
	}
	defer root.Close()
	list, seen, kept := readList(root), map[string]int{}, []Written(nil)
	for _, w := range slices.Backward(list) {
		if seen[w.Name]++; seen[w.Name] <= 2 {
			kept = append(kept, w)
		}
	}
	slices.Reverse(kept)
	if 2*len(kept) > len(list) {
		return nil
	}
	return Folder(o.Dir).Write(ListFile, encode(kept))
}

// Claim is [Output.May], and makes the files that may be replaced the program's own. They may then be replaced even if
// the file of an earlier version that identified them is gone, or if the command continues without --force.
func (o Output) Claim(names ...string) error {
	if err := o.May(names...); err != nil {
		return err
	}
	root, err := os.OpenRoot(o.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return fmt.Errorf("%s: %w", o.Dir, fault.Reason(err))
	}
	defer root.Close()
	list, lines := readList(root), []Written(nil)
	for _, name := range names {
		if listed(root, list, name, o.Kind) {
			continue
		}
		w, err := sumOf(root, name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		} else if err != nil {
			return fmt.Errorf("%s: %w", o.Path(name), fault.Reason(err))
		}
		w.Kind = o.Kind
		lines = append(lines, w)
	}
	return o.note(false, lines...)
}

// Write replaces a file by data; see [Output.Fill].
func (o Output) Write(name string, data []byte) error { return o.Fill(name, writing(data)) }

// WriteSynced replaces a file by data that survives a power cut.
func (o Output) WriteSynced(name string, data []byte) error {
	return o.fill(name, writing(data), true)
}

// Fill replaces a file by the output of fill, as [Folder.Fill] does, if it may be replaced. Errors name the file.
func (o Output) Fill(name string, fill func(io.Writer) error) error { return o.fill(name, fill, false) }

func (o Output) fill(name string, fill func(io.Writer) error, synced bool) error {
	at := o.Path(name)
	err := o.May(name)
	if err != nil {
		return err
	}
	if info, serr := os.Stat(at); o.named && serr == nil && isDevice(info) {
		err = into(at, fill)
	} else {
		err = Folder(o.Dir).within(path.Dir(name), func(root *os.Root) error {
			return replace(root, path.Base(name), fill, synced, func(f *os.File) error {
				w, err := sumFile(f, name)
				w.Kind = o.Kind
				return cmp.Or(err, o.note(synced, w))
			})
		})
	}
	return fault.At(at, err)
}

// Move writes a file of the folder through to the disk and then moves it into its place, if that may be replaced.
func (o Output) Move(from, name string) error {
	in := Folder(o.Dir)
	err := o.May(name)
	if err != nil {
		return err
	}
	f, err := os.Open(in.Path(from))
	if err == nil {
		var w Written
		w, err = sumFile(f, name)
		w.Kind = o.Kind
		err = cmp.Or(err, f.Sync(), f.Close())
		if err == nil {
			err = o.note(true, w)
		}
	}
	if err == nil {
		err = os.Rename(in.Path(from), in.Path(name))
	}
	return fault.At(in.Path(name), fault.Reason(err))
}

// MayAppend returns an error if nothing may be appended to the file.
func (f File) MayAppend() error {
	f.Force = true
	if err := f.May(); err != nil {
		return err
	}
	at := f.Path()
	there, err := os.Stat(at)
	link, lerr := os.Lstat(at)
	if lerr == nil && link.Mode()&fs.ModeSymlink != 0 && (err != nil || !isDevice(there)) {
		return refused("%s is a link, and %w; name the file itself", at, errLink)
	}
	return nil
}

// Append appends to a user's file, or creates it. The file does not become the program's.
func (f File) Append(fill func(io.Writer) error) error {
	err := f.MayAppend()
	if err != nil {
		return err
	}
	at, write := f.Path(), behind
	if info, serr := os.Stat(at); serr == nil && isDevice(info) {
		write = into
	}
	return fault.At(at, fault.Reason(write(at, fill)))
}

func behind(path string, fill func(io.Writer) error) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	w := bufio.NewWriter(f)
	return cmp.Or(fill(w), w.Flush(), f.Close())
}

// isDevice reports whether info is neither a file's nor a folder's.
func isDevice(info fs.FileInfo) bool { return !info.Mode().IsRegular() && !info.IsDir() }
