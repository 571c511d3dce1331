package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"selfheal/harness/config"
	"selfheal/internal/atomicfile"
)

// outputPath is the annotation of a flag that names a file or folder to write, and of a command whose argument names
// one.
const outputPath = "output"

// output adds a flag that names an output. All other flags, and arguments, may name inputs.
func (c flags) output(to *string, name, value, usage string, words completer) {
	c.text(to, name, value, usage, words)
	_ = c.Flags().SetAnnotation(name, outputPath, nil) // the flag exists
}

// isOutput reports whether a flag names an output.
func isOutput(f *pflag.Flag) bool {
	_, is := f.Annotations[outputPath]
	return is
}

// force adds --force to verbs that use it only to replace files.
func (c flags) force() {
	c.on(new(bool), "force", "replace files that selfheal did not write, or that somebody changed since")
}

// outputs determines what a command may replace. Each of its outputs must be a different file, and not a folder of
// inputs.
func (g *globals) outputs(c *cobra.Command, args []string) error {
	var outputs []string
	var wrong error
	c.Flags().Visit(func(f *pflag.Flag) {
		list, several := f.Value.(pflag.SliceValue)
		switch {
		case isOutput(f):
			if slices.ContainsFunc(outputs, func(o string) bool { return samePath(o, f.Value.String()) }) {
				wrong = c.FlagErrorFunc()(c, fmt.Errorf("--%s: %s is another output of this command too", f.Name,
					f.Value))
			}
			outputs = append(outputs, f.Value.String())
		case several:
			g.reads(list.GetSlice()...)
		default:
			g.reads(f.Value.String())
		}
	})
	if _, writes := c.Annotations[outputPath]; !writes {
		g.reads(args...)
	}
	g.rule.Force = given(c, "force")
	return wrong
}

// reads records inputs. A word that is not a path has no effect.
func (g *globals) reads(paths ...string) { g.rule.Inputs = append(g.rule.Inputs, paths...) }

// readsData records the files that a config names. It returns an error if the output folder is among them.
func (g *globals) readsData(cfg *config.Config, out string) error {
	paths := cfg.Inputs(true)
	if slices.ContainsFunc(paths, func(path string) bool { return samePath(path, out) }) {
		return usage("--out %s is an input of this command; choose another --out", out)
	}
	g.reads(paths...)
	return nil
}

// samePath reports whether two paths are the same file or folder, even if it does not exist.
func samePath(a, b string) bool {
	one, err := os.Stat(a)
	other, oerr := os.Stat(b)
	if err == nil && oerr == nil {
		return os.SameFile(one, other)
	}
	a, err = filepath.Abs(a)
	b, oerr = filepath.Abs(b)
	return err == nil && oerr == nil && a == b
}

// file returns the output file at a path, if the command may write it.
func (g *globals) file(path, kind string) (atomicfile.File, error) {
	to := g.rule.At(path, kind)
	return to, to.May()
}
