package once

import (
	"context"
	"errors"

	"github.com/tandem-rpc/tandem"
)

// Reason says why a call with a key got neither run nor an answer. It crosses the wire as a
// detail of the error.
type Reason string

// The reasons. All have the code FailedPrecondition, and no retry helps.
const (
	// Undecided is the reason of a call whose method was interrupted. It may have done all, a part,
	// or nothing of its work, and is not run again. An operator finds out, and calls
	// [Store].Resolve.
	Undecided Reason = "undecided"
	// Mismatch is the reason of a call whose key stands for another request. It has not been executed.
	Mismatch Reason = "mismatch"
	// Unrepeatable is the reason of a call that has run, and whose answer is not kept.
	Unrepeatable Reason = "unrepeatable"
)

const reasonDetail = "tandem-once"

// ReasonOf returns the reason of a call's error; "" if it has none. It is for clients.
func ReasonOf(err error) Reason {
	if e, ok := errors.AsType[*tandem.Error](err); ok {
		for _, d := range e.Details {
			if d.Type == reasonDetail {
				return Reason(d.Value)
			}
		}
	}
	return ""
}

func refuse(id ID, r Reason, format string, args ...any) *tandem.Error {
	e := tandem.Errorf(tandem.FailedPrecondition, "%s with the key %q: "+format, append([]any{id.Method, id.Key}, args...)...)
	e.RetryAfter = tandem.DoNotRetry
	return e.WithDetail(reasonDetail, []byte(r))
}

func undecided(id ID) error {
	return refuse(id, Undecided, "an earlier call with this key was interrupted and may have run: it is not run again: "+
		"find out whether it ran, and have an operator resolve its record (Store.Resolve)")
}

func mismatch(id ID) error {
	return notExecuted(refuse(id, Mismatch, "the key stands for another request: use a new key for a new request"))
}

func unrepeatable(id ID, why string) error {
	return refuse(id, Unrepeatable, "it has run, and its answer can't be repeated: %s", why)
}

// stillRunning returns the error of a call that waited for another one with its key, or for the store,
// until its context ended.
func stillRunning(err error) error {
	code := tandem.DeadlineExceeded
	if errors.Is(err, context.Canceled) {
		code = tandem.Canceled
	}
	return tandem.Errorf(code, "another call with the key still runs")
}

// notExecuted returns a copy of err that says that the call has not been executed.
func notExecuted(err error) *tandem.Error {
	e := *tandem.AsError(err)
	e.NotExecuted = true
	return &e
}

// undoneError is an error of a method that has changed nothing.
type undoneError struct{ error }

// Unwrap returns the method's own error.
func (e undoneError) Unwrap() error { return e.error }

// Undone returns err for a method to return when it has changed nothing, or has undone what it
// did: then its answer is not kept, and a later call with the key runs. It returns nil for nil.
func Undone(err error) error {
	if err == nil {
		return nil
	}
	return undoneError{err}
}

func isUndone(err error) bool {
	var undone undoneError
	return errors.As(err, &undone)
}
