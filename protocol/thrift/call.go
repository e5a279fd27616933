package thrift

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	apache "github.com/apache/thrift/lib/go/thrift"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/server"
)

// call is one call: its request, its [tandem.Call], and that call's Body.
type call struct {
	tandem.Call
	request

	conn     *conn
	held     *server.Reservation
	declared *declaration // nil if WithMethod does not name the method
	plain    []byte       // the message, decompressed
	silent   bool         // a one-way call: there is no response
	bad      bool         // the arguments did not decode
	reply    []byte       // the response, without frame and header; nil for none
}

// Decode decodes the parameters.
func (c *call) Decode(v any) error {
	err := c.decode(v)
	c.bad = err != nil
	return err
}

func (c *call) decode(v any) error {
	if c.declared != nil && c.declared.err != nil {
		return tandem.Errorf(tandem.Internal, "WithMethod(%q): %w", c.Method, c.declared.err)
	}
	if several, ok := v.(tandem.Results); ok && len(several) == 0 {
		return nil
	}
	message := c.message
	if c.header != nil && c.header.zlib {
		if c.plain == nil {
			var err error
			c.plain, err = c.held.Decompress(zlibs{}, message, c.args+c.limit)
			if errors.Is(err, errTooLong) {
				return tandem.Errorf(tandem.ResourceExhausted, "message of more than %d bytes, decompressed", c.limit)
			}
			if err != nil {
				return server.Unfit(err)
			}
		}
		message = c.plain
	}
	in := &memory{b: message, off: c.args}
	d := decoder{newGuard(c.format, in), &c.conn.types, context.Background()}
	d.expect = c.held.Expect
	err := d.arguments(v, c.declared)
	if d.denied != nil {
		return d.denied
	}
	if err == nil && in.RemainingBytes() > 0 {
		err = fmt.Errorf("%d bytes behind the parameters", in.RemainingBytes())
	}
	return server.Unfit(err)
}

// Encode encodes the one result that Thrift has.
func (c *call) Encode(v any) error {
	if e, ok := v.(*tandem.Encoded); ok {
		return c.encoded(e)
	}
	if several, ok := v.(tandem.Args); ok {
		if len(several) > 0 {
			return tandem.Errorf(tandem.Unimplemented, "it has %d results; Thrift has one", len(several))
		}
		v = nil
	}
	if c.silent {
		return nil
	}
	return c.write(apache.REPLY, func(e *encoder) error { return e.success(v, c.declared) })
}

// encoded writes a result, and shows how it is encoded, or repeats one.
func (c *call) encoded(e *tandem.Encoded) error {
	if e.Message == nil {
		if err := c.Encode(e.Value); err != nil {
			return err
		}
		head := &memory{}
		to := &encoder{newGuard(c.format, head), &c.conn.types, context.Background()}
		if err := to.WriteMessageBegin(to.ctx, bareName(c.name), apache.REPLY, c.seq); err != nil {
			return err
		}
		e.Message = append([]byte{}, c.reply[len(head.b):]...) // the head has the number of the request
		return nil
	}
	return c.write(apache.REPLY, func(to *encoder) error {
		_, err := to.Transport().Write(e.Message)
		return err
	})
}

// write writes a message whose content body writes.
func (c *call) write(kind apache.TMessageType, body func(*encoder) error) error {
	out := &memory{b: c.reply[:0]}
	c.reply = nil
	e := &encoder{newGuard(c.format, out), &c.conn.types, context.Background()}
	if err := e.WriteMessageBegin(e.ctx, bareName(c.name), kind, c.seq); err != nil {
		return err
	}
	if err := body(e); err != nil {
		return err
	}
	c.reply = out.b
	return nil
}

// Stream returns nil: Thrift has no streams.
func (*call) Stream() tandem.MessageStream { return nil }

// answer sends the response of the call, which has ended with err, and lets the next call
// begin.
func (c *call) answer(err error) {
	defer func() { <-c.conn.turn }()
	c.held.Release()
	if c.silent {
		return
	}
	if err == nil && c.reply == nil { // the method sent no result
		err = c.Encode(nil)
	}
	if err != nil {
		err = c.fail(err)
	}
	if err != nil {
		return
	}
	if unfit := c.send(); unfit != nil {
		c.Trailer = nil // the trailer may be what can't be encoded
		if c.fail(tandem.Errorf(tandem.Internal, "the answer of %s: %w", c.Method, unfit)) == nil {
			_ = c.send()
		}
	}
}

// send sends the response. It returns why the response can't be encoded in Thrift; a lost
// connection is no error, since reading reports it.
func (c *call) send() (unfit error) {
	_ = c.conn.Send(func(dst []byte) ([]byte, error) {
		dst, unfit = c.append(dst)
		return dst, unfit
	})
	return unfit
}

// fail writes the response of a failed call.
func (c *call) fail(err error) error {
	found := false
	failed := c.write(apache.REPLY, func(e *encoder) (werr error) {
		found, werr = e.exception(err, c.declared)
		return werr
	})
	if found && failed == nil {
		return nil
	}
	return c.write(apache.EXCEPTION, func(e *encoder) error {
		return c.applicationException(err).Write(e.ctx, e)
	})
}

// applicationException converts an error that the method does not declare.
func (c *call) applicationException(err error) apache.TApplicationException {
	kind := int32(apache.INTERNAL_ERROR)
	switch {
	case errors.Is(err, errUnknown):
		return apache.NewTApplicationException(apache.UNKNOWN_METHOD, fmt.Sprintf("no method %q here", c.name))
	case c.bad && tandem.CodeOf(err) == tandem.InvalidArgument:
		kind = apache.PROTOCOL_ERROR
	}
	return apache.NewTApplicationException(kind, text(err))
}

// text returns an error's text: the method's own, after the name of its code unless that is
// Unknown.
func text(err error) string {
	e := tandem.AsError(err)
	if e.Code == tandem.Unknown && e.Message != "" {
		return e.Message
	}
	return e.Error()
}

// compressAbove is the size in bytes above which a response is compressed.
const compressAbove = 1 << 10

// append appends the response, after its frame and header.
func (c *call) append(dst []byte) ([]byte, error) {
	start := len(dst)
	if c.framed {
		dst = append(dst, 0, 0, 0, 0)
	}
	message := c.reply
	if c.header != nil {
		packed := c.header.zlib && c.Compressor != "" && len(message) > compressAbove
		var err error
		if dst, err = c.header.append(dst, packed, c.Trailer); err != nil {
			return dst[:start], err
		}
		if packed {
			message = deflate(message)
		}
	}
	dst = append(dst, message...)
	if c.framed {
		n := len(dst) - start - frameLen
		if n > math.MaxInt32 {
			return dst[:start], fmt.Errorf("an answer of %d bytes", n)
		}
		binary.BigEndian.PutUint32(dst[start:], uint32(n)) //nolint:gosec // checked
	}
	return dst, nil
}
