package rpcx

import (
	"bufio"
	"encoding/gob"
	"errors"
	"io"
	"net/http"
	"net/rpc"
)

// NewGobClientCodec returns net/rpc's own codec, which is that of clients whose
// selector is the program's own unless they have another.
func NewGobClientCodec(conn io.ReadWriteCloser) rpc.ClientCodec { return gobCodec(nil)(conn) }

// gobCodec returns what makes codecs of net/rpc. With credentials they begin with a
// CONNECT, whose header has room for them.
func gobCodec(who *credentials) ClientCodecFunc {
	return func(conn io.ReadWriteCloser) rpc.ClientCodec {
		in, out := bufio.NewReader(conn), bufio.NewWriter(conn)
		return &gobClientCodec{
			conn: conn, in: in, out: out, who: who, dec: gob.NewDecoder(in), enc: gob.NewEncoder(out),
			asks: who != nil, waits: who != nil,
		}
	}
}

// gobClientCodec speaks net/rpc. One goroutine writes while another reads.
type gobClientCodec struct {
	conn io.Closer
	in   *bufio.Reader
	out  *bufio.Writer
	dec  *gob.Decoder
	enc  *gob.Encoder
	who  *credentials

	asks  bool // a CONNECT is to be written first
	waits bool // its answer is to be read first
}

func (c *gobClientCodec) WriteRequest(r *rpc.Request, args any) error {
	if c.asks {
		c.asks = false
		if err := c.ask(); err != nil {
			return err
		}
	}
	return errors.Join(c.enc.Encode(r), c.enc.Encode(args), c.out.Flush())
}

// ask writes a CONNECT.
func (c *gobClientCodec) ask() error {
	header := http.Header{}
	for name, values := range c.who.metadata() {
		header[http.CanonicalHeaderKey(name)] = values
	}
	_, err := c.out.WriteString("CONNECT /_goRPC_ HTTP/1.0\r\n")
	err = errors.Join(err, header.Write(c.out)) // which lets no line end inside a value
	_, end := c.out.WriteString("\r\n")
	return errors.Join(err, end)
}

func (c *gobClientCodec) ReadResponseHeader(r *rpc.Response) error {
	if c.waits {
		c.waits = false
		resp, err := http.ReadResponse(c.in, &http.Request{Method: http.MethodConnect})
		if err != nil {
			return err
		}
		_ = resp.Body.Close() // it has none: what follows is RPC
		if resp.StatusCode != http.StatusOK {
			return errors.New("rpcx: unexpected answer to CONNECT: " + resp.Status)
		}
	}
	return c.dec.Decode(r)
}

func (c *gobClientCodec) ReadResponseBody(reply any) error { return c.dec.Decode(reply) }

func (c *gobClientCodec) Close() error { return c.conn.Close() }
