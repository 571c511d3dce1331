package ort

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// provisioner keeps one pinned library in a directory of its own.
type provisioner struct {
	platform string
	pin      pin
	dir      string
	offline  bool
	log      io.Writer
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
			"run once without --offline, or %s", pinned, p.dir, giveLibrary)
	}
	if err := os.MkdirAll(p.dir, 0o755); err != nil {
		return "", fmt.Errorf("cannot keep ONNX Runtime: %w; "+
			"set XDG_CACHE_HOME to a directory that can be written, or %s", err, giveLibrary)
	}
	unlock, err := lock(ctx, filepath.Join(p.dir, "lock"), func() {
		fmt.Fprintln(p.log, "waiting for another selfheal that fetches ONNX Runtime")
	})
	if err != nil {
		return "", fmt.Errorf("cannot lock %s: %w", p.dir, err)
	}
	defer unlock()
	if p.good(path) { // somebody else was first
		return path, nil
	}
	return path, p.fetch(ctx, path)
}

// good reports whether a file is one of the pinned builds, whole.
func (p *provisioner) good(path string) bool {
	info, err := os.Stat(path)
	for _, src := range p.pin.sources {
		if err == nil && info.Size() == src.size {
			if got, err := sum(path); err == nil && got == src.sha256 {
				return true
			}
		}
	}
	return false
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
		fmt.Fprintf(p.log, "ONNX Runtime is not installed: fetching %s with %s (once, about %d MB, kept in %s)\n",
			c.what, c.name, c.megabytes, p.dir)
		start := time.Now()
		err := p.through(ctx, c, argv, src, path)
		if err == nil {
			took := time.Since(start).Round(100 * time.Millisecond)
			fmt.Fprintf(p.log, "ONNX Runtime %s is ready after %s, checksum verified\n", pinned, took)
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		fmt.Fprintf(p.log, "%s did not work: %v\n", c.name, err)
		tried = append(tried, c.name+": "+err.Error())
	}
	return fmt.Errorf("cannot provision ONNX Runtime %s for %s (%s); install npm or pip, or %s",
		pinned, p.platform, strings.Join(tried, "; "), giveLibrary)
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
	if err := run(ctx, tmp, append(argv, c.args(p.pin)...)); err != nil {
		return err
	}
	archives, err := filepath.Glob(filepath.Join(tmp, c.archive))
	if err != nil || len(archives) != 1 {
		return fmt.Errorf("it left %d archives %s, expected one", len(archives), c.archive)
	}
	lib := filepath.Join(tmp, p.pin.file)
	if err := c.extract(archives[0], src, lib); err != nil {
		return err
	}
	got, err := sum(lib)
	if err != nil {
		return err
	}
	if got != src.sha256 {
		return fmt.Errorf("checksum mismatch: %s of %s is sha256 %s, pinned is %s",
			filepath.Base(src.member), c.what, got, src.sha256)
	}
	return os.Rename(lib, path)
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
