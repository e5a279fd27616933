package tandem

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Error is the one error type that leaves the module.
//
// An error that a method returns reaches the caller with its code ([Unknown] unless
// it is an *Error or a context's error) and its text unchanged. Panics and internals
// of a server are not sent to callers; they go to the server's log.
//
// errors.Is(err, context.DeadlineExceeded) and errors.Is(err, context.Canceled)
// hold for the corresponding codes even when the error came over the wire.
type Error struct {
	Code    Code
	Message string   // for people: what happened, where, and what to do
	Details []Detail // for programs

	// Remote is true when the server returned the error, false when this side made it.
	Remote bool

	// NotExecuted is true when it is certain that no handler ran for this
	// call. The zero value means that it may have.
	NotExecuted bool

	// RetryAfter is advice on a retry: how long to wait before it, [DoNotRetry]
	// not to retry, 0 for no advice. A method's error carries it to the client,
	// whose fail modes follow it.
	RetryAfter time.Duration

	cause error
}

// DoNotRetry is a RetryAfter: another attempt would not help, or has been made
// already by a layer further down. Anything negative means the same.
const DoNotRetry time.Duration = -1

// A Detail is a typed piece of data attached to an [Error].
type Detail struct {
	Type  string // names the encoding of Value, for example a protobuf full name
	Value []byte
}

// Errorf returns an [*Error] with the code and formatted message. A %w verb
// makes the operand reachable through errors.Is and errors.As, as in
// [fmt.Errorf].
func Errorf(code Code, format string, args ...any) *Error {
	err := fmt.Errorf(format, args...)
	return &Error{Code: code, Message: err.Error(), cause: unwrapAny(err)}
}

// unwrapAny keeps err itself as the cause when it wraps something.
func unwrapAny(err error) error {
	switch err.(type) { //nolint:errorlint // asks whether this very value wraps something
	case interface{ Unwrap() error }, interface{ Unwrap() []error }:
		return err
	}
	return nil
}

// Error returns the code's name and the message.
func (e *Error) Error() string {
	if e.Message == "" {
		return e.Code.String()
	}
	return e.Code.String() + ": " + e.Message
}

// Unwrap returns the local cause, if there is one.
func (e *Error) Unwrap() error { return e.cause }

// Is makes errors.Is match the context errors by their codes.
func (e *Error) Is(target error) bool {
	return target == context.DeadlineExceeded && e.Code == DeadlineExceeded ||
		target == context.Canceled && e.Code == Canceled
}

// WithRetryAfter returns a copy of e with that advice. It wraps e.
func (e *Error) WithRetryAfter(d time.Duration) *Error {
	c := *e
	c.RetryAfter, c.cause = d, e
	return &c
}

// WithDetail returns a copy of e with one more detail.
func (e *Error) WithDetail(kind string, value []byte) *Error {
	c := *e
	c.Details = append(slices.Clip(c.Details), Detail{kind, value})
	return &c
}

// CodeOf returns the code of err: OK for nil, the code of an [*Error] in its
// chain, Canceled or DeadlineExceeded for a context's error, else Unknown.
func CodeOf(err error) Code {
	if err == nil {
		return OK // before e, which is allocated on the heap
	}
	var e *Error
	switch {
	case errors.As(err, &e):
		return e.Code
	case errors.Is(err, context.Canceled):
		return Canceled
	case errors.Is(err, context.DeadlineExceeded):
		return DeadlineExceeded
	}
	return Unknown
}

// AsError returns err as an [*Error]: err itself if it is one; a copy of the one it
// wraps, with the text of err; or a new one with the code of [CodeOf]. It returns nil
// for nil.
func AsError(err error) *Error {
	if err == nil {
		return nil
	}
	if e, ok := err.(*Error); ok { //nolint:errorlint // the wrapped case follows and keeps the outer text
		return e
	}
	if inner, ok := errors.AsType[*Error](err); ok {
		c := *inner
		c.Message, c.cause = err.Error(), err
		return &c
	}
	return &Error{Code: CodeOf(err), Message: err.Error(), cause: err}
}

// MayHaveExecuted reports whether a call that ended with err may have run its
// handler. It is false only when that is certain. For nil it is true.
func MayHaveExecuted(err error) bool {
	var e *Error
	return !errors.As(err, &e) || !e.NotExecuted
}
