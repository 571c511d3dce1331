package harness

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"

	"selfheal/control/train"
	"selfheal/internal/terminal"
)

// Progress tells the user how a run goes: bars on a terminal, plain lines
// elsewhere. A nil writer is silent.
type Progress struct {
	w        io.Writer
	terminal bool
	every    time.Duration // between two plain lines of one component
}

// NewProgress reports to w.
func NewProgress(w io.Writer, quiet bool) *Progress {
	if quiet {
		w = nil
	}
	p := &Progress{w: w, every: 10 * time.Second}
	if f, ok := terminal.Raw(w).(*os.File); ok {
		p.terminal = term.IsTerminal(int(f.Fd()))
	}
	return p
}

// Say prints one line.
func (p *Progress) Say(format string, args ...any) {
	if p.w != nil {
		fmt.Fprintf(p.w, format+"\n", args...)
	}
}

// display is one line that changes: a bar on a terminal, elsewhere plain lines.
type display struct {
	*Progress
	bar   *progressbar.ProgressBar // nil where there is no terminal, and at the end
	tick  time.Duration            // between two texts
	start time.Time
}

func (p *Progress) display(total int64) display {
	d := display{Progress: p, tick: p.every, start: time.Now()}
	if p.terminal {
		d.tick = 200 * time.Millisecond
		d.bar = progressbar.NewOptions64(total, progressbar.OptionSetWriter(p.w), progressbar.OptionSetWidth(10),
			progressbar.OptionClearOnFinish(), progressbar.OptionSetPredictTime(false),
			progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionSetElapsedTime(false))
	}
	return d
}

// show says how far the work is; a bar shows it, with the short text.
func (d *display) show(at int64, short, long string) {
	if d.bar == nil {
		d.Say("%s", long)
		return
	}
	d.bar.Describe(d.fit(short))
	_ = d.bar.Set64(at)
}

// stop ends the bar.
func (d *display) stop() {
	if d.bar != nil {
		_ = d.bar.Finish()
		d.bar = nil
	}
}

// barWidth is what the bar takes beside its text.
const barWidth = 22

// fit shortens a text from its left end so that it stands in one line with the bar.
func (p *Progress) fit(text string) string {
	f, ok := terminal.Raw(p.w).(*os.File)
	if !ok {
		return text
	}
	width, _, err := term.GetSize(int(f.Fd()))
	runes := []rune(text)
	if room := width - barWidth; err == nil && room > 1 && len(runes) > room {
		return "…" + string(runes[len(runes)-room+1:])
	}
	return text
}

// component is the progress of one attack component: images that are finished,
// how many of all stand, and the time left at most, from the passes made.
type component struct {
	display
	label    string
	total, n int
	passes   int64
	oracle   *counted
	done     chan struct{}
	ended    sync.WaitGroup
	mu       sync.Mutex
	finished int
	standing int
}

func (p *Progress) component(label string, total, standing, n int, passes int64, oracle *counted) *component {
	c := &component{display: p.display(1000), label: label, total: total, n: n, standing: standing, passes: passes,
		oracle: oracle, done: make(chan struct{})}
	if p.w == nil {
		return c
	}
	c.ended.Go(func() {
		t := time.NewTicker(c.tick)
		defer t.Stop()
		for {
			select {
			case <-c.done:
				return
			case <-t.C:
				c.tell()
			}
		}
	})
	return c
}

// image records that one more image is finished.
func (c *component) image(standing int) {
	c.mu.Lock()
	c.finished++
	c.standing = standing
	c.mu.Unlock()
}

// tell shows how far the component is. Passes count what is under way; finished images count
// whole, however early they broke.
func (c *component) tell() {
	c.mu.Lock()
	finished, standing := c.finished, c.standing
	c.mu.Unlock()
	byPasses := float64(c.oracle.made()) / float64(max(c.passes, 1))
	f := min(max(byPasses, float64(finished)/float64(max(c.total, 1))), 1)
	left := "?"
	if f > 0.01 {
		left = time.Duration(float64(time.Since(c.start)) * (1 - f) / f).Round(time.Second).String()
	}
	c.show(int64(f*1000),
		fmt.Sprintf("%s %d/%d, robust %d/%d, %s left", c.label, finished, c.total, standing, c.n, left),
		fmt.Sprintf("%s: %d of %d images, robust so far %d of %d, %s left", c.label, finished, c.total, standing, c.n,
			left))
}

// stop ends the display.
func (c *component) stop() {
	close(c.done)
	c.ended.Wait()
	c.display.stop()
}

// finish ends the display with the component's line.
func (c *component) finish(standing int) {
	c.stop()
	c.Say("%s: %d images attacked, robust %d of %d (%.1f %%), %s", c.label, c.total, standing, c.n,
		100*float64(standing)/float64(c.n), time.Since(c.start).Round(100*time.Millisecond))
}

// trainingProgress shows a training as it goes: a bar on a terminal, otherwise a line now and then.
type trainingProgress struct {
	display
	t       *train.Trainer
	first   int
	shown   time.Time
	pending []train.Loss // since the last text
}

func (p *Progress) training(t *train.Trainer) *trainingProgress {
	return &trainingProgress{display: p.display(int64(t.Steps())), t: t, first: t.Done(), shown: time.Now()}
}

// step records a step's losses; it shows their means since it last showed any.
func (s *trainingProgress) step(l train.Loss) {
	s.pending = append(s.pending, l)
	done, steps := s.t.Done(), s.t.Steps()
	if s.w == nil || time.Since(s.shown) < s.tick && done < steps {
		return
	}
	m := mean(s.pending)
	left := time.Duration(float64(time.Since(s.start)) * float64(steps-done) / float64(done-s.first)).Round(time.Second)
	text := fmt.Sprintf("step %d of %d, epoch %d: cross-entropy %.4f, reconstruction %.4f, accuracy %.1f %%, %s left",
		done, steps, l.Step/s.t.PerEpoch()+1, m.CrossEntropy, m.Reconstruction, 100*m.Accuracy, left)
	s.shown, s.pending = time.Now(), s.pending[:0]
	if done == steps {
		s.stop() // the last text stays
	}
	s.show(int64(done), text, text)
}
