package result

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"

	"selfheal/internal/atomicfile"
	"selfheal/internal/fault"
	"selfheal/internal/input"
)

// Read reads a results.json.
func Read(path string) (*File, error) {
	var f File
	if err := read(path, Schema, &f.Schema, &f); err != nil {
		return nil, err
	}
	return &f, nil
}

// mostBytes bounds a file of results: 2,000 cells of 50,000 images need half of it.
const mostBytes = 256 << 20

// read reads a file of one schema, which value is for: its key schema stands at got. What it holds is checked.
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
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// Write writes a results.json beside its place and renames it, so that the file
// is always whole.
func Write(path string, f *File) error { return write(path, f) }

// write writes a value as JSON, whole or not at all.
func write(path string, v any) error {
	data, err := json.MarshalIndent(v, "", " ")
	if err == nil {
		err = atomicfile.Write(path, append(data, '\n'))
	}
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// mostLine bounds a record, in bytes.
const mostLine = 1 << 20

// ReadRecords reads a records.jsonl. A last line without its end, which a run
// that was killed may leave, is passed over.
func ReadRecords(path string) ([]Record, error) {
	f, err := input.Open(path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, fault.Reason(err))
	}
	defer f.Close()
	var records []Record
	lines := bufio.NewReaderSize(f, mostLine)
	for n := 1; ; n++ {
		line, err := lines.ReadSlice('\n')
		switch err {
		case nil:
		case io.EOF:
			return records, nil
		case bufio.ErrBufferFull:
			return nil, fmt.Errorf("%s:%d: a line of more than %d bytes is no record", path, n, mostLine)
		default:
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		var r Record
		if err := json.Unmarshal(line, &r); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", path, n, err)
		}
		if err := r.check(); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", path, n, err)
		}
		records = append(records, r)
	}
}
