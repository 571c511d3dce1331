package vnnlib

import (
	"bufio"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"selfheal/internal/input"
	"selfheal/internal/number"
)

// Limits of a file.
const (
	mostBytes = 256 << 20 // unpacked
	mostWord  = 200       // of a number or a name
	mostDepth = 100       // depth of parentheses
)

// tokens reads a file's words, parentheses, brackets and commas one by one. It does not keep the file in memory.
type tokens struct {
	in   *bufio.Reader
	line int
	next string // the token that was peeked at
	at   int    // its line
	err  error  // the error that ended the file, io.EOF at its end
}

// limited reads no more than a file may hold, and ends with ctx.
type limited struct {
	ctx  context.Context
	from io.Reader
	left int64
}

func (l *limited) Read(p []byte) (int, error) {
	if l.ctx.Err() != nil {
		return 0, context.Cause(l.ctx)
	}
	n, err := l.from.Read(p)
	if l.left -= int64(n); l.left < 0 {
		err = fmt.Errorf("is larger than %s", number.Bytes(mostBytes))
	}
	return n, err
}

// tokensOf reads a text, which may be packed by gzip.
func tokensOf(ctx context.Context, from io.Reader) (*tokens, error) {
	from = &limited{ctx, from, mostBytes}
	in := bufio.NewReaderSize(from, 1<<16)
	if start, _ := in.Peek(2); input.Packed(start) {
		packed, err := gzip.NewReader(in)
		if err != nil {
			return nil, err
		}
		in = bufio.NewReaderSize(&limited{ctx, packed, mostBytes}, 1<<16)
	}
	return &tokens{in: in, line: 1}, nil
}

// headOf reads the head of a file as [parserOf] does. It does not wait for an empty pipe.
func headOf(ctx context.Context, f *os.File) (*parser, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	in := bufio.NewReader(f)
	if _, empty := in.Peek(1); empty != nil && !info.Mode().IsRegular() && !info.IsDir() {
		return nil, input.ErrPipe
	}
	return parserOf(ctx, in)
}

// peek returns the next token without taking it, or "" at the end.
func (t *tokens) peek() string {
	if t.next == "" && t.err == nil {
		t.next, t.err = t.scan()
	}
	return t.next
}

func (t *tokens) take() string {
	word := t.peek()
	t.next = ""
	return word
}

// skip takes the next token if it is word.
func (t *tokens) skip(word string) bool {
	if t.peek() != word {
		return false
	}
	t.next = ""
	return true
}

func (t *tokens) scan() (string, error) {
	var word []byte
	for {
		c, err := t.in.ReadByte()
		if err != nil {
			if err == io.EOF && len(word) > 0 {
				return string(word), nil
			}
			return "", err
		}
		space := c == ' ' || c == '\t' || c == '\r' || c == '\n'
		alone := c == '(' || c == ')' || c == '[' || c == ']' || c == ','
		if len(word) > 0 && (space || alone || c == ';' || c == '"') {
			return string(word), t.in.UnreadByte()
		}
		t.at = t.line
		switch {
		case c == '\n':
			t.line++
		case space:
		case c == ';':
			for c != '\n' {
				if c, err = t.in.ReadByte(); err != nil {
					return "", err
				}
			}
			t.line++
		case alone:
			return string(c), nil
		case c == '"':
			return t.quoted()
		case len(word) == mostWord:
			return "", fmt.Errorf("line %d: a word has more than %d bytes", t.line, mostWord)
		default:
			word = append(word, c)
		}
	}
}

// quoted reads a text up to its closing quote.
func (t *tokens) quoted() (string, error) {
	word := []byte{'"'}
	for escaped := false; ; {
		c, err := t.in.ReadByte()
		if err == io.EOF {
			err = fmt.Errorf("line %d: a quote is not closed", t.at)
		}
		if err != nil {
			return "", err
		}
		if c == '\n' {
			t.line++
		}
		if len(word) < mostWord {
			word = append(word, c)
		}
		if c == '"' && !escaped {
			return string(word), nil
		}
		escaped = c == '\\' && !escaped
	}
}

// ended returns the error that ended the file, or nil at its end.
func (t *tokens) ended() error {
	if t.err == io.EOF {
		return nil
	}
	if errors.Is(t.err, io.ErrUnexpectedEOF) {
		return errors.New("is cut short")
	}
	return t.err
}
