package web

import (
	"context"
	"maps"
	"net/http"

	"github.com/tandem-rpc/tandem"
)

// A caller without credentials gets the same answer for every path, whatever its request
// says: what stands round the methods is asked before an answer tells whether a method
// exists, by which verb and with which messages it is called, and what is wrong with the
// request. Refusals of calls are written here for methods that exist and others alike.

// turnDown passes a call that ends with why through what stands round its method. It
// returns why, or the error in its place.
func (x *exchange) turnDown(why error) error {
	ctx := context.WithValue(x.req.Context(), exchangeKey{}, x)
	place, err := enter(ctx, x.w)
	if err != nil { // the client has reset it
		return why
	}
	defer place.leave()
	call := x.newCall()
	done := make(chan error, 1)
	x.conn.Refuse(ctx, call, why, func(err error) {
		if err != why { //nolint:errorlint // it is that one, or another's
			addMetadata(x.trailer, call.Trailer)
			advice(x.trailer, err)
		}
		done <- err
	})
	return <-done
}

// newCall returns what the header of the request says of the call.
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

// refuse answers a request that is no call: with an error of what stands round the method,
// or else by otherwise.
func (g *gateway) refuse(w http.ResponseWriter, x *exchange, why error, otherwise func(error)) {
	await(x.w, x.req, x.conn)
	err := x.turnDown(why)
	if abandoned(x.req) {
		return
	}
	x.limitAnswer(0)
	if err == why || tandem.CodeOf(err) == tandem.Unimplemented { //nolint:errorlint // as above
		otherwise(err)
		return
	}
	g.fail(w, x, err)
}

// fail answers with the error of a call that was refused before its message was wanted.
func (g *gateway) fail(w http.ResponseWriter, x *exchange, err error) {
	_ = g.failures.Write(w, x.req, outward(err, x.header, x.trailer)) // if it fails the client is gone
}

// noMethod answers a request for a method that does not exist. Clients of gRPC and of
// streams read errors in their own way only.
func (g *gateway) noMethod(w http.ResponseWriter, x *exchange) {
	why := tandem.Errorf(tandem.Unimplemented, "no method at %.200q", x.req.URL.Path)
	g.refuse(w, x, why, func(err error) {
		if x.kind.protocol == "grpc" || x.kind.protocol == "grpc-web" || x.kind.streaming != nil && *x.kind.streaming {
			g.fail(w, x, err)
			return
		}
		writeError(w, http.StatusNotFound, err)
	})
}

// wrongVerb answers a request whose verb does not call its method.
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
	g.refuse(w, x, why, func(err error) {
		w.Header().Set("Accept-Post", accepted(m))
		writeError(w, http.StatusUnsupportedMediaType, err)
	})
}

// gated holds back what connect itself has against a request, before it admits the call:
// a compressor that it does not know, say. Its methods are for one goroutine.
type gated struct {
	http.ResponseWriter

	gateway *gateway
	x       *exchange
	before  http.Header // what was there before connect
	open    bool        // what connect writes goes to the client
	refused bool        // it is thrown away: the refusal was written, or the client is gone
}

func (g *gateway) gated(w http.ResponseWriter, x *exchange) *gated {
	return &gated{ResponseWriter: w, gateway: g, x: x, before: maps.Clone(w.Header())}
}

// pass reports whether connect may write.
func (w *gated) pass() bool {
	switch {
	case w.open || w.refused:
	case abandoned(w.x.req):
		w.refused = true
	default:
		why := tandem.Errorf(tandem.InvalidArgument, "the request could not be read")
		if err := w.x.turnDown(why); err == error(why) { //nolint:errorlint // it is that one, or another's
			w.open = true
		} else {
			w.refuse(err)
		}
	}
	return w.open
}

// refuse answers with an error, and throws away what connect writes.
func (w *gated) refuse(err error) {
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
func (w *gated) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Header returns the header; connect's goes nowhere once the call is refused.
func (w *gated) Header() http.Header {
	if w.refused {
		return http.Header{}
	}
	return w.ResponseWriter.Header()
}

// WriteHeader writes the header.
func (w *gated) WriteHeader(status int) {
	if w.pass() {
		w.ResponseWriter.WriteHeader(status)
	}
}

// Write writes a part of the body, the header first.
func (w *gated) Write(b []byte) (int, error) {
	if !w.pass() {
		return len(b), nil
	}
	return w.ResponseWriter.Write(b)
}

// Flush sends what has been written.
func (w *gated) Flush() {
	if w.pass() {
		_ = http.NewResponseController(w.ResponseWriter).Flush()
	}
}
