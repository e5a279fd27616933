package rpcx

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/internal/multiplex"
)

// Client returns the protocol for [client.WithProtocols] that calls rpcx servers, at
// targets rpcx://host:port and those that rpcx lists in a registry.
//
// Messages are MessagePack unless the client, or the call, chooses JSON, Protocol Buffers
// or raw bytes; gzip is the compressor. Metadata is sent and received, "authorization" as
// rpcx's __AUTH; the deadline is sent as __ServerTimeout. A method has at most one argument
// and at most one result. An rpcx server's error is a text: its code is Unknown, unless the
// text begins with a code's name, as those of tandem's servers do, or says that there is no
// such method (Unimplemented).
func Client() client.Protocol { return outward{newProtocol()} }

// outward is the client's protocol.
type outward struct{ *protocol }

// NoStreams says that rpcx's streams are not supported.
func (outward) NoStreams() {}

// Codecs returns MessagePack, which is rpcx's default, and the other codecs.
func (o outward) Codecs() []tandem.Codec {
	return []tandem.Codec{o.codecs[formatMsgpack], o.codecs[formatJSON], o.codecs[formatProtobuf], o.codecs[formatRaw]}
}

// Compresses reports whether compressor is gzip.
func (o outward) Compresses(compressor string) bool { return compressor == o.gzip.Name() }

// Connect connects to a server; rpcx has no handshake.
func (o outward) Connect(ctx context.Context, r *client.Remote) (client.Carrier, error) {
	nc, err := r.Dial(ctx)
	if err != nil {
		return nil, err
	}
	in := multiplex.NewReader(nc)
	a := &answers{in, bufio.NewReaderSize(in, readBuffer), r.MaxMessage}
	return &carrier{o.protocol, multiplex.New(nc, a.next)}, nil
}

// carrier is a connection to a server.
type carrier struct {
	*protocol
	*multiplex.Conn[answer]
}

// answer is the response to a request.
type answer struct {
	frame
	tooLarge error // why the payload was discarded; nil if it was not
}

// answers reads responses.
type answers struct {
	in    *multiplex.Reader
	r     *bufio.Reader // buffers in
	limit int
}

// next reads the next response. Other frames, which servers send to clients that serve, are
// skipped.
func (a *answers) next() (uint64, answer, error) {
	for {
		a.in.Midway(false)
		if _, err := a.r.Peek(1); err != nil {
			return 0, answer{}, err
		}
		a.in.Midway(true)
		got, err := a.one()
		if err != nil {
			return 0, answer{}, unexpected(err)
		}
		if got.kind&response != 0 {
			return got.seq, got, nil
		}
	}
}

// one reads one frame.
func (a *answers) one() (got answer, err error) {
	left, err := got.readHead(a.r)
	if refused, ok := errors.AsType[*limitError](err); ok {
		got.tooLarge, err = refused, nil
	}
	if err != nil {
		return got, err
	}
	if left > a.limit {
		got.tooLarge = tooLong("an answer", left, a.limit)
	}
	if got.tooLarge != nil {
		_, err = a.r.Discard(left)
		return got, err
	}
	got.payload, err = readPayload(a.r, left)
	return got, err
}

// Carry makes a call.
func (c *carrier) Carry(ctx context.Context, r *client.Request) error {
	out, err := c.request(r)
	if err != nil {
		return err
	}
	fill := func(dst []byte, seq uint64) ([]byte, error) {
		out.seq = seq
		return out.append(dst)
	}
	if r.Call.Kind == tandem.OneWay {
		return c.Send(ctx, fill)
	}
	got, err := c.Do(ctx, fill)
	if err != nil {
		return err
	}
	return c.take(r, &got)
}

// request returns the frame of a call.
func (c *carrier) request(r *client.Request) (*frame, error) {
	service, method := split(r.Call.Method)
	if len(service) > maxName || len(method) > maxName {
		return nil, refused(tandem.InvalidArgument, "a method's name of %d bytes", len(r.Call.Method))
	}
	out := &frame{service: service, method: method, payload: r.Message, block: metadataOf(r.Call, time.Now())}
	if r.Several {
		if r.Compressed {
			return nil, refused(tandem.Unimplemented, "arguments of %s are several, and compressed: rpcx carries one", r.Call.Method)
		}
		var err error
		if out.payload, err = r.Argument(); err != nil {
			return nil, err
		}
	}
	out.format = uint8(slices.IndexFunc(c.codecs[:], func(k tandem.Codec) bool { return k.Name() == r.Call.Codec })) //nolint:gosec // it is one of them
	if r.Compressed {
		out.kind |= gzipped
	}
	if r.Call.Kind == tandem.OneWay {
		out.kind |= oneWay
	}
	return out, nil
}

// split splits a method's name at its last dot, as rpcx does.
func split(method string) (service, name string) {
	if i := strings.LastIndexByte(method, '.'); i >= 0 {
		return method[:i], method[i+1:]
	}
	return "", method
}

func refused(code tandem.Code, format string, args ...any) error {
	return &tandem.Error{Code: code, NotExecuted: true, Message: fmt.Sprintf(format, args...)}
}

// metadataOf returns rpcx's metadata for a call.
func metadataOf(call *tandem.Call, now time.Time) []byte {
	var block []byte
	token := call.Metadata.Get("authorization")
	for key, values := range call.Metadata {
		if key != "authorization" && !strings.HasPrefix(key, reserved) {
			block = appendPair(block, key, strings.Join(values, ", "))
		}
	}
	if token != "" {
		block = appendPair(block, keyAuth, token)
	}
	if !call.Deadline.IsZero() {
		left := max(call.Deadline.Sub(now).Milliseconds(), 1)
		block = appendPair(block, keyTimeout, strconv.FormatInt(left, 10))
	}
	return block
}

// take sets the result and the trailer of the call.
func (c *carrier) take(r *client.Request, got *answer) error {
	if got.tooLarge != nil {
		return &tandem.Error{Code: tandem.ResourceExhausted, Remote: true, Message: got.tooLarge.Error()}
	}
	said, failed := "", got.kind&statusBits != 0
	err := pairs(got.block, func(key, value string) {
		if key == keyError {
			said = value
			return
		}
		if r.Call.Trailer == nil {
			r.Call.Trailer = tandem.Metadata{}
		}
		r.Call.Trailer.Add(key, value)
	})
	switch by := got.kind & compression; {
	case failed && said == "":
		return &tandem.Error{Code: tandem.Unknown, Remote: true, Message: "rpcx: an error without words"}
	case failed:
		return multiplex.TextError(said, "rpcx: can't find ")
	case err != nil:
		return &tandem.Error{Code: tandem.Internal, Remote: true, Message: "the answer's " + err.Error()}
	case by != 0 && (by != gzipped || r.Call.Compressor != c.gzip.Name()):
		return &tandem.Error{Code: tandem.Internal, Remote: true, Message: fmt.Sprintf("the answer is compressed (type %d), and the call was not", by>>2)}
	case by != 0:
		r.ReplyCompressed = len(got.payload) > 0
	}
	r.Reply = got.payload
	return nil
}

// Ping sends a heartbeat.
func (c *carrier) Ping(ctx context.Context) error {
	out := &frame{kind: heartbeat, format: formatMsgpack, payload: []byte{0xc0}}
	_, err := c.Do(ctx, func(dst []byte, seq uint64) ([]byte, error) {
		out.seq = seq
		return out.append(dst)
	})
	return err
}
