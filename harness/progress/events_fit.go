package progress

import (
	"fmt"
	"strings"
	"time"
)

// FitStarted is reported when a linear embedding is not in the cache.
type FitStarted struct {
	Model  string `json:"model"`
	Dim    int    `json:"dim"`
	Images int    `json:"images"`
}

func (e FitStarted) String() string {
	return fmt.Sprintf("fitting a linear embedding of %d-dimensional states of %s on %d images", e.Dim, e.Model,
		e.Images)
}

// FitFinished is reported when it is fitted.
type FitFinished struct {
	Model    string  `json:"model"`
	Dim      int     `json:"dim"`
	Images   int     `json:"images"`
	Rank     int     `json:"rank"`
	Variance float64 `json:"variance"`
	Asked    float64 `json:"variance_asked,omitzero"`
	MaxRank  int     `json:"max_rank,omitzero"`
	Seconds  float64 `json:"seconds"`
}

func (e FitFinished) String() string {
	capped := ""
	if e.Asked > 0 {
		capped = fmt.Sprintf(" (%.6g %% were asked for: states of %d values may have %d components, %d images give %d)",
			100*e.Asked, e.Dim, e.MaxRank, e.Images, e.Images-1)
	}
	return fmt.Sprintf("fitted rank %d of %d, %.2f %% of the variance%s, in %.1f s", e.Rank, e.Dim, 100*e.Variance,
		capped, e.Seconds)
}

// FitNotCached is reported when it is used, but the cache can't be written.
type FitNotCached struct {
	Error string `json:"error"`
}

func (e FitNotCached) String() string { return "the fit could not be cached: " + e.Error }

// EmbeddingWritten is reported when fit has written a linear embedding as ONNX.
type EmbeddingWritten struct {
	Path string `json:"path"`
}

func (e EmbeddingWritten) String() string { return "wrote " + e.Path }

// EmbeddingNotWritten is reported when a linear embedding stays in the cache alone.
type EmbeddingNotWritten struct {
	Error string `json:"error"`
}

func (e EmbeddingNotWritten) String() string {
	return e.Error + ": the embedding stays in the cache; --out FILE writes it as ONNX, of one model"
}

// EmbeddingKept is reported when fit has found its training finished, and leaves it.
type EmbeddingKept struct {
	Path string `json:"path"`
}

func (e EmbeddingKept) String() string {
	return e.Path + " is of this training, finished: it is left as it is; --force fits it anew"
}

// TrainingStarted is reported when an auto-encoder's first step is next.
type TrainingStarted struct {
	At     string   `json:"at"`
	Models []string `json:"models"`
	Steps  int      `json:"steps"`
}

func (e TrainingStarted) String() string {
	return fmt.Sprintf("fitting the embedding at %s of %s: %d steps", e.At, strings.Join(e.Models, ", "), e.Steps)
}

// StepID says how far a training is.
type StepID struct {
	Step int `json:"step"`
	Of   int `json:"of"`
}

// TrainingResumed is reported when fit continues a training from its checkpoint.
type TrainingResumed struct {
	StepID
	Killed string `json:"killed,omitzero"`
}

func (e TrainingResumed) String() string {
	text := fmt.Sprintf("this training was begun: it continues after step %d of %d", e.Step, e.Of)
	if e.Killed != "" {
		text += fmt.Sprintf("; the fit before (%s) was killed", e.Killed)
	}
	return text
}

// CheckpointDamaged is reported when the one before is taken, or the training begins anew.
type CheckpointDamaged struct {
	Path   string `json:"path"`
	Spared bool   `json:"spared"`
}

func (e CheckpointDamaged) String() string {
	if e.Spared {
		return e.Path + " is damaged: the checkpoint before it is taken"
	}
	return e.Path + " is damaged, and there is no other checkpoint: the training begins anew"
}

// TrainingStopped is reported when a signal has stopped it; its checkpoint is on disk.
type TrainingStopped struct{ StepID }

func (e TrainingStopped) String() string {
	return fmt.Sprintf("stopped after step %d of %d", e.Step, e.Of)
}

// TrainingProgress is reported when every 10 seconds, and after the last step.
type TrainingProgress struct {
	StepID
	Epoch          int           `json:"epoch"`
	CrossEntropy   float64       `json:"cross_entropy"`
	Reconstruction float64       `json:"reconstruction"`
	Accuracy       float64       `json:"accuracy"`
	Left           time.Duration `json:"seconds_left"`
}

func (e TrainingProgress) String() string {
	return fmt.Sprintf("step %d of %d, epoch %d: cross-entropy %.4f, reconstruction %.4f, accuracy %.1f %%, %s left",
		e.Step, e.Of, e.Epoch, e.CrossEntropy, e.Reconstruction, 100*e.Accuracy, e.Left.Round(time.Second))
}
