// Package terminal keeps the program's output from controlling the terminal: names in a model's file may be hostile.
// [Escape] wraps a writer; [Columns] aligns tables.
package terminal

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"unicode"
	"unicode/utf8"

	"golang.org/x/term"
)

// Escape returns a writer that passes text on to w, but writes characters that control a terminal as \u001b, a form
// that JSON reads back: controls except line feed, tab and carriage return, and those that change the direction of
// text. Bytes that are not UTF-8 become \ufffd.
func Escape(w io.Writer) io.Writer { return &escaper{w: w} }

// Raw returns the writer behind an escaping one; any other is returned as it is.
func Raw(w io.Writer) io.Writer {
	if e, ok := w.(*escaper); ok {
		return e.w
	}
	return w
}

// Is reports whether w, escaped or not, writes to a terminal.
func Is(w io.Writer) bool {
	f, ok := Raw(w).(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// Lost returns the first error of writing to an escaping writer, nil if everything was written.
func Lost(w io.Writer) error {
	if e, ok := w.(*escaper); ok {
		return e.lost
	}
	return nil
}

type escaper struct {
	w    io.Writer
	rest []byte // the beginning of a character whose rest is still to come
	lost error
}

// Write reports all of p as written unless w fails.
func (e *escaper) Write(p []byte) (int, error) {
	text := append(e.rest, p...)
	out := make([]byte, 0, len(text))
	for len(text) > 0 && utf8.FullRune(text) {
		r, size := utf8.DecodeRune(text)
		if steers(r) || r == utf8.RuneError && size == 1 {
			out = fmt.Appendf(out, `\u%04x`, r)
		} else {
			out = append(out, text[:size]...)
		}
		text = text[size:]
	}
	e.rest = append(e.rest[:0:0], text...)
	if _, err := e.w.Write(out); err != nil {
		e.lost = cmp.Or(e.lost, err)
		return 0, err
	}
	return len(p), nil
}

// steers reports whether r is a control, or a mark that embeds, overrides or isolates directions.
func steers(r rune) bool {
	return unicode.IsControl(r) && r != '\n' && r != '\t' && r != '\r' || unicode.Is(unicode.Bidi_Control, r)
}
