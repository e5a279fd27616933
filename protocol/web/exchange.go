package web

import (
	"context"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"connectrpc.com/connect"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/internal/buffer"
	"github.com/tandem-rpc/tandem/server"
)

// exchange is one call. Two goroutines work on it: net/http's, in which connect reads the
// request and writes the response, and the call's. The call begins when connect has read
// the header of the request (see admit), so that interceptors run before a message is read;
// connect continues when the call first wants a message.
type exchange struct {
	conn    *server.Conn
	method  *server.Method
	name    string // name as the client sent it: of a method or an alias
	kind    content
	codec   tandem.Codec
	peer    *tandem.Peer
	req     *http.Request
	route   *Route      // nil if the path is a method's name
	fields  url.Values  // parameters of a GET that has its argument in the query
	header  http.Header // header of the response
	w       http.ResponseWriter
	control *http.ResponseController
	plain   *plainStream // a stream to a plain HTTP caller; nil for other calls
	gate    *refusalGate // the response writer that connect uses; nil if the request is not a call
	ctx     context.Context
	call    *tandem.Call // nil until admit

	mark []byte            // prefix of compressed messages; see markedGzip
	gzip tandem.Compressor // decompresses received messages

	// memory is for received messages. net/http's goroutine uses it until messageReady is closed,
	// and then what reads messages for the call. It is one reservation for reading and decoding,
	// because only one in the process may exceed the server's memory. It is released when the
	// response has been written: until then connect may refer to the request.
	memory *server.Reservation

	begun         bool          // admit has started the call; used by net/http's goroutine
	messageWanted chan struct{} // closed when the call wants to read or write
	wantOnce      sync.Once
	messageReady  chan struct{} // closed when the call can read or write, or never will be able to
	readyOnce     sync.Once
	ended         chan struct{} // closed when the call has ended

	// Valid when messageReady is closed.
	received message
	stream   messageConn
	direct   *directMessages // stream, if it is one
	only     bool            // the call has one message each way, which are those of a stream
	whole    bool            // that of the request has come
	refused  error           // why it has not
	held     bool            // what connect writes is sent with the end of the response, which follows
	readable bool            // request or stream is set

	// Valid when ended is closed.
	reply   []byte
	framed  *buffer.Buffer // the reply, if it is the only message; see frame
	err     error
	trailer http.Header

	// Used by streams only.
	bound     sync.Once
	within    context.Context // ends at the call's deadline; valid when bound is done
	unbind    func()          // cancels within
	sending   sync.Mutex      // held while a message is sent
	sent      bool            // the header has been sent
	receiving atomic.Bool     // a message is being received
	ending    sync.Mutex      // held while the read and write deadlines are changed
	finished  atomic.Bool     // no reads or writes follow; set while sending and ending are held
}

func (x *exchange) prepare(w http.ResponseWriter) {
	x.w, x.control = w, http.NewResponseController(w)
	x.header, x.trailer = http.Header{}, http.Header{}
	x.messageWanted, x.messageReady, x.ended = make(chan struct{}), make(chan struct{}), make(chan struct{})
}

// limitAnswer sets the time that the client has to receive a response of this size, in bytes.
func (x *exchange) limitAnswer(bytes int) { limitAnswer(x.control, x.req, x.conn, bytes) }

// limitRefusal sets a write deadline for connect's own refusal of a stream, until admit. A
// unary refusal is written when ServeHTTP returns (see abandon).
func (x *exchange) limitRefusal() {
	if x.method.Kind == tandem.Streaming {
		x.limitAnswer(0)
	}
}

// admit begins the call, and returns when the call wants its message or has ended. Connect
// calls it before it reads a message.
func (x *exchange) admit(ctx context.Context) error {
	if x.method.Kind == tandem.Streaming && x.req.ProtoMajor >= 2 {
		_ = x.control.SetWriteDeadline(time.Time{}) // the deadline of limitRefusal
	}
	call := x.newCall()
	call.Codec = x.codec.Name()
	call.Deadline, _ = ctx.Deadline()
	place, err := enter(ctx, x.w)
	if err != nil {
		return toConnect(err) // the client has reset the request, or its deadline has passed
	}
	x.ctx, x.call, x.begun = ctx, call, true
	x.memory = x.conn.Reserve(ctx).For(call)
	x.conn.Go(ctx, call, func(err error) { x.end(call, err) })
	select {
	case <-x.messageWanted:
		place.leave()
		x.gate.open = true
		return nil
	case <-x.ended:
		place.leave()
		drainRefused(x.w, x.req, x.conn)
		if x.err == nil {
			x.gate.open = true
			return nil
		}
		x.gate.refuse(x.err)
		return x.err
	}
}

// end finishes the exchange when the call has ended.
func (x *exchange) end(call *tandem.Call, err error) {
	if !x.sending.TryLock() { // the method has left a goroutine that sends
		_ = x.control.SetWriteDeadline(time.Now().Add(x.conn.StallTimeout()))
		x.sending.Lock()
	}
	x.finish()
	x.sending.Unlock()
	if err != nil && x.only && x.refused != nil && !x.whole {
		err = x.refused // as it is: the caller's message was not looked at
	}
	x.err = err
	addMetadata(x.trailer, call.Trailer)
	if err != nil {
		setRetryFields(x.trailer, err)
	}
	close(x.ended)
}

// failure returns the call's error as connect writes it, nil for none.
func (x *exchange) failure() error {
	if x.err == nil {
		return nil
	}
	return toConnect(x.err, x.header, x.trailer)
}

// abandon ends an exchange whose message did not arrive: connect has answered already.
func (x *exchange) abandon() {
	if !x.readable {
		x.limitAnswer(0)
	}
	if !x.begun {
		return
	}
	x.readyOnce.Do(func() { close(x.messageReady) })
	<-x.ended
	x.memory.Release()
}

// unary is the connect handler of a unary call: it passes on the request and returns the
// response.
func (x *exchange) unary(req *connect.Request[message]) (*connect.Response[message], error) {
	x.received, x.readable = *req.Msg, true
	x.readyOnce.Do(func() { close(x.messageReady) })
	<-x.ended
	x.limitAnswer(len(x.reply))
	if x.err != nil {
		return nil, x.failure()
	}
	res := connect.NewResponse(&message{b: x.reply})
	addHeader(res.Header(), x.header)
	addHeader(res.Trailer(), x.trailer)
	return res, nil
}

// messageConn reads and writes the messages of a stream. connect's handlers have one for the
// protocols that connect knows.
type messageConn interface {
	Receive(message any) error
	Send(message any) error // nil sends the header only
	ResponseHeader() http.Header
	ResponseTrailer() http.Header
}

// streaming serves a stream: messages can be read and written until it returns.
func (x *exchange) streaming(stream messageConn) error {
	x.stream, x.readable = x.newDirect(stream), true
	x.readyOnce.Do(func() { close(x.messageReady) })
	<-x.ended
	if x.receiving.Load() { // the method has left a goroutine that receives; net/http would wait for it
		_ = x.control.SetReadDeadline(time.Unix(1, 0))
	}
	x.limitAnswer(0) // the messages are sent; only the end of the stream is left
	if !x.sent {
		addHeader(stream.ResponseHeader(), x.header)
	}
	addHeader(stream.ResponseTrailer(), x.trailer)
	if x.err != nil {
		return toConnect(x.err)
	}
	return nil
}

// awaitMessage lets connect continue, and waits until the call can read and write messages.
func (x *exchange) awaitMessage() error {
	x.wantOnce.Do(func() { close(x.messageWanted) })
	select {
	case <-x.messageReady:
	case <-x.ctx.Done():
		return tandem.AsError(x.ctx.Err())
	}
	if !x.readable {
		return tandem.Errorf(tandem.InvalidArgument, "the request could not be read")
	}
	return nil
}

// Decode decodes the request.
func (x *exchange) Decode(v any) error {
	if err := x.awaitMessage(); err != nil {
		return err
	}
	if x.only {
		if err := x.receiveOnly(); err != nil {
			return err
		}
	}
	return x.decode(&x.received, v)
}

// decode decodes a message, after decompressing it if necessary.
func (x *exchange) decode(m *message, v any) error {
	if len(x.fields) > 0 {
		message, err := queryMessage(x.codec, x.fields, v)
		if err != nil {
			return tandem.Errorf(tandem.InvalidArgument, "%w", err)
		}
		return decode(x.codec, message, v)
	}
	b, err := x.open(m)
	if err != nil {
		return err
	}
	if x.route != nil {
		return x.route.decode(x.memory.Codec(x.codec, b), b, v)
	}
	return decode(x.memory.Codec(x.codec, b), b, v)
}

// Encode encodes the response.
func (x *exchange) Encode(v any) (err error) {
	if x.only {
		x.framed, err = x.frame(v)
		return err
	}
	b, err := x.encode(v)
	x.reply = b
	return err
}

func (x *exchange) encode(v any) ([]byte, error) {
	e, ok := v.(*tandem.Encoded)
	switch {
	case ok && x.route != nil && x.route.Result != nil:
		return nil, tandem.Errorf(tandem.Unimplemented, "the result of a route that selects a part of a message can't be repeated")
	case ok:
		return e.Append(nil, func(_ []byte, v any) ([]byte, error) { return x.encode(v) })
	}
	if b, ok, err := x.encodeRouted(v); ok {
		return b, err
	}
	return encode(x.codec, v)
}

// Stream returns the call's messages, nil for a unary call.
func (x *exchange) Stream() tandem.MessageStream {
	if x.method.Kind != tandem.Streaming {
		return nil
	}
	x.bounds()
	return &messages{x}
}
