package repository

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"selfheal/internal/must"
)

var (
	generatedPart = regexp.MustCompile(`(?s)<!-- ([^/e]|e[^n])[^\n]* -->\n.*?(<!-- (/|end)[^\n]* -->|\z)`)
	tableLine     = regexp.MustCompile(`(?m)^ *\|.*$`)
	fenced        = regexp.MustCompile("(?s)```.*?```|`[^`\n]*`")
	link          = regexp.MustCompile(`\]\(([^)\s]+)\)|src="([^"]+)"`)
	heading       = regexp.MustCompile(`(?m)^#+ (.*)$`)
)

// pages maps the paths of the pages that match a pattern to their texts.
func pages(t *testing.T, patterns ...string) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, pattern := range patterns {
		for _, path := range must.Get(filepath.Glob(pattern))(t) {
			all[path] = read(t, path)
		}
	}
	return all
}

// docs/README.md has a line for every page. Pages for users, which are not in docs/measured, have together at most
// 22,000 words outside of tables, of what is generated and of the list of warnings, and the paper's page 1,800 in all.
func TestPages(t *testing.T) {
	t.Parallel()
	index, words := read(t, "docs/README.md"), 0
	all := pages(t, "docs/*.md", "docs/*/*.md")
	for path, text := range all {
		name := strings.TrimPrefix(path, "docs/")
		if n := strings.Count(index, "\n- ["+name+"]("+name+"): "); n != 1 && name != "README.md" {
			t.Errorf("docs/README.md has %d lines for %s", n, path)
		}
		if filepath.Dir(path) == "docs" && name != "warnings.md" {
			text = tableLine.ReplaceAllString(generatedPart.ReplaceAllString(text, ""), "")
			words += len(strings.Fields(text))
		}
	}
	if n := len(strings.Fields(all["docs/paper.md"])); n > 1800 {
		t.Errorf("docs/paper.md has %d words, more than 1,800", n)
	}
	if words > 22_000 || len(all) < 20 {
		t.Errorf("%d pages; those outside docs/measured have %d words", len(all), words)
	}
}

// Links of pages to files and headings of the repository lead somewhere.
func TestLinks(t *testing.T) {
	t.Parallel()
	links := 0
	for path, text := range pages(t, "docs/*.md", "docs/*/*.md", "README.md", "CONTRIBUTING.md", "SECURITY.md") {
		for _, found := range link.FindAllStringSubmatch(fenced.ReplaceAllString(text, ""), -1) {
			target, anchor, _ := strings.Cut(found[1]+found[2], "#")
			if strings.Contains(target, "://") {
				continue
			}
			links++
			to := path
			if target != "" {
				to = filepath.Join(filepath.Dir(path), target)
			}
			if _, err := os.Stat(to); err != nil {
				t.Errorf("%s has a link to %s: %v", path, to, err)
			} else if anchor != "" && !slices.Contains(anchors(read(t, to)), anchor) {
				t.Errorf("%s has a link to %s, which has no heading %s", path, to, anchor)
			}
		}
	}
	if links < 200 {
		t.Errorf("only %d links", links)
	}
}

// anchors returns the names by which links reach the headings of a page.
func anchors(text string) (names []string) {
	for _, found := range heading.FindAllStringSubmatch(text, -1) {
		names = append(names, strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
				return unicode.ToLower(r)
			}
			return -1
		}, found[1]))
	}
	return names
}
