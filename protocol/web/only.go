package web

import (
	"encoding/binary"
	"errors"
	"io"
	"net/http"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/internal/buffer"
)

// A unary call over gRPC or gRPC-Web looks like a stream with one message each way, and is served as
// one: the call reads its message itself, so that interceptors run before, and the message need not be
// copied for them.

// hasOnly reports whether a call is such a call.
func (x *exchange) hasOnly() bool {
	return x.method.Kind != tandem.Streaming && x.kind.streaming == nil && x.kind.protocol != ""
}

// single serves the call: connect has read the header, and ends the response.
func (x *exchange) single(stream messageConn) error {
	x.stream, x.readable = x.newDirect(stream), true
	x.readyOnce.Do(func() { close(x.messageReady) })
	<-x.ended
	x.direct.decoded()
	if x.err != nil {
		x.limitAnswer(0)
		return x.failure()
	}
	addHeader(stream.ResponseHeader(), x.header)
	addHeader(stream.ResponseTrailer(), x.trailer)
	return x.sendOnly()
}

// receiveOnly reads the message, and waits for the end of the request.
func (x *exchange) receiveOnly() error {
	if x.whole {
		return nil
	}
	if x.direct != nil {
		x.direct.limit(x.conn.StallTimeout())
	}
	m, err := x.receive()
	switch {
	case errors.Is(err, io.EOF):
		return tandem.Errorf(tandem.Unimplemented, "unary request has zero messages")
	case err != nil && x.refused != nil:
		return x.refused
	case err != nil:
		return err
	}
	x.received, x.whole = *m, true
	switch _, err := x.receive(); {
	case err == nil:
		return tandem.Errorf(tandem.Unimplemented, "unary request has multiple messages")
	case !errors.Is(err, io.EOF):
		return err
	}
	if x.direct != nil {
		x.direct.limit(0)
	}
	return nil
}

// sendOnly sends the reply. Its last part is sent with the end of the response.
func (x *exchange) sendOnly() error {
	framed := x.framed
	if framed == nil { // nothing was encoded
		framed = &buffer.Buffer{B: make([]byte, envelopeLen)}
	}
	reply := framed.B[envelopeLen:]
	x.limitAnswer(len(reply))
	if x.direct == nil || x.direct.compresses() {
		return x.stream.Send(&message{b: reply})
	}
	x.held = true
	if err := x.stream.Send(nil); err != nil {
		return err
	}
	binary.BigEndian.PutUint32(framed.B[1:], uint32(len(reply))) //nolint:gosec // messages are smaller than 4 GiB
	x.direct.w.setBody(framed)
	return nil
}

// asHTTP2 returns a request that connect takes for one of HTTP/2: it refuses streams in both directions
// over HTTP/1, though those in one direction at a time work.
func asHTTP2(r *http.Request) *http.Request {
	if r.ProtoMajor >= 2 { //nolint:mnd // HTTP/2
		return r
	}
	copied := *r
	copied.ProtoMajor, copied.ProtoMinor = 2, 0
	return &copied
}
