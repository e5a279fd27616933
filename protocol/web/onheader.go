package web

import (
	"context"
	"net/http"
	"strings"

	"github.com/tandem-rpc/tandem"
)

type onHeaderKey struct{}

// OnHeader returns a context for a call over [GRPC] or [Connect]. f is called with the header of the
// response when it comes, before the first message of a stream: its metadata is in the call's Trailer
// too, where it can't be told from the trailer. Each attempt that gets a response calls f, attempts in
// parallel at the same time.
func OnHeader(ctx context.Context, f func(header tandem.Metadata)) context.Context {
	return context.WithValue(ctx, onHeaderKey{}, f)
}

// reportHeader calls the function of OnHeader for a response that has come.
func reportHeader(res *http.Response) {
	f, ok := res.Request.Context().Value(onHeaderKey{}).(func(tandem.Metadata))
	if !ok {
		return
	}
	if res.Header.Get("Grpc-Status") != "" { // the response is a trailer alone
		f(tandem.Metadata{})
		return
	}
	md := Metadata(res.Header)
	for name := range md {
		if strings.HasPrefix(name, "trailer-") { // of a unary response in Connect's protocol
			delete(md, name)
		}
	}
	f(md)
}
