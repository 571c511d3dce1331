package ort

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"debug/elf"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/gofrs/flock"
)

const (
	// minVersion is the oldest version that works: onnxruntime_go needs API 24.
	minVersion = "1.24"
	// pipPython is the Python version whose wheel is downloaded: each wheel contains another build of the library.
	pipPython = "311"
)

//go:embed releases.yaml
var pinned []byte

// releases are the pinned releases by provider.
var releases = sync.OnceValue(func() (all map[string]release) {
	if err := yaml.UnmarshalWithOptions(pinned, &all, yaml.Strict()); err != nil {
		panic(err)
	}
	return all
})

type release struct {
	Name, Version string
	Builds        map[string]build // by GOOS-GOARCH
}

// build is a release for one platform.
type build struct {
	Library  string               // its name in the cache
	Tags     []string             // of the platform, as in wheels' names
	Packages map[string][]archive // by client, the package with the library first; absent: the client has none
}

// archive is a package and the files taken from it.
type archive struct {
	Name, Version string // Version "": the release's. The first file is then the library
	Megabytes     int    // size of the download
	Folder        string // folder of the files in the archive
	Files         []file
}

type file struct {
	Name   string
	Size   int64 // bytes
	SHA256 string
}

// Fetch is a step of fetching ONNX Runtime.
type Fetch struct {
	Stage     string        `json:"stage"` // waiting, started, ready or failed
	Version   string        `json:"version"`
	Client    string        `json:"client,omitzero"`  // the package client: npm or pip
	Package   string        `json:"package,omitzero"` // what it fetches
	Megabytes int           `json:"megabytes,omitzero"`
	Left      int           `json:"megabytes_left,omitzero"` // over all packages, including this one
	Broken    bool          `json:"broken,omitzero"`         // the cached copy fails its checksum
	Folder    string        `json:"folder,omitzero"`         // where the library is cached
	Took      time.Duration `json:"seconds,omitzero"`        // when ready
	Error     string        `json:"error,omitzero"`          // why it failed; the next client follows
}

const (
	fetchWaiting = "waiting" // for another process that fetches the library
	fetchStarted = "started"
	fetchReady   = "ready"
	fetchFailed  = "failed"
)

// String returns a line for people.
func (f Fetch) String() string {
	switch f.Stage {
	case fetchStarted:
		size := fmt.Sprintf("%d MB", f.Megabytes)
		if f.Left > f.Megabytes {
			size += fmt.Sprintf(" of %d MB in several packages", f.Left)
		}
		why := "is not installed"
		if f.Broken {
			why = "is damaged in the cache"
		}
		return fmt.Sprintf("ONNX Runtime %s: fetching %s with %s (once, about %s, kept in %s)",
			why, f.Package, f.Client, size, f.Folder)
	case fetchReady:
		return fmt.Sprintf("ONNX Runtime %s is ready after %s, checksum verified", f.Version,
			f.Took.Round(100*time.Millisecond))
	case fetchFailed:
		return fmt.Sprintf("%s did not work: %s", f.Client, f.Error)
	}
	return "waiting for another selfheal that fetches ONNX Runtime"
}

// provisioner keeps one pinned library in its own directory.
type provisioner struct {
	release
	build
	platform string
	dir      string
	offline  bool
	log      func(Fetch)
}

// A package client may run for downloadTime, and megabyteTime more for each megabyte.
const (
	downloadTime = 15 * time.Minute
	megabyteTime = 5 * time.Second
)

// library returns the cached library's path. It fetches the library if it is missing or broken.
func (p *provisioner) library(ctx context.Context) (string, error) {
	path := filepath.Join(p.dir, p.Library)
	if p.good() {
		return path, nil
	}
	if p.offline {
		what := "is not in"
		if p.damaged() {
			what = "is damaged in"
		}
		return "", fmt.Errorf("ONNX Runtime %s %s %s and --offline forbids fetching it; "+
			"run once without --offline, or %s", p.Version, what, p.dir, giveLibrary)
	}
	if err := os.MkdirAll(p.dir, 0o755); err != nil {
		return "", fmt.Errorf("cannot keep ONNX Runtime: %w; "+
			"set XDG_CACHE_HOME to a directory that can be written, or %s", err, giveLibrary)
	}
	// Without file locks two processes may fetch at once: that is safe, because the moves into place are atomic.
	lock := flock.New(filepath.Join(p.dir, "lock"))
	defer lock.Close()
	if free, err := lock.TryLock(); err == nil && !free {
		p.log(Fetch{Stage: fetchWaiting, Version: p.Version})
		if _, err := lock.TryLockContext(ctx, 100*time.Millisecond); ctx.Err() != nil {
			return "", fmt.Errorf("cannot lock %s: %w", p.dir, err)
		}
	}
	if p.good() { // another process was first
		return path, nil
	}
	return path, p.fetch(ctx)
}

// good reports whether one of the pinned builds is there, undamaged and with all files that belong to it.
func (p *provisioner) good() bool {
	return slices.ContainsFunc(slices.Collect(maps.Values(p.Packages)), func(all []archive) bool {
		return len(p.missing(all)) == 0
	})
}

// damaged reports whether a library is there that is none of the pinned builds.
func (p *provisioner) damaged() bool {
	_, err := os.Stat(filepath.Join(p.dir, p.Library))
	return err == nil && !p.good()
}

// missing returns the packages with a file that is missing or damaged. It reads files in parallel: CUDA's have
// gigabytes.
func (p *provisioner) missing(all []archive) (missing []archive) {
	lacking := make([]atomic.Bool, len(all))
	var reading sync.WaitGroup
	for k, a := range all {
		for i, f := range a.Files {
			reading.Go(func() {
				if !f.is(p.place(a, i)) {
					lacking[k].Store(true)
				}
			})
		}
	}
	reading.Wait()
	for k, a := range all {
		if lacking[k].Load() {
			missing = append(missing, a)
		}
	}
	return missing
}

// place returns the path of file i of a package.
func (p *provisioner) place(a archive, i int) string {
	if a.Version == "" && i == 0 {
		return filepath.Join(p.dir, p.Library)
	}
	return filepath.Join(p.dir, a.Files[i].Name)
}

// is reports whether the file is at a path, undamaged.
func (f file) is(path string) bool {
	info, err := os.Stat(path)
	if err != nil || info.Size() != f.Size {
		return false
	}
	got, err := sum(path)
	return err == nil && got == f.SHA256
}

// fetch tries one package client after the other.
func (p *provisioner) fetch(ctx context.Context) error {
	p.sweep()
	var tried []string
	for _, c := range clients {
		all, ok := p.Packages[c.name]
		if !ok {
			continue
		}
		argv, found := c.find()
		if !found {
			tried = append(tried, c.name+" is not installed")
			continue
		}
		err := p.through(ctx, c, argv, all)
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case diskFull.MatchString(err.Error()):
			return fmt.Errorf("cannot keep ONNX Runtime %s: no space is left in %s; free about %d MB, or set "+
				"XDG_CACHE_HOME to a folder with room", p.Version, p.dir, space(p.missing(all)))
		}
		tried = append(tried, c.name+": "+err.Error())
	}
	return fmt.Errorf("cannot provision ONNX Runtime %s for %s (%s); install npm or pip, or %s",
		p.Version, p.platform, strings.Join(tried, "; "), giveLibrary)
}

// diskFull matches how Go and the clients report a full disk.
var diskFull = regexp.MustCompile(`(?i)no space left on device|ENOSPC|disk quota exceeded`)

// space returns the megabytes that fetching takes: the files, and twice the largest download, which a client copies.
func space(missing []archive) int {
	var files, largest int
	for _, a := range missing {
		for _, f := range a.Files {
			files += int(f.Size >> 20)
		}
		largest = max(largest, a.Megabytes)
	}
	return files + 2*largest
}

// through fetches the missing packages with one client. The package with the library comes last: if it is there, all
// are. Fetched packages stay if a later one fails.
func (p *provisioner) through(ctx context.Context, c client, argv []string, all []archive) error {
	start := time.Now()
	f := Fetch{Version: p.Version, Client: c.name, Folder: p.dir, Broken: p.damaged()}
	missing := p.missing(all)
	for _, a := range missing {
		f.Left += a.Megabytes
	}
	for _, a := range slices.Backward(missing) {
		f.Stage, f.Package, f.Megabytes = fetchStarted, a.Name+c.at+cmp.Or(a.Version, p.Version), a.Megabytes
		p.log(f)
		if err := p.download(ctx, c, argv, a, f.Package); err != nil {
			if ctx.Err() == nil {
				f.Stage, f.Error = fetchFailed, err.Error()
				p.log(f)
			}
			return err
		}
		f.Left -= a.Megabytes
	}
	f.Stage, f.Left, f.Took = fetchReady, 0, time.Since(start)
	p.log(f)
	return nil
}

// download fetches one package beside the cache, verifies its files and moves each into place atomically.
func (p *provisioner) download(ctx context.Context, c client, argv []string, a archive, what string) error {
	tmp, err := os.MkdirTemp(p.dir, "fetch-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	ctx, cancel := context.WithTimeout(ctx, downloadTime+time.Duration(a.Megabytes)*megabyteTime)
	defer cancel()
	if err := run(ctx, tmp, append(argv, c.args(what, p.Tags)...)); err != nil {
		return err
	}
	left, err := filepath.Glob(filepath.Join(tmp, c.left))
	if err != nil || len(left) != 1 {
		return fmt.Errorf("it left %d archives %s, expected one", len(left), c.left)
	}
	for _, f := range a.Files {
		to := filepath.Join(tmp, f.Name)
		if err := c.extract(left[0], path.Join(a.Folder, f.Name), f.Size, to); err != nil {
			return err
		}
		if got, err := sum(to); err != nil || got != f.SHA256 {
			return cmp.Or(err, fmt.Errorf("checksum mismatch: %s of %s is sha256 %s, pinned is %s",
				f.Name, what, got, f.SHA256))
		}
	}
	for i, f := range slices.Backward(a.Files) { // the library last
		if err := os.Rename(filepath.Join(tmp, f.Name), p.place(a, i)); err != nil {
			return err
		}
	}
	return nil
}

// abandoned is the age from which the folder of a fetch belongs to a process that was killed.
const abandoned = 24 * time.Hour

// sweep removes the folders of fetches that were killed.
func (p *provisioner) sweep() {
	left, _ := filepath.Glob(filepath.Join(p.dir, "fetch-*"))
	for _, dir := range left {
		if info, err := os.Stat(dir); err == nil && time.Since(info.ModTime()) > abandoned {
			os.RemoveAll(dir)
		}
	}
}

// save writes at most a byte more than a file's pinned size, so that a wrong archive cannot fill the disk.
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

// envPackage names the variable in which selfheal's Python package gives the path of the CPU provider's library.
const envPackage = "SELFHEAL_ONNXRUNTIME"

const giveLibrary = "give the library with --onnxruntime PATH or " + envLibrary

// findLibrary returns an absolute path, searched in the order given at Init, and how it was found.
func findLibrary(ctx context.Context, o Options) (path, origin string, err error) {
	if o.Library != "" {
		path, err = given("--onnxruntime", o.Library)
		return path, "from --onnxruntime", err
	}
	if path := os.Getenv(envLibrary); path != "" {
		path, err = given(envLibrary, path)
		return path, "from $" + envLibrary, err
	}
	on := Target{Provider: o.Provider}
	if path := os.Getenv(envPackage); path != "" && on.OnCPU() {
		path, err = given(envPackage, path)
		return path, "of the onnxruntime package", err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", "", fmt.Errorf("no directory to keep ONNX Runtime in: %w; set HOME, or %s", err, giveLibrary)
	}
	platform := runtime.GOOS + "-" + runtime.GOARCH
	r := releases()[on.Row().Name]
	p := provisioner{release: r, build: r.Builds[platform], platform: platform, offline: o.Offline, log: o.Log,
		dir: filepath.Join(cache, "selfheal", r.Name, r.Version, platform)}
	if p.Packages == nil {
		return "", "", fmt.Errorf("no %s is pinned for %s: install version %s or newer and %s",
			r.Name, platform, minVersion, giveLibrary)
	}
	path, err = p.library(ctx)
	return path, "the pinned copy in the cache", err
}

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
		// Loading a truncated library would crash the program; reading its section table, at the end, detects most
		// truncations.
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

// client is a package client that can download an archive with the library.
type client struct {
	name     string
	at       string     // separator of a package and its version
	commands [][]string // alternatives; the first one installed is used
	args     func(what string, tags []string) []string
	left     string // pattern of the downloaded file
	extract  func(archive, name string, size int64, to string) error
}

// clients lists the clients in the order they are tried. They run no code of the package, and use their configured
// registry.
var clients = []client{
	{
		name: "npm", at: "@",
		commands: [][]string{{"npm"}},
		args:     func(what string, _ []string) []string { return []string{"pack", what, "--ignore-scripts"} },
		left:     "*.tgz", extract: fromTarball,
	},
	{
		name: "pip", at: "==",
		commands: [][]string{{"pip3"}, {"pip"}, {"python3", "-m", "pip"}, {"python", "-m", "pip"}},
		args: func(what string, tags []string) []string {
			args := []string{"download", "--no-deps", "--only-binary=:all:", "--python-version", pipPython,
				"--implementation", "cp", "--disable-pip-version-check", "-d", ".", what}
			for _, tag := range tags {
				args = append(args, "--platform", tag)
			}
			return args
		},
		left: "*.whl", extract: fromWheel,
	},
}

// Clients returns the names of the package clients that can fetch ONNX Runtime, and their commands on this machine; ""
// for one that is not installed.
func Clients() (names, commands []string) {
	for _, c := range clients {
		argv, _ := c.find()
		names, commands = append(names, c.name), append(commands, strings.Join(argv, " "))
	}
	return names, commands
}

// find returns the first of the client's commands that is installed. A Python without pip does not count.
func (c client) find() ([]string, bool) {
	for _, argv := range c.commands {
		path, err := exec.LookPath(argv[0])
		if err != nil {
			continue
		}
		argv = append([]string{path}, argv[1:]...)
		if len(argv) > 1 && exec.Command(argv[0], append(argv[1:], "--version")...).Run() != nil {
			continue
		}
		return argv, true
	}
	return nil, false
}

// run runs a client in a directory that also holds its temporary files: they may have gigabytes, for which there may be
// no room elsewhere, and are removed with the directory if the client is stopped. An error contains the end of the
// client's output.
func run(ctx context.Context, dir string, argv []string) error {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "TMPDIR="+dir)
	cmd.WaitDelay = 2 * time.Second
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = io.Discard, &said
	err := cmd.Run()
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return fmt.Errorf("stopped: %w", ctx.Err())
	}
	text := strings.Join(strings.Fields(said.String()), " ")
	if len(text) > 300 {
		text = "… " + strings.ToValidUTF8(text[len(text)-300:], "")
	}
	if text == "" {
		text = "it said nothing"
	}
	return fmt.Errorf("%w: %s", err, text)
}

func fromTarball(archive, name string, size int64, to string) error {
	f, err := os.Open(archive)
	if err != nil {
		return err
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return fmt.Errorf("broken archive: %w", err)
	}
	for r := tar.NewReader(z); ; {
		switch h, err := r.Next(); {
		case errors.Is(err, io.EOF):
			return fmt.Errorf("the archive holds no %s", name)
		case err != nil:
			return fmt.Errorf("broken archive: %w", err)
		case h.Name == name:
			return save(r, size, to)
		}
	}
}

func fromWheel(archive, name string, size int64, to string) error {
	z, err := zip.OpenReader(archive)
	if err != nil {
		return fmt.Errorf("broken archive: %w", err)
	}
	defer z.Close()
	f, err := z.Open(name)
	if err != nil {
		return fmt.Errorf("the archive holds no %s", name)
	}
	defer f.Close()
	return save(f, size, to)
}
