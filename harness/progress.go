package harness

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"

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

// component is the progress of one attack component: images that are finished,
// how many of all stand, and the time left at most, from the passes made.
type component struct {
	p        *Progress
	label    string
	name     string
	total, n int
	passes   int64
	oracle   *counted
	start    time.Time
	bar      *progressbar.ProgressBar
	done     chan struct{}
	ended    sync.WaitGroup
	mu       sync.Mutex
	finished int
	standing int
}

func (p *Progress) component(label, name string, total, standing, n int, passes int64, oracle *counted) *component {
	c := &component{p: p, label: label, name: name, total: total, n: n, standing: standing, passes: passes,
		oracle: oracle, start: time.Now(), done: make(chan struct{})}
	if p.w == nil {
		return c
	}
	tick := p.every
	if p.terminal {
		tick = 200 * time.Millisecond
		c.bar = progressbar.NewOptions64(1000, progressbar.OptionSetWriter(p.w), progressbar.OptionSetWidth(10),
			progressbar.OptionClearOnFinish(), progressbar.OptionSetPredictTime(false),
			progressbar.OptionThrottle(100*time.Millisecond),
			progressbar.OptionSetElapsedTime(false))
	}
	c.ended.Go(func() {
		t := time.NewTicker(tick)
		defer t.Stop()
		for {
			select {
			case <-c.done:
				return
			case <-t.C:
				c.show()
			}
		}
	})
	return c
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

// image records that one more image is finished.
func (c *component) image(standing int) {
	c.mu.Lock()
	c.finished++
	c.standing = standing
	c.mu.Unlock()
}

// fraction is the share of the component's work that is done. Passes count what
// is under way; finished images count whole, however early they broke.
func (c *component) fraction() float64 {
	byPasses := float64(c.oracle.made()) / float64(max(c.passes, 1))
	byImages := float64(c.finished) / float64(max(c.total, 1))
	return min(max(byPasses, byImages), 1)
}

func (c *component) show() {
	c.mu.Lock()
	f, finished, standing := c.fraction(), c.finished, c.standing
	c.mu.Unlock()
	left := "?"
	if f > 0.01 {
		left = time.Duration(float64(time.Since(c.start)) * (1 - f) / f).Round(time.Second).String()
	}
	text := fmt.Sprintf("%s %s: %d of %d images, robust so far %d of %d, %s left", c.label, c.name, finished, c.total,
		standing, c.n, left)
	if c.bar != nil {
		c.bar.Describe(c.p.fit(fmt.Sprintf("%s %s %d/%d, robust %d/%d, %s left", c.label, c.name, finished, c.total,
			standing, c.n, left)))
		_ = c.bar.Set64(int64(f * 1000))
		return
	}
	c.p.Say("%s", text)
}

// stop ends the display.
func (c *component) stop() {
	close(c.done)
	c.ended.Wait()
	if c.bar != nil {
		_ = c.bar.Finish()
	}
}

// finish ends the display with the component's line.
func (c *component) finish(standing int) {
	c.stop()
	c.p.Say("%s %s: %d images attacked, robust %d of %d (%.1f %%), %s", c.label, c.name, c.total, standing, c.n,
		100*float64(standing)/float64(c.n), time.Since(c.start).Round(100*time.Millisecond))
}
