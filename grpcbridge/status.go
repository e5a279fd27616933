package grpcbridge

import (
	"context"
	"errors"
	"io"
	"strings"

	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/tandem-rpc/tandem"
)

// typePrefix precedes the names of messages in the type URLs of details.
const typePrefix = "type.googleapis.com/"

// statusError is the error of a call as stubs return it: [status.FromError] finds the status, and
// errors.As the *tandem.Error.
type statusError struct {
	status *status.Status
	cause  *tandem.Error
}

// Error returns the text that grpc-go's error has.
func (e *statusError) Error() string { return e.status.String() }

// GRPCStatus returns the status.
func (e *statusError) GRPCStatus() *status.Status { return e.status }

// Unwrap returns the *tandem.Error.
func (e *statusError) Unwrap() error { return e.cause }

// Is reports whether target is a status error of grpc-go's with the same status.
func (e *statusError) Is(target error) bool { return errors.Is(e.status.Err(), target) }

// toStatus returns the error of a call as stubs return it. io.EOF, nil and errors that have a
// status stay as they are.
func toStatus(err error) error {
	if err == nil || errors.Is(err, io.EOF) {
		return err
	}
	if _, ok := err.(interface{ GRPCStatus() *status.Status }); ok {
		return err
	}
	e := tandem.AsError(err)
	p := &spb.Status{Code: int32(e.Code), Message: e.Message}
	if e.Code == tandem.OK || !e.Code.Valid() {
		p.Code = int32(codes.Unknown)
	}
	for _, d := range e.Details {
		url := d.Type
		if !strings.Contains(url, "/") {
			url = typePrefix + url
		}
		p.Details = append(p.Details, &anypb.Any{TypeUrl: url, Value: d.Value})
	}
	return &statusError{status.FromProto(p), e}
}

// fromStatus returns an error that a method or an interceptor of grpc-go returned as tandem's. An
// error of another call of this process, made by a stub, keeps what only tandem knows, such as
// RetryAfter.
func fromStatus(err error) error {
	if err == nil {
		return nil
	}
	if e, ok := err.(*statusError); ok { //nolint:errorlint // a wrapped one follows and keeps the outer text
		return executed(e.cause)
	}
	if _, ok := errors.AsType[*tandem.Error](err); ok {
		return executed(tandem.AsError(err))
	}
	st, ok := status.FromError(err)
	if !ok {
		st = fromContext(err)
	}
	if st.Code() == codes.OK { // an error that claims to be none
		return tandem.Errorf(tandem.Unknown, "%w", err)
	}
	e := tandem.Errorf(codeOf(st.Code()), "%s", st.Message())
	for _, d := range st.Proto().GetDetails() {
		e = e.WithDetail(strings.TrimPrefix(d.GetTypeUrl(), typePrefix), d.GetValue())
	}
	return e
}

// executed returns the error of a method that did run, though it may pass on the error of a call that
// did not.
func executed(e *tandem.Error) error {
	if !e.NotExecuted {
		return e
	}
	c := *e
	c.NotExecuted = false
	return &c
}

// fromContext returns the status of an error without one, as grpc-go's servers do.
func fromContext(err error) *status.Status {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return status.FromContextError(err)
	}
	return status.New(codes.Unknown, err.Error())
}

func codeOf(c codes.Code) tandem.Code {
	if c > codes.Unauthenticated {
		return tandem.Unknown
	}
	return tandem.Code(c)
}

// refused returns the error of a call that was not made.
func refused(code tandem.Code, format string, args ...any) error {
	e := tandem.Errorf(code, format, args...)
	e.NotExecuted = true
	return toStatus(e)
}
