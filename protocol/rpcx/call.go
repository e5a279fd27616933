package rpcx

import (
	"sync"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/codec"
	"github.com/tandem-rpc/tandem/server"
)

// call is one call: its request, its [tandem.Call], and that call's Body.
type call struct {
	tandem.Call

	conn  *conn
	req   frame
	codec tandem.Codec
	limit int // bytes; limit of the arguments
	held  *server.Reservation
	plain []byte  // the arguments, decompressed
	reply *buffer // the result; nil for none
}

// compressAbove is the size in bytes above which rpcx compresses a payload.
const compressAbove = 1 << 10

// buffer is a pooled buffer of bytes to be sent.
type buffer struct{ b []byte }

// buffers is the pool of buffers.
var buffers = sync.Pool{New: func() any { return new(buffer) }} //nolint:gochecknoglobals // the process's, as all buffers

const maxKept = 64 << 10 // larger buffers are not kept

func takeBuffer() *buffer {
	b := buffers.Get().(*buffer) //nolint:forcetypeassert // nothing else is stored
	b.b = b.b[:0]
	return b
}

func (b *buffer) give() {
	if b != nil && cap(b.b) <= maxKept {
		buffers.Put(b)
	}
}

// Decode decodes the one argument that rpcx has.
func (c *call) Decode(v any) error {
	if several, ok := v.(tandem.Results); ok {
		if len(several) > 0 {
			return tandem.Errorf(tandem.Unimplemented, "it has %d arguments; rpcx sends one", len(several))
		}
		return nil
	}
	message := c.req.payload
	if c.req.kind&compression != 0 && len(message) > 0 {
		if c.plain == nil {
			var err error
			if c.plain, err = c.held.Decompress(c.conn.gzip, message, c.limit); err != nil {
				return server.Unfit(err)
			}
		}
		message = c.plain
	}
	return codec.Decode(c.held.Codec(c.codec, message), message, v)
}

// Encode encodes the one result that rpcx has.
func (c *call) Encode(v any) error {
	if several, ok := v.(tandem.Args); ok {
		if len(several) > 0 {
			return tandem.Errorf(tandem.Unimplemented, "it has %d results; rpcx receives one", len(several))
		}
		v = nil
	}
	if c.reply == nil {
		c.reply = takeBuffer()
	}
	var err error
	c.reply.b, err = codec.Append(c.codec, c.reply.b[:0], v)
	return err
}

// Stream returns nil: rpcx's frames have no streams.
func (*call) Stream() tandem.MessageStream { return nil }

// answer sends the response of the call, which has ended with err. Send errors are ignored:
// when the connection is lost, reading reports it.
func (c *call) answer(err error) {
	defer c.reply.give()
	defer c.held.Release()
	if c.req.kind&oneWay != 0 {
		return
	}
	out := frame{
		version: c.req.version, kind: response, format: c.req.format, seq: c.req.seq,
		service: c.req.service, method: c.req.method, block: appendMetadata(nil, c.Trailer),
	}
	if err != nil {
		out.kind |= failedStatus
		out.block = appendPair(out.block, keyError, text(err))
	} else if c.reply != nil {
		out.payload = c.reply.b
		if c.Compressor != "" && len(out.payload) > compressAbove {
			packed := takeBuffer()
			defer packed.give()
			if b, err := c.conn.gzip.Compress(packed.b, out.payload); err == nil {
				packed.b, out.payload, out.kind = b, b, out.kind|gzipped
			}
		}
	}
	_ = c.conn.Send(out.append)
}

// echo answers a heartbeat.
func (c *call) echo() {
	defer c.held.Release()
	if c.req.kind&oneWay != 0 {
		return
	}
	c.req.kind |= response
	_ = c.conn.Send(c.req.append) // when the connection is lost, reading reports it
}
