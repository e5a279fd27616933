package call

import (
	"context"
	"testing"

	"github.com/tandem-rpc/tandem"
)

// An attempt over another protocol has the arguments, though the attempt before it, over
// tandem's protocol, has given back their memory.
func TestCarryAfterInvoke(t *testing.T) {
	p := newPair(t, tcp(t), methods{"refuse": {Func: func(context.Context, *tandem.Call) error {
		return refused(tandem.Unavailable, "not now")
	}}})
	o := NewOutgoing(p.clientEnv, false)
	defer o.Release()
	call := &o.Call
	call.Body, call.Method, call.Codec = o, "refuse", "raw"
	if err := o.Encode([]byte("arguments")); err != nil {
		t.Fatal(err)
	}
	if err := Invoke(t.Context(), p.client, call, nil); tandem.CodeOf(err) != tandem.Unavailable {
		t.Fatal(err)
	}
	if o.message != nil {
		t.Error("the call still has its message")
	}
	var got []byte
	err := Carry(t.Context(), call, &tandem.Peer{}, func(m *Message) error {
		got = append(got, m.Request...)
		m.Reply = []byte("answer")
		return nil
	})
	if err != nil || string(got) != "arguments" {
		t.Errorf("carried %q: %v", got, err)
	}
	var reply []byte
	if err := o.Decode(&reply); err != nil || string(reply) != "answer" {
		t.Errorf("%q, %v", reply, err)
	}
}
