package web

import (
	"errors"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/tandem-rpc/tandem"
)

// typePrefix precedes the type names of error details in gRPC.
const typePrefix = "type.googleapis.com/"

// toConnect converts an error to connect's, with the same code and meta as its metadata.
func toConnect(err error, meta ...http.Header) *connect.Error {
	e := tandem.AsError(err)
	code := connect.Code(e.Code)
	if e.Code == tandem.OK || !e.Code.Valid() {
		code = connect.CodeUnknown
	}
	out := connect.NewError(code, errors.New(e.Message))
	for _, d := range e.Details {
		url := d.Type
		if !strings.Contains(url, "/") {
			url = typePrefix + url
		}
		if detail, err := connect.NewErrorDetail(&anypb.Any{TypeUrl: url, Value: d.Value}); err == nil {
			out.AddDetail(detail)
		}
	}
	for _, h := range meta {
		addHeader(out.Meta(), h)
	}
	return out
}

// fromConnect converts connect's error of reading or writing to tandem's.
func fromConnect(err error) error {
	if err == nil {
		return nil
	}
	c, ok := errors.AsType[*connect.Error](err)
	if !ok {
		return err
	}
	return tandem.Errorf(codeOf(c), "%s", c.Message())
}

// notExecuted is the header field that tells tandem's clients that no handler ran.
const notExecuted = "Tandem-Not-Executed"

// pushback is the header field that tells gRPC's clients when to retry (proposal A6).
const pushback = "Grpc-Retry-Pushback-Ms"

// setRetryFields sets the header fields that say whether and when to retry: HTTP's, and those of
// gRPC's and tandem's clients.
func setRetryFields(h http.Header, err error) {
	e := tandem.AsError(err)
	if e != nil && e.NotExecuted {
		h.Set(notExecuted, "true")
	}
	switch {
	case e == nil || e.RetryAfter == 0:
	case e.RetryAfter < 0:
		h.Set(pushback, "-1")
	default:
		h.Set(pushback, strconv.FormatInt(e.RetryAfter.Milliseconds(), 10))
		h.Set("Retry-After", strconv.Itoa(int(math.Ceil(e.RetryAfter.Round(time.Millisecond).Seconds()))))
	}
}

// readRetryFields reads the fields that setRetryFields sets.
func readRetryFields(h http.Header, e *tandem.Error) {
	e.NotExecuted = h.Get(notExecuted) == "true"
	if ms, err := strconv.ParseInt(h.Get(pushback), 10, 32); err == nil {
		e.RetryAfter = max(time.Duration(ms)*time.Millisecond, tandem.DoNotRetry)
	} else if s, err := strconv.ParseUint(h.Get("Retry-After"), 10, 31); err == nil {
		e.RetryAfter = time.Duration(s) * time.Second
	}
}
