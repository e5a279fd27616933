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

// typePrefix is what the types of details have before their names in gRPC.
const typePrefix = "type.googleapis.com/"

// outward returns an error as connect writes it. The codes are the same. Meta goes
// with it.
func outward(err error, meta ...http.Header) *connect.Error {
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

// inward returns an error of reading or writing as tandem's.
func inward(err error) error {
	if err == nil {
		return nil
	}
	c, ok := errors.AsType[*connect.Error](err)
	if !ok {
		return err
	}
	return tandem.Errorf(codeOf(c), "%s", c.Message())
}

// advice puts an error's advice when to try again into a header: in the words of
// HTTP, and in those of gRPC's clients (proposal A6).
func advice(h http.Header, err error) {
	e := tandem.AsError(err)
	switch {
	case e == nil || e.RetryAfter == 0:
	case e.RetryAfter < 0:
		h.Set("Grpc-Retry-Pushback-Ms", "-1")
	default:
		h.Set("Grpc-Retry-Pushback-Ms", strconv.FormatInt(e.RetryAfter.Milliseconds(), 10))
		h.Set("Retry-After", strconv.Itoa(int(math.Ceil(e.RetryAfter.Round(time.Millisecond).Seconds()))))
	}
}
