package folder

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"selfheal/attacks"
	"selfheal/harness/cell"
	"selfheal/harness/result"
	"selfheal/internal/journal"
)

// Key identifies a block of the journal. Fields without meaning for a kind of block are empty.
type Key struct {
	Of        string `json:"of"` // the kind of block
	cell.Made        // the images or certificate, or the classifier
	Part      string `json:"part,omitempty"` // a component, a control, a file
	Number    int    `json:"number,omitempty"`
	// By is the certificate that images are checked against.
	By     cell.Made              `json:"by,omitzero"`
	Solver *result.SolverSettings `json:"solver,omitempty"`
}

// JSON returns the key's text in the journal. Blocks are found by this text, so the order of its fields is fixed.
func (k Key) JSON() string {
	var by json.RawMessage
	if k.By != (cell.Made{}) {
		by = object(made(k.By))
	}
	return string(object(slices.Concat([]field{{"of", k.Of}}, made(k.Made),
		[]field{{"part", k.Part}, {"number", k.Number}, {"by", by}, {"solver", k.Solver}})))
}

// field is a key and value of a JSON object.
type field struct {
	name  string
	value any
}

func made(m cell.Made) []field {
	return []field{{"dataset", m.Dataset}, {"model", m.Model}, {"attack", m.Attack}, {"epsilon", m.Epsilon},
		{"defense", m.Defense}, {"mode", m.Mode}, {"seed", m.Seed}, {"source", m.Source}, {"suite", m.Suite}}
}

// object returns the JSON of the non-zero fields, in their order.
func object(fields []field) []byte {
	text := []byte("{")
	for _, f := range fields {
		if !reflect.ValueOf(f.value).IsZero() {
			data, _ := json.Marshal(f.value) // strings and finite numbers
			text = fmt.Appendf(text, "%q:%s,", f.name, data)
		}
	}
	return append(bytes.TrimSuffix(text, []byte(",")), '}')
}

// String describes the block in messages.
func (k Key) String() string {
	text := strings.TrimSpace(k.Of + " " + k.Part)
	for _, of := range [][2]string{{"suite", k.Suite}, {"dataset", k.Dataset}, {"model", k.Model}, {"attack", k.Attack},
		{"defense", k.Defense}, {"certificate", k.By.Attack}} {
		if of[1] != "" {
			text += ", " + of[0] + " " + of[1]
		}
	}
	if k.Epsilon != 0 {
		text += ", epsilon " + k.Epsilon.String()
	}
	if k.Seed != 0 {
		text += fmt.Sprintf(", seed %d", k.Seed)
	}
	return text
}

// As returns the same key for another kind of block.
func (k Key) As(kind string) Key {
	k.Of = kind
	return k
}

// The kinds of blocks that other packages read.
const (
	Classifier = "classifier" // a classifier's [open.Info] for a merge
	Cost       = "cost"       // of a pass of an attacked classifier
	Images     = "images"     // ids and labels of a shard's images
	Saved      = "saved"      // the checksum of a file
	Along      = "along"      // whether an attack's oracle has another gradient, whose name follows
)

// Facts are the beginnings of the kinds that are the same in every shard.
var Facts = []string{Classifier, Cost, Along}

// ParseKey reads a key of the journal.
func ParseKey(text string) (k Key, err error) { return k, json.Unmarshal([]byte(text), &k) }

// Journal is a run's journal, by keys.
type Journal struct {
	*journal.Journal
	// Complete says that nothing more is computed: work that is not in the journal is a [Lacks].
	Complete bool
}

func (j *Journal) Block(k Key) *journal.Block { return j.Journal.Block(k.JSON()) }

// Vectors returns the images of a key, each of so many values, or nil in a complete journal, which has none.
func (j *Journal) Vectors(name string, size int) (*journal.Vectors, error) {
	if j.Complete {
		return nil, nil
	}
	return j.Journal.Vectors(name, size)
}

// Lacks is the error about work that no shard has done.
type Lacks struct {
	Shard int
	Image int    // its id
	What  string // the work, if it is done once for a whole set
}

// Error names the shard that lacks it, if that is known.
func (l Lacks) Error() string {
	if l.What != "" {
		return fmt.Sprintf("no shard has what is done once for a whole set (%s): run them again, they continue", l.What)
	}
	return fmt.Sprintf("shard %d lacks image %d: run it again, it continues", l.Shard, l.Image)
}

// Set is a set of images, each of which belongs to a shard.
type Set interface {
	Len() int
	ID(i int) int
	Owner(i int) int
	Read(i int) (attacks.Image, error)
}

type unit[T any] struct {
	Image   int     `json:"i"` // its index in the data set
	Seconds float64 `json:"t"` // spent on all images of the block so far
	Value   T       `json:"v"`
}

// Each calls a function with the values of a block, image by image. The images' indices come unchecked from the file.
func Each[T any](j *Journal, k Key, each func(i int, seconds float64, value T)) error {
	return j.Block(k).Read(func(line []byte) error {
		var one unit[T]
		err := json.Unmarshal(line, &one)
		if err == nil {
			each(one.Image, one.Seconds, one.Value)
		}
		return err
	})
}

// Units are the results of a block of the journal, image by image.
type Units[T any] struct {
	Before float64   // seconds of work in earlier runs
	Values map[int]T // the results, unless take is called with them
	block  *journal.Block
	set    Set
	mu     sync.Mutex
	take   func(i int, value T) bool
	began  time.Time
}

// Recall calls take with the results that a block holds of a set's images. take returns false to have one made again;
// if it is nil, the results go to Values. todo lists the given images without result. In a complete journal there
// must be none, or the error is a [Lacks].
func Recall[T any](j *Journal, k Key, set Set, images []int, take func(i int, value T) bool) (u *Units[T], todo []int,
	err error) {
	u = &Units[T]{Values: map[int]T{}, block: j.Block(k), set: set, take: take}
	if take == nil {
		u.take = func(i int, value T) bool {
			u.Values[i] = value
			return true
		}
	}
	done := map[int]bool{}
	err = Each(j, k, func(i int, seconds float64, value T) {
		u.Before = max(u.Before, seconds)
		if i >= 0 && i < set.Len() && !done[i] {
			done[i] = u.take(i, value)
		}
	})
	todo = slices.DeleteFunc(slices.Clone(images), func(i int) bool { return done[i] })
	if err == nil && j.Complete && len(todo) > 0 {
		err = Lacks{Shard: set.Owner(todo[0]), Image: set.ID(todo[0])}
	}
	u.began = time.Now()
	return u, todo, err
}

// Runner calls a function for some images, several at a time.
type Runner func(ctx context.Context, images []int, do func(ctx context.Context, i int) error) error

// Do makes the results of images, writes them to the disk and calls take one at a time.
func (u *Units[T]) Do(ctx context.Context, images []int, by Runner,
	make func(ctx context.Context, im attacks.Image, i int) (T, error)) error {
	return by(ctx, images, func(ctx context.Context, i int) error {
		im, err := u.set.Read(i)
		if err != nil {
			return err
		}
		value, err := make(attacks.About(ctx, im), im, i)
		if err == nil {
			err = u.Done(i, value)
		}
		if err != nil {
			return err
		}
		u.mu.Lock()
		defer u.mu.Unlock()
		u.take(i, value)
		return nil
	})
}

// Done writes an image's result to the disk.
func (u *Units[T]) Done(i int, value T) error {
	return u.block.Append(unit[T]{i, u.Seconds(), value})
}

// Seconds returns the time spent on the block's images, by this run and those before it.
func (u *Units[T]) Seconds() float64 { return u.Before + time.Since(u.began).Seconds() }

// Once returns the value that the journal holds under a key, or makes it and writes it there. Its JSON must not be a
// string.
func Once[T any](j *Journal, k Key, make func() (T, error)) (value T, err error) {
	block := j.Block(k)
	err = block.Read(func(line []byte) error { return json.Unmarshal(line, &value) })
	switch {
	case err != nil || block.Written():
		return value, err
	case j.Complete:
		return value, Lacks{What: k.String()}
	}
	if value, err = make(); err == nil {
		err = block.Append(value)
	}
	return value, err
}

// Timed is a value and the time that it took to make.
type Timed[T any] struct {
	Seconds float64 `json:"t"`
	Value   T       `json:"v"`
}

// OnceTimed is [Once] for a value with its time.
func OnceTimed[T any](j *Journal, k Key, make func() (T, error)) (Timed[T], error) {
	return Once(j, k, func() (Timed[T], error) {
		start := time.Now()
		v, err := make()
		return Timed[T]{time.Since(start).Seconds(), v}, err
	})
}
