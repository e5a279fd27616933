package codecs

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/rpc"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/codec"
)

// netrpcWays are the two ends of a connection of net/rpc.
type netrpcWays struct {
	client func(conn net.Conn) *rpc.Client
	serve  func(srv *rpc.Server, conn net.Conn) // until the connection ends
}

// framed gives net/rpc a codec of tandem's: each message is a frame, written at
// once and read through a buffer.
func framed(c tandem.Codec) *netrpcWays {
	return &netrpcWays{
		client: func(conn net.Conn) *rpc.Client { return rpc.NewClientWithCodec(&clientCodec{newFraming(conn, c)}) },
		serve:  func(srv *rpc.Server, conn net.Conn) { srv.ServeCodec(&serverCodec{newFraming(conn, c)}) },
	}
}

// maxFrame bounds what a length may claim, in bytes.
const maxFrame = 1 << 20

// framing reads and writes frames: four bytes of length, then the call's
// number, a text behind its length (the method or the error), and the body.
// net/rpc calls the writing half under a lock and the reading half from one
// goroutine.
type framing struct {
	net.Conn
	codec tandem.Codec
	r     *bufio.Reader
	in    []byte // the last frame read
	body  []byte // its end
	out   []byte // the frame being written
}

func newFraming(conn net.Conn, c tandem.Codec) *framing {
	return &framing{Conn: conn, codec: c, r: bufio.NewReader(conn), out: make([]byte, 4)}
}

func (f *framing) write(seq uint64, text string, v any) (err error) {
	f.out = binary.AppendUvarint(f.out[:4], seq)
	f.out = binary.AppendUvarint(f.out, uint64(len(text)))
	f.out = append(f.out, text...)
	if f.out, err = codec.Append(f.codec, f.out, v); err != nil {
		return err
	}
	binary.LittleEndian.PutUint32(f.out, uint32(len(f.out)-4)) //nolint:gosec // at most maxFrame, or the peer refuses it
	_, err = f.Write(f.out)
	return err
}

func (f *framing) readHead() (seq uint64, text string, err error) {
	var length [4]byte
	if _, err = io.ReadFull(f.r, length[:]); err != nil {
		return 0, "", err
	}
	n := binary.LittleEndian.Uint32(length[:])
	if n > maxFrame {
		return 0, "", fmt.Errorf("codecs: a frame of %d bytes, allowed are %d", n, maxFrame)
	}
	if uint32(cap(f.in)) < n { //nolint:gosec // at most maxFrame
		f.in = make([]byte, n)
	}
	f.in = f.in[:n]
	if _, err = io.ReadFull(f.r, f.in); err != nil {
		return 0, "", err
	}
	seq, a := binary.Uvarint(f.in)
	size, b := binary.Uvarint(f.in[max(a, 0):])
	start := a + b
	if a <= 0 || b <= 0 || size > uint64(len(f.in)-start) { //nolint:gosec // never negative
		return 0, "", fmt.Errorf("codecs: a frame of %d bytes is cut off", n)
	}
	end := start + int(size) //nolint:gosec // at most maxFrame
	f.body = f.in[end:]
	return seq, string(f.in[start:end]), nil
}

// readBody decodes the body into v, or drops it when v is nil.
func (f *framing) readBody(v any) error { return codec.Decode(f.codec, f.body, v) }

// clientCodec is an rpc.ClientCodec.
type clientCodec struct{ *framing }

func (c *clientCodec) WriteRequest(r *rpc.Request, v any) error {
	return c.write(r.Seq, r.ServiceMethod, v)
}

func (c *clientCodec) ReadResponseHeader(r *rpc.Response) (err error) {
	r.Seq, r.Error, err = c.readHead()
	return err
}

func (c *clientCodec) ReadResponseBody(v any) error { return c.readBody(v) }

// serverCodec is an rpc.ServerCodec.
type serverCodec struct{ *framing }

func (c *serverCodec) ReadRequestHeader(r *rpc.Request) (err error) {
	r.Seq, r.ServiceMethod, err = c.readHead()
	return err
}

func (c *serverCodec) ReadRequestBody(v any) error { return c.readBody(v) }

// WriteResponse sends no body beside an error: net/rpc gives it an empty
// struct, which not every codec takes.
func (c *serverCodec) WriteResponse(r *rpc.Response, v any) error {
	if r.Error != "" {
		v = nil
	}
	return c.write(r.Seq, r.Error, v)
}
