package harness

import (
	"fmt"
	"strings"
	"time"
)

type fitStarted struct {
	Model  string `json:"model"`
	Dim    int    `json:"dim"`
	Images int    `json:"images"`
}

func (e fitStarted) String() string {
	return fmt.Sprintf("fitting a linear embedding of %d-dimensional states of %s on %d images", e.Dim, e.Model,
		e.Images)
}

type fitFinished struct {
	Model    string  `json:"model"`
	Dim      int     `json:"dim"`
	Images   int     `json:"images"`
	Rank     int     `json:"rank"`
	Variance float64 `json:"variance"`
	Asked    float64 `json:"variance_asked,omitzero"`
	MaxRank  int     `json:"max_rank,omitzero"`
	Seconds  float64 `json:"seconds"`
}

func (e fitFinished) String() string {
	capped := ""
	if e.Asked > 0 {
		capped = fmt.Sprintf(" (%.6g %% were asked for: states of %d values may have %d components, %d images give %d)",
			100*e.Asked, e.Dim, e.MaxRank, e.Images, e.Images-1)
	}
	return fmt.Sprintf("fitted rank %d of %d, %.2f %% of the variance%s, in %.1f s", e.Rank, e.Dim, 100*e.Variance,
		capped, e.Seconds)
}

type fitNotCached struct {
	Error string `json:"error"`
}

func (e fitNotCached) String() string { return "the fit could not be cached: " + e.Error }

type embeddingWritten struct {
	Path string `json:"path"`
}

func (e embeddingWritten) String() string { return "wrote " + e.Path }

type embeddingNotWritten struct {
	Error string `json:"error"`
}

func (e embeddingNotWritten) String() string {
	return e.Error + ": the embedding stays in the cache; --out FILE writes it as ONNX, of one model"
}

type embeddingKept struct {
	Path string `json:"path"`
}

func (e embeddingKept) String() string {
	return e.Path + " is of this training, finished: it is left as it is; --force fits it anew"
}

type trainingStarted struct {
	At     string   `json:"at"`
	Models []string `json:"models"`
	Steps  int      `json:"steps"`
}

func (e trainingStarted) String() string {
	return fmt.Sprintf("fitting the embedding at %s of %s: %d steps", e.At, strings.Join(e.Models, ", "), e.Steps)
}

// stepID says how far a training is.
type stepID struct {
	Step int `json:"step"`
	Of   int `json:"of"`
}

type trainingResumed struct {
	stepID
	Killed string `json:"killed,omitzero"`
}

func (e trainingResumed) String() string {
	text := fmt.Sprintf("this training was begun: it continues after step %d of %d", e.Step, e.Of)
	if e.Killed != "" {
		text += fmt.Sprintf("; the fit before (%s) was killed", e.Killed)
	}
	return text
}

type checkpointDamaged struct {
	Path   string `json:"path"`
	Spared bool   `json:"spared"`
}

func (e checkpointDamaged) String() string {
	if e.Spared {
		return e.Path + " is damaged: the checkpoint before it is taken"
	}
	return e.Path + " is damaged, and there is no other checkpoint: the training begins anew"
}

type trainingStopped struct{ stepID }

func (e trainingStopped) String() string {
	return fmt.Sprintf("stopped after step %d of %d", e.Step, e.Of)
}

type trainingProgress struct {
	stepID
	Epoch          int           `json:"epoch"`
	CrossEntropy   float64       `json:"cross_entropy"`
	Reconstruction float64       `json:"reconstruction"`
	Accuracy       float64       `json:"accuracy"`
	Left           time.Duration `json:"seconds_left"`
}

func (e trainingProgress) String() string {
	return fmt.Sprintf("step %d of %d, epoch %d: cross-entropy %.4f, reconstruction %.4f, accuracy %.1f %%, %s left",
		e.Step, e.Of, e.Epoch, e.CrossEntropy, e.Reconstruction, 100*e.Accuracy, e.Left.Round(time.Second))
}
