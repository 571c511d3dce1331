package ort

import (
	"cmp"
	"context"
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/gofrs/flock"
)

// provisioner keeps one pinned library in a directory of its own.
type provisioner struct {
	release
	platform string
	pin      pin
	dir      string
	offline  bool
	log      func(Fetch)
}

// patienceOfDownload bounds one package client's run, with patienceOfMegabyte for each megabyte.
const (
	patienceOfDownload = 15 * time.Minute
	patienceOfMegabyte = 5 * time.Second
)

// library returns the cached library's path, after fetching it if it is not
// there or broken.
func (p *provisioner) library(ctx context.Context) (string, error) {
	path := filepath.Join(p.dir, p.pin.file)
	if p.good(path) {
		return path, nil
	}
	if p.offline {
		return "", fmt.Errorf("ONNX Runtime %s is not in %s and --offline forbids fetching it; "+
			"run once without --offline, or %s", p.version, p.dir, giveLibrary)
	}
	if err := os.MkdirAll(p.dir, 0o755); err != nil {
		return "", fmt.Errorf("cannot keep ONNX Runtime: %w; "+
			"set XDG_CACHE_HOME to a directory that can be written, or %s", err, giveLibrary)
	}
	// Where the file system has no locks two may fetch: the moves into place are atomic.
	lock := flock.New(filepath.Join(p.dir, "lock"))
	defer lock.Close()
	if free, err := lock.TryLock(); err == nil && !free {
		p.log(Fetch{Stage: fetchWaiting, Version: p.version})
		if _, err := lock.TryLockContext(ctx, 100*time.Millisecond); ctx.Err() != nil {
			return "", fmt.Errorf("cannot lock %s: %w", p.dir, err)
		}
	}
	if p.good(path) { // somebody else was first
		return path, nil
	}
	return path, p.fetch(ctx, path)
}

// good reports whether a file is one of the pinned builds, whole, with all that belongs beside it.
func (p *provisioner) good(path string) bool {
	for _, src := range p.pin.sources {
		if len(src.missing(path)) == 0 {
			return true
		}
	}
	return false
}

// missing are the packages of which some file is not there, whole, where the library is at a path.
func (src source) missing(library string) (parts []part) {
	for i, k := range src {
		if slices.ContainsFunc(k.members, func(m member) bool { return !m.is(k.place(library, i == 0, m)) }) {
			parts = append(parts, k)
		}
	}
	return parts
}

// place is where a member of a package is kept whose library is at a path; the first one of the first package is the
// library.
func (k part) place(library string, first bool, m member) string {
	if first && m == k.members[0] {
		return library
	}
	return filepath.Join(filepath.Dir(library), filepath.Base(m.path))
}

// large is the size, in bytes, from which a file that is there is known by its size alone: CUDA's libraries are
// gigabytes, which would be read at every start. All files were verified before they came there.
const large = 64 << 20

// is reports whether a file is the member, whole.
func (m member) is(file string) bool {
	info, err := os.Stat(file)
	if err != nil || info.Size() != m.size {
		return false
	}
	if m.size >= large {
		return true
	}
	got, err := sum(file)
	return err == nil && got == m.sha256
}

// fetch tries one package client after the other.
func (p *provisioner) fetch(ctx context.Context, path string) error {
	p.sweep()
	var tried []string
	for _, c := range clients {
		src, ok := p.pin.sources[c.name]
		if !ok {
			continue
		}
		argv, found := c.find()
		if !found {
			tried = append(tried, c.name+" is not installed")
			continue
		}
		err := p.through(ctx, c, argv, src, path)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if diskFull.MatchString(err.Error()) {
			return fmt.Errorf("cannot keep ONNX Runtime %s: no space is left in %s; free about %d MB, or set "+
				"XDG_CACHE_HOME to a folder with room", p.version, p.dir, space(src.missing(path)))
		}
		tried = append(tried, c.name+": "+err.Error())
	}
	return fmt.Errorf("cannot provision ONNX Runtime %s for %s (%s); install npm or pip, or %s",
		p.version, p.platform, strings.Join(tried, "; "), giveLibrary)
}

// diskFull is how Go and the clients say it.
var diskFull = regexp.MustCompile(`(?i)no space left on device|ENOSPC|disk quota exceeded`)

// space is what fetching packages takes, in megabytes: their files, and twice the largest download, which a client
// writes and then copies.
func space(missing []part) int {
	var files, largest int
	for _, k := range missing {
		for _, m := range k.members {
			files += int(m.size >> 20)
		}
		largest = max(largest, k.megabytes)
	}
	return files + 2*largest
}

// through fetches with one client the packages that are not there. That with the library comes last: where it is,
// all is. What has been fetched stays when a later one fails.
func (p *provisioner) through(ctx context.Context, c client, argv []string, src source, path string) error {
	start := time.Now()
	f := Fetch{Version: p.version, Client: c.name, Folder: p.dir}
	missing := src.missing(path)
	for _, k := range missing {
		f.Left += k.megabytes
	}
	for _, k := range slices.Backward(missing) {
		f.Stage, f.Package, f.Megabytes = fetchStarted, k.name+c.at+cmp.Or(k.version, p.version), k.megabytes
		p.log(f)
		if err := p.part(ctx, c, argv, k, k.carrier == src[0].carrier, path); err != nil {
			if ctx.Err() == nil {
				f.Stage, f.Error = fetchFailed, err.Error()
				p.log(f)
			}
			return err
		}
		f.Left -= k.megabytes
	}
	f.Stage, f.Left, f.Took = fetchReady, 0, time.Since(start)
	p.log(f)
	return nil
}

// part fetches one package into a temporary directory beside the cache, verifies its files and moves them into place,
// each at once.
func (p *provisioner) part(ctx context.Context, c client, argv []string, k part, first bool, path string) error {
	tmp, err := os.MkdirTemp(p.dir, "fetch-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	ctx, cancel := context.WithTimeout(ctx, patienceOfDownload+time.Duration(k.megabytes)*patienceOfMegabyte)
	defer cancel()
	what := k.name + c.at + cmp.Or(k.version, p.version)
	if err := run(ctx, tmp, append(argv, c.args(what, p.pin)...)); err != nil {
		return err
	}
	archives, err := filepath.Glob(filepath.Join(tmp, c.archive))
	if err != nil || len(archives) != 1 {
		return fmt.Errorf("it left %d archives %s, expected one", len(archives), c.archive)
	}
	for _, m := range k.members {
		file := filepath.Join(tmp, filepath.Base(m.path))
		if err := c.extract(archives[0], m, file); err != nil {
			return err
		}
		got, err := sum(file)
		if err != nil {
			return err
		}
		if got != m.sha256 {
			return fmt.Errorf("checksum mismatch: %s of %s is sha256 %s, pinned is %s",
				filepath.Base(m.path), what, got, m.sha256)
		}
	}
	for _, m := range slices.Backward(k.members) { // the library last
		if err := os.Rename(filepath.Join(tmp, filepath.Base(m.path)), k.place(path, first, m)); err != nil {
			return err
		}
	}
	return nil
}

// sweep removes what fetches that were killed have left.
func (p *provisioner) sweep() {
	longest := 2 * patienceOfDownload
	for _, src := range p.pin.sources {
		for _, k := range src {
			longest += time.Duration(k.megabytes) * patienceOfMegabyte
		}
	}
	left, _ := filepath.Glob(filepath.Join(p.dir, "fetch-*"))
	for _, dir := range left {
		if info, err := os.Stat(dir); err == nil && time.Since(info.ModTime()) > longest {
			os.RemoveAll(dir)
		}
	}
}

// save writes what an archive holds of the library, at most its pinned size and
// a byte, so that a wrong archive cannot fill the disk.
func save(r io.Reader, size int64, to string) (err error) {
	f, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, io.LimitReader(r, size+1))
	return errors.Join(err, f.Sync(), f.Close())
}

// envLibrary names the environment variable with the library's path.
const envLibrary = "ONNXRUNTIME_SHARED_LIBRARY"

// envPackage names the variable in which selfheal's Python package says where that of ONNX Runtime has the CPU
// provider's library; other providers are searched as ever.
const envPackage = "SELFHEAL_ONNXRUNTIME"

const giveLibrary = "give the library with --onnxruntime PATH or " + envLibrary

// findLibrary returns an absolute path, after looking in the order that Init
// describes.
func findLibrary(ctx context.Context, o Options) (string, error) {
	if o.Library != "" {
		return given("--onnxruntime", o.Library)
	}
	if path := os.Getenv(envLibrary); path != "" {
		return given(envLibrary, path)
	}
	on := Target{Provider: o.Provider}
	if path := os.Getenv(envPackage); path != "" && on.OnCPU() {
		return given(envPackage, path)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("no directory to keep ONNX Runtime in: %w; set HOME, or %s", err, giveLibrary)
	}
	platform := runtime.GOOS + "-" + runtime.GOARCH
	r := on.Row().archive
	known, ok := r.pins[platform]
	if !ok {
		return "", fmt.Errorf("no %s is pinned for %s: install version %s or newer and %s",
			r.name, platform, minVersion, giveLibrary)
	}
	p := provisioner{
		release:  r,
		platform: platform,
		pin:      known,
		dir:      filepath.Join(cache, "selfheal", r.name, r.version, platform),
		offline:  o.Offline,
		log:      o.Log,
	}
	return p.library(ctx)
}

// given checks a library that the user named.
func given(origin, path string) (string, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", fmt.Errorf("%s: %w", origin, err)
	}
	info, err := os.Stat(abs)
	switch {
	case os.IsNotExist(err):
		return "", fmt.Errorf("%s: there is no file %s; name ONNX Runtime's shared library", origin, path)
	case err != nil:
		return "", fmt.Errorf("%s: %w", origin, err)
	case !info.Mode().IsRegular():
		return "", fmt.Errorf("%s: %s is not a file; name ONNX Runtime's shared library itself", origin, path)
	}
	if runtime.GOOS == "linux" {
		// Loading a truncated library would end the process with SIGBUS. Its
		// section table is at the end, so reading that finds most cuts.
		f, err := elf.Open(abs)
		if err != nil {
			return "", fmt.Errorf("%s: %s is not a shared library: %v", origin, path, err)
		}
		defer f.Close()
		if f.Type != elf.ET_DYN {
			return "", fmt.Errorf("%s: %s is not a shared library", origin, path)
		}
	}
	return abs, nil
}

// sum is the SHA-256 of a file, in hexadecimal.
func sum(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
