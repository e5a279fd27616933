package machine

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/wire"
)

// ErrDraining is in the chain of the error of a call that was not executed
// because the peer drains or the connection has ended: it is safe to retry at
// another instance.
var ErrDraining = errors.New("draining")

// ErrSilent is why calls and connections end when a peer was silent for too long.
var ErrSilent = errors.New("silent")

var errDeadline = context.DeadlineExceeded

func drainError(reason string) *tandem.Error {
	e := tandem.Errorf(tandem.Unavailable, "%w: %s", ErrDraining, reason)
	e.NotExecuted = true
	return e
}

// unsentError is the cause of a call whose request was never written. It matches
// ErrDraining, so a retry at another instance is free, unless the peer was silent: then
// the retry is charged to the retry budget.
type unsentError struct{ silent bool }

func (unsentError) Error() string { return "not sent" }

func (e unsentError) Is(target error) bool {
	return target == ErrDraining && !e.silent
}

// unsent returns the error of a call whose request was never written. cause is why the
// connection ended, or nil if it had ended before the call was made.
func unsent(cause error, reason string) *tandem.Error {
	e := tandem.Errorf(tandem.Unavailable, "%w: %s", unsentError{errors.Is(cause, ErrSilent)}, reason)
	e.NotExecuted = true
	return e
}

// GivenUp returns the error of a call whose caller no longer waits for it.
func GivenUp(cause error, notExecuted bool) *tandem.Error {
	code, text := tandem.Canceled, "call canceled by the caller"
	if errors.Is(cause, context.DeadlineExceeded) {
		code, text = tandem.DeadlineExceeded, "no answer within the deadline"
	}
	if notExecuted {
		text += "; it was never sent"
	}
	return &tandem.Error{Code: code, Message: text, NotExecuted: notExecuted}
}

// SendError returns the error of a send on a stream that has ended with err; io.EOF means without an error.
func SendError(err error) error {
	if err == io.EOF { //nolint:errorlint // set by us
		return &tandem.Error{Code: tandem.FailedPrecondition, Message: "the stream is over"}
	}
	return err
}

// StatusError returns the error that an encoded status stands for, nil for OK.
func StatusError(b []byte) error {
	if len(b) == 0 {
		return nil
	}
	st, err := wire.ParseStatus(b)
	if err != nil {
		return &tandem.Error{Code: tandem.Internal, Message: "bad status: " + err.Error()}
	}
	if st.Code == tandem.OK {
		return nil
	}
	return &tandem.Error{
		Code: st.Code, Message: st.Message, Details: st.Details, Remote: true, NotExecuted: st.NotExecuted, RetryAfter: st.RetryAfter,
	}
}

func violationf(format string, args ...any) error {
	return fmt.Errorf("%w: %s", wire.ErrViolation, fmt.Sprintf(format, args...))
}
