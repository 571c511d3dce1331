package progress

import (
	"cmp"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"selfheal/control"
	"selfheal/harness/config"
	"selfheal/harness/result"
	"selfheal/models/ort"
)

// Event is something that a command reports while it works. Its fields with a JSON name are the attributes of its
// record for machines. Its String is the line for people, without its end; "" where they are told nothing.
type Event = fmt.Stringer

// kind is a row of the table of events.
type kind struct {
	of    Event // any value of its type
	name  string
	level slog.Level
	doc   string
}

// kinds is the table of events. The tables of docs/progress.md are made from it:
// go test ./harness/progress -run TestEvents -update
var kinds = []kind{
	{RunStarted{}, "run started", slog.LevelInfo, "every file is open, the first cell is next"},
	{RunContinues{}, "run continues", slog.LevelInfo, "the output folder holds this run, unfinished"},
	{RunIsThere{}, "run is there", slog.LevelInfo, "the output folder holds this run, finished: nothing is done"},
	{ImagesLost{}, "images lost", slog.LevelWarn, "images in the journal are damaged: they are attacked again"},
	{ProcessorsDiffer{}, "processors differ", slog.LevelWarn, "merged shards ran on several kinds of processor"},
	{JobSubmitted{}, "job submitted", slog.LevelInfo, "`submit` has given shards to the engine"},
	{JobFound{}, "job found", slog.LevelInfo, "they were given to it before"},
	{JobFollowed{}, "job followed", slog.LevelInfo, "how the shards go, every 15 seconds"},
	{EngineSilent{}, "engine silent", slog.LevelWarn, "the engine did not answer; it is asked again"},
	{ShardsFailed{}, "shards failed", slog.LevelWarn, "shards have ended unfinished: they are submitted again"},
	{JobGoesOn{}, "job goes on", slog.LevelInfo, "a signal has ended the following, not the job"},
	{ResultsStay{}, "results stay", slog.LevelWarn, "a run has ended early, and what was there is worth more"},
	{ComponentProgress{}, "component progress", slog.LevelInfo, "every 10 seconds while a component attacks"},
	{ComponentFinished{}, "component finished", slog.LevelInfo, "a component has attacked all its images"},
	{ImagesProven{}, "images proven", slog.LevelInfo, "bounds have decided images that attacks had left"},
	{CellFinished{}, "cell finished", slog.LevelInfo, "a cell has its verdicts"},
	{CellFailed{}, "cell failed", slog.LevelWarn, "a cell has no verdicts; the run goes on, and ends with exit code 1"},
	{CellWarned{}, "cell warning", slog.LevelWarn, "a cell has a warning of [warnings.md](warnings.md)"},
	{SeedFinished{}, "seed finished", slog.LevelInfo, "a cell has the verdicts of a further seed"},
	{SeedFailed{}, "seed failed", slog.LevelWarn, "a further seed has no verdicts; the run ends with exit code 1"},
	{SolverStudied{}, "solver studied", slog.LevelInfo, "a solver study has followed one solver"},
	{RunFinished{}, "run finished", slog.LevelInfo, "results and reports are written"},
	{FitStarted{}, "fit started", slog.LevelInfo, "a linear embedding is not in the cache"},
	{FitFinished{}, "fit finished", slog.LevelInfo, "it is fitted"},
	{FitNotCached{}, "fit not cached", slog.LevelWarn, "it is used, but the cache can't be written"},
	{EmbeddingWritten{}, "embedding written", slog.LevelInfo, "`fit` has written a linear embedding as ONNX"},
	{EmbeddingNotWritten{}, "embedding not written", slog.LevelWarn, "a linear embedding stays in the cache alone"},
	{EmbeddingKept{}, "embedding kept", slog.LevelInfo, "`fit` has found its training finished, and leaves it"},
	{TrainingResumed{}, "training resumed", slog.LevelInfo, "`fit` continues a training from its checkpoint"},
	{CheckpointDamaged{}, "checkpoint damaged", slog.LevelWarn, "the one before is taken, or the training begins anew"},
	{TrainingStarted{}, "training started", slog.LevelInfo, "an auto-encoder's first step is next"},
	{TrainingProgress{}, "training progress", slog.LevelInfo, "every 10 seconds, and after the last step: " +
		"means since the record before"},
	{TrainingStopped{}, "training stopped", slog.LevelWarn, "a signal has stopped it; its checkpoint is on disk"},
	{experimentStarted{}, "experiment started", slog.LevelInfo, "`theory` begins an experiment"},
	{BatchLowered{}, "batch lowered", slog.LevelWarn, "the memory is too small for the batch; no result changes"},
	{fetched{}, "runtime fetch", slog.LevelInfo, "a step of fetching ONNX Runtime, told even with `--quiet`"},
	{stopped{}, "stopped", slog.LevelWarn, "a signal has ended the command, told even with `--quiet`; the last record"},
	{failed{}, "failed", slog.LevelError, "an error has ended the command, told even with `--quiet`; the last record"},
}

// CellID says which cell an event is about.
type CellID struct {
	Suite   string   `json:"suite"`
	Model   string   `json:"model"`
	Defense string   `json:"defense"`
	Mode    string   `json:"mode"`
	Attack  string   `json:"attack"`
	Epsilon *float64 `json:"epsilon,omitzero"`
}

// IdentityOf is a cell's.
func IdentityOf(c result.Cell) CellID {
	return CellID{c.Suite, c.Model, c.Defense, c.Mode, c.Attack, c.Epsilon}
}

// inWords names a cell in a line.
func (c CellID) inWords() string {
	defense := "controlled by " + c.Defense
	if c.Defense == config.None {
		defense = "undefended"
	}
	return c.Model + ", " + c.Attack + ", " + defense
}

// RunStarted is reported when every file is open, the first cell is next.
type RunStarted struct {
	Out          string `json:"out"`
	ConfigSHA256 string `json:"config_sha256"`
	Cells        int    `json:"cells"`
}

func (RunStarted) String() string { return "" } // what follows shows it

// RunContinues is reported when the output folder holds this run, unfinished.
type RunContinues struct {
	Out     string    `json:"out"`
	Begun   time.Time `json:"begun"`
	Killed  string    `json:"killed,omitzero"`
	Damaged int       `json:"damaged,omitzero"`
}

func (e RunContinues) String() string {
	text := fmt.Sprintf("%s holds this run, begun %s: it continues", e.Out, e.Begun.Format(time.DateTime))
	if e.Killed != "" {
		text += fmt.Sprintf("; the run before (%s) was killed", e.Killed)
	}
	if e.Damaged > 0 {
		text += fmt.Sprintf("; %d lines of the journal are damaged, what they held is done again", e.Damaged)
	}
	return text
}

// RunIsThere is reported when the output folder holds this run, finished: nothing is done.
type RunIsThere struct {
	Out      string    `json:"out"`
	Finished time.Time `json:"finished"`
}

func (e RunIsThere) String() string {
	return fmt.Sprintf("%s holds this run, finished %s: it is left as it is; --force runs it anew", e.Out,
		e.Finished.Format(time.DateTime))
}

// ImagesLost is reported when images in the journal are damaged: they are attacked again.
type ImagesLost struct {
	ComponentID
	Lost int `json:"lost"`
}

func (e ImagesLost) String() string {
	return fmt.Sprintf("%s: %d images in the journal are damaged and made again", e.inWords(), e.Lost)
}

// ResultsStay is reported when a run has ended early, and what was there is worth more.
type ResultsStay struct {
	Out string `json:"out"`
}

func (e ResultsStay) String() string { return e.Out + ": what was there stays until this run has more" }

// ProcessorsDiffer is reported when merged shards ran on several kinds of processor.
type ProcessorsDiffer struct {
	CPUs []string `json:"cpus"`
}

func (e ProcessorsDiffer) String() string {
	return fmt.Sprintf("the shards ran on %d kinds of processor, which may round differently: %s", len(e.CPUs),
		strings.Join(e.CPUs, "; "))
}

// RunFinished is reported when results and reports are written.
type RunFinished struct {
	Out   string        `json:"out"`
	Cells int           `json:"cells"`
	Took  time.Duration `json:"seconds"`
}

func (RunFinished) String() string { return "" } // the tables are printed

// ComponentID says which component of an attack an event is about.
type ComponentID struct {
	CellID
	Component string `json:"component"`
	Seed      uint64 `json:"seed"`
	Label     string // of its cell in lines
	Words     Words  // the zero value is an attack's
}

func (c ComponentID) inWords() string { return c.Label + " " + c.Component }

// Words are how lines say what becomes of images.
type Words struct {
	Done  string // what is done with them: attacked
	Stand string // how those are called that are left in the end: robust
	SoFar string // and until then: robust so far
}

// words are those of the component.
func (c ComponentID) words() Words {
	return cmp.Or(c.Words, Words{"attacked", "robust", "robust so far"})
}

// ComponentProgress is reported when every 10 seconds while a component attacks.
type ComponentProgress struct {
	ComponentID
	Done   int            `json:"images_done"`
	Images int            `json:"images"`
	Robust int            `json:"robust"`
	N      int            `json:"n"`
	Left   *time.Duration `json:"seconds_left,omitzero"`
	All    *time.Duration `json:"seconds_left_in_all,omitzero"`
}

func (e ComponentProgress) String() string {
	return fmt.Sprintf("%s: %d of %d images, %s %d of %d, %s", e.inWords(), e.Done, e.Images, e.words().SoFar, e.Robust,
		e.N, e.left())
}

// short is its text beside a bar.
func (e ComponentProgress) short() string {
	return fmt.Sprintf("%s %d/%d, %s %d/%d, %s", e.inWords(), e.Done, e.Images,
		strings.TrimSuffix(e.words().SoFar, " so far"), e.Robust, e.N, e.left())
}

// left is the component's time and the run's.
func (e ComponentProgress) left() string {
	switch {
	case e.Left == nil:
		return "? left"
	case e.All == nil:
		return roughly(*e.Left) + " left"
	}
	return roughly(*e.Left) + " left, " + roughly(*e.All) + " in all"
}

// roughly writes a time by its two largest units: 40s, 2m5s, 3h20m.
func roughly(d time.Duration) string {
	if d < time.Hour {
		return d.Round(time.Second).String()
	}
	return strings.TrimSuffix(d.Round(time.Minute).String(), "0s")
}

// ComponentFinished is reported when a component has attacked all its images.
type ComponentFinished struct {
	ComponentID
	Images int           `json:"images"`
	Robust int           `json:"robust"`
	N      int           `json:"n"`
	Took   time.Duration `json:"seconds"`
}

func (e ComponentFinished) String() string {
	return fmt.Sprintf("%s: %d images %s, %s %d of %d (%.1f %%), %s", e.inWords(), e.Images, e.words().Done,
		e.words().Stand, e.Robust, e.N, 100*float64(e.Robust)/float64(e.N), e.Took.Round(100*time.Millisecond))
}

// ImagesProven is reported when bounds have decided images that attacks had left.
type ImagesProven struct {
	CellID
	Proven int           `json:"proven"`
	Tried  int           `json:"tried"`
	Left   int           `json:"robust"`
	Took   time.Duration `json:"seconds"`
	Label  string
}

func (e ImagesProven) String() string {
	return fmt.Sprintf("%s bounds: %d of %d images proven, %d still stand, %s", e.Label, e.Proven, e.Tried, e.Left,
		e.Took.Round(100*time.Millisecond))
}

// Score is what verdicts come to.
type Score struct {
	Accuracy float64 `json:"accuracy"`
	Correct  int     `json:"correct"`
	N        int     `json:"n"`
	Seconds  float64 `json:"seconds"`
}

func (s Score) inWords() string {
	return fmt.Sprintf("%.1f %% of %d, %.1f s", 100*s.Accuracy, s.N, s.Seconds)
}

// CellFinished is reported when a cell has its verdicts.
type CellFinished struct {
	CellID
	Score
	Cell  int  `json:"cell"`
	Cells int  `json:"cells"`
	Known bool // the line of its last component has said as much
}

func (e CellFinished) String() string {
	if e.Known {
		return ""
	}
	return fmt.Sprintf("[%d/%d] %s: %s", e.Cell, e.Cells, e.CellID.inWords(), e.Score.inWords())
}

// CellFailed is reported when a cell has no verdicts; the run goes on, and ends with exit code 1.
type CellFailed struct {
	CellID
	Error string `json:"error"`
}

func (e CellFailed) String() string { return fmt.Sprintf("no verdicts: %s: %s", e.inWords(), e.Error) }

// CellWarned is reported when a cell has a warning of [warnings.md](warnings.md).
type CellWarned struct {
	CellID
	result.Warning
}

func (CellWarned) String() string { return "" } // the reports have them as footnotes

// SeedFinished is reported when a cell has the verdicts of a further seed.
type SeedFinished struct {
	CellID
	Score
	Seed uint64 `json:"seed"`
}

func (e SeedFinished) String() string {
	return fmt.Sprintf("seed %d: %s: %s", e.Seed, e.CellID.inWords(), e.Score.inWords())
}

// SeedFailed is reported when a further seed has no verdicts; the run ends with exit code 1.
type SeedFailed struct {
	CellID
	Seed  uint64 `json:"seed"`
	Error string `json:"error"`
}

func (e SeedFailed) String() string { return e.Error }

// SolverStudied is reported when a solver study has followed one solver.
type SolverStudied struct {
	Model   string `json:"model"`
	Control string `json:"control"`
	Study   int    `json:"study"`
	Studies int    `json:"studies"`
	result.SolverSettings
	Passes   float64        `json:"passes"`
	Outcomes []StudyOutcome `json:"outcomes"`
}

// StudyOutcome is how a solver did on images of one kind.
type StudyOutcome struct {
	Images   string   `json:"images"` // clean or adversarial
	Before   *float64 `json:"objective_before"`
	After    *float64 `json:"objective_after"`
	Accuracy float64  `json:"accuracy"`
}

func (e SolverStudied) String() string {
	objective := func(v *float64) string {
		if v == nil {
			return "∞"
		}
		return fmt.Sprintf("%.3g", *v)
	}
	text := fmt.Sprintf("solver study, %s, %s [%d/%d] %s, %.1f passes", e.Model, e.Control, e.Study, e.Studies,
		describe(e.SolverSettings), e.Passes)
	for _, o := range e.Outcomes {
		text += fmt.Sprintf("; %s: objective %s → %s, %.1f %% right", o.Images, objective(o.Before),
			objective(o.After), 100*o.Accuracy)
	}
	return text
}

type experimentStarted struct {
	Experiment string `json:"experiment"`
}

func (e experimentStarted) String() string { return "theory: " + e.Experiment }

// BatchLowered is reported when the memory is too small for the batch; no result changes.
type BatchLowered struct{ ort.Lowering }

type fetched struct{ ort.Fetch }

type stopped struct {
	Signal    string `json:"signal"`
	Code      int    `json:"exit_code"`
	Continues string `json:"continue,omitzero"`
}

func (e stopped) String() string { return "selfheal: stopped" + kept(e.Continues) }

type failed struct {
	Error     string `json:"error"`
	Code      int    `json:"exit_code"`
	Continues string `json:"continue,omitzero"`
}

func (e failed) String() string {
	return "selfheal: " + strings.ReplaceAll(e.Error, "\n", "\nselfheal: ") + kept(e.Continues)
}

// kept ends the line of a command that can be continued.
func kept(continues string) string {
	if continues == "" {
		return ""
	}
	return "; what was finished is kept: " + continues
}

// describe writes a solver's settings.
func describe(s result.SolverSettings) string {
	if s.Method == control.Greedy.String() {
		return s.Method
	}
	return fmt.Sprintf("%s %d × %d, c %g, rate %g, momentum %g", s.Method, s.Outer, s.Inner, s.Regularization,
		s.LearningRate, s.Momentum)
}
