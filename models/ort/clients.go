package ort

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"
)

// client is a package client that can download an archive with the library.
type client struct {
	name     string
	at       string     // between a package and its version
	commands [][]string // ways to call it; the first one installed is taken
	args     func(what string, tags []string) []string
	left     string // pattern of the file it leaves
	extract  func(archive, name string, size int64, to string) error
}

// clients in the order they are tried. They run no code of the package, and use the registry that they have.
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

// run runs a client in a directory, where its temporary files are too: elsewhere there may be no room for gigabytes,
// and there they go when it is stopped. An error carries the end of what it wrote.
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
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return fmt.Errorf("the archive holds no %s", name)
		}
		if err != nil {
			return fmt.Errorf("broken archive: %w", err)
		}
		if h.Name == name {
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
