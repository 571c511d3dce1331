package ort

import (
	"fmt"
	"io"
	"time"
)

// Fetch is a step of fetching ONNX Runtime.
type Fetch struct {
	Stage     string        `json:"stage"` // waiting, started, ready or failed
	Version   string        `json:"version"`
	Client    string        `json:"client,omitzero"`  // the package client: npm or pip
	Package   string        `json:"package,omitzero"` // what it fetches
	Megabytes int           `json:"megabytes,omitzero"`
	Left      int           `json:"megabytes_left,omitzero"` // of all packages, this one included
	Folder    string        `json:"folder,omitzero"`         // where it is kept
	Took      time.Duration `json:"seconds,omitzero"`        // once it is ready
	Error     string        `json:"error,omitzero"`          // why it failed; the next client is tried
}

const (
	fetchWaiting = "waiting" // for another process that fetches it
	fetchStarted = "started"
	fetchReady   = "ready"
	fetchFailed  = "failed"
)

// String is a line that tells people of the step.
func (f Fetch) String() string {
	switch f.Stage {
	case fetchStarted:
		size := fmt.Sprintf("%d MB", f.Megabytes)
		if f.Left > f.Megabytes {
			size += fmt.Sprintf(" of %d MB in several packages", f.Left)
		}
		return fmt.Sprintf("ONNX Runtime is not installed: fetching %s with %s (once, about %s, kept in %s)",
			f.Package, f.Client, size, f.Folder)
	case fetchReady:
		return fmt.Sprintf("ONNX Runtime %s is ready after %s, checksum verified", f.Version,
			f.Took.Round(100*time.Millisecond))
	case fetchFailed:
		return fmt.Sprintf("%s did not work: %s", f.Client, f.Error)
	}
	return "waiting for another selfheal that fetches ONNX Runtime"
}

// Print is a log that prints a line for each step.
func Print(w io.Writer) func(Fetch) { return func(f Fetch) { fmt.Fprintln(w, f) } }
