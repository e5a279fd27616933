package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

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
	case errors.As(err, new(deniedError)):
		return exitCall + int(tandem.PermissionDenied)
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

// describe returns an error's text, with what to do about it if that is known. For a failed call, it
// adds where it failed and whether it may have run.
func describe(err error) string {
	var call *tandem.Error
	if !errors.As(err, &call) {
		return err.Error() + advice(err)
	}
	where := "here"
	if call.Remote {
		where = "by the server"
	}
	ran := "it did not run"
	if tandem.MayHaveExecuted(err) {
		ran = "it may have run"
	}
	return fmt.Sprintf("%v (said %s; %s)", err, where, ran) + advice(err)
}

// advice returns what to do about an error, "" if it is not one of those that are known.
func advice(err error) string {
	if errors.Is(err, override.ErrEmpty) {
		return "; --force makes the change nevertheless"
	}
	for _, denied := range denials {
		if text := err.Error(); strings.Contains(text, "registry: ") && strings.Contains(text, denied) {
			return "; tandem registry login keeps a user or a token for a registry"
		}
	}
	return ""
}

// denials are in the errors of registries that want to know who asks: etcd's, Redis's, ZooKeeper's,
// Consul's and Nacos's.
var denials = []string{ //nolint:gochecknoglobals // never changed
	"etcdserver: user name is empty", "etcdserver: authentication failed", "etcdserver: permission denied", "etcdserver: invalid auth token",
	"NOAUTH ", "WRONGPASS ", "NOPERM ", "zk: not authenticated", "response code: 403", "status 403",
}
