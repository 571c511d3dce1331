package ort

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"selfheal/internal/must"
)

const fakeLibrary = "not really a library"

var fakeSum = fmt.Sprintf("%x", sha256.Sum256([]byte(fakeLibrary)))

// fakeClients puts shell scripts on an otherwise empty PATH. A script writes the archive it finds beside itself and
// counts its calls.
func fakeClients(t *testing.T, scripts map[string]string) (dir string) {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("needs a shell")
	}
	dir = t.TempDir()
	for name, body := range scripts {
		script := "#!/bin/sh\nPATH=/usr/bin:/bin\necho $@ >> " + dir + "/" + name + ".calls\n" + body + "\n"
		must.Do(t, os.WriteFile(filepath.Join(dir, name), []byte(script), 0o755))
	}
	t.Setenv("PATH", dir)
	var tgz, whl bytes.Buffer
	z := gzip.NewWriter(&tgz)
	w := tar.NewWriter(z)
	for _, member := range []string{"package/readme", "package/lib.so"} {
		w.WriteHeader(&tar.Header{Name: member, Mode: 0o644, Size: int64(len(fakeLibrary))})
		w.Write([]byte(fakeLibrary))
	}
	w.Close()
	z.Close()
	wheel := zip.NewWriter(&whl)
	f, _ := wheel.Create("capi/lib.so")
	f.Write([]byte(fakeLibrary))
	wheel.Close()
	good := tgz.Bytes()
	for name, b := range map[string][]byte{"good.tgz": good, "good.whl": whl.Bytes(), "cut.tgz": good[:len(good)/2]} {
		must.Do(t, os.WriteFile(filepath.Join(dir, name), b, 0o644))
	}
	return dir
}

// fake makes a provisioner that has the fake library pinned.
func fake(t *testing.T, log *bytes.Buffer) *provisioner {
	library := file{"lib.so", int64(len(fakeLibrary)), fakeSum}
	return &provisioner{
		release:  releases()[ProviderCPU],
		platform: "test-machine",
		dir:      filepath.Join(t.TempDir(), "cache"),
		log:      printTo(log),
		build: build{Library: "lib.so", Tags: []string{"some_platform"}, Packages: map[string][]archive{
			"npm": {{"onnxruntime-node", "", 100, "package", []file{library}}},
			"pip": {{"onnxruntime", "", 20, "capi", []file{library}}}}},
	}
}

const (
	giveTarball = `cp "$(dirname $0)/good.tgz" .`
	giveWheel   = `case "$*" in *download*) cp "$(dirname $0)/good.whl" . ;; esac`
	fail        = "echo 'cannot reach' >&2; echo 'the registry' >&2; exit 7"
)

func TestProvision(t *testing.T) {
	type scripts = map[string]string
	both := scripts{"npm": giveTarball, "pip": giveWheel}
	for name, c := range map[string]struct {
		scripts scripts
		says    string // a part of the log
		err     string // a part of the error; none: it works
		change  func(*provisioner, *archive)
	}{
		"npm": {scripts: scripts{"npm": giveTarball, "pip3": fail},
			says: "fetching onnxruntime-node@1.27.0 with npm"},
		"pip":            {scripts: scripts{"pip3": giveWheel}, says: "fetching onnxruntime==1.27.0 with pip"},
		"python3 -m pip": {scripts: scripts{"python3": giveWheel}, says: "with pip"},
		"npm fails": {scripts: scripts{"npm": fail, "pip": giveWheel},
			says: "npm did not work: exit status 7: cannot reach the registry\n"},
		"npm is cut": {scripts: scripts{"npm": `cp "$(dirname $0)/cut.tgz" x.tgz`, "pip": giveWheel},
			says: "npm did not work: broken archive"},
		"npm leaves none": {scripts: scripts{"npm": "true"},
			err: "npm: it left 0 archives *.tgz, expected one; pip is not installed"},
		"both fail": {scripts: scripts{"npm": fail, "pip": fail},
			err: "npm: exit status 7: cannot reach the registry; pip: exit status 7: cannot reach the registry); " +
				"install npm or pip, or " + giveLibrary},
		"neither is there":  {err: "npm is not installed; pip is not installed); install npm or pip"},
		"python has no pip": {scripts: scripts{"python3": fail}, err: "pip is not installed"},
		"checksum": {scripts: both, change: func(_ *provisioner, a *archive) { a.Files[0].SHA256 = "00" },
			err: "npm: checksum mismatch: lib.so of onnxruntime-node@1.27.0 is sha256 " + fakeSum +
				", pinned is 00; pip: checksum mismatch"},
		"member": {scripts: both, change: func(_ *provisioner, a *archive) { a.Folder = "a" },
			err: "npm: the archive holds no a/lib.so; pip: the archive holds no a/lib.so"},
		"npm has none for the platform": {scripts: scripts{"npm": fail, "pip": giveWheel}, says: "with pip",
			change: func(p *provisioner, _ *archive) { delete(p.Packages, "npm") }},
		"offline": {scripts: both, change: func(p *provisioner, _ *archive) { p.offline = true },
			err: "--offline forbids fetching it; run once without --offline, or " + giveLibrary},
	} {
		t.Run(name, func(t *testing.T) {
			fakeClients(t, c.scripts)
			var log bytes.Buffer
			p := fake(t, &log)
			for _, all := range p.Packages {
				if c.change != nil {
					c.change(p, &all[0])
				}
			}
			path, err := p.library(t.Context())
			must.Have(t, log.String(), c.says)
			if c.err != "" {
				must.Refuse(t, err, c.err)
				return
			}
			must.Do(t, err)
			must.Have(t, log.String(), "is ready")
			if b := must.Get(os.ReadFile(path))(t); string(b) != fakeLibrary {
				t.Errorf("cached %q", b)
			}
			if left, _ := filepath.Glob(filepath.Join(p.dir, "fetch-*")); len(left) > 0 {
				t.Errorf("left %v", left)
			}
		})
	}
}

// A library in the cache is used without a client; a broken one is fetched again.
func TestCache(t *testing.T) {
	dir := fakeClients(t, map[string]string{"npm": giveTarball})
	var log bytes.Buffer
	p := fake(t, &log)
	ctx := context.Background()
	path := must.Get(p.library(ctx))(t)
	calls := func() int {
		b, _ := os.ReadFile(filepath.Join(dir, "npm.calls"))
		return strings.Count(string(b), "\n")
	}
	if _, err := p.library(ctx); err != nil || calls() != 1 {
		t.Errorf("%v, %d calls for a good cache", err, calls())
	}
	for i, broken := range []string{"", fakeLibrary[:5], strings.ToUpper(fakeLibrary)} {
		must.Do(t, os.WriteFile(path, []byte(broken), 0o644))
		if _, err := p.library(ctx); err != nil || calls() != i+2 || !p.good() {
			t.Errorf("%v, %d calls, cached %q", err, calls(), broken)
		}
	}
	must.Have(t, log.String(), "ONNX Runtime is damaged in the cache: fetching")
	p.offline = true
	must.Do(t, os.WriteFile(path, []byte(strings.ToUpper(fakeLibrary)), 0o644))
	_, err := p.library(ctx)
	must.Refuse(t, err, "is damaged in", "--offline forbids fetching it")
	os.Remove(path)
	_, err = p.library(ctx)
	must.Refuse(t, err, "is not in", "--offline forbids fetching it")
}

// Many at once fetch once and all find a whole library.
func TestConcurrentProvision(t *testing.T) {
	dir := fakeClients(t, map[string]string{"npm": "sleep 0.3; " + giveTarball})
	base := fake(t, nil)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			p, log := *base, bytes.Buffer{}
			p.log = printTo(&log)
			_, err := p.library(context.Background())
			if err != nil || !p.good() {
				t.Errorf("%v", err)
			}
		})
	}
	wg.Wait()
	b, _ := os.ReadFile(filepath.Join(dir, "npm.calls"))
	if n := strings.Count(string(b), "\n"); n != 1 && (runtime.GOOS == "linux" || runtime.GOOS == "darwin") {
		t.Errorf("fetched %d times", n)
	}
}

func TestCancelProvision(t *testing.T) {
	fakeClients(t, map[string]string{"npm": "exec sleep 30"})
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	var log bytes.Buffer
	start := time.Now()
	if _, err := fake(t, &log).library(ctx); err == nil || time.Since(start) > 10*time.Second {
		t.Errorf("%v after %v", err, time.Since(start))
	}
}

// The folder that a killed fetch left long ago is removed, a running one's is not.
func TestSweep(t *testing.T) {
	fakeClients(t, map[string]string{"npm": giveTarball})
	var log bytes.Buffer
	p := fake(t, &log)
	old, young := filepath.Join(p.dir, "fetch-1"), filepath.Join(p.dir, "fetch-2")
	for _, dir := range []string{old, young} {
		must.Do(t, os.MkdirAll(dir, 0o755))
	}
	long := time.Now().Add(-2 * abandoned)
	must.Do(t, os.Chtimes(old, long, long))
	if _, err := p.library(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(old); err == nil {
		t.Error("the old directory is still there")
	}
	if _, err := os.Stat(young); err != nil {
		t.Error("the young directory is gone")
	}
}

func TestManifest(t *testing.T) {
	for _, row := range Providers {
		for platform, b := range releases()[row.Name].Builds {
			if b.Library == "" || len(b.Tags) == 0 || len(b.Packages["pip"]) == 0 {
				t.Errorf("%s %s: %+v", row.Name, platform, b)
			}
			for client, all := range b.Packages {
				p, kept := provisioner{build: b}, map[string]bool{}
				if all[0].Files[0].Size < 10<<20 || p.place(all[0], 0) != b.Library {
					t.Errorf("%s %s, %s: %+v is no library", row.Name, platform, client, all[0].Files[0])
				}
				for _, a := range all {
					if a.Name == "" || a.Megabytes == 0 || a.Folder == "" {
						t.Errorf("%s %s, %s: %+v", row.Name, platform, client, a)
					}
					for i, f := range a.Files {
						at := p.place(a, i)
						if f.Name == "" || len(f.SHA256) != 64 || f.Size == 0 || kept[at] {
							t.Errorf("%s %s, %s: %+v", row.Name, platform, client, f)
						}
						kept[at] = true
					}
				}
			}
		}
	}
}

// TestRealDownload fetches the libraries with each real client.
func TestRealDownload(t *testing.T) {
	if os.Getenv("SELFHEAL_TEST_DOWNLOAD") != "1" {
		t.Skip("SELFHEAL_TEST_DOWNLOAD is not 1")
	}
	platform := runtime.GOOS + "-" + runtime.GOARCH
	for _, row := range Providers {
		r := releases()[row.Name]
		for _, c := range clients {
			argv, ok := c.find()
			p := &provisioner{release: r, platform: platform, build: r.Builds[platform], dir: t.TempDir(),
				log: printTo(os.Stderr)}
			if all, has := p.Packages[c.name]; ok && has {
				if err := p.through(t.Context(), c, argv, all); err != nil || !p.good() {
					t.Errorf("%s, %s: %v", row.Name, c.name, err)
				}
			}
		}
	}
}

// A library with several packages is complete only after all files that belong beside it. A package that is there is
// not fetched again when another fails; the failure costs a line that names the package.
func TestSeveralPackages(t *testing.T) {
	const full = `case "$*" in
*gadget*) cp "$(dirname $0)/good.whl" . ;;
*download*) echo "[Errno 28] No space left on device" >&2; exit 1 ;;
esac`
	dir := fakeClients(t, map[string]string{"pip3": full})
	var log bytes.Buffer
	p := fake(t, &log)
	files := p.Packages["pip"][0].Files
	p.Library = "main.so"
	p.Packages = map[string][]archive{"pip": {{"main", "", 7, "capi", files}, {"gadget", "2.5", 30, "capi", files}}}
	_, err := p.library(t.Context())
	must.Refuse(t, err, "cannot keep ONNX Runtime 1.27.0: no space is left in ", "free about 14 MB")
	must.Have(t, log.String(), "gadget==2.5 with pip (once, about 30 MB of 37 MB in several packages, kept",
		"main==1.27.0 with pip (once, about 7 MB, kept")
	must.Do(t, os.WriteFile(filepath.Join(dir, "pip3"), []byte("#!/bin/sh\nPATH=/usr/bin:/bin\necho $@ >> "+dir+
		"/again\n"+giveWheel), 0o755))
	path := must.Get(p.library(t.Context()))(t)
	calls := string(must.Get(os.ReadFile(filepath.Join(dir, "again")))(t))
	if strings.Count(calls, "\n") != 1 || !strings.Contains(calls, "main==1.27.0") {
		t.Errorf("the second time it called pip with %q", calls)
	}
	if both := must.Get(filepath.Glob(filepath.Join(p.dir, "*.so")))(t); len(both) != 2 || both[1] != path {
		t.Errorf("the cache holds %v", both)
	}
}
