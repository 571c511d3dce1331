// Package pickle reads CIFAR's files: pickles of protocol 2 by Python 2's cPickle, and the same content written by
// Python 3 in protocols 3 to 5. [Read] returns the dictionary of a file: dictionaries, lists, numbers, texts, bytes and
// NumPy arrays. It knows only the opcodes that occur there. It runs no code: the few functions that a file may call by
// name are values here. Large bytes stay in the file; a value gives their place.
// https://docs.python.org/3/library/pickletools.html
package pickle

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// reader is Python's stack machine with its memo.
type reader struct {
	file   io.ReaderAt
	size   int64
	at     int64         // offset in the file
	ahead  *bufio.Reader // reads from there
	stack  []any
	marks  []int // stack heights at the marks
	memo   map[int]any
	pushed int
	err    error // the first one
}

// Values that a pickle may hold, in addition to numbers, texts of at most 255 bytes, nil and booleans.
type (
	// List is a list or a tuple.
	List struct{ Items []any }
	// Dict is a dictionary with texts as keys.
	Dict struct{ Items map[string]any }
	// Array is a NumPy array.
	Array struct {
		Shape   []int
		Of      Type
		Columns bool // it is in Fortran order
		Data    Bytes
	}
	// Type is a NumPy type, such as u1.
	Type string
	// Bytes are N bytes of the file from At on, not read yet.
	Bytes  struct{ At, N int64 }
	global string // a function or class by name
)

const (
	maxValues    = 1 << 21 // values: the largest of CIFAR's files has under 400,000
	maxText      = 255     // bytes of a text that is read; longer ones stay in the file
	numpyArray   = "numpy.core.multiarray _reconstruct"
	numpyBuffer  = "numpy.core.numeric _frombuffer"
	numpyNDArray = "numpy ndarray"
	numpyType    = "numpy dtype"
	codecsEncode = "_codecs encode" // Python 3 writes bytes by it, as a text, in protocol 2
)

// Read reads the dictionary in a file of this size.
func Read(file io.ReaderAt, size int64) (map[string]any, error) {
	p := &reader{file: file, size: size, memo: map[int]any{}}
	p.seek(0)
	if start := p.take(2); p.err != nil || start[0] != 0x80 || start[1] < 2 || start[1] > 5 {
		return nil, errors.New("it is no Python pickle of protocols 2 to 5, as CIFAR's Python version is; " +
			"its binary version has formats of its own")
	}
	for {
		place := p.at
		op := p.take(1)[0]
		if op == '.' {
			break
		}
		if p.step(op); p.err == nil && p.pushed > maxValues {
			p.err = fmt.Errorf("it holds more than %d values, more than any of CIFAR's files", maxValues)
		}
		if p.err != nil {
			return nil, fmt.Errorf("its pickle can't be read at byte %d: %w", place, p.err)
		}
	}
	if d, ok := p.pop().(*Dict); ok {
		return d.Items, nil
	}
	return nil, errors.New("its pickle is no dictionary, as CIFAR's are")
}

func (p *reader) fail(format string, args ...any) {
	if p.err == nil {
		p.err = fmt.Errorf(format, args...)
	}
}

func (p *reader) seek(at int64) {
	p.at = at
	p.ahead = bufio.NewReaderSize(io.NewSectionReader(p.file, at, p.size-at), 1<<12)
}

// take reads the next n bytes; after an error they are zeros.
func (p *reader) take(n int) []byte {
	b := make([]byte, n)
	if _, err := io.ReadFull(p.ahead, b); err != nil {
		p.fail("it is cut short")
	}
	p.at += int64(n)
	return b
}

func (p *reader) number(width int) int {
	b := append(p.take(width), make([]byte, 4)...)
	if width == 8 {
		return int(int64(binary.LittleEndian.Uint64(b)))
	}
	return int(int32(binary.LittleEndian.Uint32(b)))
}

// bytes returns the next n bytes: as a string if they are few, otherwise by their place.
func (p *reader) bytes(n int) any {
	switch {
	case n < 0 || int64(n) > p.size-p.at:
		p.fail("it is cut short")
		return nil
	case n <= maxText:
		return string(p.take(n))
	}
	b := Bytes{p.at, int64(n)}
	p.seek(p.at + b.N)
	return b
}

// line returns the text up to the next line break.
func (p *reader) line() string {
	text, err := p.ahead.ReadSlice('\n')
	if err != nil {
		p.fail("a name does not end")
	}
	p.at += int64(len(text))
	return string(bytes.TrimSuffix(text, []byte("\n")))
}

func (p *reader) push(v any) {
	p.stack = append(p.stack, v)
	p.pushed++
}

func (p *reader) pop() any { return p.last(1)[0] }

// last pops the last n values; missing ones are nil.
func (p *reader) last(n int) []any {
	if len(p.stack) < n || len(p.marks) > 0 && p.marks[len(p.marks)-1] > len(p.stack)-n {
		p.fail("a value is missing")
		return make([]any, n)
	}
	values := slices.Clone(p.stack[len(p.stack)-n:])
	p.stack = p.stack[:len(p.stack)-n]
	return values
}

// marked pops the values above the last mark, and the mark.
func (p *reader) marked() []any {
	if len(p.marks) == 0 {
		p.fail("a mark is missing")
		return nil
	}
	from := p.marks[len(p.marks)-1]
	p.marks = p.marks[:len(p.marks)-1]
	return p.last(len(p.stack) - from)
}

// top returns the last value and leaves it.
func (p *reader) top() any {
	v := p.pop()
	p.stack = append(p.stack, v)
	return v
}

// step executes an opcode.
func (p *reader) step(op byte) {
	switch op {
	case '}':
		p.push(&Dict{map[string]any{}})
	case ']', ')':
		p.push(&List{})
	case 'N':
		p.push(nil)
	case 0x88, 0x89:
		p.push(op == 0x88)
	case 'K':
		p.push(int(p.take(1)[0]))
	case 'M':
		p.push(p.number(2))
	case 'J':
		p.push(p.number(4))
	case 'U', 'C', 0x8c:
		p.push(p.bytes(int(p.take(1)[0])))
	case 'T', 'B', 'X':
		p.push(p.bytes(p.number(4)))
	case 0x96:
		p.push(p.bytes(p.number(8)))
	case 0x95: // length of a frame
		p.take(8)
	case 'c':
		p.name(p.line(), p.line())
	case 0x93:
		names := p.last(2)
		module, _ := names[0].(string)
		function, _ := names[1].(string)
		p.name(module, function)
	case '(':
		p.marks = append(p.marks, len(p.stack))
		p.pushed++
	case 't':
		p.push(&List{p.marked()})
	case 0x85, 0x86, 0x87:
		p.push(&List{p.last(int(op) - 0x84)})
	case 'q', 'r':
		p.memo[p.key(op == 'r')] = p.top()
		p.pushed++
	case 0x94:
		p.memo[len(p.memo)] = p.top()
		p.pushed++
	case 'h', 'j':
		v, ok := p.memo[p.key(op == 'j')]
		if p.push(v); !ok {
			p.fail("it refers to a value that is not there")
		}
	case 'a':
		p.extend(p.last(1))
	case 'e':
		p.extend(p.marked())
	case 's':
		p.set(p.last(2))
	case 'u':
		p.set(p.marked())
	case 'R':
		p.call(p.last(2))
	case 'b':
		p.build(p.pop())
	case 0x97:
		p.fail("its data lies outside of it; write it by pickle.dump without buffer_callback")
	default:
		p.fail("it has the opcode 0x%02x, which CIFAR's files have not", op)
	}
}

// key reads a memo key of one byte or, if long, of four.
func (p *reader) key(long bool) int {
	if long {
		return p.number(4)
	}
	return int(p.take(1)[0])
}

func (p *reader) extend(items []any) {
	if l, ok := p.top().(*List); ok {
		l.Items = append(l.Items, items...)
		return
	}
	p.fail("a list is missing")
}

func (p *reader) set(items []any) {
	d, ok := p.top().(*Dict)
	for i := 0; ok && i+1 < len(items); i += 2 {
		var key string
		if key, ok = items[i].(string); ok {
			d.Items[key] = items[i+1]
		}
	}
	if !ok || len(items)%2 != 0 {
		p.fail("a dictionary with texts as keys is missing")
	}
}

// name pushes a function or class, under the older of NumPy's names.
func (p *reader) name(module, name string) {
	p.push(global(strings.Replace(module, "numpy._core.", "numpy.core.", 1) + " " + name))
}

// call returns the value of a call of a function by its name.
func (p *reader) call(what []any) {
	name, _ := what[0].(global)
	var args []any
	if of, ok := what[1].(*List); ok {
		args = of.Items
	}
	switch n := len(args); {
	case name == numpyArray && n == 3 && args[0] == any(global(numpyNDArray)):
		p.push(&Array{})
	case name == numpyBuffer && n == 4: // data, type, shape, order
		array := &Array{}
		array.fill(p, args[2], args[1], args[3] == "F", args[0])
		p.push(array)
	case name == numpyType && n == 3:
		text, _ := args[0].(string)
		p.push(Type(text))
	case name == codecsEncode:
		p.fail("Python 3 wrote it by protocol 2; write it by pickle.dump's own protocol")
	default:
		p.fail("it calls %.60q, which CIFAR's files do not; nothing is run", string(name))
	}
}

// build sets the state of the last value. A type's state is only its byte order, which single bytes lack.
func (p *reader) build(state any) {
	if _, ok := p.top().(Type); ok {
		return
	}
	array, isArray := p.top().(*Array)
	s, isState := state.(*List)
	if isArray && isState && len(s.Items) == 5 { // version, shape, type, Fortran order, data
		array.fill(p, s.Items[1], s.Items[2], s.Items[3], s.Items[4])
		return
	}
	p.fail("an array's description is missing")
}

func (a *Array) fill(p *reader, shape, of, columns, data any) {
	var ok [4]bool
	a.Shape, ok[0] = Wholes(shape)
	a.Of, ok[1] = of.(Type)
	a.Columns, ok[2] = columns.(bool)
	a.Data, ok[3] = data.(Bytes)
	if ok != [4]bool{true, true, true, true} {
		p.fail("an array's description is missing")
	}
}

// Wholes returns the items of a tuple or a list if all of them are whole numbers.
func Wholes(v any) ([]int, bool) {
	list, ok := v.(*List)
	if !ok {
		return nil, false
	}
	numbers := make([]int, len(list.Items))
	for i, item := range list.Items {
		if numbers[i], ok = item.(int); !ok {
			return nil, false
		}
	}
	return numbers, true
}
