// Package rpcx (stable) serves unmodified clients of rpcx (https://rpcx.io), versions 1.6 to 1.9.
//
//	srv := server.New(server.WithProtocols(rpcx.New()))
//
// A method's name is the service path and the service method of a request, with a dot
// between them. A method is served if it has at most one argument and at most one result:
// an argument that it does not have is ignored, and for a result that it does not have the
// client's reply stays unchanged. Streams, and methods with several arguments, answer with
// an error that says so.
//
// # What is supported
//
//   - Payloads in MessagePack, rpcx's default, JSON, Protocol Buffers, and as bytes
//     (SerializeNone). Thrift answers with an error.
//   - gzip: the response to a compressed request is compressed, too, if it is longer
//     than 1 KiB.
//   - Metadata both ways. Keys that are received are converted to lower case. Several
//     values of a key in a trailer are sent as one, joined with ", ". rpcx's
//     own key __AUTH is the metadata "authorization", where tokens are on every
//     protocol; __ServerTimeout is the call's deadline.
//   - One-way calls, which are never answered, and heartbeats.
//   - Errors, as rpcx sends them: status Error, and the text under __rpcx_error__.
//     The text is the method's own, with the name of its code before it unless it is
//     Unknown; rpcx's own text for services and methods that do not exist.
//
// # What differs from rpcx's server
//
// A call that is refused because of its token does not end the connection: other calls on
// it may have a valid one. Arguments are decompressed and decoded after the interceptors. A
// heartbeat must not be larger than a message. rpcx's streams and files, which use
// connections of their own, and its calls from servers to clients are not supported.
package rpcx

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/codec"
	"github.com/tandem-rpc/tandem/codec/msgpack"
	"github.com/tandem-rpc/tandem/codec/protobuf"
	"github.com/tandem-rpc/tandem/compress"
	"github.com/tandem-rpc/tandem/server"
)

// name is the protocol's name in peers and in the log.
const name = "rpcx"

// protocol is what the client's and the server's protocol share.
type protocol struct {
	codecs [formatMsgpack + 1]tandem.Codec // by format
	gzip   tandem.Compressor
}

func newProtocol() *protocol {
	return &protocol{
		codecs: [...]tandem.Codec{
			formatRaw: codec.Raw(), formatJSON: codec.JSON(), formatProtobuf: protobuf.Codec(), formatMsgpack: msgpack.Codec(),
		},
		gzip: compress.Gzip(),
	}
}

// New returns the protocol, for [server.WithProtocols].
func New() server.Protocol { return newProtocol() }

func (*protocol) Name() string { return name }

// Codecs returns the codecs that rpcx's clients choose from, besides the server's own.
func (p *protocol) Codecs() []tandem.Codec {
	return []tandem.Codec{p.codecs[formatProtobuf], p.codecs[formatMsgpack]}
}

// Match accepts the first bytes of a request.
func (*protocol) Match(first []byte) server.Verdict {
	const needed = 4
	for i, b := range first[:min(len(first), needed)] {
		ok := true
		switch i {
		case 0:
			ok = b == magic
		case 2:
			ok = b&(response|statusBits) == 0
		case 3:
			ok = b&0x0f == 0
		}
		if !ok {
			return server.No
		}
	}
	if len(first) < needed {
		return server.NeedMore
	}
	return server.Yes
}

// conn is the connection of one client.
type conn struct {
	*server.Conn
	*protocol

	r *bufio.Reader
}

const readBuffer = 16 << 10

// Serve reads requests until the client closes the connection.
func (p *protocol) Serve(ctx context.Context, sc *server.Conn) error {
	c := &conn{Conn: sc, protocol: p, r: bufio.NewReaderSize(sc, readBuffer)}
	for {
		c.Midway(false)
		_, err := c.r.Peek(1)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			c.Midway(true)
			err = c.serveNext(ctx)
		}
		if err != nil {
			return err
		}
	}
}

// room reserves memory for the arguments of a request, and waits for it. It returns why
// there is none.
func (c *call) room(refused *limitError, size int) error {
	if refused != nil {
		return &tandem.Error{Code: tandem.ResourceExhausted, NotExecuted: true, Message: refused.text}
	}
	return c.held.Await(2*int64(size), c.Deadline) // it is copied while it grows
}

// serveNext reads one request and starts its call.
func (c *conn) serveNext(ctx context.Context) error {
	in := &call{conn: c}
	in.held = c.Reserve(ctx).For(&in.Call)
	left, err := in.req.readHead(c.r)
	refused, isRefused := errors.AsType[*limitError](err)
	if err != nil && !isRefused {
		return fmt.Errorf("reading a request: %w", unexpected(err))
	}
	if in.req.kind&response != 0 {
		return fmt.Errorf("%w: a client sent an answer", errNotRPCX)
	}
	in.Method = in.req.service + "." + in.req.method
	limit := c.MaxMessage()
	m := c.Method(in.Method)
	if m != nil && in.req.kind&heartbeat == 0 { // a heartbeat reaches no method: the method's limit would reveal that it exists
		limit = m.MaxMessage
	}
	if !isRefused && left > limit {
		refused = &limitError{fmt.Sprintf("message of %d bytes, %s takes at most %d", left, in.Method, limit)}
	}
	var bad error
	if !isRefused {
		bad = in.describe(limit)
	}
	if why := in.room(refused, left); why != nil {
		if _, err := c.r.Discard(left); err != nil {
			in.held.Release()
			return unexpected(err)
		}
		if isRefused { // the caller is not known
			in.answer(why)
			return nil
		}
		c.Refuse(ctx, &in.Call, why, in.answer)
		return nil
	}
	if in.req.payload, err = readPayload(c.r, left); err != nil {
		in.held.Release()
		return fmt.Errorf("reading the arguments of %s: %w", in.Method, err)
	}
	in.start(ctx, m != nil, bad)
	return nil
}

// start makes the call of a request that has arrived, or answers it with the error bad.
func (c *call) start(ctx context.Context, exists bool, bad error) {
	switch {
	case c.req.kind&heartbeat != 0:
		c.echo()
	case !exists:
		c.conn.NoMethod(ctx, &c.Call, c.conn.missing(&c.req), c.answer)
	case bad != nil:
		c.conn.Refuse(ctx, &c.Call, bad, c.answer)
	default:
		c.conn.Go(ctx, &c.Call, c.answer)
	}
}

// missing returns rpcx's error for a method that does not exist.
func (c *conn) missing(req *frame) error {
	err := c.Missing(req.service + "." + req.method)
	if err != nil && strings.HasPrefix(err.Error(), "rpc: can't find service") {
		return errors.New("rpcx: can't find service " + req.service)
	}
	return errors.New("rpcx: can't find method " + req.method)
}

// describe fills in the call from the request. Metadata comes first: it identifies the
// caller also if the rest is refused.
func (c *call) describe(limit int) error {
	req := &c.req
	c.limit, c.Body = limit, c
	if req.kind&oneWay != 0 {
		c.Kind = tandem.OneWay
	}
	if err := c.takeMetadata(); err != nil {
		return err
	}
	if int(req.format) >= len(c.conn.codecs) {
		return tandem.Errorf(tandem.Unimplemented, "payloads of serialize type %d%s are not served here: use MsgPack, JSON, ProtoBuffer or SerializeNone",
			req.format, map[bool]string{true: ", Thrift,"}[req.format == formatThrift])
	}
	if by := req.kind & compression; by != 0 && by != gzipped {
		return tandem.Errorf(tandem.Unimplemented, "payloads of compress type %d are not served here: use Gzip or None", by>>2)
	}
	c.codec = c.conn.codecs[req.format]
	c.Codec = c.codec.Name()
	if req.kind&compression == gzipped {
		c.Compressor = c.conn.gzip.Name()
	}
	return nil
}

// takeMetadata converts rpcx's metadata to tandem's, and to a deadline.
func (c *call) takeMetadata() error {
	if len(c.req.block) == 0 {
		return nil
	}
	c.Metadata = tandem.Metadata{}
	err := pairs(c.req.block, func(key, value string) {
		switch key {
		case keyAuth:
			if value != "" {
				c.Metadata.Add(keyToken, value)
			}
		case keyTimeout:
			c.Deadline = deadline(value, time.Now())
		default:
			c.Metadata.Add(key, value)
		}
	})
	if err != nil {
		return tandem.Errorf(tandem.InvalidArgument, "%w", err)
	}
	if len(c.Metadata[keyToken]) > 1 {
		return tandem.Errorf(tandem.InvalidArgument, "the request has more than one token: send one, as %s", keyAuth)
	}
	return nil
}

// maxTimeout is the longest timeout that is accepted, in milliseconds: a century.
const maxTimeout = 100 * 365 * 24 * 3600 * 1000

// deadline returns now plus the timeout, or zero if there is no valid one.
func deadline(milliseconds string, now time.Time) time.Time {
	ms, err := strconv.ParseInt(milliseconds, 10, 64)
	if err != nil || ms > maxTimeout {
		return time.Time{}
	}
	return now.Add(time.Duration(max(ms, 0)) * time.Millisecond)
}

// text returns the text of an error.
func text(err error) string {
	e := tandem.AsError(err)
	if e.Code == tandem.Unknown && e.Message != "" {
		return e.Message
	}
	return e.Error()
}
