// Package progress reports what a command does, to people and to machines. It owns the table of events, whose fields
// are the attributes of records, and the estimate of the time left. [New] makes a [Progress]; every room reports
// events with [Progress.Report], and an attack's component with [Progress.Component]. No report changes a result.
package progress

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"reflect"
	"strings"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"

	"selfheal/control/train"
	"selfheal/harness/config"
	"selfheal/harness/result"
	"selfheal/internal/lists"
	"selfheal/internal/number"
	"selfheal/internal/terminal"
	"selfheal/models/ort"
)

// The values of --log-format.
const (
	TextLog = "text"
	JSONLog = "json"
)

// Every is the time between two reports of one component, or of a training, unless [Progress.SetEvery] changes it.
const Every = 10 * time.Second

// Progress reports how a command goes: to people by bars on a terminal and plain lines elsewhere, to machines by a
// JSON record for each event, see docs/progress.md. The zero value is silent.
type Progress struct {
	w        io.Writer
	quiet    bool
	records  *slog.Logger // nil for people
	terminal bool
	every    time.Duration // between two reports of one component
	follow   func()        // may be nil
}

// New returns a progress that writes to w in a format, [TextLog] or [JSONLog]. If quiet is set, it reports only the
// end of the command, and downloads.
func New(w io.Writer, format string, quiet bool) *Progress {
	p := &Progress{w: w, quiet: quiet, every: Every}
	if format == JSONLog {
		p.records = slog.New(slog.NewJSONHandler(w, nil))
	} else {
		p.terminal = terminal.Is(w)
	}
	return p
}

// SetEvery sets the time between two reports of one component, or of a training, off a terminal.
func (p *Progress) SetEvery(d time.Duration) { p.every = d }

func (p *Progress) silent() bool { return p.w == nil || p.quiet }

// Report reports an event, a value of a type in the table, unless the user wants quiet.
func (p *Progress) Report(event any) {
	if !p.silent() {
		p.always(event)
	}
}

// always reports an event even if quiet is set.
func (p *Progress) always(event any) {
	k := kindOf(event)
	if p.records != nil {
		p.records.LogAttrs(context.Background(), k.level, k.name, attributes(event)...)
	} else if text := k.line(event); text != "" {
		fmt.Fprintln(p.w, text)
	}
}

// attributes returns an event's fields that have a name in records, in order.
func attributes(event any) (list []slog.Attr) {
	v := reflect.ValueOf(event)
	for _, f := range reflect.VisibleFields(v.Type()) {
		name, optional := attribute(f)
		value := v.FieldByIndex(f.Index)
		if name == "" || optional && value.IsZero() {
			continue
		}
		a := slog.Any(name, reflect.Indirect(value).Interface())
		switch x := a.Value.Any().(type) {
		case time.Duration:
			a = slog.Float64(name, x.Seconds())
		case float64:
			if !number.Finite(x) {
				a = slog.Any(name, nil)
			}
		}
		list = append(list, a)
	}
	return list
}

// Fetched reports a step of fetching ONNX Runtime.
func (p *Progress) Fetched(f ort.Fetch) { p.always(fetched{f}) }

// Experiment reports that an experiment of the theory begins.
func (p *Progress) Experiment(name string) { p.Report(experimentStarted{name}) }

// Failed reports the error that ends the command, a line for each error of a config, and the command that continues.
func (p *Progress) Failed(err error, code int, continues string) {
	parts := []string{err.Error()}
	if errors.As(err, new(config.Errors)) {
		parts = strings.Split(parts[0], "\n")
	}
	parts = lists.Map(parts, func(part string) string { return strings.Join(strings.Fields(part), " ") })
	p.always(failed{strings.Join(parts, "\n"), code, continues})
}

// Stopped reports the signal that ends the command and, if there is one, the command that continues.
func (p *Progress) Stopped(signal string, code int, continues string) {
	p.always(stopped{signal, code, continues})
}

// Scored reports a cell with verdicts. known says that the line of its last component has already told people.
func (p *Progress) Scored(c result.Cell, cell, cells int, known bool) {
	id := c.ID
	p.Report(CellFinished{id, Score{c.Accuracy, c.Correct, c.N, c.Seconds}, cell, cells, known})
	for _, w := range c.Warnings {
		p.Report(CellWarned{id, w.ID, w.Message})
	}
}

// display is one line that changes: a bar on a terminal, plain lines elsewhere.
type display struct {
	*Progress
	bar   *progressbar.ProgressBar // nil without a terminal, and at the end
	tick  time.Duration            // between two texts
	start time.Time
}

func (p *Progress) display(total int64) display {
	d := display{Progress: p, tick: p.every, start: time.Now()}
	if p.terminal && !p.quiet {
		d.tick = 200 * time.Millisecond
		d.bar = progressbar.NewOptions64(total, progressbar.OptionSetWriter(p.w), progressbar.OptionSetWidth(10),
			progressbar.OptionClearOnFinish(), progressbar.OptionSetPredictTime(false),
			progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionSetElapsedTime(false))
	}
	return d
}

// show reports how far the work is. A bar shows the short text.
func (d *display) show(at int64, short string, event any) {
	if d.bar == nil {
		d.Report(event)
		return
	}
	d.bar.Describe(d.fit(short))
	_ = d.bar.Set64(at)
}

// Stop ends the bar.
func (d *display) Stop() {
	if d.bar != nil {
		_ = d.bar.Finish()
		d.bar = nil
	}
}

const barWidth = 22

// fit shortens a text at its left end so that it fits in one line with the bar.
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

// Training shows the progress of a training: a bar on a terminal, otherwise an occasional report.
type Training struct {
	display
	t       *train.Trainer
	first   int
	shown   time.Time
	pending []train.Loss // since the last report
}

// Training begins to show a training. Stop it.
func (p *Progress) Training(t *train.Trainer) *Training {
	return &Training{display: p.display(int64(t.Steps())), t: t, first: t.Done(), shown: time.Now()}
}

// Step records a step's losses. It shows the means over the steps since it last showed any.
func (s *Training) Step(l train.Loss) {
	s.pending = append(s.pending, l)
	done, steps := s.t.Done(), s.t.Steps()
	if s.silent() || time.Since(s.shown) < s.tick && done < steps {
		return
	}
	m := train.Mean(s.pending)
	left := time.Duration(float64(time.Since(s.start)) * float64(steps-done) / float64(done-s.first))
	e := TrainingProgress{StepID{done, steps}, l.Step/s.t.PerEpoch() + 1, m.CrossEntropy, m.Reconstruction, m.Accuracy,
		left}
	s.shown, s.pending = time.Now(), s.pending[:0]
	if done == steps {
		s.Stop() // keeps the last text
	}
	s.show(int64(done), e.line(), e)
}
