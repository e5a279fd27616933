package rpc

import (
	"context"
	"errors"
	"io"
	"reflect"
	"sync"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/server"
)

// CodecProtocol returns a protocol for [server.WithProtocols] that serves connections with
// the codecs that newCodec makes. It matches every connection that no protocol before it has
// matched. If a codec has a method
//
//	RequestMetadata() tandem.Metadata
//
// it is called after the header of each request, and returns the request's metadata.
func CodecProtocol(name string, newCodec func(conn io.ReadWriteCloser) ServerCodec) server.Protocol {
	return &anyCodec{name, newCodec}
}

type anyCodec struct {
	name     string
	newCodec func(conn io.ReadWriteCloser) ServerCodec
}

func (p *anyCodec) Name() string              { return p.name }
func (*anyCodec) Match([]byte) server.Verdict { return server.Yes }

// Serve reads requests until there are no more.
func (p *anyCodec) Serve(ctx context.Context, c *server.Conn) error {
	return (&codecProtocol{codec: p.newCodec(c)}).Serve(ctx, c)
}

// codecProtocol serves one connection with a user's codec.
type codecProtocol struct {
	codec  ServerCodec
	once   bool  // serve only one request
	unread error // why the last request could not be read

	sending sync.Mutex // a codec writes one response at a time
}

const codecProtocolName = "netrpc codec"

func (*codecProtocol) Name() string { return codecProtocolName }

// Match is never called.
func (*codecProtocol) Match([]byte) server.Verdict { return server.No }

// Serve reads requests until there are no more.
func (p *codecProtocol) Serve(ctx context.Context, c *server.Conn) error {
	for {
		if err := p.serveNext(ctx, c); err != nil {
			p.unread = err
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		if p.once {
			return nil
		}
	}
}

// serveNext reads one request and starts its call. It returns an error only if the request
// can't be read.
func (p *codecProtocol) serveNext(ctx context.Context, c *server.Conn) error {
	in := &codecCall{protocol: p, read: make(chan struct{})}
	if err := p.codec.ReadRequestHeader(&in.req); err != nil {
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return err
		}
		return errors.New("rpc: server cannot decode request: " + err.Error())
	}
	in.Call = tandem.Call{Method: in.req.ServiceMethod, Codec: codecProtocolName, Body: in}
	if m, ok := p.codec.(interface{ RequestMetadata() tandem.Metadata }); ok {
		in.Metadata = m.RequestMetadata()
	}
	if missing := c.Missing(in.req.ServiceMethod); missing != nil {
		p.unread = missing
		c.NoMethod(ctx, &in.Call, missing, in.answer)
	} else {
		c.Go(ctx, &in.Call, in.answer)
	}
	<-in.read
	return nil
}

// codecCall is one call: its request, its [tandem.Call], and the Body of that.
type codecCall struct {
	tandem.Call

	protocol *codecProtocol
	req      Request
	read     chan struct{} // closed when the arguments have been read or discarded
	args     any           // the decoded arguments, once they are read
	unread   error         // why they could not be read
	reply    any           // nil if there is none
}

// Decode makes the codec read the arguments. Later calls copy them.
func (in *codecCall) Decode(v any) error {
	if several, ok := v.(tandem.Results); ok {
		if len(several) > 0 {
			return tandem.Errorf(tandem.Unimplemented, "it has %d arguments; net/rpc sends one", len(several))
		}
		v = nil
	}
	select {
	case <-in.read:
		return in.again(v)
	default:
	}
	defer close(in.read)
	in.args = v
	in.unread = in.protocol.codec.ReadRequestBody(v)
	in.protocol.unread = in.unread
	return in.unread
}

// again is Decode after the arguments have been read.
func (in *codecCall) again(v any) error {
	from, to := reflect.ValueOf(in.args), reflect.ValueOf(v)
	switch {
	case in.unread != nil || v == nil:
		return in.unread
	case from.Kind() != reflect.Pointer || from.Type() != to.Type():
		return tandem.Errorf(tandem.Unimplemented, "a codec reads arguments once: they are a %T, not a %T", in.args, v)
	}
	to.Elem().Set(from.Elem())
	return nil
}

// Encode keeps the result until it is sent.
func (in *codecCall) Encode(v any) error {
	if several, ok := v.(tandem.Args); ok {
		if len(several) > 0 {
			return tandem.Errorf(tandem.Unimplemented, "it has %d results; net/rpc receives one", len(several))
		}
		v = nil
	}
	in.reply = v
	return nil
}

// Stream returns nil: net/rpc has no streams.
func (*codecCall) Stream() tandem.MessageStream { return nil }

// answer sends the response of the call, which has ended with err. It first discards
// arguments that were not read.
func (in *codecCall) answer(err error) {
	select {
	case <-in.read:
	default:
		_ = in.protocol.codec.ReadRequestBody(nil) // an error also fails the next read
		close(in.read)
	}
	resp := Response{ServiceMethod: in.req.ServiceMethod, Seq: in.req.Seq, Error: in.text(err)}
	if err != nil || in.reply == nil {
		in.reply = struct{}{}
	}
	in.protocol.sending.Lock()
	defer in.protocol.sending.Unlock()
	_ = in.protocol.codec.WriteResponse(&resp, in.reply) // the codec closes the connection, if it wants to
}

// text returns the error text of a response; "" means no error.
func (in *codecCall) text(err error) string {
	e := tandem.AsError(err)
	switch {
	case e == nil:
		return ""
	case in.unread != nil:
		return in.unread.Error()
	case e.Code == tandem.Unknown && e.Message != "":
		return e.Message
	}
	return e.Error()
}
