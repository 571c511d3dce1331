package repository

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"selfheal/internal/must"
)

// turned matches phrases that define by a relative clause although a verb would do.
var turned = regexp.MustCompile(`\b(is|are) (that|those) (of|that|which|in|to)\b|` +
	`\b(is|are) what\b|\bis the one (of|that)\b`)

// headless matches the beginning of a sentence whose subject comes last: "Of more than 12 charts none is drawn".
var headless = regexp.MustCompile(`(^|[.:;!?] |\n- |\n)(What|Where|Of|Those|Whatever|Who|Which) [a-zA-Z0-9ℓσε]`)

// faults lists the places of a text that must be read twice. named is the name that a doc comment begins with.
func faults(text, named string) (all []string) {
	text = regexp.MustCompile("(?s)```.*?```|`[^`]*`|\\[[^\\]]*\\]\\([^)]*\\)").ReplaceAllString(text, "x")
	if named != "" {
		text = strings.TrimPrefix(text, named+" ")
	}
	for _, pattern := range []*regexp.Regexp{turned, headless} {
		for _, at := range pattern.FindAllStringIndex(text, -1) {
			all = append(all, strings.TrimSpace(text[max(0, at[0]-30):min(len(text), at[1]+30)]))
		}
	}
	return all
}

// comments maps the comments of a Go file, each as one line, to the names that they document.
func comments(t *testing.T, path, source string) map[string]string {
	file := must.Get(parser.ParseFile(token.NewFileSet(), path, source, parser.ParseComments))(t)
	named := map[*ast.CommentGroup]string{}
	ast.Inspect(file, func(n ast.Node) bool {
		switch of := n.(type) {
		case *ast.FuncDecl:
			named[of.Doc] = of.Name.Name
		case *ast.TypeSpec:
			named[of.Doc] = of.Name.Name
		case *ast.GenDecl:
			if spec, ok := of.Specs[0].(*ast.TypeSpec); ok {
				named[of.Doc] = spec.Name.Name
			}
		case *ast.Field:
			if len(of.Names) > 0 {
				named[of.Doc] = of.Names[0].Name
			}
		}
		return true
	})
	all := map[string]string{}
	for _, group := range file.Comments {
		all[strings.Join(strings.Fields(group.Text()), " ")] = named[group]
	}
	return all
}

// Comments and pages are read once: subject, verb, object.
func TestProse(t *testing.T) {
	found := map[string][]string{}
	for path, source := range sources(t) {
		if strings.HasSuffix(path, "prose_test.go") {
			continue
		}
		for text, name := range comments(t, path, source) {
			found[path] = append(found[path], faults(text, name)...)
		}
	}
	pages := must.Get(filepath.Glob("*.md"))(t)
	for _, pattern := range []string{"docs/*.md", "docs/*/*.md", "scripts/*.md", "scripts/*/*.md"} {
		pages = append(pages, must.Get(filepath.Glob(pattern))(t)...)
	}
	for _, path := range pages {
		if path != "CHANGELOG.md" {
			found[path] = faults(strings.ReplaceAll(read(t, path), "\n\n", "\n"), "")
		}
	}
	for _, path := range slices.Sorted(maps.Keys(found)) {
		for _, sentence := range found[path] {
			t.Errorf("%s has a turned or headless sentence: %s", path, sentence)
		}
	}
}

// The patterns find the sentences that they are for, and leave others alone.
func TestFaults(t *testing.T) {
	for text, want := range map[string]int{
		"Classifier is that of a defense.":                         1,
		"It opens the file. Of more than 12 charts none is drawn.": 1,
		"Where there is none, it says so.":                         1,
		"Scale is what the mean is divided by; those of l2 stay.":  1,
		"Of lists the classifiers of a group.":                     0,
		"It says what it does, and where; that is all.":            0,
	} {
		if got := faults(text, "Of"); len(got) != want {
			t.Errorf("%q: %q", text, got)
		}
	}
}
