package netrpc

import (
	"errors"
	"net"
	"sync"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/codec"
	"github.com/tandem-rpc/tandem/server"
)

// call is one call: its request, its [tandem.Call], and that call's Body.
type call struct {
	tandem.Call

	conn  *conn
	req   request
	held  *server.Reservation
	args  []byte   // a complete gob
	reply *answers // a complete gob of the result; nil for none
	bad   bool     // the result could not be encoded
}

// answers is a buffer of gobs to be sent.
type answers struct{ b []byte }

// answerBuffers is a pool of buffers.
var answerBuffers = sync.Pool{New: func() any { return new(answers) }} //nolint:gochecknoglobals // the process's, as all buffers

const maxKept = 64 << 10 // larger buffers are not kept

func takeAnswers() *answers {
	a := answerBuffers.Get().(*answers) //nolint:forcetypeassert // nothing else is stored
	a.b = a.b[:0]
	return a
}

func (a *answers) give() {
	if a != nil && cap(a.b) <= maxKept {
		answerBuffers.Put(a)
	}
}

// Decode decodes the one argument that net/rpc has.
func (c *call) Decode(v any) error {
	if several, ok := v.(tandem.Results); ok {
		if len(several) > 0 {
			return tandem.Errorf(tandem.Unimplemented, "it has %d arguments; net/rpc sends one", len(several))
		}
		return nil
	}
	return codec.Decode(c.held.Codec(c.conn.gob, c.args), c.args, v)
}

// Encode encodes the one result that net/rpc has.
func (c *call) Encode(v any) error {
	if several, ok := v.(tandem.Args); ok {
		if len(several) > 0 {
			return tandem.Errorf(tandem.Unimplemented, "it has %d results; net/rpc receives one", len(several))
		}
		v = nil
	}
	if c.reply == nil {
		c.reply = takeAnswers()
	}
	var err error
	c.reply.b, err = codec.Append(c.conn.gob, c.reply.b[:0], v)
	c.bad = err != nil
	return err
}

// Stream returns nil: net/rpc has no streams.
func (*call) Stream() tandem.MessageStream { return nil }

// answer sends the response of the call, which has ended with err. Send errors are ignored:
// when the connection is lost, reading reports it.
func (c *call) answer(err error) {
	defer c.held.Release()
	head := takeAnswers()
	defer head.give()
	defer c.reply.give()
	if c.bad && c.conn.strict {
		c.breakOff(head)
		return
	}
	var failed error
	head.b, failed = codec.Append(c.conn.gob, head.b, &response{c.req.ServiceMethod, c.req.Seq, text(err)})
	if err != nil || c.reply == nil || len(c.reply.b) == 0 {
		var none error
		head.b, none = codec.Append(c.conn.gob, head.b, struct{}{})
		failed = errors.Join(failed, none)
	} else {
		head.b = append(head.b, c.reply.b...)
	}
	if failed == nil {
		_ = c.conn.Send(func(dst []byte) ([]byte, error) { return c.conn.sent.appendNew(dst, head.b) })
	}
}

// breakOff sends the head of a successful response, and the first byte of a gob that is
// never completed.
func (c *call) breakOff(head *answers) {
	const longer = 2 // the length of that gob, in bytes
	b, err := codec.Append(c.conn.gob, head.b, &response{c.req.ServiceMethod, c.req.Seq, ""})
	if err == nil {
		err = c.conn.SendLast(func(dst []byte) ([]byte, error) {
			dst, err := c.conn.sent.appendNew(dst, b)
			return append(dst, longer), err
		})
	}
	if err != nil && !errors.Is(err, net.ErrClosed) { // else another bad result has ended the connection, and its head is being sent
		_ = c.conn.Close()
	}
}
