package ort

import (
	"context"
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
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

// patienceOfDownload bounds one package client's run.
const patienceOfDownload = 15 * time.Minute

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
		if !slices.ContainsFunc(src, func(m member) bool { return !m.is(p.beside(path, src, m)) }) {
			return true
		}
	}
	return false
}

// beside is where a member of a source is kept whose library is at a path.
func (p *provisioner) beside(library string, src source, m member) string {
	if m == src[0] {
		return library
	}
	return filepath.Join(filepath.Dir(library), filepath.Base(m.path))
}

// is reports whether a file is the member, whole.
func (m member) is(file string) bool {
	info, err := os.Stat(file)
	if err != nil || info.Size() != m.size {
		return false
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
		from := p.packages[c.name]
		if !ok {
			continue
		}
		argv, found := c.find()
		if !found {
			tried = append(tried, c.name+" is not installed")
			continue
		}
		f := Fetch{Stage: fetchStarted, Version: p.version, Client: c.name, Package: from.name + c.at + p.version,
			Megabytes: from.megabytes, Folder: p.dir}
		p.log(f)
		start := time.Now()
		err := p.through(ctx, c, argv, src, path)
		if err == nil {
			f.Stage, f.Took = fetchReady, time.Since(start)
			p.log(f)
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		f.Stage, f.Error = fetchFailed, err.Error()
		p.log(f)
		tried = append(tried, c.name+": "+err.Error())
	}
	return fmt.Errorf("cannot provision ONNX Runtime %s for %s (%s); install npm or pip, or %s",
		p.version, p.platform, strings.Join(tried, "; "), giveLibrary)
}

// through fetches with one client into a temporary directory beside the cache,
// verifies the library and moves it into place at once.
func (p *provisioner) through(ctx context.Context, c client, argv []string, src source, path string) error {
	tmp, err := os.MkdirTemp(p.dir, "fetch-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	ctx, cancel := context.WithTimeout(ctx, patienceOfDownload)
	defer cancel()
	what := p.packages[c.name].name + c.at + p.version
	if err := run(ctx, tmp, append(argv, c.args(what, p.pin)...)); err != nil {
		return err
	}
	archives, err := filepath.Glob(filepath.Join(tmp, c.archive))
	if err != nil || len(archives) != 1 {
		return fmt.Errorf("it left %d archives %s, expected one", len(archives), c.archive)
	}
	lib := filepath.Join(tmp, p.pin.file)
	for _, m := range src {
		file := p.beside(lib, src, m)
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
	for _, m := range slices.Backward(src) { // the library last: where it is, all is
		if err := os.Rename(p.beside(lib, src, m), p.beside(path, src, m)); err != nil {
			return err
		}
	}
	return nil
}

// sweep removes what fetches that were killed have left.
func (p *provisioner) sweep() {
	left, _ := filepath.Glob(filepath.Join(p.dir, "fetch-*"))
	for _, dir := range left {
		if info, err := os.Stat(dir); err == nil && time.Since(info.ModTime()) > 2*patienceOfDownload {
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
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("no directory to keep ONNX Runtime in: %w; set HOME, or %s", err, giveLibrary)
	}
	platform := runtime.GOOS + "-" + runtime.GOARCH
	r := plain
	if o.OpenVINO {
		r = openVINO
	}
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
