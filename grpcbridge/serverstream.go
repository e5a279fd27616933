package grpcbridge

import (
	"context"
	"errors"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/protocol/web"
)

// transport is a call at the server as grpc-go's functions see it: the
// [grpc.ServerTransportStream] of the handler's context.
type transport struct {
	ctx      context.Context //nolint:containedctx // the call's, which has its HTTP response
	call     *tandem.Call
	full     string
	bridged  bool                 // the caller is a bridge
	messages tandem.MessageStream // nil for unary calls

	mu      sync.Mutex
	header  metadata.MD
	trailer metadata.MD
	sent    bool // the header was sent, or the call has ended
}

var _ grpc.ServerTransportStream = (*transport)(nil)

func newTransport(ctx context.Context, call *tandem.Call, full string) *transport {
	return &transport{ctx: ctx, call: call, full: full, bridged: call.Metadata.Get(bridgeKey) != "" && call.Codec == protoCodec}
}

// context returns the context of the method.
func (t *transport) context(ctx context.Context) context.Context {
	ctx = metadata.NewIncomingContext(ctx, toMD(t.call.Metadata))
	ctx = peer.NewContext(ctx, toPeer(t.call.Peer))
	return grpc.NewContextWithServerTransportStream(ctx, t)
}

// Method returns the name of the method, "/shop.v1.Carts/Add".
func (t *transport) Method() string { return t.full }

var errHeaderSent = errors.New("the header was sent before")

// SetHeader adds to the header of the response.
func (t *transport) SetHeader(md metadata.MD) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.setHeaderLocked(md)
}

func (t *transport) setHeaderLocked(md metadata.MD) error {
	if md.Len() == 0 {
		return nil
	}
	if t.sent {
		return refused(tandem.Internal, "grpc.SetHeader: %w", errHeaderSent)
	}
	t.header = metadata.Join(t.header, lower(md))
	return nil
}

// SetTrailer adds to the trailer of the response.
func (t *transport) SetTrailer(md metadata.MD) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.trailer = metadata.Join(t.trailer, lower(md))
	return nil
}

// SendHeader sends the header of a stream. That of a unary call is sent with its response.
func (t *transport) SendHeader(md metadata.MD) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.sent {
		return refused(tandem.Internal, "grpc.SendHeader: %w", errHeaderSent)
	}
	if err := t.setHeaderLocked(md); err != nil {
		return err
	}
	return t.sendHeaderLocked()
}

// sendHeader sends the header of a stream before its first message, unless it was sent.
func (t *transport) sendHeader() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.sent {
		return nil
	}
	return t.sendHeaderLocked()
}

func (t *transport) sendHeaderLocked() error {
	t.sent = true
	if web.Header(t.ctx) != nil {
		t.setHTTPHeaderLocked()
		return toStatus(web.SendHeader(t.ctx))
	}
	if t.bridged && t.messages != nil {
		return toStatus(t.messages.SendMsg(&frame{encodeHeader(t.header)}))
	}
	return nil
}

func (t *transport) setHTTPHeaderLocked() {
	addHeader(web.Header(t.ctx), t.header)
}

// finish gives the call the header, unless it was sent, and the trailer.
func (t *transport) finish() {
	t.mu.Lock()
	defer t.mu.Unlock()
	header := t.header
	switch {
	case web.Header(t.ctx) != nil:
		if !t.sent {
			t.setHTTPHeaderLocked()
		}
		header = nil
	case t.sent && t.bridged && t.messages != nil:
		header = nil
	}
	t.sent = true
	if len(header) == 0 && len(t.trailer) == 0 {
		return
	}
	all := t.call.Trailer.Clone() // of interceptors
	if all == nil {
		all = tandem.Metadata{}
	}
	addMetadata(all, t.trailer)
	pack(all, header, t.bridged)
	t.call.Trailer = all
}

// lower returns md with keys in lower case, without those that are not metadata.
func lower(md metadata.MD) metadata.MD {
	all := tandem.Metadata{}
	addMetadata(all, md)
	return metadata.MD(all)
}

// serverStream is the [grpc.ServerStream] of a method.
type serverStream struct {
	*transport

	ctx context.Context //nolint:containedctx // grpc.ServerStream has it
}

// Context returns the context of the method.
func (s *serverStream) Context() context.Context { return s.ctx }

// SetTrailer adds to the trailer. grpc.ServerStream's has no error.
func (s *serverStream) SetTrailer(md metadata.MD) { _ = s.transport.SetTrailer(md) }

// SendMsg sends a message, after the header.
func (s *serverStream) SendMsg(m any) error {
	if err := s.sendHeader(); err != nil {
		return err
	}
	return toStatus(s.messages.SendMsg(m))
}

// RecvMsg receives a message, io.EOF after the last.
func (s *serverStream) RecvMsg(m any) error { return toStatus(s.messages.RecvMsg(m)) }
