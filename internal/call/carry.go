package call

import (
	"context"

	"github.com/tandem-rpc/tandem"
)

// Message is the request of a call over a connection of another protocol, and its response.
type Message struct {
	Request    []byte // the encoded arguments; read-only, and valid until the attempt ends
	Compressor string // that has compressed Request; "" for none
	Several    bool   // Request is a tandem.Args, as package codec packs it

	Reply           []byte // the encoded response; the call owns it from now on
	ReplyCompressed bool   // Reply is compressed with the call's compressor
}

// Carry is [Invoke] for another protocol: f sends the message to the peer and fills in its
// Reply.
func Carry(ctx context.Context, call *tandem.Call, at *tandem.Peer, f func(*Message) error) error {
	o, ok := call.Body.(*Outgoing)
	if !ok {
		return foreignBody(call)
	}
	return o.Points.Attempt(ctx, call, func() error { return carry(call, o, at, f) })
}

func carry(call *tandem.Call, o *Outgoing, at *tandem.Peer, f func(*Message) error) error {
	p := o.begin(call.Kind, at)
	if p == nil {
		return isOver(call)
	}
	m := Message{Several: o.several}
	message, err := o.encoded()
	if message != nil {
		m.Request = message.B
	}
	if o.packed {
		m.Compressor = o.Call.Compressor
	}
	if err == nil {
		err = f(&m)
	}
	p.Reply, p.ReplyCompressed = m.Reply, m.ReplyCompressed
	o.end(p, call, at, err)
	return err
}

// CarryStream is [Invoke] for a stream of another protocol: open opens it, and returns when its
// request is on its way.
func CarryStream(ctx context.Context, call *tandem.Call, at *tandem.Peer, open func() (OpenedStream, error)) error {
	o, ok := call.Body.(*Outgoing)
	if !ok {
		return foreignBody(call)
	}
	return o.Points.Attempt(ctx, call, func() error { return carryStream(call, o, at, open) })
}

func carryStream(call *tandem.Call, o *Outgoing, at *tandem.Peer, open func() (OpenedStream, error)) error {
	p := o.begin(call.Kind, at)
	if p == nil {
		return isOver(call)
	}
	p.Release() // only sessions need it
	st, err := open()
	if err == nil && !o.take(st) {
		_ = st.Close() // a faster attempt won
	}
	o.end(nil, call, at, err)
	return err
}

// foreignBody is the error for a call that an interceptor has given a Body.
func foreignBody(call *tandem.Call) error {
	return refused(tandem.Internal, "call of %s with a Body of type %T: an interceptor of a client must leave the Body, "+
		"for the message is encoded already; change messages in a codec or in an interceptor of the server", call.Method, call.Body)
}
