package web

import (
	"context"
	"net/http"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/server"
)

type (
	connKey     struct{}
	exchangeKey struct{}
)

// Conn returns the connection that a request came on, given the request's context. It lets
// a handler of [WithHandler] call the server's methods. A handler that implements a
// protocol of its own makes its calls by [server.Conn.Go], with that same context, and
// returns when they are done:
//
//	c := web.Conn(r.Context())
//	peer := *c.Peer()
//	peer.Protocol = "mine"
//	call := &tandem.Call{
//		Method: "Arith.Mul", Metadata: web.Metadata(r.Header), Codec: "json",
//		Peer: &peer, Body: body,
//	}
//	done := make(chan error, 1)
//	c.Go(r.Context(), call, func(err error) { done <- err })
//	err := <-done
//
// They pass the same interceptors and limits as all calls. Of the Conn's other methods the
// handler may use those that describe the server; reading and writing are net/http's, also
// after the handler has hijacked the connection ([http.Hijacker]): then a server that
// drains waits until that connection is closed, and [server.Conn.Draining] tells the
// handler to close it.
//
// For any other context it returns nil.
func Conn(ctx context.Context) *server.Conn {
	c, _ := ctx.Value(connKey{}).(*server.Conn)
	return c
}

// Request returns the HTTP request of a call, given its handler's context; nil for calls of
// other protocols. The handler must not read its body or change it.
func Request(ctx context.Context) *http.Request {
	if x, ok := ctx.Value(exchangeKey{}).(httpCall); ok {
		return x.request()
	}
	return nil
}

// Header returns the header of the response to a call, given its handler's context; nil for
// calls of other protocols. Fields that are set before the method returns, or sends its
// first message, reach the client, except names that the protocol itself uses. Metadata
// that every protocol can send belongs in the call's Trailer.
func Header(ctx context.Context) http.Header {
	if x, ok := ctx.Value(exchangeKey{}).(httpCall); ok {
		return x.responseHeader()
	}
	return nil
}

// SendHeader sends the header of the response to a stream at once, given its
// handler's context, for clients that wait for it before they send more. It does
// nothing for unary calls, for calls of other protocols, and after the first message.
func SendHeader(ctx context.Context) error {
	if x, ok := ctx.Value(exchangeKey{}).(httpCall); ok {
		return x.sendHeader()
	}
	return nil
}

// httpCall is what a handler's context has of its call.
type httpCall interface {
	request() *http.Request
	responseHeader() http.Header
	sendHeader() error
}

func (x *exchange) request() *http.Request { return x.req }

func (x *exchange) responseHeader() http.Header { return x.header }

func (x *exchange) sendHeader() error {
	if x.method.Kind != tandem.Streaming {
		return nil
	}
	return x.send(nil)
}
