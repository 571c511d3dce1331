package gate

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"selfheal/harness/cell"
	"selfheal/harness/config"
	"selfheal/harness/result"
	"selfheal/internal/atomicfile"
	"selfheal/internal/fault"
	"selfheal/internal/input"
)

// Schema names the version of the baseline file's layout.
const Schema = "selfheal.baseline/2"

// olderSchema is the schema of baselines without the settings that made their numbers.
const olderSchema = "selfheal.baseline/1"

// ErrOlder is returned for a file of an older version, with a baseline that has only its rules.
var ErrOlder = errors.New("does not say how its attacks and controls were made, as it is of an older version")

// Baseline holds the cells that results are compared with.
type Baseline struct {
	Schema string `json:"schema"`
	Run
	Gate config.Gate `json:"gate"`
	made
	Cells []Cell `json:"cells"` // sorted by suite, model, defense, attack and epsilon
}

// Run identifies a run.
type Run struct {
	Created  time.Time `json:"created"`  // when its run was made
	Selfheal string    `json:"selfheal"` // the version that made the run
	Seed     uint64    `json:"seed"`
}

// verdicts are a cell's. In JSON they are a list of lines, so that one image more or less is one line of a diff.
type verdicts string

const lineWidth = 100

func (v verdicts) MarshalJSON() ([]byte, error) {
	lines := []string{}
	for chunk := range slices.Chunk([]byte(v), lineWidth) {
		lines = append(lines, string(chunk))
	}
	return json.Marshal(lines)
}

func (v *verdicts) UnmarshalJSON(data []byte) error {
	var lines []string
	if err := json.Unmarshal(data, &lines); err != nil {
		return errors.New("verdicts must be a list of lines of 0 and 1")
	}
	*v = verdicts(strings.Join(lines, ""))
	return nil
}

// NewBaseline makes a baseline of a whole run. It refuses a run that lacks planned cells.
func NewBaseline(f *result.File, rules config.Gate) (*Baseline, error) {
	cells, err := cellsOf(f)
	if err != nil {
		return nil, err
	}
	if lacks := missing(f, cells); len(lacks) > 0 {
		return nil, fmt.Errorf("the run is not whole: it lacks %s; a baseline is made of a run that has ended",
			andMore(lacks))
	}
	if _, err := minimums(rules, cells); err != nil {
		return nil, err
	}
	if err := refuseFailures(f, rules); err != nil {
		return nil, err
	}
	b := &Baseline{Schema, Run{f.Created, f.Environment.Selfheal, f.Seed}, rules, selected(cells, f), cells}
	slices.SortFunc(b.Cells, func(x, y Cell) int { return cell.Compare(x.ID, y.ID) })
	return b, b.check()
}

// refuseFailures returns the error about cells whose gradients failed on standing images, or whose attack misses
// planted perturbations, unless the rules name the cells.
func refuseFailures(f *result.File, rules config.Gate) error {
	for _, c := range f.Cells {
		named := slices.ContainsFunc(rules.GradientFailures, func(text string) bool {
			p, err := config.ParseCellPattern(text)
			return err == nil && p.Matches(c.ID)
		})
		if c.Missed() && !named {
			return fmt.Errorf("suite %s, model %s, defense %s, attack %s: it finds %d of %d planted perturbations, so "+
				"the accuracy is not to be trusted; take a stronger attack, or take it all the same by "+
				"--set gate.gradient_failures=[%s]", c.Suite, c.Model, c.Defense, c.Attack, c.Planted.Found,
				c.Planted.N, c.Attack)
		}
		if c.GradientFailures > 0 && !named {
			return fmt.Errorf("suite %s, model %s, defense %s, attack %s: gradients failed on %d of the %d images "+
				"that stand, so the accuracy is at most %.4g; see its warnings, or take it all the same by "+
				"--set gate.gradient_failures=[%s]", c.Suite, c.Model, c.Defense, c.Attack, c.GradientFailures,
				c.Correct, c.Accuracy, c.Attack)
		}
	}
	return nil
}

var digest = regexp.MustCompile(`^[0-9a-f]{64}$`)

func (b *Baseline) check() error {
	if err := b.Gate.Set(); err != nil {
		return err
	}
	for name, d := range b.Datasets {
		if !digest.MatchString(d.SHA256) || d.N < 1 {
			return fmt.Errorf("dataset %q: n %d or sha256 %q is none", name, d.N, d.SHA256)
		}
	}
	for name, m := range b.Models {
		if !digest.MatchString(m.SHA256) {
			return fmt.Errorf("model %q: sha256 %q is none", name, m.SHA256)
		}
	}
	return checkCells(b.Cells, b.made)
}

// mostBytes bounds a baseline file. 10,000 cells of 10,000 images need half of it.
const mostBytes = 256 << 20

// Read reads a baseline file. It refuses a file that [Baseline.Write] would have written otherwise.
func Read(path string) (*Baseline, error) {
	data, err := input.Read(path, mostBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("there is no baseline %s; selfheal check --update --baseline %s DIR makes it "+
			"of a run: %w", path, path, fs.ErrNotExist)
	} else if err != nil {
		return nil, fmt.Errorf("baseline %s: %w", path, fault.Reason(err))
	}
	b, err := parse(data)
	if errors.Is(err, ErrOlder) {
		return b, fmt.Errorf("baseline %s %w; selfheal check --update --baseline %s DIR writes it anew of a run, "+
			"with its rules", path, err, path)
	}
	return b, fault.At("baseline "+path, err)
}

func parse(data []byte) (*Baseline, error) {
	head := struct {
		Schema string      `json:"schema"`
		Gate   config.Gate `json:"gate"`
	}{Gate: config.DefaultGate()}
	if err := json.Unmarshal(data, &head); err != nil {
		return nil, placed(err, data)
	}
	if head.Schema == olderSchema {
		return &Baseline{Gate: head.Gate}, ErrOlder
	}
	if head.Schema != Schema {
		return nil, fmt.Errorf("it has schema %q, this version reads %q", head.Schema, Schema)
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber() // the next decoding checks whether numbers fit
	if err := checkKeys(d, reflect.TypeFor[Baseline](), ""); err != nil {
		return nil, err
	}
	var b Baseline
	if err := json.Unmarshal(data, &b); err != nil {
		return nil, placed(err, data)
	}
	b.settle()
	return &b, b.check()
}

// settle gives cells of suites without controls their mode, as reading results does.
func (b *Baseline) settle() {
	controlled := result.Controlled(b.Cells, func(c Cell) cell.ID { return c.ID })
	for i, c := range b.Cells {
		b.Cells[i].Mode = result.AttackerOf(c.Mode, controlled[c.Suite])
	}
}

// placed adds the line at which JSON is broken to the error.
func placed(err error, data []byte) error {
	offset := int64(-1)
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		offset = syntax.Offset
	} else if kind, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		offset = kind.Offset
	}
	if offset < 0 || offset > int64(len(data)) {
		return err
	}
	return fmt.Errorf("line %d: %w", 1+bytes.Count(data[:offset], []byte{'\n'}), err)
}

// Same reports whether two baselines are equal, apart from when and by which version their runs were made.
func (b *Baseline) Same(other *Baseline) bool {
	x, y := *b, *other
	x.Created, x.Selfheal = y.Created, y.Selfheal
	mine, err := json.Marshal(x)
	its, itsErr := json.Marshal(y)
	return err == nil && itsErr == nil && bytes.Equal(mine, its)
}

// Write writes a baseline file, whole or not at all, and makes its folder. Callers do not write one that is the
// [Baseline.Same]. known says that an existing file is a baseline.
func (b *Baseline) Write(path string, rule atomicfile.Rule, known bool) error {
	to := rule.At(path, "baseline")
	to.Known = known
	data, err := json.MarshalIndent(b, "", " ")
	if err == nil {
		err = os.MkdirAll(to.Dir, 0o755)
	}
	if err == nil {
		err = to.Write(append(data, '\n'))
	}
	if err != nil {
		return fmt.Errorf("baseline %w", err)
	}
	return nil
}

// Changes counts the cells that are new, gone, or have other verdicts than in an older baseline.
func (b *Baseline) Changes(old *Baseline) (added, removed, changed int) {
	before := byKey(old.Cells)
	for _, c := range b.Cells {
		o, ok := before[c.Key()]
		delete(before, c.Key())
		switch {
		case !ok:
			added++
		case !reflect.DeepEqual(c, o):
			changed++
		}
	}
	return added, len(before), changed
}

// Images says how many images the rules need to pass, and how many the smallest cell has.
func (b *Baseline) Images() string {
	if b.Gate.MaxDrop == 0 {
		return "max_drop is 0: no number of images excludes every drop; a cell passes where network and verdicts are " +
			"the baseline's, or where it is significantly better"
	}
	fewest, t := b.Cells[0].N, newTests(b.Gate)
	for _, c := range b.Cells {
		fewest = min(fewest, c.N)
	}
	say := func(flips float64) string {
		if n := t.enough(flips); n > 0 {
			return thousands(n)
		}
		return "more than 10 million"
	}
	return fmt.Sprintf("images: at least %s a cell; a new network that is as good passes with probability %v "+
		"(max_drop %s points) with about %s where no verdict flips, %s where 1 %% flip", thousands(fewest), power,
		points(b.Gate.MaxDrop), say(0), say(0.01))
}
