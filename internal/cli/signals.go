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

// stopped is why a context ended: the signal.
type stopped struct{ os.Signal }

func (s stopped) Error() string { return "stopped by " + s.String() }

// Is makes it a cancellation: work that a signal ends may return it as the context's cause.
func (s stopped) Is(target error) bool { return target == context.Canceled }

// code is the exit code that shells give a program which a signal ends: 130 for Ctrl-C, 143 for SIGTERM,
// 129 for a terminal that is closed.
func (s stopped) code() int {
	if number, ok := s.Signal.(syscall.Signal); ok {
		return exitSignal + int(number)
	}
	return exitSignal + int(syscall.SIGINT)
}

// stoppable is a context that the first signal ends, so that what is finished is saved. The second one ends the
// program with the exit code of the first, whatever it is doing: waiting for nothing, saving nothing more. It does
// not die of the signal, so that its parent always sees an exit code.
func stoppable(ctx context.Context) context.Context {
	ctx, cancel := context.WithCancelCause(ctx)
	signals := make(chan os.Signal, 2) // both may come at once
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) { // nohup's word holds
		signal.Notify(signals, syscall.SIGHUP)
	}
	// Where nobody reads progress any more (| head), it gets lost and the work goes on. Without this line Go
	// would end the program. Programs that it starts have the system's default again.
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

// lifeline is the variable that is set by a program which starts this one for itself alone. It holds this one's
// standard input open for as long as it lives, and writes nothing to it.
const lifeline = "SELFHEAL_LIFELINE"

// farewell is how long a program whose parent is gone may take to save what is finished.
const farewell = 3 * time.Second

// endWithParent ends the program as SIGTERM does once its parent has ended, however that was: the standard input ends.
// The system tells of the parent's end too, since another process may hold that pipe open.
func endWithParent(ctx context.Context, cancel context.CancelCauseFunc) {
	gone := make(chan os.Signal, 2)
	notifyOfParent(gone)
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // an error is an end, too
		gone <- syscall.SIGTERM
	}()
	<-gone
	cancel(stopped{syscall.SIGTERM})
	time.Sleep(farewell)
	os.Exit(stoppedBy(ctx).code())
}

// stoppedBy is the signal that ended a context; Ctrl-C where it ended otherwise.
func stoppedBy(ctx context.Context) stopped {
	by := stopped{syscall.SIGINT}
	errors.As(context.Cause(ctx), &by)
	return by
}

// continuing says how to go on with a command that an error ended, "" where it kept nothing.
func continuing(c *cobra.Command, err error) string {
	switch {
	case !errors.As(err, new(folder.Unfinished)):
		return ""
	case c.Flag("force") != nil && c.Flag("force").Changed:
		return "the same command, without --force, continues"
	}
	return "the same command continues"
}
