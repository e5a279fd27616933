package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/cmd/tandem/internal/doctor"
	"github.com/tandem-rpc/tandem/override"
)

// The exit codes. A call that failed ends with exitCall plus its code: 11 for
// Canceled (1) to 26 for Unauthenticated (16).
const (
	exitOK          = 0
	exitFailed      = 1 // the command failed
	exitUsage       = 2 // the command line is invalid
	exitRefused     = 8 // a guard rail refused the change
	exitThreshold   = 9 // a load test crossed a threshold
	exitCall        = 10
	exitInterrupted = 130 // a signal ended the command; the code is that of shells
)

// usageError is an error in a command line.
type usageError struct{ text string }

func (e usageError) Error() string { return e.text }

func usagef(format string, args ...any) error { return usageError{fmt.Sprintf(format, args...)} }

// errShown is a usage error that has been printed.
var errShown = usageError{"shown"}

// errInterrupted is returned when a signal ended the command.
var errInterrupted = errors.New("interrupted")

// exitCode returns the exit code for a command's error.
func exitCode(err error) int {
	var usage usageError
	var call *tandem.Error
	var check checkError
	var last replError
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &check):
		return check.code
	case errors.As(err, &last):
		return last.code
	case errors.As(err, new(uncheckedError)):
		return int(doctor.Unknown)
	case errors.As(err, &usage):
		return exitUsage
	case errors.Is(err, errInterrupted):
		return exitInterrupted
	case errors.Is(err, override.ErrEmpty):
		return exitRefused
	case errors.As(err, new(thresholdError)):
		return exitThreshold
	case errors.As(err, &call):
		return exitCall + int(call.Code)
	}
	return exitFailed
}

// interrupted returns err, or errInterrupted if there is an error and a signal has ended ctx.
func interrupted(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return errInterrupted
	}
	return err
}

// describe returns an error's text. For a failed call, it adds where it failed and whether it
// may have run.
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
