package vnnlib

import (
	"bytes"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"selfheal/harness/folder"
	"selfheal/internal/atomicfile"
	"selfheal/internal/checksum"
	"selfheal/internal/fault"
	"selfheal/internal/input"
)

// Category is a folder of questions as the competition gives them. A line of instances.csv has a network, a property
// and seconds; paths are within the folder. A file packed by gzip may be named without its ending.
type Category struct {
	Folder string
	// Out is a CSV file with a line for each question: its answer and the seconds it took. Counterexamples are files
	// in the folder Out.sat. A question is not asked again if Out has an answer with a right checksum, or a
	// counterexample that holds.
	Out             string
	atomicfile.Rule               // the files that may be replaced
	Timeout         time.Duration // instead of the questions' own times; 0: their own
	Query                         // without Model, Spec and Point
	// Told is called after each answer, also for existing answers.
	Told func(done, of int, a Answered)

	sums map[string]uint32 // of files, by path, size and time
}

// Answered is a line of a category's answers.
type Answered struct {
	Model, Spec string // as instances.csv names them
	Timeout     string // in seconds
	Answer      string // "error" if the question cannot be asked
	Seconds     float64
	Point       string // the counterexample's file in Out.sat
	Sum         string // CRC-32C of the other columns and of the two files; "" in files of earlier versions
}

var columns = []string{"network", "property", "timeout", "answer", "seconds", "counterexample", "crc32c"}

func (a Answered) row() []string {
	return []string{a.Model, a.Spec, a.Timeout, a.Answer, strconv.FormatFloat(a.Seconds, 'f', 2, 64), a.Point, a.Sum}
}

// failed is the answer to a question that cannot be asked.
const failed answer = "error"

// patience is how long an answered question may take to end.
const patience = 3 * time.Second

// errRuntime is an error of the runtime, without which no question can be asked.
type errRuntime struct{ error }

// most bounds instances.csv and the answers.
const most = 64 << 20

// Ask answers the remaining questions, in order. When ctx ends, it keeps the answers so far.
func (c *Category) Ask(ctx context.Context) error {
	questions, err := c.questions()
	if err != nil {
		return err
	}
	if err := c.mayWrite(questions); err != nil {
		return err
	}
	lock, err := folder.LockFolder(c.points(), "run")
	if err != nil {
		return err
	}
	defer lock.Free()
	rows, err := c.answered(questions)
	if err == nil {
		err = c.mayPoint(questions, rows)
	}
	if err != nil {
		return err
	}
	for i, q := range questions {
		var before Answered
		if i < len(rows) {
			before = rows[i]
		}
		a := before
		if !c.stands(before) {
			if a, err = c.ask(ctx, i, q, before); err != nil {
				return err
			}
		}
		if i == len(rows) {
			rows = append(rows, a)
		}
		if rows[i] = a; a != before {
			if err := c.write(rows); err != nil {
				return err
			}
		}
		c.Told(i+1, len(questions), a)
	}
	return nil
}

// stands reports whether an earlier answer is kept without looking at the network: it is not a counterexample, and
// its checksum is right.
func (c *Category) stands(a Answered) bool {
	return slices.Contains([]answer{unsat, unknown, timeout, failed}, answer(a.Answer)) && a.Seconds >= 0 &&
		!math.IsInf(a.Seconds, 1) && a.Point == "" && a.Sum == c.sum(a)
}

func (c *Category) sum(a Answered) string {
	a.Sum = ""
	return fmt.Sprintf("%08x", checksum.Of(fmt.Appendf(nil, "%q %08x %08x", a.row(), c.sumFile(a.Model),
		c.sumFile(a.Spec))))
}

// sumFile returns a file's checksum, or 0 if it can't be read.
func (c *Category) sumFile(name string) uint32 {
	path := c.unpacked(name)
	f, err := input.Open(path)
	if err != nil {
		return 0
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return 0
	}
	key := fmt.Sprint(path, info.Size(), info.ModTime())
	if _, known := c.sums[key]; !known {
		_, sum, err := checksum.Read(f)
		if err != nil {
			return 0
		}
		if c.sums == nil {
			c.sums = map[string]uint32{}
		}
		c.sums[key] = sum
	}
	return c.sums[key]
}

// mayWrite returns an error if the answers or the folder of counterexamples are an input or a link. The content of
// the answers is checked later.
func (c *Category) mayWrite(questions []Answered) error {
	for _, q := range questions {
		c.Inputs = append(c.Inputs, c.unpacked(q.Model), c.unpacked(q.Spec))
	}
	if err := c.answers().May(); err != nil {
		return err
	}
	if info, err := os.Lstat(c.points()); err == nil && !info.IsDir() {
		return ErrProperty{fmt.Errorf("%s, for counterexamples, is no folder; choose another --out", c.points())}
	}
	return nil
}

// answers returns the file of the answers. [Category.answered] decides whether the program wrote it.
func (c *Category) answers() atomicfile.File {
	out := c.At(c.Out, "answers")
	out.Known = true
	return out
}

// mayPoint returns an error if a file is in the place of a coming counterexample.
func (c *Category) mayPoint(questions, rows []Answered) error {
	for i := range questions {
		to, name := c.In(c.points(), counterexample), pointOf(i)
		to.Known = i < len(rows) && rows[i].Point == name
		if err := to.May(name); err != nil {
			return err
		}
	}
	return nil
}

const counterexample = "counterexample" // the name for [atomicfile.Output]

// pointOf returns the file of question i's counterexample.
func pointOf(i int) string { return fmt.Sprintf("%d.txt", i+1) }

// points returns the folder of the counterexamples.
func (c *Category) points() string { return c.Out + ".sat" }

// questions reads instances.csv, or the folder's only file whose name ends so.
func (c *Category) questions() (all []Answered, err error) {
	name := filepath.Join(c.Folder, "instances.csv")
	if _, err := os.Stat(name); err != nil {
		others, _ := filepath.Glob(filepath.Join(c.Folder, "*instances.csv"))
		if len(others) != 1 {
			return nil, fmt.Errorf("%s: %w", name, fault.Reason(err))
		}
		name = others[0]
	}
	c.Inputs = append(c.Inputs, name)
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

// answered reads the existing answers, which belong to the first questions, in order. It does not check them.
func (c *Category) answered(questions []Answered) (rows []Answered, err error) {
	data, err := input.Read(c.Out, most)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	lines, err := csv.NewReader(bytes.NewReader(data)).ReadAll()
	other := err != nil || len(lines) == 0 || len(lines)-1 > len(questions) ||
		!slices.Equal(lines[0], columns) && !slices.Equal(lines[0], columns[:len(columns)-1]) // of earlier versions
	for i := 1; i < len(lines) && !other; i++ {
		l := append(lines[i], "")
		seconds, bad := strconv.ParseFloat(l[4], 64)
		if bad != nil {
			seconds = math.NaN()
		}
		a := Answered{Model: l[0], Spec: l[1], Timeout: l[2], Answer: l[3], Seconds: seconds, Point: l[5], Sum: l[6]}
		q := questions[i-1]
		other = a.Model != q.Model || a.Spec != q.Spec || a.Timeout != c.time(q)
		rows = append(rows, a)
	}
	switch {
	case other && c.Force:
		return nil, nil
	case other:
		return nil, ErrProperty{fmt.Errorf("%s: holds other than answers to these questions with these times; "+
			"choose another --out or add --force", c.Out)}
	}
	return rows, nil
}

func (c *Category) time(q Answered) string {
	if c.Timeout > 0 {
		return strconv.FormatFloat(c.Timeout.Seconds(), 'f', -1, 64)
	}
	return q.Timeout
}

// ask answers question i. It tries an earlier counterexample first.
func (c *Category) ask(ctx context.Context, i int, a, before Answered) (Answered, error) {
	q, begun := c.Query, time.Now()
	a.Timeout = c.time(a)
	seconds, err := strconv.ParseFloat(a.Timeout, 64)
	if err != nil {
		return a, err
	}
	limited, stop := context.WithTimeout(ctx, time.Duration(seconds*float64(time.Second)))
	defer stop()
	q.Model, q.Spec = c.unpacked(a.Model), c.unpacked(a.Spec)
	points := c.In(c.points(), counterexample)
	if answer(before.Answer) == sat && before.Point == pointOf(i) {
		points.Known = true // even if somebody changed it
		if info, err := os.Lstat(points.Path(before.Point)); err == nil && info.Mode().IsRegular() {
			q.Point, _ = input.Read(points.Path(before.Point), most)
		}
	}
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
	case <-ended: // the next question has all cores
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
		a.Point = pointOf(i)
		if text := []byte(r.String()); !bytes.Equal(text, q.Point) {
			if err := points.WriteSynced(a.Point, text); err != nil {
				return a, err
			}
		} else if before.Seconds >= 0 && !math.IsInf(before.Seconds, 1) {
			a.Seconds = before.Seconds
		}
	}
	a.Answer = string(r.answer)
	a.Seconds = math.Round(100*a.Seconds) / 100 // as it is written
	a.Sum = c.sum(a)
	return a, nil
}

// unpacked returns the path of a file, or of its packed form.
func (c *Category) unpacked(name string) string {
	at := filepath.Join(c.Folder, filepath.FromSlash(name))
	if _, err := os.Stat(at); err != nil {
		if _, err := os.Stat(at + ".gz"); err == nil {
			return at + ".gz"
		}
	}
	return at
}

func (c *Category) write(done []Answered) error {
	var out bytes.Buffer
	w := csv.NewWriter(&out)
	_ = w.Write(columns) // into memory: no error
	for _, a := range done {
		_ = w.Write(a.row())
	}
	w.Flush()
	return c.answers().WriteSynced(out.Bytes())
}
