package harness

import (
	"encoding/json"
	"time"

	"selfheal/internal/journal"
)

// unit is what a journal's line says of one image.
type unit[T any] struct {
	Image   int     `json:"i"` // its place in the data set
	Seconds float64 `json:"t"` // of work on all images of the block until then
	Value   T       `json:"v"`
}

// units are a block of the journal with the images that are done.
type units[T any] struct {
	block  *journal.Block
	before float64 // seconds of work, in runs that were ended
	began  time.Time
}

// recall opens a block and gives what it holds to a function.
func recall[T any](j *journal.Journal, key string, each func(i int, value T)) (*units[T], error) {
	u := &units[T]{block: j.Block(key)}
	err := u.block.Read(func(line []byte) error {
		var one unit[T]
		err := json.Unmarshal(line, &one)
		if err == nil {
			u.before = max(u.before, one.Seconds)
			each(one.Image, one.Value)
		}
		return err
	})
	u.began = time.Now()
	return u, err
}

// done puts an image's unit on the disk.
func (u *units[T]) done(i int, value T) error {
	return u.block.Append(unit[T]{i, u.seconds(), value})
}

// seconds is how long the block's images were worked on, by this run and those before it.
func (u *units[T]) seconds() float64 { return u.before + time.Since(u.began).Seconds() }

// once gives what the journal holds under a key, or makes it and puts it there. Its JSON is no text.
func once[T any](r *run, key string, make func() (T, error)) (value T, err error) {
	block := r.journal.Block(key)
	err = block.Read(func(line []byte) error { return json.Unmarshal(line, &value) })
	switch {
	case err != nil || block.Written():
		return value, err
	case r.merging:
		return value, lacks{what: key}
	}
	if value, err = make(); err == nil {
		err = block.Append(value)
	}
	return value, err
}

// timed is a value and how long it took to make it.
type timed[T any] struct {
	Seconds float64 `json:"t"`
	Value   T       `json:"v"`
}

// clocked times what makes a value.
func clocked[T any](make func() (T, error)) (timed[T], error) {
	start := time.Now()
	v, err := make()
	return timed[T]{time.Since(start).Seconds(), v}, err
}
