package reports

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"
)

// provenance says with what the numbers were made.
func (v *view) provenance() []fact {
	if v.quoted {
		return v.source()
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
	var out []fact
	for _, x := range []fact{
		{"Created", created}, {"Plan (SHA-256)", f.ConfigSHA256}, {"Seed", fmt.Sprint(f.Seed)}, {"Seeds of the attacks", v.seeds()}, {"Schema", f.Schema},
		{"selfheal", e.Selfheal}, {"Go", e.Go}, {"ONNX Runtime", e.ONNXRuntime}, {"Provider", e.Provider}, {"CPU", e.CPU},
		{"Workers, batch", fmt.Sprintf("%d, %d", e.Workers, e.Batch)}, {"Threads of a pass", threads}, {"Winograd", winograd},
	} {
		if x.Text != "" {
			out = append(out, fact{x.Term, clean(x.Text)})
		}
	}
	return out
}

// seeds names all seeds that some cell has an accuracy under, in their order; "" where cells
// have one.
func (v *view) seeds() string {
	var names []string
	for _, c := range v.File.Cells {
		for _, one := range c.Seeds {
			if name := fmt.Sprint(one.Seed); len(c.Seeds) > 1 && !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return some(names)
}

func (v *view) datasetTable() table {
	t := table{Lead: 1, Caption: "Data sets", Head: []string{"Data set", "Images", "SHA-256 of pixels and labels"}}
	for _, name := range slices.Sorted(maps.Keys(v.File.Datasets)) {
		d := v.File.Datasets[name]
		t.Rows = append(t.Rows, []box{text(clean(name)), text(thousands(int64(d.N))), text(clean(d.SHA256))})
	}
	return t
}

func (v *view) modelTable() table {
	t := table{Lead: 1, Caption: "Models", Head: []string{"Model", "Parameters", "Segments", "FLOPs per image", "SHA-256 of the file"}}
	for _, name := range slices.Sorted(maps.Keys(v.File.Models)) {
		m := v.File.Models[name]
		flops := dash
		if m.FLOPs > 0 {
			flops = thousands(m.FLOPs)
		}
		t.Rows = append(t.Rows, []box{text(clean(name)), text(thousands(m.Parameters)), text(thousands(int64(m.Segments))), text(flops), text(clean(m.SHA256))})
	}
	return t
}

// embeddingTable identifies the embeddings that were read from files; those that were fitted
// are in fitTable.
func (v *view) embeddingTable() table {
	t := table{Lead: 2, Caption: "Embeddings read from files", Head: []string{"Control", "At", "SHA-256 of the file"}}
	for _, e := range v.File.Embeddings {
		t.Rows = append(t.Rows, []box{text(clean(e.Control)), text(clean(e.At)), text(clean(e.SHA256))})
	}
	return t.marked()
}

var plainArgument = regexp.MustCompile(`^[A-Za-z0-9_@%+=:,./-]+$`)

// shellCommand writes arguments as one types them into a POSIX shell.
func shellCommand(args []string) string {
	quoted := make([]string, len(args))
	for i, a := range args {
		switch {
		case plainArgument.MatchString(a):
			quoted[i] = a
		case strings.ContainsFunc(a, func(r rune) bool { return unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) }):
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
