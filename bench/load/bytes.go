package load

import (
	"bytes"
	"fmt"

	"github.com/tandem-rpc/tandem/bench/message"
)

// Exchanger is one connection that carries bytes instead of the message.
type Exchanger interface {
	// Exchange makes a call with Payload's bytes, or receives the next message
	// of a stream, and returns the bytes that came. They are looked at before
	// the next Exchange only if one goroutine uses the connection.
	Exchange() ([]byte, error)
	Close() error
}

// CallBytes makes a Caller of x. Its Call takes no notice of the request, checks
// that what came looks like Payload(size), and fills the fields of the reply
// that are checked.
func CallBytes(x Exchanger, size int) Caller { return byteCaller{x, Payload(size)} }

type byteCaller struct {
	Exchanger
	want []byte
}

// edge is how many bytes are compared at either end: enough to know that the
// message is whole and its own, too few to cost anything.
const edge = 16

func (c byteCaller) Call(_, reply *message.BenchmarkMessage) error {
	got, err := c.Exchange()
	if err != nil {
		return err
	}
	n := min(edge, len(c.want))
	if len(got) != len(c.want) || !bytes.Equal(got[:n], c.want[:n]) || !bytes.Equal(got[len(got)-n:], c.want[len(got)-n:]) {
		return fmt.Errorf("load: %d bytes came that are not the %d of the payload", len(got), len(c.want))
	}
	message.SetAnswer(reply)
	return nil
}

// Payload returns bytes that look like what services send as text: a list of
// records as JSON. They are the same in every process.
func Payload(size int) []byte {
	b := make([]byte, 0, size+edge)
	for i := 0; len(b) < size; i++ {
		b = fmt.Appendf(b, `{"id":%d,"name":"customer %d","balance":%d.%02d,"active":%t,"tags":["a%d","b%d"]}`+"\n",
			i, i*7919%10007, i*104729%99991, i%100, i%3 == 0, i%17, i%29)
	}
	return b[:size:size]
}
