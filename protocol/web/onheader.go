package web

import (
	"context"
	"net/http"
	"strings"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/internal/http2"
)

type onHeaderKey struct{}

// OnHeader returns a context for a call over [GRPC] or [Connect]. f is called with the header of the
// response when it comes, before the first message of a stream: its metadata is in the call's Trailer
// too, where it can't be told from the trailer. Each attempt that gets a response calls f, attempts in
// parallel at the same time.
func OnHeader(ctx context.Context, f func(header tandem.Metadata)) context.Context {
	return context.WithValue(ctx, onHeaderKey{}, f)
}

// reportResponse calls the function of OnHeader for a response of net/http's that has come.
func reportResponse(res *http.Response) {
	if f := onHeader(res.Request.Context()); f != nil {
		reportHeader(f, res.Header)
	}
}

// reportBlock calls the function of OnHeader for the header of a response, nil if it says nothing but
// success.
func reportBlock(ctx context.Context, head *http2.Block) {
	if f := onHeader(ctx); f != nil {
		reportHeader(f, headerOf(head))
	}
}

func onHeader(ctx context.Context) func(tandem.Metadata) {
	f, _ := ctx.Value(onHeaderKey{}).(func(tandem.Metadata))
	return f
}

func reportHeader(f func(tandem.Metadata), h http.Header) {
	if h.Get("Grpc-Status") != "" { // the response is a trailer alone
		f(tandem.Metadata{})
		return
	}
	md := Metadata(h)
	for name := range md {
		if strings.HasPrefix(name, "trailer-") { // of a unary response in Connect's protocol
			delete(md, name)
		}
	}
	f(md)
}
