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
	return o.between(ctx, call, func() error { return carry(call, o, at, f) })
}

func carry(call *tandem.Call, o *Outgoing, at *tandem.Peer, f func(*Message) error) error {
	p := o.begin(call.Kind, at)
	if p == nil {
		return refused(tandem.Canceled, "the call of %s is over", call.Method)
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

// foreignBody is the error for a call that an interceptor has given a Body.
func foreignBody(call *tandem.Call) error {
	return refused(tandem.Internal, "call of %s with a Body of type %T: an interceptor of a client must leave the Body, "+
		"for the message is encoded already; change messages in a codec or in an interceptor of the server", call.Method, call.Body)
}
