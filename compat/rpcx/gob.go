package rpcx

import (
	"bufio"
	"encoding/gob"
	"errors"
	"io"
	"net/http"
	"net/rpc"
)

// NewGobClientCodec returns a codec with net/rpc's encoding. It is the default for clients
// with a program's own selector.
func NewGobClientCodec(conn io.ReadWriteCloser) rpc.ClientCodec { return gobCodec(nil)(conn) }

// gobCodec returns a function that makes net/rpc's codecs. With credentials, a connection
// begins with a CONNECT, whose header carries them.
func gobCodec(who *credentials) ClientCodecFunc {
	return func(conn io.ReadWriteCloser) rpc.ClientCodec {
		in, out := bufio.NewReader(conn), bufio.NewWriter(conn)
		return &gobClientCodec{
			conn: conn, in: in, out: out, who: who, dec: gob.NewDecoder(in), enc: gob.NewEncoder(out),
			asks: who != nil, waits: who != nil,
		}
	}
}

// gobClientCodec is net/rpc's codec, with an optional CONNECT. One goroutine writes while
// another reads.
type gobClientCodec struct {
	conn io.Closer
	in   *bufio.Reader
	out  *bufio.Writer
	dec  *gob.Decoder
	enc  *gob.Encoder
	who  *credentials

	asks  bool // the CONNECT is still to be written
	waits bool // its response is still to be read
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
	err = errors.Join(err, header.Write(c.out)) // Write removes line ends inside values
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
			return errors.New("rpcx: unexpected response to CONNECT: " + resp.Status)
		}
	}
	return c.dec.Decode(r)
}

func (c *gobClientCodec) ReadResponseBody(reply any) error { return c.dec.Decode(reply) }

func (c *gobClientCodec) Close() error { return c.conn.Close() }
