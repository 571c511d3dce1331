package result

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"iter"

	"selfheal/harness/cell"
	"selfheal/internal/atomicfile"
	"selfheal/internal/fault"
	"selfheal/internal/input"
	"selfheal/internal/number"
)

// Read reads a results.json.
func Read(path string) (*File, error) {
	var f File
	if err := read(path, Schema, &f.Schema, &f); err != nil {
		return nil, err
	}
	f.settle()
	return &f, nil
}

// settle gives suites without controls [Whitebox]: files of older versions have the config's mode there.
func (f *File) settle() {
	controlled := f.controlled()
	for i, s := range f.Suites {
		f.Suites[i].Mode = AttackerOf(s.Mode, controlled[s.Name])
	}
	for i, c := range f.Cells {
		f.Cells[i].Mode = AttackerOf(c.Mode, controlled[c.Suite])
	}
}

// controlled returns the suites that have a control.
func (f *File) controlled() map[string]bool {
	controlled := Controlled(f.Cells, func(c Cell) cell.ID { return c.ID })
	for _, s := range f.Suites {
		controlled[s.Name] = controlled[s.Name] || len(s.Controls) > 0
	}
	return controlled
}

// mostBytes bounds a file of results. 2,000 cells of 50,000 images need half of it.
const mostBytes = 256 << 20

// read reads and checks a file of one schema into value. got points to value's schema.
func read(path, schema string, got *string, value interface{ check() error }) error {
	data, err := input.Read(path, mostBytes)
	if err != nil {
		return fmt.Errorf("%s: %w", path, fault.Reason(err))
	}
	if err = json.Unmarshal(data, value); err == nil && *got != schema {
		err = fmt.Errorf("has schema %q, this version reads %q", *got, schema)
	}
	if err == nil {
		err = value.check()
	}
	return fault.At(path, err)
}

// Write writes a results.json, whole or not at all.
func Write(path string, f *File) error { return write(path, f) }

// write writes a value as JSON, whole or not at all.
func write(path string, v any) error {
	data, err := json.MarshalIndent(v, "", " ")
	if err == nil {
		dir, name := atomicfile.At(path)
		err = dir.Write(name, append(data, '\n'))
	}
	return fault.At(path, err)
}

// mostLine bounds a record, in bytes.
const mostLine = 1 << 20

// Records walks through a records.jsonl up to the first error. It skips a last line without its end.
func Records(path string) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		f, err := input.Open(path)
		if err != nil {
			yield(Record{}, fmt.Errorf("%s: %w", path, fault.Reason(err)))
			return
		}
		defer f.Close()
		lines := bufio.NewReaderSize(f, mostLine)
		for n := 1; ; n++ {
			line, err := lines.ReadSlice('\n')
			var r Record
			switch err {
			case io.EOF:
				return
			case nil:
				if err = json.Unmarshal(line, &r); err == nil {
					err = r.check()
				}
			case bufio.ErrBufferFull:
				err = fmt.Errorf("a line of more than %s is no record", number.Bytes(mostLine))
			}
			if err != nil {
				yield(r, fmt.Errorf("%s:%d: %w", path, n, err))
				return
			}
			if !yield(r, nil) {
				return
			}
		}
	}
}
