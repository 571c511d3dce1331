package folder

import (
	"encoding/json"
	"fmt"
	"time"

	"selfheal/harness/plan"
	"selfheal/harness/result"
	"selfheal/internal/journal"
)

// Key says what a block of the journal is about. Fields that mean nothing for a kind of block are empty.
type Key struct {
	Of       string `json:"of"` // the kind of block
	plan.Key        // what was made, or the classifier
	Suite    string `json:"suite,omitempty"`
	Part     string `json:"part,omitempty"` // a component, a control, a file
	Number   int    `json:"number,omitempty"`
	// By is the certificate that images are held against.
	By     plan.Key               `json:"by,omitzero"`
	Solver *result.SolverSettings `json:"solver,omitempty"`
}

// String is the key in the journal.
func (k Key) String() string {
	text, _ := json.Marshal(k) // strings and finite numbers
	return string(text)
}

// As is the same key of another kind of block.
func (k Key) As(kind string) Key {
	k.Of = kind
	return k
}

// The kinds of blocks that others than their writers ask for.
const (
	Classifier = "classifier" // what a merge needs to know of one
	Cost       = "cost"       // of a pass of an attacked classifier
	Images     = "images"     // the ids and labels of a shard's
	Saved      = "saved"      // the checksum of a file
)

// ParseKey reads a key of the journal.
func ParseKey(text string) (k Key, err error) { return k, json.Unmarshal([]byte(text), &k) }

// Journal is a run's, by keys.
type Journal struct {
	*journal.Journal
	// Complete says that nothing is made any more: work that is not in the journal is a [Lacks].
	Complete bool
}

// Block is a key's.
func (j *Journal) Block(k Key) *journal.Block { return j.Journal.Block(k.String()) }

// Vectors are the images of a key, of so many values each; nil in a complete journal, which has none.
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
	What  string // is made once for a whole set
}

// Error says which shard lacks it, where that is known.
func (l Lacks) Error() string {
	if l.What != "" {
		return fmt.Sprintf("no shard has what is done once for a whole set (%s): run them again, they continue", l.What)
	}
	return fmt.Sprintf("shard %d lacks image %d: run it again, it continues", l.Shard, l.Image)
}

// Set is a set of images, each of a shard.
type Set interface {
	Owner(i int) int
	ID(i int) int
}

// Open holds that work on images of a set may still be done.
func (j *Journal) Open(set Set, todo []int) error {
	if j.Complete && len(todo) > 0 {
		return Lacks{Shard: set.Owner(todo[0]), Image: set.ID(todo[0])}
	}
	return nil
}

// unit is what a journal's line says of one image.
type unit[T any] struct {
	Image   int     `json:"i"` // its place in the data set
	Seconds float64 `json:"t"` // of work on all images of the block until then
	Value   T       `json:"v"`
}

// Units are a block of the journal with the images that are done.
type Units[T any] struct {
	Before float64 // seconds of work, in runs that were ended
	block  *journal.Block
	began  time.Time
}

// Recall opens a block and gives what it holds to a function, image by image: their places in the set are whatever the
// file says.
func Recall[T any](j *Journal, k Key, each func(i int, value T)) (*Units[T], error) {
	u := &Units[T]{block: j.Block(k)}
	err := u.block.Read(func(line []byte) error {
		var one unit[T]
		err := json.Unmarshal(line, &one)
		if err == nil {
			u.Before = max(u.Before, one.Seconds)
			each(one.Image, one.Value)
		}
		return err
	})
	u.began = time.Now()
	return u, err
}

// Done puts an image's unit on the disk.
func (u *Units[T]) Done(i int, value T) error {
	return u.block.Append(unit[T]{i, u.Seconds(), value})
}

// Seconds is how long the block's images were worked on, by this run and those before it.
func (u *Units[T]) Seconds() float64 { return u.Before + time.Since(u.began).Seconds() }

// Once gives what the journal holds under a key, or makes it and puts it there. Its JSON is no text.
func Once[T any](j *Journal, k Key, make func() (T, error)) (value T, err error) {
	block := j.Block(k)
	err = block.Read(func(line []byte) error { return json.Unmarshal(line, &value) })
	switch {
	case err != nil || block.Written():
		return value, err
	case j.Complete:
		return value, Lacks{What: k.Of}
	}
	if value, err = make(); err == nil {
		err = block.Append(value)
	}
	return value, err
}

// Timed is a value and how long it took to make it.
type Timed[T any] struct {
	Seconds float64 `json:"t"`
	Value   T       `json:"v"`
}

// OnceTimed is [Once] of a value with its time.
func OnceTimed[T any](j *Journal, k Key, make func() (T, error)) (Timed[T], error) {
	return Once(j, k, func() (Timed[T], error) {
		start := time.Now()
		v, err := make()
		return Timed[T]{time.Since(start).Seconds(), v}, err
	})
}
