package harness

import (
	"fmt"
	"log/slog"
	"strings"
	"time"

	"selfheal/attacks"
	"selfheal/harness/config"
	"selfheal/harness/result"
	"selfheal/models/ort"
)

// event is something that a command reports while it works. Its fields with a JSON name are the attributes of its
// record for machines. Its String is the line for people, without its end; "" where they are told nothing.
type event = fmt.Stringer

// kind is a row of the table of events.
type kind struct {
	of    event // any value of its type
	name  string
	level slog.Level
	doc   string
}

// kinds is the table of events. The tables of docs/progress.md are made from it:
// go test ./harness -run TestEvents -update
var kinds = []kind{
	{runStarted{}, "run started", slog.LevelInfo, "every file is open, the first cell is next"},
	{runContinues{}, "run continues", slog.LevelInfo, "the output folder holds this run, unfinished"},
	{runIsThere{}, "run is there", slog.LevelInfo, "the output folder holds this run, finished: nothing is done"},
	{imagesLost{}, "images lost", slog.LevelWarn, "images in the journal are damaged: they are attacked again"},
	{processorsDiffer{}, "processors differ", slog.LevelWarn, "merged shards ran on several kinds of processor"},
	{jobSubmitted{}, "job submitted", slog.LevelInfo, "`submit` has given shards to the engine"},
	{jobFound{}, "job found", slog.LevelInfo, "they were given to it before"},
	{jobFollowed{}, "job followed", slog.LevelInfo, "how the shards go, every 15 seconds"},
	{engineSilent{}, "engine silent", slog.LevelWarn, "the engine did not answer; it is asked again"},
	{shardsFailed{}, "shards failed", slog.LevelWarn, "shards have ended unfinished: they are submitted again"},
	{jobGoesOn{}, "job goes on", slog.LevelInfo, "a signal has ended the following, not the job"},
	{resultsStay{}, "results stay", slog.LevelWarn, "a run has ended early, and what was there is worth more"},
	{componentProgress{}, "component progress", slog.LevelInfo, "every 10 seconds while a component attacks"},
	{componentFinished{}, "component finished", slog.LevelInfo, "a component has attacked all its images"},
	{imagesProven{}, "images proven", slog.LevelInfo, "bounds have decided images that attacks had left"},
	{cellFinished{}, "cell finished", slog.LevelInfo, "a cell has its verdicts"},
	{cellFailed{}, "cell failed", slog.LevelWarn, "a cell has no verdicts; the run goes on, and ends with exit code 1"},
	{cellWarned{}, "cell warning", slog.LevelWarn, "a cell has a warning of [warnings.md](warnings.md)"},
	{seedFinished{}, "seed finished", slog.LevelInfo, "a cell has the verdicts of a further seed"},
	{seedFailed{}, "seed failed", slog.LevelWarn, "a further seed has no verdicts; the run ends with exit code 1"},
	{solverStudied{}, "solver studied", slog.LevelInfo, "a solver study has followed one solver"},
	{runFinished{}, "run finished", slog.LevelInfo, "results and reports are written"},
	{fitStarted{}, "fit started", slog.LevelInfo, "a linear embedding is not in the cache"},
	{fitFinished{}, "fit finished", slog.LevelInfo, "it is fitted"},
	{fitNotCached{}, "fit not cached", slog.LevelWarn, "it is used, but the cache can't be written"},
	{embeddingWritten{}, "embedding written", slog.LevelInfo, "`fit` has written a linear embedding as ONNX"},
	{embeddingNotWritten{}, "embedding not written", slog.LevelWarn, "a linear embedding stays in the cache alone"},
	{embeddingKept{}, "embedding kept", slog.LevelInfo, "`fit` has found its training finished, and leaves it"},
	{trainingResumed{}, "training resumed", slog.LevelInfo, "`fit` continues a training from its checkpoint"},
	{checkpointDamaged{}, "checkpoint damaged", slog.LevelWarn, "the one before is taken, or the training begins anew"},
	{trainingStarted{}, "training started", slog.LevelInfo, "an auto-encoder's first step is next"},
	{trainingProgress{}, "training progress", slog.LevelInfo, "every 10 seconds, and after the last step: " +
		"means since the record before"},
	{trainingStopped{}, "training stopped", slog.LevelWarn, "a signal has stopped it; its checkpoint is on disk"},
	{experimentStarted{}, "experiment started", slog.LevelInfo, "`theory` begins an experiment"},
	{batchLowered{}, "batch lowered", slog.LevelWarn, "the memory is too small for the batch; no result changes"},
	{fetched{}, "runtime fetch", slog.LevelInfo, "a step of fetching ONNX Runtime, told even with `--quiet`"},
	{stopped{}, "stopped", slog.LevelWarn, "a signal has ended the command, told even with `--quiet`; the last record"},
	{failed{}, "failed", slog.LevelError, "an error has ended the command, told even with `--quiet`; the last record"},
}

// cellID says which cell an event is about.
type cellID struct {
	Suite   string   `json:"suite"`
	Model   string   `json:"model"`
	Defense string   `json:"defense"`
	Mode    string   `json:"mode"`
	Attack  string   `json:"attack"`
	Epsilon *float64 `json:"epsilon,omitzero"`
}

func identity(c result.Cell) cellID {
	return cellID{c.Suite, c.Model, c.Defense, c.Mode, c.Attack, c.Epsilon}
}

// inWords names a cell in a line.
func (c cellID) inWords() string {
	defense := "controlled by " + c.Defense
	if c.Defense == config.None {
		defense = "undefended"
	}
	return c.Model + ", " + c.Attack + ", " + defense
}

type runStarted struct {
	Out          string `json:"out"`
	ConfigSHA256 string `json:"config_sha256"`
	Cells        int    `json:"cells"`
}

func (runStarted) String() string { return "" } // what follows shows it

type runContinues struct {
	Out     string    `json:"out"`
	Begun   time.Time `json:"begun"`
	Killed  string    `json:"killed,omitzero"`
	Damaged int       `json:"damaged,omitzero"`
}

func (e runContinues) String() string {
	text := fmt.Sprintf("%s holds this run, begun %s: it continues", e.Out, e.Begun.Format(time.DateTime))
	if e.Killed != "" {
		text += fmt.Sprintf("; the run before (%s) was killed", e.Killed)
	}
	if e.Damaged > 0 {
		text += fmt.Sprintf("; %d lines of the journal are damaged, what they held is done again", e.Damaged)
	}
	return text
}

type runIsThere struct {
	Out      string    `json:"out"`
	Finished time.Time `json:"finished"`
}

func (e runIsThere) String() string {
	return fmt.Sprintf("%s holds this run, finished %s: it is left as it is; --force runs it anew", e.Out,
		e.Finished.Format(time.DateTime))
}

type imagesLost struct {
	componentID
	Lost int `json:"lost"`
}

func (e imagesLost) String() string {
	return fmt.Sprintf("%s: %d images in the journal are damaged and made again", e.inWords(), e.Lost)
}

type resultsStay struct {
	Out string `json:"out"`
}

func (e resultsStay) String() string { return e.Out + ": what was there stays until this run has more" }

type processorsDiffer struct {
	CPUs []string `json:"cpus"`
}

func (e processorsDiffer) String() string {
	return fmt.Sprintf("the shards ran on %d kinds of processor, which may round differently: %s", len(e.CPUs),
		strings.Join(e.CPUs, "; "))
}

type runFinished struct {
	Out   string        `json:"out"`
	Cells int           `json:"cells"`
	Took  time.Duration `json:"seconds"`
}

func (runFinished) String() string { return "" } // the tables are printed

// componentID says which component of an attack an event is about.
type componentID struct {
	cellID
	Component string `json:"component"`
	Seed      uint64 `json:"seed"`
	label     string // of its cell in lines
}

func (c componentID) inWords() string { return c.label + " " + c.Component }

// stands is what the images are that an attack has left, or that are proven.
func (c componentID) stands() string {
	if attacks.Proves(c.Component) {
		return "certified"
	}
	return "robust"
}

// done is what became of all images.
func (c componentID) done() string {
	switch {
	case attacks.Smooths(c.Component):
		return "sampled"
	case attacks.Proves(c.Component):
		return "bounded"
	}
	return "attacked"
}

type componentProgress struct {
	componentID
	Done   int            `json:"images_done"`
	Images int            `json:"images"`
	Robust int            `json:"robust"`
	N      int            `json:"n"`
	Left   *time.Duration `json:"seconds_left,omitzero"`
	All    *time.Duration `json:"seconds_left_in_all,omitzero"`
}

func (e componentProgress) String() string {
	return fmt.Sprintf("%s: %d of %d images, %s %d of %d, %s", e.inWords(), e.Done, e.Images,
		e.standing("robust so far"), e.Robust, e.N, e.left())
}

// short is its text beside a bar.
func (e componentProgress) short() string {
	return fmt.Sprintf("%s %d/%d, %s %d/%d, %s", e.inWords(), e.Done, e.Images, e.standing("robust"), e.Robust, e.N,
		e.left())
}

// standing says what the number of images that stand means: those that no proof has been tried on are among them.
func (e componentProgress) standing(attacked string) string {
	if attacks.Proves(e.Component) {
		return "certified at most"
	}
	return attacked
}

// left is the component's time and the run's.
func (e componentProgress) left() string {
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

type componentFinished struct {
	componentID
	Images int           `json:"images"`
	Robust int           `json:"robust"`
	N      int           `json:"n"`
	Took   time.Duration `json:"seconds"`
}

func (e componentFinished) String() string {
	return fmt.Sprintf("%s: %d images %s, %s %d of %d (%.1f %%), %s", e.inWords(), e.Images, e.done(), e.stands(),
		e.Robust, e.N, 100*float64(e.Robust)/float64(e.N), e.Took.Round(100*time.Millisecond))
}

type imagesProven struct {
	cellID
	Proven int           `json:"proven"`
	Tried  int           `json:"tried"`
	Left   int           `json:"robust"`
	Took   time.Duration `json:"seconds"`
	label  string
}

func (e imagesProven) String() string {
	return fmt.Sprintf("%s bounds: %d of %d images proven, %d still stand, %s", e.label, e.Proven, e.Tried, e.Left,
		e.Took.Round(100*time.Millisecond))
}

// scored is what verdicts come to.
type scored struct {
	Accuracy float64 `json:"accuracy"`
	Correct  int     `json:"correct"`
	N        int     `json:"n"`
	Seconds  float64 `json:"seconds"`
}

func (s scored) inWords() string {
	return fmt.Sprintf("%.1f %% of %d, %.1f s", 100*s.Accuracy, s.N, s.Seconds)
}

type cellFinished struct {
	cellID
	scored
	Cell  int  `json:"cell"`
	Cells int  `json:"cells"`
	known bool // the line of its last component has said as much
}

func (e cellFinished) String() string {
	if e.known {
		return ""
	}
	return fmt.Sprintf("[%d/%d] %s: %s", e.Cell, e.Cells, e.cellID.inWords(), e.scored.inWords())
}

type cellFailed struct {
	cellID
	Error string `json:"error"`
}

func (e cellFailed) String() string { return fmt.Sprintf("no verdicts: %s: %s", e.inWords(), e.Error) }

type cellWarned struct {
	cellID
	result.Warning
}

func (cellWarned) String() string { return "" } // the reports have them as footnotes

type seedFinished struct {
	cellID
	scored
	Seed uint64 `json:"seed"`
}

func (e seedFinished) String() string {
	return fmt.Sprintf("seed %d: %s: %s", e.Seed, e.cellID.inWords(), e.scored.inWords())
}

type seedFailed struct {
	cellID
	Seed  uint64 `json:"seed"`
	Error string `json:"error"`
}

func (e seedFailed) String() string { return e.Error }

type solverStudied struct {
	Model   string `json:"model"`
	Control string `json:"control"`
	Study   int    `json:"study"`
	Studies int    `json:"studies"`
	result.SolverSettings
	Passes   float64        `json:"passes"`
	Outcomes []studyOutcome `json:"outcomes"`
}

// studyOutcome is how a solver did on images of one kind.
type studyOutcome struct {
	Images   string   `json:"images"` // clean or adversarial
	Before   *float64 `json:"objective_before"`
	After    *float64 `json:"objective_after"`
	Accuracy float64  `json:"accuracy"`
}

func (e solverStudied) String() string {
	objective := func(v *float64) string {
		if v == nil {
			return "∞"
		}
		return fmt.Sprintf("%.3g", *v)
	}
	text := fmt.Sprintf("solver study, %s, %s [%d/%d] %s, %.1f passes", e.Model, e.Control, e.Study, e.Studies,
		describeSolver(e.SolverSettings), e.Passes)
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

type batchLowered struct{ ort.Lowering }

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
