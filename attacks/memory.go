package attacks

import (
	"bytes"
	"encoding"
	"encoding/binary"
	"encoding/json"
	"errors"
	"time"

	"selfheal/internal/vector"
)

// Memory keeps an attack's state on one image, so that a later run goes on where this one ended. APGD, FAB, Square and
// PGD use it; other attacks begin anew. The result is the same bit for bit.
type Memory struct {
	Every time.Duration            // how often the state is kept at most
	Keep  func(state []byte) error // called between two questions; an error ends the attack
	From  []byte                   // what Keep got last in an earlier run of the same attack on the image; nil for none

	last time.Time
}

// ErrState is returned for a [Memory] whose From is no state of the attack.
var ErrState = errors.New("is no state of this attack")

// place says how far an attack has come. An attack uses the counters that it has.
type place struct {
	Targets                      []int // classes to attack, in order; nil before they are ranked
	Target, Restart, Stage, Step int
	Inside                       bool // the run, or its stage, has begun
	Known, Crossed               bool // FAB's: see [boundaryWalk.run]
}

// resume names the variables that make up an attack's state between two of its questions, as pointers. If an earlier
// run has kept them, they get their values back. Each call of [attempt.keep] then keeps them.
func (t *attempt) resume(variables ...any) error {
	if t.Memory == nil {
		return nil
	}
	t.state = append([]any{&t.at, &t.res, &t.adv, &t.begins}, variables...)
	t.Memory.last = time.Now()
	if t.Memory.From == nil {
		return nil
	}
	r := bytes.NewReader(t.Memory.From)
	for _, v := range t.state {
		if !decode(r, v) {
			return ErrState
		}
	}
	if r.Len() > 0 {
		return ErrState
	}
	return nil
}

// keep hands the attack's state to its memory, if it is time.
func (t *attempt) keep() error {
	if t.state == nil || time.Since(t.Memory.last) < t.Memory.Every {
		return nil
	}
	var b []byte
	for _, v := range t.state {
		b = encode(b, v)
	}
	t.Memory.last = time.Now()
	return t.Memory.Keep(b)
}

var order = binary.LittleEndian

// encode appends a variable: the bits of floating-point numbers, a generator's own form, or JSON.
func encode(b []byte, v any) []byte {
	var text []byte
	switch v := v.(type) {
	case *[]float32:
		return numbers(b, *v)
	case *[]float64:
		return numbers(b, *v)
	case *vector.Blocks:
		return numbers(b, *v)
	case *float32, *float64:
		return bits(b, v)
	case encoding.BinaryMarshaler:
		text, _ = v.MarshalBinary() // a generator always has one
	default:
		text, _ = json.Marshal(v) // counts, flags and finite numbers
	}
	return append(order.AppendUint32(b, uint32(len(text))), text...)
}

// numbers appends a vector with its length.
func numbers[V ~[]T, T any](b []byte, v V) []byte {
	return bits(order.AppendUint32(b, uint32(len(v))), []T(v))
}

// bits appends numbers of a fixed size.
func bits(b []byte, v any) []byte {
	b, _ = binary.Append(b, order, v)
	return b
}

// decode reads a variable and reports whether it was there.
func decode(r *bytes.Reader, v any) bool {
	var n uint32
	sized := func(width int) bool {
		return binary.Read(r, order, &n) == nil && int64(n)*int64(width) <= int64(r.Len())
	}
	switch v := v.(type) {
	case *[]float32:
		return sized(4) && fill(r, v, n)
	case *[]float64:
		return sized(8) && fill(r, v, n)
	case *vector.Blocks:
		return sized(8) && fill(r, (*[]uint64)(v), n)
	case *float32, *float64:
		return binary.Read(r, order, v) == nil
	}
	if !sized(1) {
		return false
	}
	text := make([]byte, n)
	_, err := r.Read(text)
	if g, ok := v.(encoding.BinaryUnmarshaler); ok {
		return err == nil && g.UnmarshalBinary(text) == nil
	}
	return err == nil && json.Unmarshal(text, v) == nil
}

// fill reads n numbers. A vector that is there keeps its length; one that is nil may be anything.
func fill[T any](r *bytes.Reader, v *[]T, n uint32) bool {
	if *v != nil && len(*v) != int(n) {
		return false
	}
	if *v == nil && n > 0 {
		*v = make([]T, n)
	}
	return n == 0 || binary.Read(r, order, *v) == nil
}
