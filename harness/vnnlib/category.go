package vnnlib

import (
	"bytes"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"selfheal/harness/folder"
	"selfheal/internal/atomicfile"
	"selfheal/internal/fault"
	"selfheal/internal/input"
)

// Category is a folder of questions as the competition gives them: instances.csv has a line for each of network,
// property and seconds, with paths within the folder. A file that lies there packed by gzip may be named without its
// ending.
type Category struct {
	Folder string
	// Out is a CSV file: a question a line with its answer and how many seconds that took. Counterexamples are files in
	// the folder Out.sat. Questions that Out answers are not asked again.
	Out     string
	Timeout time.Duration // instead of the questions' own times; 0: these
	Query                 // but for Model and Spec
	// Told is called after each answer, also of those that are there.
	Told func(done, of int, a Answered)
}

// Answered is a line of a category's answers.
type Answered struct {
	Model, Spec string // as instances.csv names them
	Timeout     string // in seconds
	Answer      string // "error" where the question cannot be asked
	Seconds     float64
	Point       string // the counterexample's file in Out.sat
}

var columns = []string{"network", "property", "timeout", "answer", "seconds", "counterexample"}

func (a Answered) row() []string {
	return []string{a.Model, a.Spec, a.Timeout, a.Answer, strconv.FormatFloat(a.Seconds, 'f', 2, 64), a.Point}
}

// failed is the answer to a question that cannot be asked.
const failed answer = "error"

// patience is how long a question is waited for that has been answered.
const patience = 3 * time.Second

// errRuntime is an error of the runtime: no question can be asked.
type errRuntime struct{ error }

// most is how large instances.csv and the answers may be.
const most = 64 << 20

// Ask answers the questions that are left, in order. At ctx's end it keeps the answers so far.
func (c *Category) Ask(ctx context.Context) error {
	questions, err := c.questions()
	if err != nil {
		return err
	}
	lock, err := folder.LockFolder(c.points(), "run")
	if err != nil {
		return err
	}
	defer lock.Free()
	done, err := c.answered(questions)
	if err != nil {
		return err
	}
	for i, a := range done {
		c.Told(i+1, len(questions), a)
	}
	for i := len(done); i < len(questions); i++ {
		a, err := c.ask(ctx, i, questions[i])
		if err == nil {
			done = append(done, a)
			err = c.write(done)
		}
		if err != nil {
			return err
		}
		c.Told(i+1, len(questions), a)
	}
	return nil
}

// points is the folder of the counterexamples.
func (c *Category) points() string { return c.Out + ".sat" }

// questions reads instances.csv, in the folder or the only file there whose name ends so.
func (c *Category) questions() (all []Answered, err error) {
	name := filepath.Join(c.Folder, "instances.csv")
	if _, err := os.Stat(name); err != nil {
		others, _ := filepath.Glob(filepath.Join(c.Folder, "*instances.csv"))
		if len(others) != 1 {
			return nil, fmt.Errorf("%s: %w", name, fault.Reason(err))
		}
		name = others[0]
	}
	data, err := input.Read(name, most)
	if err != nil {
		return nil, err
	}
	rows := csv.NewReader(bytes.NewReader(data))
	rows.FieldsPerRecord, rows.TrimLeadingSpace = 3, true
	lines, err := rows.ReadAll()
	if err != nil {
		return nil, ErrProperty{fmt.Errorf("%s: %w", name, err)}
	}
	for i, l := range lines {
		a := Answered{Model: l[0], Spec: l[1], Timeout: strings.TrimSpace(l[2])}
		seconds, err := strconv.ParseFloat(a.Timeout, 64)
		switch {
		case err != nil || !(seconds > 0 && seconds < 1e9):
			err = fmt.Errorf("%q is not a time in seconds", a.Timeout)
		case !filepath.IsLocal(a.Model) || !filepath.IsLocal(a.Spec):
			err = errors.New("a path leads out of the folder")
		}
		if err != nil {
			return nil, ErrProperty{fmt.Errorf("%s, line %d: %w", name, i+1, err)}
		}
		all = append(all, a)
	}
	if len(all) == 0 {
		return nil, ErrProperty{fmt.Errorf("%s: holds no question", name)}
	}
	return all, nil
}

// answered reads the answers that are there: the first ones, in order.
func (c *Category) answered(questions []Answered) (done []Answered, err error) {
	data, err := input.Read(c.Out, most)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	lines, err := csv.NewReader(bytes.NewReader(data)).ReadAll()
	other := err != nil || len(lines) == 0 || !slices.Equal(lines[0], columns) || len(lines)-1 > len(questions)
	for i := 1; i < len(lines) && !other; i++ {
		l := lines[i]
		seconds, bad := strconv.ParseFloat(l[4], 64)
		a := Answered{Model: l[0], Spec: l[1], Timeout: l[2], Answer: l[3], Seconds: seconds, Point: l[5]}
		q := questions[i-1]
		other = bad != nil || a.Model != q.Model || a.Spec != q.Spec || a.Timeout != c.time(q)
		done = append(done, a)
	}
	if other {
		return nil, ErrProperty{fmt.Errorf("%s: holds other than answers to these questions with these times; "+
			"choose another --out", c.Out)}
	}
	return done, nil
}

// time is a question's, in seconds.
func (c *Category) time(q Answered) string {
	if c.Timeout > 0 {
		return strconv.FormatFloat(c.Timeout.Seconds(), 'f', -1, 64)
	}
	return q.Timeout
}

// ask answers question i.
func (c *Category) ask(ctx context.Context, i int, a Answered) (Answered, error) {
	q, begun := c.Query, time.Now()
	a.Timeout = c.time(a)
	seconds, err := strconv.ParseFloat(a.Timeout, 64)
	if err != nil {
		return a, err
	}
	limited, stop := context.WithTimeout(ctx, time.Duration(seconds*float64(time.Second)))
	defer stop()
	q.Model, q.Spec = c.unpacked(a.Model), c.unpacked(a.Spec)
	var broken errRuntime
	q.Runtime = func(ctx context.Context) error {
		if err := c.Query.Runtime(ctx); err != nil {
			return errRuntime{err}
		}
		return nil
	}
	r, ended, err := begin(limited, q)
	a.Seconds = time.Since(begun).Seconds()
	stop()
	select {
	case <-ended: // the next question has the cores to itself
	case <-ctx.Done():
	case <-time.After(patience):
		c.Note(a.Model + " " + a.Spec + ": something is still computed, beside the next question")
	}
	switch {
	case ctx.Err() != nil:
		return a, context.Cause(ctx)
	case errors.As(err, &broken):
		return a, broken.error
	case err != nil:
		c.Note(err.Error())
		r = Result{answer: failed}
	case r.answer == sat:
		a.Point = fmt.Sprintf("%d.txt", i+1)
		if err := atomicfile.In(c.points()).WriteSynced(a.Point, []byte(r.String())); err != nil {
			return a, fmt.Errorf("%s: %w", filepath.Join(c.points(), a.Point), err)
		}
	}
	a.Answer = string(r.answer)
	return a, nil
}

// unpacked is the path of a file, or of the packed one in its place.
func (c *Category) unpacked(name string) string {
	at := filepath.Join(c.Folder, filepath.FromSlash(name))
	if _, err := os.Stat(at); err != nil {
		if _, err := os.Stat(at + ".gz"); err == nil {
			return at + ".gz"
		}
	}
	return at
}

// write replaces the file of the answers.
func (c *Category) write(done []Answered) error {
	var out bytes.Buffer
	w := csv.NewWriter(&out)
	_ = w.Write(columns) // to memory
	for _, a := range done {
		_ = w.Write(a.row())
	}
	w.Flush()
	if err := atomicfile.WriteSynced(c.Out, out.Bytes()); err != nil {
		return fmt.Errorf("%s: %w", c.Out, err)
	}
	return nil
}
