// Package netrpc (stable) serves unmodified clients of Go's net/rpc: gob over TCP or TLS
// ([net/rpc.Dial]), and over HTTP CONNECT ([net/rpc.DialHTTP]).
//
//	srv := server.New(server.WithProtocols(netrpc.New()))
//
// A method is served if it has at most one argument and at most one result: an argument
// that it does not have is ignored, and a result that it does not have is sent as an empty
// struct. Streams, and methods with several arguments, answer with an error that says so.
//
// Errors are strings, as in net/rpc: the method's own text, after the name of its code
// unless that is Unknown; net/rpc's own texts for services and methods that do not exist.
//
// # What differs from net/rpc's server
//
// Arguments are decoded after the interceptors, concurrently with those of other calls.
// Decoding any bytes takes little more memory than their number; see package codec. All
// type descriptions of a client must fit into 64 KiB. A value in an interface inside a
// value in another interface is refused if its type was not sent before: gob describes it
// in the middle. A result that gob can't encode is an error of that call, and does not end
// the connection.
package netrpc

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/codec"
	"github.com/tandem-rpc/tandem/server"
)

// DefaultPath is where [net/rpc.DialHTTP] connects to.
const DefaultPath = "/_goRPC_"

// Option changes what [New] returns.
type Option func(*protocol)

// WithPaths sets the paths that HTTP clients may connect to; [DefaultPath] alone
// by default.
func WithPaths(paths ...string) Option { return func(p *protocol) { p.paths = paths } }

// WithMetadata gives every call this metadata, as the header of a CONNECT does: for
// connections whose CONNECT another program has answered.
func WithMetadata(md tandem.Metadata) Option { return func(p *protocol) { p.metadata = md } }

// CloseOnBadResult ends the connection when a result can't be encoded, as net/rpc's server
// does: the client reads the head of a response that then breaks off. Without it only that
// call fails.
func CloseOnBadResult() Option { return func(p *protocol) { p.strict = true } }

type protocol struct {
	gob      tandem.Codec
	paths    []string
	metadata tandem.Metadata // metadata of every call
	strict   bool            // a result that can't be encoded ends the connection
}

// New returns the protocol, for [server.WithProtocols].
func New(opts ...Option) server.Protocol {
	p := &protocol{gob: codec.Gob(), paths: []string{DefaultPath}}
	for _, o := range opts {
		o(p)
	}
	return p
}

func (*protocol) Name() string { return "netrpc" }

// Match accepts connections that begin with the description of a type named Request, as
// those of every client do, or with a CONNECT to a path.
func (*protocol) Match(first []byte) server.Verdict {
	if v := prefix(first, connect); v != server.No {
		return v
	}
	return matchGob(first)
}

const connect = "CONNECT /"

func prefix(first []byte, want string) server.Verdict {
	n := min(len(first), len(want))
	switch {
	case string(first[:n]) != want[:n]:
		return server.No
	case n < len(want):
		return server.NeedMore
	}
	return server.Yes
}

// conn is the connection of one client.
type conn struct {
	*server.Conn

	gob      tandem.Codec
	strict   bool
	metadata tandem.Metadata // metadata of every call: the header of the CONNECT
	in       gobReader
	header   []byte // header of the last request; the memory is reused
	sent     told   // type descriptions that the client has
}

// Serve reads requests until the client closes the connection.
func (p *protocol) Serve(ctx context.Context, sc *server.Conn) error {
	br := bufio.NewReaderSize(sc, readBuffer)
	c := &conn{
		Conn: sc, gob: p.gob, strict: p.strict, metadata: p.metadata,
		in: gobReader{r: br}, sent: map[int]string{},
	}
	if first, err := br.Peek(1); err == nil && first[0] == connect[0] && prefix(peeked(br), connect) == server.Yes {
		if c.metadata, err = p.handshake(sc, br); err != nil {
			return err
		}
	}
	for {
		err := c.serveNext(ctx)
		if errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

const readBuffer = 16 << 10

// peeked returns the bytes in the buffer.
func peeked(br *bufio.Reader) []byte {
	b, _ := br.Peek(br.Buffered())
	return b
}

// request and response are net/rpc's headers of requests and responses. Gob finds fields by
// their names.
type request struct {
	ServiceMethod string
	Seq           uint64
}

type response struct {
	ServiceMethod string
	Seq           uint64
	Error         string
}

// maxHeader is the limit of a request without its arguments, in bytes; it contains a
// method's name, which net/rpc does not limit.
const maxHeader = 4 << 10

// serveNext reads one request and starts its call.
func (c *conn) serveNext(ctx context.Context) error {
	c.Midway(false)
	if _, err := c.in.r.Peek(1); err != nil {
		return err
	}
	c.Midway(true)
	header, err := c.in.value(c.header[:0], maxHeader)
	if err != nil {
		return fmt.Errorf("reading a request: %w", err)
	}
	c.header = header
	in := &call{conn: c}
	in.held = c.Reserve(ctx).For(&in.Call)
	if err := c.gob.Decode(header, &in.req); err != nil {
		return fmt.Errorf("decoding a request: %w", err)
	}
	limit := c.MaxMessage()
	m := c.Method(in.req.ServiceMethod)
	if m != nil {
		limit = m.MaxMessage
	}
	c.in.reserve = func(n int64) error { return in.held.Await(n, time.Time{}) }
	in.args, err = c.in.value(nil, limit)
	c.in.reserve = nil
	why, isSkipped := errors.AsType[*skipped](err)
	in.Call = tandem.Call{Method: in.req.ServiceMethod, Metadata: c.metadata.Clone(), Codec: c.gob.Name(), Body: in}
	switch {
	case isSkipped:
		c.Refuse(ctx, &in.Call, in.refusal(why.error, limit), in.answer)
	case err != nil:
		in.held.Release()
		return fmt.Errorf("reading the arguments of %s: %w", in.req.ServiceMethod, unexpected(err))
	case m == nil:
		c.NoMethod(ctx, &in.Call, c.Missing(in.req.ServiceMethod), in.answer)
	default:
		c.Go(ctx, &in.Call, in.answer)
	}
	return nil
}

// refusal returns the error for a call whose arguments were discarded.
func (c *call) refusal(why error, limit int) error {
	if tooLarge, ok := errors.AsType[*sizeError](why); ok {
		return tandem.Errorf(tandem.ResourceExhausted, "message of %d bytes, %s takes at most %d", tooLarge.size, c.req.ServiceMethod, limit)
	}
	return why
}

// unexpected converts an EOF in the middle of a request.
func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// text returns the text of an error, "" for none.
func text(err error) string {
	e := tandem.AsError(err)
	switch {
	case e == nil:
		return ""
	case e.Code == tandem.Unknown && e.Message != "":
		return e.Message
	}
	return e.Error()
}

// told are the type descriptions that the peer has, by their ids.
type told map[int]string

// appendNew appends gob messages to dst, without the type descriptions that the peer has: a
// decoder refuses to get one twice.
func (t told) appendNew(dst, messages []byte) ([]byte, error) {
	for len(messages) > 0 {
		m, err := parseMessage(messages)
		if err != nil {
			return dst, err
		}
		bytesOf := messages[:m.end]
		messages = messages[m.end:]
		if m.id > 0 {
			dst = append(dst, bytesOf...)
			continue
		}
		known, ok := t[m.id]
		if ok && known != string(bytesOf) {
			return dst, fmt.Errorf("gob describes type %d in two ways", -m.id)
		}
		if !ok {
			t[m.id] = string(bytes.Clone(bytesOf))
			dst = append(dst, bytesOf...)
		}
	}
	return dst, nil
}
