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

// outputPath is the annotation of a flag that names a file or folder to write, and of a command whose argument does.
const outputPath = "output"

// output is a flag that names what is written. All others, and arguments, may name inputs.
func (c flags) output(to *string, name, value, usage string, words completer) {
	c.text(to, name, value, usage, words)
	_ = c.Flags().SetAnnotation(name, outputPath, nil) // the flag is there
}

// isOutput reports whether a flag names what is written.
func isOutput(f *pflag.Flag) bool {
	_, is := f.Annotations[outputPath]
	return is
}

// force is --force of verbs that use it for nothing else.
func (c flags) force() {
	c.on(new(bool), "force", "replace files that selfheal did not write, or that somebody changed since")
}

// outputs finds out what a command may replace. Each of its outputs must be another file, and no folder of inputs.
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

// reads notes inputs. A word that is no path is none.
func (g *globals) reads(paths ...string) { g.rule.Inputs = append(g.rule.Inputs, paths...) }

// readsData notes what a config names. It is an error that the output folder is among them.
func (g *globals) readsData(cfg *config.Config, out string) error {
	paths := cfg.Inputs(true)
	if slices.ContainsFunc(paths, func(path string) bool { return samePath(path, out) }) {
		return usage("--out %s is an input of this command; choose another --out", out)
	}
	g.reads(paths...)
	return nil
}

// samePath reports whether two paths are one file or folder, be it there or not.
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

// file is where a command writes a file, if it may.
func (g *globals) file(path, kind string) (atomicfile.File, error) {
	to := g.rule.At(path, kind)
	return to, to.May()
}
