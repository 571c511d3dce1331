package harness

import (
	"fmt"
	"time"

	"github.com/schollz/progressbar/v3"

	"selfheal/control/train"
)

// trainingProgress shows a training as it goes: a bar on a terminal, otherwise a line now and then.
type trainingProgress struct {
	p       *Progress
	t       *train.Trainer
	bar     *progressbar.ProgressBar
	begun   time.Time
	first   int
	shown   time.Time
	pending []train.Loss // since the last line
}

func (p *Progress) training(t *train.Trainer) *trainingProgress {
	s := &trainingProgress{p: p, t: t, begun: time.Now(), first: t.Done(), shown: time.Now()}
	if p.terminal {
		s.bar = progressbar.NewOptions64(int64(t.Steps()), progressbar.OptionSetWriter(p.w),
			progressbar.OptionSetWidth(10), progressbar.OptionClearOnFinish(), progressbar.OptionSetPredictTime(false),
			progressbar.OptionSetElapsedTime(false))
	}
	return s
}

// step records a step's losses; it shows their means since it last showed any.
func (s *trainingProgress) step(l train.Loss) {
	s.pending = append(s.pending, l)
	every := s.p.every
	if s.bar != nil {
		every = 200 * time.Millisecond
	}
	done := s.t.Done()
	if s.p.w == nil || time.Since(s.shown) < every && done < s.t.Steps() {
		return
	}
	m := mean(s.pending)
	begun := float64(time.Since(s.begun))
	left := time.Duration(begun * float64(s.t.Steps()-done) / float64(done-s.first)).Round(time.Second)
	text := fmt.Sprintf("step %d of %d, epoch %d: cross-entropy %.4f, reconstruction %.4f, accuracy %.1f %%, %s left",
		done, s.t.Steps(), l.Step/s.t.PerEpoch()+1, m.CrossEntropy, m.Reconstruction, 100*m.Accuracy, left)
	s.shown, s.pending = time.Now(), s.pending[:0]
	if s.bar != nil && done < s.t.Steps() {
		s.bar.Describe(s.p.fit(text))
		_ = s.bar.Set(done)
		return
	}
	s.stop()
	s.p.Say("%s", text)
}

// stop ends the bar.
func (s *trainingProgress) stop() {
	if s.bar != nil {
		_ = s.bar.Finish()
		s.bar = nil
	}
}
