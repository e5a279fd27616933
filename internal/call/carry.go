package call

import (
	"context"

	"github.com/tandem-rpc/tandem"
)

// Message is the message of a call that goes over a connection of another protocol,
// and the answer to it.
type Message struct {
	Request    []byte // the arguments, encoded; the call's, so only to be read, and not after its attempt
	Compressor string // what they are compressed with; "" for nothing
	Several    bool   // they are tandem.Args, packed as package codec does

	Reply           []byte // the answer, which is the call's from now on
	ReplyCompressed bool   // with the call's compressor
}

// Carry is Invoke for another protocol: f sends the message at that peer and puts the
// answer into it.
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
