package web

import (
	"context"
	"maps"
	"net/http"

	"github.com/tandem-rpc/tandem"
)

// A caller without credentials gets the same response for every path and request:
// interceptors and plugins run before a response tells whether a method exists, by which
// verb and with which messages it is called, and what is wrong with the request. Refusals
// are written here, for methods that exist and for others.

// refuseThroughPlugins passes a call that is refused with why through the interceptors and plugins of
// its method. It returns why, or the error that they returned instead.
func (x *exchange) refuseThroughPlugins(why error) error {
	ctx := context.WithValue(x.req.Context(), exchangeKey{}, x)
	place, err := enter(ctx, x.w)
	if err != nil { // the client has reset the request
		return why
	}
	defer place.leave()
	call := x.newCall()
	done := make(chan error, 1)
	x.conn.Refuse(ctx, call, why, func(err error) {
		if err != why { //nolint:errorlint // compared by identity: why, or another error
			addMetadata(x.trailer, call.Trailer)
			setRetryFields(x.trailer, err)
		}
		done <- err
	})
	return <-done
}

// newCall returns the call that the request's header describes.
func (x *exchange) newCall() *tandem.Call {
	call := &tandem.Call{Method: x.name, Metadata: Metadata(x.req.Header), Codec: x.kind.codec, Peer: x.peer, Body: x}
	switch {
	case x.method != nil:
		call.Kind, call.Idempotent = x.method.Kind, x.method.Safe
	case x.kind.streaming != nil && *x.kind.streaming:
		call.Kind = tandem.Streaming
	}
	return call
}

// refuse answers a request that is not a valid call: with the error of an interceptor or
// plugin if there is one, else by calling otherwise.
func (g *gateway) refuse(w http.ResponseWriter, x *exchange, why error, otherwise func(error)) {
	drainRefused(x.w, x.req, x.conn)
	err := x.refuseThroughPlugins(why)
	if abandoned(x.req) {
		return
	}
	x.limitAnswer(0)
	if err == why || tandem.CodeOf(err) == tandem.Unimplemented { //nolint:errorlint // compared by identity
		otherwise(err)
		return
	}
	g.fail(w, x, err)
}

// fail answers with the error of a call that was refused before its message was read.
func (g *gateway) fail(w http.ResponseWriter, x *exchange, err error) {
	_ = g.failures.Write(w, x.req, toConnect(err, x.header, x.trailer)) // an error means that the client is gone
}

// noMethod answers a request for a method that does not exist. Clients of gRPC, and of
// streams, understand errors in their own protocol only.
func (g *gateway) noMethod(w http.ResponseWriter, x *exchange) {
	why := tandem.Errorf(tandem.Unimplemented, "no method at %.200q", x.req.URL.Path)
	g.refuse(w, x, why, func(err error) {
		if x.kind.protocol == "grpc" || x.kind.protocol == "grpc-web" || x.kind.streaming != nil && *x.kind.streaming && !x.kind.lines {
			g.fail(w, x, err)
			return
		}
		writeError(w, http.StatusNotFound, err)
	})
}

// wrongVerb answers a request with a verb that does not call its method.
func (g *gateway) wrongVerb(w http.ResponseWriter, x *exchange) {
	m := x.method
	why := tandem.Errorf(tandem.Unknown, "%.20s: method %s is called by %s", x.req.Method, m.Name, allowed(m))
	g.refuse(w, x, why, func(err error) {
		w.Header().Set("Allow", allowed(m))
		writeError(w, http.StatusMethodNotAllowed, err)
	})
}

// wrongType answers a request with messages that its method does not take.
func (g *gateway) wrongType(w http.ResponseWriter, x *exchange) {
	m := x.method
	why := tandem.Errorf(tandem.Unknown, "%s takes %s, not %.100q", m.Name, accepted(m), x.req.Header.Get("Content-Type"))
	if m.Kind == tandem.Streaming && x.kind.codec == "json" {
		why = tandem.Errorf(tandem.Unknown, "%s is a stream: send Accept: text/event-stream or application/x-ndjson", m.Name)
	}
	g.refuse(w, x, why, func(err error) {
		w.Header().Set("Accept-Post", accepted(m))
		writeError(w, http.StatusUnsupportedMediaType, err)
	})
}

// refusalGate holds back connect's own refusal of a request before the call is admitted, for
// example because of an unknown compressor. Its methods are not safe for concurrent use.
type refusalGate struct {
	http.ResponseWriter

	gateway *gateway
	x       *exchange
	before  http.Header // the header before connect added to it
	open    bool        // what connect writes goes to the client
	refused bool        // what connect writes is discarded: the refusal was written, or the client is gone
}

func (g *gateway) newRefusalGate(w http.ResponseWriter, x *exchange) *refusalGate {
	return &refusalGate{ResponseWriter: w, gateway: g, x: x, before: maps.Clone(w.Header())}
}

// pass reports whether connect may write.
func (w *refusalGate) pass() bool {
	switch {
	case w.open || w.refused:
	case abandoned(w.x.req):
		w.refused = true
	default:
		why := tandem.Errorf(tandem.InvalidArgument, "the request could not be read")
		if err := w.x.refuseThroughPlugins(why); err == error(why) { //nolint:errorlint // compared by identity
			w.open = true
		} else {
			w.refuse(err)
		}
	}
	return w.open
}

// refuse answers with an error, and makes the refusalGate discard what connect writes.
func (w *refusalGate) refuse(err error) {
	w.refused = true
	if abandoned(w.x.req) {
		return
	}
	h := w.ResponseWriter.Header()
	clear(h)
	maps.Copy(h, w.before)
	w.x.limitAnswer(0)
	w.gateway.fail(w.ResponseWriter, w.x, err)
}

// Unwrap is for [http.ResponseController].
func (w *refusalGate) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Header returns the header; after a refusal one that is discarded.
func (w *refusalGate) Header() http.Header {
	if w.refused {
		return http.Header{}
	}
	return w.ResponseWriter.Header()
}

// WriteHeader writes the header.
func (w *refusalGate) WriteHeader(status int) {
	if w.pass() {
		w.ResponseWriter.WriteHeader(status)
	}
}

// Write writes a part of the body, after the header.
func (w *refusalGate) Write(b []byte) (int, error) {
	if !w.pass() {
		return len(b), nil
	}
	return w.ResponseWriter.Write(b)
}

// Flush sends what has been written.
func (w *refusalGate) Flush() {
	if w.pass() && !w.x.held {
		_ = http.NewResponseController(w.ResponseWriter).Flush()
	}
}
