package progress

import (
	"cmp"
	"fmt"
	"log/slog"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"selfheal/control"
	"selfheal/harness/cell"
	"selfheal/harness/result"
	"selfheal/models/ort"
)

type kind struct {
	of        reflect.Type
	level     slog.Level
	name, doc string
	line      func(event any) string // for people, without its end; "" if people get no line
}

func row[E any](level slog.Level, name, doc string, line func(E) string) kind {
	return kind{reflect.TypeFor[E](), level, name, doc, func(event any) string { return line(event.(E)) }}
}

// untold is the line of events that people see in another form.
func untold[E any](E) string { return "" }

const info, warn = slog.LevelInfo, slog.LevelWarn

// kinds is the table of events. The tables of docs/progress.md are made from it:
// go test ./harness/progress -run TestEvents -update
var kinds = []kind{
	row(info, "run started", "every file is open, the first cell is next", untold[RunStarted]),
	row(info, "run continues", "the output folder holds this run, unfinished", RunContinues.line),
	row(info, "run is there", "the output folder holds this run, finished: nothing is done", func(e RunIsThere) string {
		return fmt.Sprintf("%s holds this run, finished %s: it is left as it is; --force runs it anew", e.Out,
			e.Finished.Format(time.DateTime))
	}),
	row(warn, "images lost", "images in the journal are damaged: they are attacked again", func(e ImagesLost) string {
		return fmt.Sprintf("%s: %d images in the journal are damaged and made again", e.inWords(), e.Lost)
	}),
	row(warn, "processors differ", "merged shards ran on several kinds of processor", func(e ProcessorsDiffer) string {
		return fmt.Sprintf("the shards ran on %d kinds of processor, which may round differently: %s", len(e.CPUs),
			strings.Join(e.CPUs, "; "))
	}),
	row(info, "job submitted", "`submit` has given shards to the engine", func(e JobSubmitted) string {
		return fmt.Sprintf("%d shards submitted to %s: job %s", e.Shards, e.Engine, e.Job)
	}),
	row(info, "job found", "they were given to it before",
		func(e JobFound) string { return fmt.Sprintf("submitted before to %s: job %s", e.Engine, e.Job) }),
	row(info, "job followed", "how the shards go, every 15 seconds", JobFollowed.line),
	row(warn, "engine silent", "the engine did not answer; it is asked again",
		func(e EngineSilent) string { return "the engine does not answer: " + e.Error }),
	row(warn, "shards failed", "shards have ended unfinished: they are submitted again", func(e ShardsFailed) string {
		return fmt.Sprintf("shards %s have ended unfinished", strings.Trim(fmt.Sprint(e.Which), "[]"))
	}),
	row(info, "job goes on", "a signal has ended the following, not the job", func(e JobGoesOn) string {
		return fmt.Sprintf("job %s of %s goes on; %s ends it", strings.Join(e.Jobs, ", "), e.Engine, e.Cancel)
	}),
	row(warn, "results stay", "a run has ended early; the old results, which have more, are kept",
		func(e ResultsStay) string {
			return e.Out + ": the old result is kept until this run has finished more cells"
		}),
	row(info, "classes numbered", "a folder's classes have these labels, in the order of their names or of `classes`",
		func(e ClassesNumbered) string { return fmt.Sprintf("data set %s: %s", e.Dataset, e.Labels) }),
	row(warn, "images changed", "images are not all there as their files have them",
		func(e ImagesChanged) string { return fmt.Sprintf("data set %s: %s", e.Dataset, e.Changed) }),
	row(info, "component progress", "every 10 seconds (`--log-every`) while a component attacks",
		ComponentProgress.line),
	row(info, "component finished", "a component has attacked all its images", ComponentFinished.line),
	row(info, "images proven", "bounds have decided images that attacks had left", func(e ImagesProven) string {
		return fmt.Sprintf("%s bounds: %d of %d images proven, %d still stand, %s", e.Label, e.Proven, e.Tried,
			e.Robust, e.Took.Round(100*time.Millisecond))
	}),
	row(info, "cell finished", "a cell has its verdicts", func(e CellFinished) string {
		if e.Known {
			return ""
		}
		return fmt.Sprintf("[%d/%d] %s: %s", e.Cell, e.Cells, inWords(e.ID), e.Score.inWords())
	}),
	row(warn, "cell failed", "a cell has no verdicts; the run goes on, and ends with exit code 1",
		func(e CellFailed) string { return fmt.Sprintf("no verdicts: %s: %s", inWords(e.ID), e.Error) }),
	row(warn, "cell warning", "a cell has a warning of [warnings.md](warnings.md)", untold[CellWarned]), // a footnote
	row(info, "seed finished", "a cell has the verdicts of a further seed", func(e SeedFinished) string {
		return fmt.Sprintf("seed %d: %s: %s", e.Seed, inWords(e.ID), e.Score.inWords())
	}),
	row(warn, "seed failed", "a further seed has no verdicts; the run ends with exit code 1",
		func(e SeedFailed) string { return e.Error }),
	row(info, "solver studied", "a solver study has followed one solver", SolverStudied.line),
	row(info, "run finished", "results and reports are written", untold[RunFinished]), // the tables are printed
	row(info, "answered", "the lines that close the output: the numbers that most people want", untold[Answered]),
	row(warn, "fit damaged", "a cached linear embedding fails its checksum, or has none; it is fitted again",
		func(e FitDamaged) string {
			return fmt.Sprintf("the cached fit %s is damaged: it is made again", e.Path)
		}),
	row(info, "fit started", "a linear embedding is not in the cache", func(e FitStarted) string {
		return fmt.Sprintf("fitting a linear embedding of %d-dimensional states of %s on %d images", e.Dim, e.Model,
			e.Images)
	}),
	row(info, "fit finished", "it is fitted", FitFinished.line),
	row(warn, "fit not cached", "it is used, but the cache can't be written",
		func(e FitNotCached) string { return "the fit could not be cached: " + e.Error }),
	row(info, "embedding written", "`fit` has written a linear embedding as ONNX",
		func(e EmbeddingWritten) string { return "wrote " + e.Path }),
	row(warn, "embedding not written", "a linear embedding stays in the cache alone",
		func(e EmbeddingNotWritten) string {
			return e.Error + ": the embedding stays in the cache; --out FILE writes it as ONNX, of one model"
		}),
	row(info, "embedding kept", "`fit` has found its training finished, and leaves it", func(e EmbeddingKept) string {
		return e.Path + " is of this training, finished: it is left as it is; --force fits it anew"
	}),
	row(info, "training resumed", "`fit` continues a training from its checkpoint", func(e TrainingResumed) string {
		return fmt.Sprintf("this training was begun: it continues after step %d of %d", e.Step, e.Of) +
			killed("fit", e.Killed)
	}),
	row(warn, "checkpoint damaged", "the one before is taken, or the training begins anew",
		func(e CheckpointDamaged) string {
			if e.Spared {
				return e.Path + " is damaged: the checkpoint before it is taken"
			}
			return e.Path + " is damaged, and there is no other checkpoint: the training begins anew"
		}),
	row(info, "training started", "an auto-encoder's first step is next", func(e TrainingStarted) string {
		return fmt.Sprintf("fitting the embedding at %s of %s: %d steps", e.At, strings.Join(e.Models, ", "), e.Steps)
	}),
	row(info, "training progress",
		"every 10 seconds (`--log-every`), and after the last step: means since the record before",
		TrainingProgress.line),
	row(info, "epoch judged", "adversarial training has judged an epoch by PGD on images held back",
		EpochJudged.line),
	row(warn, "training astray", "`fit` has given a training up; see `restarts`", func(e TrainingAstray) string {
		text := fmt.Sprintf("the training with seed %d has gone astray: it has fewer than half of the images right "+
			"that the network alone has", e.Seed)
		if e.Again {
			text += "; it begins anew with the next seed"
		}
		return text
	}),
	row(warn, "training stopped", "a signal has stopped it; its checkpoint is on disk",
		func(e TrainingStopped) string { return fmt.Sprintf("stopped after step %d of %d", e.Step, e.Of) }),
	row(info, "experiment started", "`theory` begins an experiment",
		func(e experimentStarted) string { return "theory: " + e.Experiment }),
	row(warn, "batch lowered", "the memory is too small for the batch; no result changes", BatchLowered.String),
	row(info, "runtime fetch", "a step of fetching ONNX Runtime, told even with `--quiet`", fetched.String),
	row(warn, "stopped", "a signal has ended the command, told even with `--quiet`; the last record",
		func(e stopped) string { return "selfheal: stopped" + kept(e.Continue) }),
	row(slog.LevelError, "failed", "an error has ended the command, told even with `--quiet`; the last record",
		func(e failed) string {
			return "selfheal: " + strings.ReplaceAll(e.Error, "\n", "\nselfheal: ") + kept(e.Continue)
		}),
}

func kindOf(event any) kind {
	i := slices.IndexFunc(kinds, func(k kind) bool { return k.of == reflect.TypeOf(event) })
	if i < 0 {
		panic(fmt.Sprintf("progress: %T is no row of the table of events", event))
	}
	return kinds[i]
}

var hump = regexp.MustCompile("([a-z])([A-Z])")

// attribute returns a field's name in records: its own in words_like_this, or its tag's. optional means that it is
// left out if 0.
func attribute(f reflect.StructField) (name string, optional bool) {
	name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
	if f.Anonymous || name == "-" {
		return "", false
	}
	return cmp.Or(name, strings.ToLower(hump.ReplaceAllString(f.Name, "${1}_$2"))),
		options == "omitzero" || f.Type == reflect.TypeFor[cell.Epsilon]()
}

// inWords names a cell in lines.
func inWords(c cell.ID) string {
	defense := "controlled by " + c.Defense
	if c.Defense == cell.None {
		defense = "undefended"
	}
	attack := c.Attack
	if c.Source != "" {
		attack += " from " + c.Source
	}
	return c.Model + ", " + attack + ", " + defense
}

// ComponentID identifies the component of an attack that an event is about.
type ComponentID struct {
	cell.ID
	Component string
	Seed      uint64
	Label     string `json:"-"` // names its cell in lines
	Words     Words  `json:"-"` // the zero value is an attack's
}

func (c ComponentID) inWords() string { return c.Label + " " + c.Component }

// Words describe in lines what happens to images.
type Words struct {
	Done  string // what is done with them: attacked
	Stand string // the images left at the end: robust
	SoFar string // and before it: robust so far
}

func (c ComponentID) words() Words {
	return cmp.Or(c.Words, Words{"attacked", "robust", "robust so far"})
}

// Score is a cell's accuracy.
type Score struct {
	Accuracy   float64 // from 0 to 1
	Correct, N int
	Seconds    float64
}

func (s Score) inWords() string {
	return fmt.Sprintf("%.1f %% of %d, %.1f s", 100*s.Accuracy, s.N, s.Seconds)
}

// StepID is the progress of a training.
type StepID struct{ Step, Of int }

// StudyOutcome is a solver's result on images of one kind.
type StudyOutcome struct {
	Images   string   `json:"images"` // clean or adversarial
	Before   *float64 `json:"objective_before"`
	After    *float64 `json:"objective_after"`
	Accuracy float64  `json:"accuracy"`
}

// The events. The table says when each is reported. Their fields are the attributes of their records.
type (
	RunStarted struct {
		Out, ConfigSHA256 string
		Cells             int
	}
	RunContinues struct {
		Out     string
		Begun   time.Time
		Killed  string `json:",omitzero"`
		Damaged int    `json:",omitzero"`
	}
	RunIsThere struct {
		Out      string
		Finished time.Time
	}
	RunFinished struct {
		Out   string
		Cells int
		Took  time.Duration `json:"seconds"`
	}
	Answered         struct{ Lines []string }
	ResultsStay      struct{ Out string }
	ProcessorsDiffer struct{ CPUs []string }

	ImagesLost struct {
		ComponentID
		Lost int
	}
	ComponentProgress struct {
		ComponentID
		ImagesDone, Images, Robust, N int
		Share                         float64
		Left                          *time.Duration `json:"seconds_left,omitzero"`
	}
	ComponentFinished struct {
		ComponentID
		Images, Robust, N int
		Took              time.Duration `json:"seconds"`
	}
	ImagesProven struct {
		cell.ID
		Proven, Tried, Robust int
		Took                  time.Duration `json:"seconds"`
		Label                 string        `json:"-"`
	}
	CellFinished struct {
		cell.ID
		Score
		Cell, Cells int
		Known       bool `json:"-"` // the line of its last component has already said so
	}
	CellFailed struct {
		cell.ID
		Error string
	}
	CellWarned struct {
		cell.ID
		Which   string `json:"id"` // of [result.Warning]
		Message string
	}
	SeedFinished struct {
		cell.ID
		Score
		Seed uint64
	}
	SeedFailed struct {
		cell.ID
		Seed  uint64
		Error string
	}
	SolverStudied struct {
		Model, Control string
		Study, Studies int
		result.SolverSettings
		Passes   float64
		Outcomes []StudyOutcome
	}

	FitDamaged struct{ Path string }
	FitStarted struct {
		Model       string
		Dim, Images int
	}
	FitFinished struct {
		Model             string
		Dim, Images, Rank int
		Variance          float64
		VarianceAsked     float64 `json:",omitzero"`
		MaxRank           int     `json:",omitzero"`
		Seconds           float64
	}
	FitNotCached        struct{ Error string }
	EmbeddingWritten    struct{ Path string }
	EmbeddingNotWritten struct{ Error string }
	EmbeddingKept       struct{ Path string }
	TrainingStarted     struct {
		At     string
		Models []string
		Steps  int
	}
	TrainingResumed struct {
		StepID
		Killed string `json:",omitzero"`
	}
	CheckpointDamaged struct {
		Path   string
		Spared bool
	}
	TrainingProgress struct {
		StepID
		Epoch                                  int
		CrossEntropy, Reconstruction, Accuracy float64
		Left                                   time.Duration `json:"seconds_left"`
	}
	EpochJudged struct {
		At              string `json:"at"`
		Epoch, Images   int
		Clean, Attacked float64 // accuracies with the embedding
		Back            bool    `json:",omitempty"` // it went back to the epoch before
	}
	TrainingAstray struct {
		Seed  uint64
		Again bool // another seed follows
	}
	TrainingStopped struct{ StepID }

	JobSubmitted struct {
		Engine, Job string
		Shards      int
	}
	JobFound    struct{ Engine, Job string }
	JobFollowed struct {
		Shards, ShardsFinished, ShardsRunning, ShardsWaiting int
		ImagesDone, Images, Robust                           int
	}
	EngineSilent struct{ Error string }
	ShardsFailed struct{ Which []int }
	JobGoesOn    struct {
		Engine string
		Jobs   []string
		Cancel string
	}

	BatchLowered struct{ ort.Lowering }
	// ClassesNumbered has the labels as cat → 0, dog → 1; of many classes the first and the last.
	ClassesNumbered   struct{ Dataset, Labels string }
	ImagesChanged     struct{ Dataset, Changed string }
	experimentStarted struct{ Experiment string }
	fetched           struct{ ort.Fetch }
	stopped           struct {
		Signal   string
		ExitCode int
		Continue string `json:",omitzero"`
	}
	failed struct {
		Error    string
		ExitCode int
		Continue string `json:",omitzero"`
	}
)

func (e RunContinues) line() string {
	text := fmt.Sprintf("%s holds this run, begun %s: it continues", e.Out, e.Begun.Format(time.DateTime)) +
		killed("run", e.Killed)
	if e.Damaged > 0 {
		text += fmt.Sprintf("; %d lines of the journal are damaged, what they held is done again", e.Damaged)
	}
	return text
}

// killed names the process that worked before and did not end properly, if any.
func killed(what, who string) string {
	if who == "" {
		return ""
	}
	return fmt.Sprintf("; the %s before (%s) was killed", what, who)
}

func kept(continues string) string {
	if continues == "" {
		return ""
	}
	return "; what was finished is kept: " + continues
}

func (e ComponentProgress) line() string {
	return fmt.Sprintf("%s: %d of %d images, %s %d of %d, %s", e.inWords(), e.ImagesDone, e.Images, e.words().SoFar,
		e.Robust, e.N, e.left())
}

func (e ComponentProgress) short() string {
	return fmt.Sprintf("%s %d/%d, %s %d/%d, %s", e.inWords(), e.ImagesDone, e.Images,
		strings.TrimSuffix(e.words().SoFar, " so far"), e.Robust, e.N, e.left())
}

// left writes a bound of the component's time left.
func (e ComponentProgress) left() string {
	if e.Left == nil {
		return "? left"
	}
	return "at most " + roughly(*e.Left) + " left"
}

// roughly writes a time by its two largest units: 40s, 2m5s, 3h20m.
func roughly(d time.Duration) string {
	if d < time.Hour {
		return d.Round(time.Second).String()
	}
	return strings.TrimSuffix(d.Round(time.Minute).String(), "0s")
}

func (e ComponentFinished) line() string {
	return fmt.Sprintf("%s: %d images %s, %s %d of %d (%.1f %%), %s", e.inWords(), e.Images, e.words().Done,
		e.words().Stand, e.Robust, e.N, 100*float64(e.Robust)/float64(e.N), e.Took.Round(100*time.Millisecond))
}

func (e JobFollowed) line() string {
	return fmt.Sprintf("shards: %d of %d done, %d run, %d wait; images: %d of %d done, %d robust so far",
		e.ShardsFinished, e.Shards, e.ShardsRunning, e.ShardsWaiting, e.ImagesDone, e.Images, e.Robust)
}

func (e FitFinished) line() string {
	capped := ""
	if e.VarianceAsked > 0 {
		capped = fmt.Sprintf(" (%.6g %% were asked for: states of %d values may have %d components, %d images give %d)",
			100*e.VarianceAsked, e.Dim, e.MaxRank, e.Images, e.Images-1)
	}
	return fmt.Sprintf("fitted rank %d of %d, %.2f %% of the variance%s, in %.1f s", e.Rank, e.Dim, 100*e.Variance,
		capped, e.Seconds)
}

func (e EpochJudged) line() string {
	text := fmt.Sprintf("epoch %d: %.1f %% of %d images held back are right, %.1f %% after PGD", e.Epoch, 100*e.Clean,
		e.Images, 100*e.Attacked)
	if e.Back {
		text += ": it has forgotten to withstand PGD, and goes back to the epoch before, with shorter steps of PGD"
	}
	return text
}

func (e TrainingProgress) line() string {
	return fmt.Sprintf("step %d of %d, epoch %d: cross-entropy %.4f, reconstruction %.4f, accuracy %.1f %%, %s left",
		e.Step, e.Of, e.Epoch, e.CrossEntropy, e.Reconstruction, 100*e.Accuracy, e.Left.Round(time.Second))
}

func (e SolverStudied) line() string {
	objective := func(v *float64) string {
		if v == nil {
			return "∞"
		}
		return fmt.Sprintf("%.3g", *v)
	}
	solver := e.Method
	if solver != control.Greedy.String() {
		solver = fmt.Sprintf("%s %d × %d, c %g, rate %g, momentum %g", e.Method, e.Outer, e.Inner, e.Regularization,
			e.LearningRate, e.Momentum)
	}
	text := fmt.Sprintf("solver study, %s, %s [%d/%d] %s, %.1f passes", e.Model, e.Control, e.Study, e.Studies, solver,
		e.Passes)
	for _, o := range e.Outcomes {
		text += fmt.Sprintf("; %s: objective %s → %s, %.1f %% right", o.Images, objective(o.Before),
			objective(o.After), 100*o.Accuracy)
	}
	return text
}
