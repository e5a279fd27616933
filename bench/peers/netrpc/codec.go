package main

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/rpc"

	"github.com/tandem-rpc/tandem/bench/message"
)

// maxFrame is the limit of a length, in bytes.
const maxFrame = 1 << 20

// framing is the rpc.ClientCodec and the rpc.ServerCodec. It reads and writes the parts of
// a message: its number and two byte strings (a request's method or a response's error, and
// the body), each after its length. All lengths are varints. net/rpc calls the writing half
// under a lock and the reading half from one goroutine.
type framing struct {
	conn net.Conn
	r    *bufio.Reader
	w    *bufio.Writer
	in   []byte // the last byte string read
	out  []byte // the body that is being written into w
}

func newFraming(conn net.Conn) *framing {
	return &framing{conn: conn, r: bufio.NewReader(conn), w: bufio.NewWriter(conn)}
}

func (f *framing) Close() error { return f.conn.Close() }

// write sends a whole message with one flush.
func (f *framing) write(seq uint64, text string, v any) error {
	head := binary.AppendUvarint(f.w.AvailableBuffer(), seq)
	head = binary.AppendUvarint(head, uint64(len(text)))
	if _, err := f.w.Write(append(head, text...)); err != nil {
		return err
	}
	if err := f.encode(v); err != nil {
		return err
	}
	if _, err := f.w.Write(binary.AppendUvarint(f.w.AvailableBuffer(), uint64(len(f.out)))); err != nil {
		return err
	}
	if _, err := f.w.Write(f.out); err != nil {
		return err
	}
	return f.w.Flush()
}

// encode encodes v into f.out. A value that is not a message becomes empty: net/rpc sends
// an empty struct with an error.
func (f *framing) encode(v any) (err error) {
	f.out = f.out[:0]
	if m, ok := v.(*message.BenchmarkMessage); ok {
		f.out, err = message.AppendTo(f.out, m)
	}
	return err
}

// readHead reads the number and the text.
func (f *framing) readHead() (seq uint64, text string, err error) {
	if seq, err = binary.ReadUvarint(f.r); err != nil {
		return 0, "", err
	}
	err = f.readBytes()
	return seq, string(f.in), err
}

// readBody decodes the body into v, or drops it when v is nil.
func (f *framing) readBody(v any) error {
	if err := f.readBytes(); err != nil || v == nil {
		return err
	}
	return message.Decode(f.in, v)
}

// readBytes reads a byte string into f.in.
func (f *framing) readBytes() error {
	n, err := binary.ReadUvarint(f.r)
	if err != nil {
		return err
	}
	if n > maxFrame {
		return fmt.Errorf("netrpc: a part of %d bytes, allowed are %d", n, maxFrame)
	}
	if uint64(cap(f.in)) < n {
		f.in = make([]byte, n)
	}
	f.in = f.in[:n]
	_, err = io.ReadFull(f.r, f.in)
	return err
}

func (f *framing) WriteRequest(r *rpc.Request, v any) error {
	return f.write(r.Seq, r.ServiceMethod, v)
}

func (f *framing) ReadResponseHeader(r *rpc.Response) (err error) {
	r.Seq, r.Error, err = f.readHead()
	return err
}

func (f *framing) ReadResponseBody(v any) error { return f.readBody(v) }

func (f *framing) ReadRequestHeader(r *rpc.Request) (err error) {
	r.Seq, r.ServiceMethod, err = f.readHead()
	return err
}

func (f *framing) ReadRequestBody(v any) error { return f.readBody(v) }

func (f *framing) WriteResponse(r *rpc.Response, v any) error {
	return f.write(r.Seq, r.Error, v)
}
