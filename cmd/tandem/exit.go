package main

import (
	"context"
	"errors"
	"flag"
	"fmt"

	"github.com/tandem-rpc/tandem"
)

// The exit codes. A call that failed ends with exitCall plus its code: 11 for
// Canceled (1) to 26 for Unauthenticated (16).
const (
	exitOK          = 0
	exitFailed      = 1 // the command failed
	exitUsage       = 2 // the command line can't be right
	exitCall        = 10
	exitInterrupted = 130 // a signal ended the command, as shells have it
)

// usageError says what is wrong with a command line.
type usageError struct{ text string }

func (e usageError) Error() string { return e.text }

func usagef(format string, args ...any) error { return usageError{fmt.Sprintf(format, args...)} }

// errShown is a usage error that has been printed.
var errShown = usageError{"shown"}

// errInterrupted says that a signal ended the command.
var errInterrupted = errors.New("interrupted")

// exitCode returns the exit code for what a command returned.
func exitCode(err error) int {
	var usage usageError
	var call *tandem.Error
	switch {
	case err == nil, errors.Is(err, flag.ErrHelp):
		return exitOK
	case errors.As(err, &usage):
		return exitUsage
	case errors.Is(err, errInterrupted):
		return exitInterrupted
	case errors.As(err, &call):
		return exitCall + int(call.Code)
	}
	return exitFailed
}

// interrupted returns err, or that a signal has ended ctx and is the reason.
func interrupted(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return errInterrupted
	}
	return err
}

// describe is an error's text; of a call it says whether it may have run.
func describe(err error) string {
	var call *tandem.Error
	if !errors.As(err, &call) {
		return err.Error()
	}
	where := "here"
	if call.Remote {
		where = "by the server"
	}
	ran := "it did not run"
	if tandem.MayHaveExecuted(err) {
		ran = "it may have run"
	}
	return fmt.Sprintf("%v (said %s; %s)", err, where, ran)
}
