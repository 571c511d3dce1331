package view

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"selfheal/harness/result/published"
	"selfheal/reports/words"
)

// Provenance says with what the numbers were made.
func (v *Report) Provenance() []Fact {
	if v.Quoted {
		return []Fact{{"Paper", published.Title}, {"Authors", published.Authors}}
	}
	f, e := v.File, v.File.Environment
	created := ""
	if !f.Created.IsZero() {
		created = f.Created.UTC().Format(time.RFC3339)
	}
	var threads, winograd string
	if e.Threads != 0 { // files of older versions don't say
		threads = fmt.Sprint(e.Threads)
	}
	if e.Winograd {
		winograd = "convolutions rewritten for the CPU"
	}
	return slices.DeleteFunc([]Fact{
		{"Created", created}, {"Plan (SHA-256)", f.ConfigSHA256}, {"Seed", fmt.Sprint(f.Seed)},
		{"Seeds of the attacks", v.seeds()}, {"Schema", f.Schema}, {"selfheal", e.Selfheal}, {"Go", e.Go},
		{"ONNX Runtime", e.ONNXRuntime}, {"Provider", e.Provider}, {"CPU", e.CPU},
		{"Workers, batch", fmt.Sprintf("%d, %d", e.Workers, e.Batch)}, {"Threads of a pass", threads},
		{"Winograd", winograd},
	}, func(x Fact) bool { return x.Text == "" })
}

// seeds names all seeds that some cell has an accuracy under, in their order; "" where cells
// have one.
func (v *Report) seeds() string {
	var names []string
	for _, c := range v.File.Cells {
		for _, one := range c.Seeds {
			if len(c.Seeds) > 1 {
				names = Once(names, fmt.Sprint(one.Seed))
			}
		}
	}
	return words.Some(names)
}

var plainArgument = regexp.MustCompile(`^[A-Za-z0-9_@%+=:,./-]+$`)

// Command repeats the run, as one types it; "" where that is not known.
func (v *Report) Command() string { return shellCommand(v.File.Command) }

// shellCommand writes arguments as one types them into a POSIX shell.
func shellCommand(args []string) string {
	quoted := make([]string, len(args))
	for i, a := range args {
		switch {
		case plainArgument.MatchString(a):
			quoted[i] = a
		case words.Clean(a) != a:
			quoted[i] = "\"$(printf '" + printfEscaped(a) + "')\""
		default:
			quoted[i] = "'" + strings.ReplaceAll(a, "'", `'\''`) + "'"
		}
	}
	return strings.Join(quoted, " ")
}

// printfEscaped writes what a terminal does not show as bytes in octal, for printf.
func printfEscaped(s string) string {
	var sb strings.Builder
	for _, b := range []byte(s) {
		if b <= ' ' || b >= 0x7f || strings.ContainsRune(`'"\%`, rune(b)) {
			fmt.Fprintf(&sb, `\%03o`, b)
		} else {
			sb.WriteByte(b)
		}
	}
	return sb.String()
}
