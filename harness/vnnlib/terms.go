package vnnlib

import (
	"fmt"
	"strings"
)

// mostDepth bounds how deep parentheses are nested.
const mostDepth = 100

// term is an S-expression: a word, or a list.
type term struct {
	word string
	list []term
	line int
}

// reader reads terms.
type reader struct {
	text string
	at   int
	line int
}

func (r *reader) token() string {
	for r.at < len(r.text) {
		switch c := r.text[r.at]; {
		case c == '\n':
			r.line++
			r.at++
		case c == ' ' || c == '\t' || c == '\r':
			r.at++
		case c == ';':
			for r.at < len(r.text) && r.text[r.at] != '\n' {
				r.at++
			}
		case c == '(' || c == ')':
			r.at++
			return string(c)
		default:
			start := r.at
			for r.at < len(r.text) && !strings.ContainsRune("() \t\r\n;", rune(r.text[r.at])) {
				r.at++
			}
			return r.text[start:r.at]
		}
	}
	return ""
}

// term reads the next one; ok is false at the end.
func (r *reader) term(depth int) (t term, ok bool, err error) {
	word := r.token()
	t.line = r.line
	switch {
	case word == "":
		return t, false, nil
	case word == ")":
		return t, false, fmt.Errorf("line %d: a parenthesis closes nothing", r.line)
	case word != "(":
		t.word = word
		return t, true, nil
	case depth > mostDepth:
		return t, false, fmt.Errorf("line %d: parentheses are nested more than %d deep", r.line, mostDepth)
	}
	for {
		before := r.at
		beforeLine := r.line
		if next := r.token(); next == ")" {
			return t, true, nil
		} else if next == "" {
			return t, false, fmt.Errorf("line %d: a parenthesis is not closed", t.line)
		}
		r.at, r.line = before, beforeLine
		inner, _, err := r.term(depth + 1)
		if err != nil {
			return t, false, err
		}
		t.list = append(t.list, inner)
	}
}
