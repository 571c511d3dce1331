package cli

import (
	"context"
	"errors"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"selfheal/harness/folder"
)

// stopped is the cause of a context that a signal ended.
type stopped struct{ os.Signal }

func (s stopped) Error() string { return "stopped by " + s.String() }

// Is makes stopped a cancellation: work that a signal ends may return it as the context's cause.
func (s stopped) Is(target error) bool { return target == context.Canceled }

// code returns the exit code that shells use for a program ended by the signal: 130 for Ctrl-C, 143 for SIGTERM, 129
// for a closed terminal.
func (s stopped) code() int {
	if number, ok := s.Signal.(syscall.Signal); ok {
		return exitSignal + int(number)
	}
	return exitSignal + int(syscall.SIGINT)
}

// stoppable returns a context that the first signal ends, so that finished work is saved. The second signal ends the
// program at once, with the exit code of the first: it waits for nothing and saves nothing more. The program does not
// die of the signal, so its parent always sees an exit code.
func stoppable(ctx context.Context) context.Context {
	ctx, cancel := context.WithCancelCause(ctx)
	signals := make(chan os.Signal, 2) // both signals may come at once
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) { // nohup stays in effect
		signal.Notify(signals, syscall.SIGHUP)
	}
	// If nobody reads progress any more (| head), it is lost and the work goes on. Without this line Go would end the
	// program. Programs that it starts get the system's default again.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	go func() {
		by := stopped{<-signals}
		cancel(by)
		<-signals
		os.Exit(by.code())
	}()
	if os.Getenv(lifeline) != "" {
		go endWithParent(ctx, cancel)
	}
	return ctx
}

// lifeline is the variable set by a program that starts this one only for itself. That program holds this one's
// standard input open as long as it lives, and writes nothing to it, unless the value is "function": see [function].
const lifeline = "SELFHEAL_LIFELINE"

// savingTime is how long a program whose parent is gone may take to save its finished work.
const savingTime = 3 * time.Second

// endWithParent ends the program as SIGTERM does when its parent ends in any way: then the standard input ends. The
// system also reports the parent's end, because another process may hold that pipe open.
func endWithParent(ctx context.Context, cancel context.CancelCauseFunc) {
	gone := make(chan os.Signal, 2)
	notifyOfParent(gone)
	if os.Getenv(lifeline) != function {
		go func() {
			_, _ = io.Copy(io.Discard, os.Stdin) // an error also means the end
			gone <- syscall.SIGTERM
		}()
	}
	<-gone
	cancel(stopped{syscall.SIGTERM})
	time.Sleep(savingTime)
	os.Exit(stoppedBy(ctx).code())
}

// stoppedBy returns the signal that ended a context; Ctrl-C if no signal did.
func stoppedBy(ctx context.Context) stopped {
	by := stopped{syscall.SIGINT}
	errors.As(context.Cause(ctx), &by)
	return by
}

// continuing says how to continue a command that an error ended, "" if it kept nothing.
func continuing(c *cobra.Command, err error) string {
	switch {
	case !errors.As(err, new(folder.Unfinished)):
		return ""
	case c.Flag("force") != nil && c.Flag("force").Changed:
		return "the same command, without --force, continues"
	}
	return "the same command continues"
}
