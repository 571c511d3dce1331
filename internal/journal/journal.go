// Package journal keeps the finished parts of a long run on disk from the moment they are finished. [Open] a journal,
// take a [Journal.Block] by its key, read its lines and append to it; [Journal.Close] comes last. A journal is a
// folder: journal.jsonl has lines of JSON, each with a checksum and its block's number; files of vectors hold what is
// too large for a line. All files only grow, so that however the program ends, at most the end of a file is spoilt.
package journal

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"selfheal/internal/atomicfile"
	"selfheal/internal/checksum"
	"selfheal/internal/fault"
	"selfheal/internal/input"
	"selfheal/internal/number"
)

// File holds the lines, in a journal's folder. Each is a checksum of the rest (CRC-32C, eight hexadecimal digits), a
// block's number and a JSON value. A block begins with its key, a JSON string.
const File = "journal.jsonl"

// syncEvery is how much work a power cut may cost. The end of the program alone loses nothing.
const syncEvery = time.Second

// Journal is a journal open for writing. Any number of goroutines may use it at once.
type Journal struct {
	dir     string
	mu      sync.Mutex
	lines   *os.File
	end     int64
	blocks  map[string]*Block
	next    int // number of the next block
	vectors map[string]*Vectors
	dirty   map[*os.File]bool // files written since they were last synced to the disk
	failed  error             // error of the first failed write: a later line would follow a gap
	stop    chan struct{}
	synced  sync.WaitGroup
	close   func() error
}

// Block is the part of a journal that belongs to a key.
type Block struct {
	Key     string
	journal *Journal
	number  int
	begun   bool // its key is in the file
	spans   []span
}

// span is a piece of the file whose lines all belong to one block.
type span struct{ from, to int64 }

// Open opens the journal in a folder and creates it if missing. damaged counts lines with a wrong checksum, whose
// content is lost. A torn last line was never finished: it is cut off and does not count.
func Open(dir string) (j *Journal, damaged int, err error) {
	defer func() { err = wrong(dir, err) }()
	j = &Journal{dir: dir, blocks: map[string]*Block{}, vectors: map[string]*Vectors{}, dirty: map[*os.File]bool{},
		stop: make(chan struct{})}
	if err = atomicfile.In(dir).Make("."); err == nil {
		j.lines, err = atomicfile.In(dir).Open(File, 0)
	}
	if err != nil {
		return nil, 0, err
	}
	if damaged, err = j.scan(); err == nil {
		err = j.lines.Truncate(j.end)
	}
	if err == nil {
		_, err = j.lines.Seek(j.end, io.SeekStart)
	}
	if err != nil {
		return nil, 0, errors.Join(err, j.lines.Close())
	}
	j.synced.Go(j.keepSynced)
	j.close = sync.OnceValue(j.shut)
	return j, damaged, nil
}

// Read opens a journal for reading only; its writer may still be at work. damaged is as for [Open].
func Read(dir string) (j *Journal, damaged int, err error) {
	j = &Journal{dir: dir, blocks: map[string]*Block{}}
	if j.lines, err = input.Open(filepath.Join(dir, File)); err == nil {
		j.close = j.lines.Close
		damaged, err = j.scan()
	}
	return j, damaged, wrong(dir, err)
}

func wrong(dir string, err error) error { return fault.At("journal "+dir, fault.Reason(err)) }

// Blocks returns the blocks in the file, in the order in which they begin.
func (j *Journal) Blocks() []*Block {
	return slices.SortedFunc(maps.Values(j.blocks), func(a, b *Block) int { return a.number - b.number })
}

// scan finds the blocks, and the end of the last whole line.
func (j *Journal) scan() (damaged int, err error) {
	byNumber := map[int]*Block{}
	lines := bufio.NewReader(j.lines)
	for {
		line, err := readLine(lines)
		if err == io.EOF { // the rest is a torn line
			return damaged, nil
		}
		if err != nil {
			return 0, err
		}
		at := span{j.end, j.end + int64(len(line))}
		j.end = at.to
		number, value, ok := parse(line)
		j.next = max(j.next, number+1)
		b := byNumber[number]
		switch {
		case !ok || b == nil && value[0] != '"': // of a block whose key is lost
			damaged++
		case value[0] == '"':
			b = &Block{journal: j, number: number, begun: true}
			if json.Unmarshal(value, &b.Key) == nil {
				byNumber[number], j.blocks[b.Key] = b, b
			}
		default:
			b.grow(at)
		}
	}
}

const mostLine = 64 << 20

func readLine(from *bufio.Reader) (line []byte, err error) {
	for {
		part, err := from.ReadSlice('\n')
		if line = append(line, part...); err != bufio.ErrBufferFull {
			return line, err
		}
		if len(line) > mostLine {
			return nil, fmt.Errorf("has a line of more than %s, which no run writes; remove the folder to begin anew",
				number.Bytes(mostLine))
		}
	}
}

func parse(line []byte) (number int, value []byte, ok bool) {
	sum, content, ok := bytes.Cut(bytes.TrimSuffix(line, []byte("\n")), []byte(" "))
	if !ok || string(sum) != fmt.Sprintf("%08x", checksum.Of(content)) {
		return 0, nil, false
	}
	block, value, _ := bytes.Cut(content, []byte(" "))
	number, err := strconv.Atoi(string(block))
	return number, value, err == nil && number >= 0 && len(value) > 0
}

func (b *Block) grow(at span) {
	if last := len(b.spans) - 1; last >= 0 && b.spans[last].to == at.from {
		b.spans[last].to = at.to
		return
	}
	b.spans = append(b.spans, at)
}

// Block returns the block of a key. It is in the file from its first line on.
func (j *Journal) Block(key string) *Block {
	j.mu.Lock()
	defer j.mu.Unlock()
	b := j.blocks[key]
	if b == nil {
		b = &Block{journal: j, Key: key, number: j.next}
		j.blocks[key] = b
		j.next++
	}
	return b
}

// Written reports whether the block has a line.
func (b *Block) Written() bool { return len(b.spans) > 0 }

// Read passes each line's JSON to each, first to last, until that returns an error. The slice is valid only during the
// call.
func (b *Block) Read(each func(line []byte) error) error {
	for _, s := range b.spans {
		lines := bufio.NewReaderSize(io.NewSectionReader(b.journal.lines, s.from, s.to-s.from), 1<<16)
		for {
			line, err := readLine(lines)
			if err == io.EOF {
				break
			}
			if err == nil {
				_, value, ok := parse(line)
				if !ok {
					err = errors.New("it changes while it is in use")
				} else {
					err = each(value)
				}
			}
			if err != nil {
				return wrong(b.journal.dir, err)
			}
		}
	}
	return nil
}

// Append adds a line with a value, whose JSON must not be a string. When it returns without an error, the line survives
// the end of the program. After an error nothing more is written, because the last line may be torn.
func (b *Block) Append(v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	j := b.journal
	return j.write(func() error {
		if !b.begun {
			key, err := json.Marshal(b.Key)
			if err != nil {
				return err
			}
			if _, err := j.line(b.number, key); err != nil {
				return err
			}
			b.begun = true
		}
		at, err := j.line(b.number, data)
		if err == nil {
			b.grow(at)
		}
		return err
	})
}

// line writes one line in a single write, and returns its place.
func (j *Journal) line(block int, value []byte) (span, error) {
	content := fmt.Appendf(nil, "%08x %d %s\n", 0, block, value)
	sum := checksum.Of(content[9 : len(content)-1])
	copy(content, fmt.Sprintf("%08x", sum))
	_, err := interrupted(j.lines).Write(content)
	at := span{j.end, j.end + int64(len(content))}
	j.end = at.to
	j.dirty[j.lines] = true
	return at, err
}

// write serialises writers and stops after the first failure.
func (j *Journal) write(do func() error) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.failed == nil {
		j.failed = wrong(j.dir, do())
	}
	return j.failed
}

// keepSynced syncs written files to the disk, while the work goes on.
func (j *Journal) keepSynced() {
	tick := time.NewTicker(syncEvery)
	defer tick.Stop()
	for {
		select {
		case <-j.stop:
			return
		case <-tick.C:
			if err := j.sync(); err != nil {
				_ = j.write(func() error { return err })
			}
		}
	}
}

func (j *Journal) sync() (err error) {
	j.mu.Lock()
	files := j.dirty
	j.dirty = map[*os.File]bool{}
	j.mu.Unlock()
	for f := range files {
		if serr := f.Sync(); serr != nil && !errors.Is(serr, os.ErrClosed) { // closed: removed with its content
			err = serr
		}
	}
	return err
}

// Close syncs everything to the disk. It may be called again.
func (j *Journal) Close() error { return j.close() }

func (j *Journal) shut() error {
	close(j.stop)
	j.synced.Wait()
	err := j.sync()
	for _, v := range j.vectors {
		err = errors.Join(err, v.file.Close())
	}
	return errors.Join(err, j.lines.Close())
}

// ErrNoVector is returned for a missing or changed vector.
var ErrNoVector = errors.New("a vector is missing or damaged")

// Vector gives a vector's place in its file, and its checksum.
type Vector struct {
	At  int64  `json:"at"` // in bytes
	Sum uint32 `json:"sum"`
}

// VectorsSuffix ends the names of files of vectors.
const VectorsSuffix = ".f32"

// Vectors is a file of float32 vectors of one length in a journal's folder.
type Vectors struct {
	journal *Journal
	name    string
	length  int
	file    *os.File
	end     int64
}

// Vectors opens a file of vectors of n values; name must be valid in a folder.
func (j *Journal) Vectors(name string, n int) (*Vectors, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if v := j.vectors[name]; v != nil {
		return v, nil
	}
	v := &Vectors{journal: j, name: name, length: n}
	var err error
	if v.file, err = atomicfile.In(j.dir).Open(name+VectorsSuffix, 0); err == nil {
		v.end, err = v.file.Seek(0, io.SeekEnd)
	}
	if err != nil {
		return nil, wrong(j.dir, err)
	}
	j.vectors[name] = v
	return v, nil
}

func (v *Vectors) path() string { return filepath.Join(v.journal.dir, v.name+VectorsSuffix) }

// Put adds a vector. It is part of the journal once a line gives its place.
func (v *Vectors) Put(values []float32) (at Vector, err error) {
	data, _ := binary.Append(nil, binary.LittleEndian, values)
	err = v.journal.write(func() error {
		if len(values) != v.length {
			return fmt.Errorf("a vector of %d values, not of %d", len(values), v.length)
		}
		at = Vector{v.end, checksum.Of(data)}
		_, err := interrupted(v.file).Write(data)
		v.end += int64(len(data))
		v.journal.dirty[v.file] = true
		return err
	})
	return at, err
}

// Get reads a vector. The error is an [ErrNoVector] if it is missing or damaged.
func (v *Vectors) Get(at Vector) ([]float32, error) {
	data := make([]byte, 4*v.length)
	if _, err := v.file.ReadAt(data, at.At); err != nil || checksum.Of(data) != at.Sum {
		return nil, ErrNoVector
	}
	values := make([]float32, v.length)
	_, err := binary.Decode(data, binary.LittleEndian, values)
	return values, err
}

// Has reports whether a vector is there undamaged.
func (v *Vectors) Has(at Vector) bool {
	_, err := v.Get(at)
	return err == nil
}

// Remove removes the file once the lines that replace it are on the disk; nobody may use it afterwards.
func (v *Vectors) Remove() error {
	j := v.journal
	if err := j.sync(); err != nil {
		return j.write(func() error { return err })
	}
	return j.write(func() error {
		delete(j.vectors, v.name)
		delete(j.dirty, v.file)
		return errors.Join(v.file.Close(), os.Remove(v.path()))
	})
}
