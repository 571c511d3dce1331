package dataset

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"selfheal/internal/fault"
)

// pickle reads what Python 2's cPickle wrote by protocol 2 into CIFAR's files, and what Python 3 writes of the same by
// protocols 2 to 5: dictionaries, lists, numbers, texts, bytes and NumPy arrays. It knows the opcodes that stand there
// and no others. It runs nothing: the few functions that may be called by name stand for values here.
// https://docs.python.org/3/library/pickletools.html
type pickle struct {
	file
	at     int64         // in the file
	ahead  *bufio.Reader // what lies there
	stack  []any
	marks  []int // heights of the stack
	memo   map[int]any
	pushed int
	err    error // the first one
}

// A pickle may hold these, beside numbers, texts, nil and booleans.
type (
	pyList   struct{ items []any } // or a tuple
	pyDict   struct{ items map[string]any }
	pyGlobal string   // a function or class by name
	pyType   string   // a NumPy type
	pyBytes  struct { // bytes in the file, which are not read
		at, n int64
		kind  bytesKind
	}
	pyArray struct {
		shape   []int
		of      pyType
		columns bool // is in Fortran order
		data    pyBytes
	}
)

const (
	maxPickled   = 1 << 21 // values: the largest of CIFAR's files has under 400,000
	maxPyText    = 255     // bytes of a text that is read; others stay in the file
	numpyArray   = "numpy.core.multiarray _reconstruct"
	numpyBuffer  = "numpy.core.numeric _frombuffer"
	numpyNDArray = "numpy ndarray"
	numpyType    = "numpy dtype"
	codecsEncode = "_codecs encode" // by which protocol 2 of Python 3 writes bytes as a text
)

// bytesKind says what bytes of the file are.
type bytesKind int

const (
	plainBytes bytesKind = iota
	utf8Text             // in Unicode
	latin1Text           // in Unicode: each letter stands for a byte
)

// unpickle reads the dictionary that a file holds.
func unpickle(f file) (map[string]any, error) {
	p := &pickle{file: f, memo: map[int]any{}}
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
		if p.step(op); p.err == nil && p.pushed > maxPickled {
			p.err = fmt.Errorf("it holds more than %d values, more than any of CIFAR's files", maxPickled)
		}
		if p.err != nil {
			return nil, fmt.Errorf("its pickle can't be read at byte %d: %w", place, p.err)
		}
	}
	if d, ok := p.pop().(*pyDict); ok {
		return d.items, nil
	}
	return nil, errors.New("its pickle is no dictionary, as CIFAR's are")
}

func (p *pickle) fail(format string, args ...any) {
	if p.err == nil {
		p.err = fmt.Errorf(format, args...)
	}
}

func (p *pickle) seek(at int64) {
	p.at = at
	p.ahead = bufio.NewReaderSize(io.NewSectionReader(p.file, at, p.size-at), 1<<12)
}

// take reads the next n bytes; they are zeros after an error.
func (p *pickle) take(n int) []byte {
	b := make([]byte, n)
	if _, err := io.ReadFull(p.ahead, b); err != nil {
		p.fail("it is cut short")
	}
	p.at += int64(n)
	return b
}

func (p *pickle) number(width int) int {
	b := append(p.take(width), make([]byte, 4)...)
	if width == 8 {
		return int(int64(binary.LittleEndian.Uint64(b)))
	}
	return int(int32(binary.LittleEndian.Uint32(b)))
}

// text is the next n bytes: a string where they are few, else where they are.
func (p *pickle) text(kind bytesKind, n int) any {
	switch {
	case n < 0 || int64(n) > p.size-p.at:
		p.fail("it is cut short")
		return nil
	case n <= maxPyText:
		return string(p.take(n))
	}
	b := pyBytes{p.at, int64(n), kind}
	p.seek(p.at + b.n)
	return b
}

// line is the text before the next line break.
func (p *pickle) line() string {
	text, err := p.ahead.ReadSlice('\n')
	if err != nil {
		p.fail("a name does not end")
	}
	p.at += int64(len(text))
	return string(bytes.TrimSuffix(text, []byte("\n")))
}

func (p *pickle) push(v any) {
	p.stack = append(p.stack, v)
	p.pushed++
}

func (p *pickle) pop() any { return p.last(1)[0] }

// last pops the last n values; they are nil where there are fewer.
func (p *pickle) last(n int) []any {
	if len(p.stack) < n || len(p.marks) > 0 && p.marks[len(p.marks)-1] > len(p.stack)-n {
		p.fail("a value is missing")
		return make([]any, n)
	}
	values := slices.Clone(p.stack[len(p.stack)-n:])
	p.stack = p.stack[:len(p.stack)-n]
	return values
}

// marked pops the values behind the last mark, and the mark.
func (p *pickle) marked() []any {
	if len(p.marks) == 0 {
		p.fail("a mark is missing")
		return nil
	}
	from := p.marks[len(p.marks)-1]
	p.marks = p.marks[:len(p.marks)-1]
	return p.last(len(p.stack) - from)
}

// top is the last value, which stays.
func (p *pickle) top() any {
	v := p.pop()
	p.stack = append(p.stack, v)
	return v
}

// step does what an opcode says.
func (p *pickle) step(op byte) {
	switch op {
	case '}':
		p.push(&pyDict{map[string]any{}})
	case ']', ')':
		p.push(&pyList{})
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
	case 'U', 'C':
		p.push(p.text(plainBytes, int(p.take(1)[0])))
	case 'T', 'B':
		p.push(p.text(plainBytes, p.number(4)))
	case 0x8e, 0x96:
		p.push(p.text(plainBytes, p.number(8)))
	case 0x8c:
		p.push(p.text(utf8Text, int(p.take(1)[0])))
	case 'X':
		p.push(p.text(utf8Text, p.number(4)))
	case 0x8d:
		p.push(p.text(utf8Text, p.number(8)))
	case 0x95: // how many bytes come in one piece
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
		p.push(&pyList{p.marked()})
	case 0x85, 0x86, 0x87:
		p.push(&pyList{p.last(int(op) - 0x84)})
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

// key is a value's in the memo, of one byte or, long, of four.
func (p *pickle) key(long bool) int {
	if long {
		return p.number(4)
	}
	return int(p.take(1)[0])
}

func (p *pickle) extend(items []any) {
	if l, ok := p.top().(*pyList); ok {
		l.items = append(l.items, items...)
		return
	}
	p.fail("a list is missing")
}

func (p *pickle) set(items []any) {
	d, ok := p.top().(*pyDict)
	for i := 0; ok && i+1 < len(items); i += 2 {
		var key string
		if key, ok = items[i].(string); ok {
			d.items[key] = items[i+1]
		}
	}
	if !ok || len(items)%2 != 0 {
		p.fail("a dictionary with texts as keys is missing")
	}
}

// name pushes a function or class, by the older of NumPy's names.
func (p *pickle) name(module, name string) {
	p.push(pyGlobal(strings.Replace(module, "numpy._core.", "numpy.core.", 1) + " " + name))
}

// call stands for calling a function by its name.
func (p *pickle) call(what []any) {
	name, _ := what[0].(pyGlobal)
	var args []any
	if of, ok := what[1].(*pyList); ok {
		args = of.items
	}
	switch n := len(args); {
	case name == numpyArray && n == 3 && args[0] == any(pyGlobal(numpyNDArray)):
		p.push(&pyArray{})
	case name == numpyBuffer && n == 4: // data, type, shape, order
		array := &pyArray{}
		array.fill(p, args[2], args[1], args[3] == "F", args[0])
		p.push(array)
	case name == numpyType && n == 3:
		text, _ := args[0].(string)
		p.push(pyType(text))
	case name == codecsEncode && n == 2 && args[1] == "latin1":
		p.push(p.encoded(args[0]))
	default:
		p.fail("it calls %q, which CIFAR's files do not; nothing is run", shorten(string(name)))
	}
}

// encoded are the bytes that a text's letters stand for.
func (p *pickle) encoded(text any) any {
	switch t := text.(type) {
	case string:
		var b []byte
		for _, letter := range t {
			if letter > 0xff {
				p.fail(notLatin1)
			}
			b = append(b, byte(letter))
		}
		return string(b)
	case pyBytes:
		if t.kind == utf8Text {
			t.kind = latin1Text
			return t
		}
	}
	p.fail("a text to encode is missing")
	return nil
}

const notLatin1 = "it has a letter where bytes are that stands for none"

// laid are bytes as a file of their own, in which they lie as they are.
func (b pyBytes) laid(f file, keep *closers) (file, error) {
	within := io.NewSectionReader(f, b.at, b.n)
	if b.kind != latin1Text {
		return file{within, nil, b.n}, nil
	}
	var n int64
	copied, err := keep.temporary(func(w io.Writer) error {
		n = 0
		out := bufio.NewWriter(w)
		for r := bufio.NewReaderSize(io.NewSectionReader(f, b.at, b.n), 1<<16); ; n++ {
			letter, _, err := r.ReadRune()
			switch {
			case err == io.EOF:
				return out.Flush()
			case err != nil:
				return fault.Reason(err)
			case letter > 0xff:
				return errors.New(notLatin1)
			}
			out.WriteByte(byte(letter)) // Flush has its error
		}
	})
	if err != nil {
		return file{}, err
	}
	return file{copied, nil, n}, nil
}

// build gives the last value its state. A type's is only its byte order, which single bytes have none of.
func (p *pickle) build(state any) {
	if _, ok := p.top().(pyType); ok {
		return
	}
	array, isArray := p.top().(*pyArray)
	s, isState := state.(*pyList)
	if isArray && isState && len(s.items) == 5 { // version, shape, type, Fortran order, data
		array.fill(p, s.items[1], s.items[2], s.items[3], s.items[4])
		return
	}
	p.fail("an array's description is missing")
}

func (a *pyArray) fill(p *pickle, shape, of, columns, data any) {
	var ok [4]bool
	a.shape, ok[0] = wholes(shape)
	a.of, ok[1] = of.(pyType)
	a.columns, ok[2] = columns.(bool)
	a.data, ok[3] = data.(pyBytes)
	if ok != [4]bool{true, true, true, true} || a.data.kind == utf8Text {
		p.fail("an array's description is missing")
	}
}

// wholes are the items of a tuple or a list, where all of them are whole numbers.
func wholes(v any) ([]int, bool) {
	list, ok := v.(*pyList)
	if !ok {
		return nil, false
	}
	numbers := make([]int, len(list.items))
	for i, item := range list.items {
		if numbers[i], ok = item.(int); !ok {
			return nil, false
		}
	}
	return numbers, true
}
