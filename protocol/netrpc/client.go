package netrpc

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/codec"
	"github.com/tandem-rpc/tandem/internal/multiplex"
)

// Client returns the protocol for [client.WithProtocols] that calls net/rpc servers, at
// targets netrpc://host:port.
//
// Messages are gob. A method has at most one argument and at most one result. net/rpc has
// no metadata, and deadlines apply at the client only. The response of a one-way call is
// ignored. A server's error is a text: its code is Unknown, unless the text begins with a
// code's name, as those of tandem's servers do, or says that there is no such method
// (Unimplemented).
func Client() client.Protocol { return &outward{name: "netrpc", gob: codec.Gob()} }

// HTTPClient is [Client] for servers that are reached by an HTTP CONNECT to a path, at
// targets netrpc+http://host:port; the path "" is [DefaultPath]. The header is sent with
// the CONNECT, for a token for example, and may be nil.
func HTTPClient(path string, header http.Header) client.Protocol {
	if path == "" {
		path = DefaultPath
	}
	return &outward{name: "netrpc+http", gob: codec.Gob(), path: path, header: header.Clone()}
}

// outward is the client's protocol.
type outward struct {
	name   string
	gob    tandem.Codec
	path   string // "" for no CONNECT
	header http.Header
}

func (o *outward) Name() string { return o.name }

// Codecs returns the gob codec.
func (o *outward) Codecs() []tandem.Codec { return []tandem.Codec{o.gob} }

// NoMetadata marks net/rpc as a protocol without metadata.
func (*outward) NoMetadata() {}

// NoStreams marks net/rpc as a protocol without streams.
func (*outward) NoStreams() {}

// Connect connects to a server.
func (o *outward) Connect(ctx context.Context, r *client.Remote) (client.Carrier, error) {
	nc, err := r.Dial(ctx)
	if err != nil {
		return nil, err
	}
	in := multiplex.NewReader(nc)
	a := &incoming{outward: o, in: in, gobs: gobReader{r: bufio.NewReaderSize(in, readBuffer)}, limit: r.MaxMessage}
	if o.path != "" {
		if err := o.enter(ctx, nc, a.gobs.r); err != nil {
			return nil, errors.Join(err, nc.Close())
		}
	}
	return &carrier{Conn: multiplex.New(nc, a.next), outward: o, sent: told{}}, nil
}

// connected is the status with which net/rpc's servers answer a CONNECT; its clients check
// it.
const connected = "200 Connected to Go RPC"

// enter sends the CONNECT and reads the response.
func (o *outward) enter(ctx context.Context, nc net.Conn, br *bufio.Reader) error {
	stop := context.AfterFunc(ctx, func() { _ = nc.Close() }) // this ends reading and writing
	defer stop()
	var said bytes.Buffer
	fmt.Fprintf(&said, "CONNECT %s HTTP/1.0\r\n", o.path)
	if err := o.header.Write(&said); err != nil {
		return err
	}
	said.WriteString("\r\n")
	if _, err := nc.Write(said.Bytes()); err != nil {
		return err
	}
	answer, err := readHead(br)
	if err != nil {
		return fmt.Errorf("reading the answer to a CONNECT: %w", err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(answer)), &http.Request{Method: http.MethodConnect})
	if err != nil {
		return fmt.Errorf("reading the answer to a CONNECT: %w", err)
	}
	_ = resp.Body.Close() // it has no body
	if resp.Status != connected {
		return fmt.Errorf("the answer to a CONNECT to %s is %q, want %q", o.path, resp.Status, connected)
	}
	if !stop() {
		return ctx.Err()
	}
	return nil
}

// answer is the response to a request.
type answer struct {
	err      string
	reply    []byte // a complete gob
	tooLarge *sizeError
}

// incoming reads responses.
type incoming struct {
	*outward

	in     *multiplex.Reader
	gobs   gobReader
	limit  int
	header []byte // header of the last response; the memory is reused
}

func (a *incoming) next() (seq uint64, got answer, err error) {
	a.in.Midway(false)
	if _, err := a.gobs.r.Peek(1); err != nil {
		return 0, got, err
	}
	a.in.Midway(true)
	header, err := a.gobs.value(a.header[:0], maxAnswerHeader)
	if err != nil {
		return 0, got, fmt.Errorf("reading an answer: %w", unexpected(err))
	}
	a.header = header
	var r response
	if err := a.gob.Decode(header, &r); err != nil {
		return 0, got, fmt.Errorf("decoding an answer: %w", err)
	}
	got.err = r.Error
	got.reply, err = a.gobs.value(nil, a.limit)
	if tooLarge, ok := errors.AsType[*sizeError](err); ok {
		got.tooLarge, err = tooLarge, nil
	}
	return r.Seq, got, unexpected(err)
}

// maxAnswerHeader is the limit of a response without its result, in bytes: it has the name
// of the method and the text of an error.
const maxAnswerHeader = 64 << 10

// carrier is a connection to a server.
type carrier struct {
	*multiplex.Conn[answer]
	*outward

	sent told // type descriptions that the server has; used while requests are queued
}

// Carry makes a call.
func (c *carrier) Carry(ctx context.Context, r *client.Request) error {
	argument, err := r.Argument()
	if err != nil {
		return err
	}
	if len(r.Call.Method) > maxHeader/2 {
		return refused(fmt.Errorf("a method's name of %d bytes", len(r.Call.Method)))
	}
	if r.Call.Kind == tandem.OneWay {
		return c.Send(ctx, c.fill(r.Call.Method, argument))
	}
	got, err := c.Do(ctx, c.fill(r.Call.Method, argument))
	switch {
	case err != nil:
		return err
	case got.err != "":
		return multiplex.TextError(got.err, "rpc: can't find ")
	case got.tooLarge != nil:
		return &tandem.Error{Code: tandem.ResourceExhausted, Remote: true, Message: fmt.Sprintf("the answer is %v, beyond the limit: raise it with WithMaxMessage", got.tooLarge)}
	}
	r.Reply = got.reply
	return nil
}

func refused(err error) error {
	e := tandem.Errorf(tandem.InvalidArgument, "%w", err)
	e.NotExecuted = true
	return e
}

// fill returns the function that writes a request: its header and its argument, without
// type descriptions that the server has.
func (c *carrier) fill(method string, argument []byte) multiplex.Fill {
	return func(dst []byte, seq uint64) ([]byte, error) {
		messages := takeAnswers()
		defer messages.give()
		var err error
		if messages.b, err = codec.Append(c.gob, messages.b, head(method, seq)); err != nil {
			return dst, refused(err)
		}
		if len(argument) > 0 {
			messages.b = append(messages.b, argument...)
		} else if messages.b, err = codec.Append(c.gob, messages.b, struct{}{}); err != nil {
			return dst, refused(err)
		}
		if err := whole(messages.b); err != nil {
			return dst, refused(err)
		}
		return c.sent.appendNew(dst, messages.b)
	}
}

// head returns a request's header with the type name that net/rpc's clients use: gob sends
// it, and our servers detect the protocol by it.
func head(method string, seq uint64) any {
	type Request struct {
		ServiceMethod string
		Seq           uint64
	}
	return &Request{method, seq}
}

// whole returns an error if b does not consist of complete messages: nothing is sent then.
func whole(b []byte) error {
	for len(b) > 0 {
		m, err := parseMessage(b)
		if err == nil && m.end > len(b) {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return err
		}
		b = b[m.end:]
	}
	return nil
}

// Ping calls a method without a name, for which a server returns an error before it looks
// it up.
func (c *carrier) Ping(ctx context.Context) error {
	_, err := c.Do(ctx, c.fill("", nil))
	return err
}
