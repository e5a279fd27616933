package grpcbridge

import (
	"context"
	"errors"
	"io"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"github.com/tandem-rpc/tandem"
)

func (c *ClientConn) open(ctx context.Context, desc *grpc.StreamDesc, _ *grpc.ClientConn, method string, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	o, err := c.options(ctx, method, opts)
	if err != nil {
		return nil, o.finish(err)
	}
	s := &clientStream{desc: desc, opts: o, got: newResponse()}
	note := func(call *tandem.Call) {
		call.OnEnd(s.end)
		s.call = call
	}
	s.stream, err = c.caller.OpenStream(s.got.watch(ctx), methodName(method), append(o.call, note, s.got.observe)...)
	if err != nil {
		return nil, toStatus(err)
	}
	s.native = s.call.Peer.Protocol == ownProtocol
	s.ctx = peer.NewContext(s.stream.Context(), toPeer(s.call.Peer))
	return s, nil
}

// clientStream is the [grpc.ClientStream] of a stub.
type clientStream struct {
	desc   *grpc.StreamDesc
	opts   *callOptions
	got    *response
	stream tandem.MessageStream
	call   *tandem.Call    // read only before the stream is returned
	ctx    context.Context //nolint:containedctx // grpc.ClientStream has it
	native bool            // over tandem's own protocol: the header is the first message, if there is one

	receiving sync.Mutex // held while a message is received
	begun     bool       // the first message was received, or is ahead
	ahead     *frame     // the first message, received for its header; nil for none
	header    metadata.MD
	failed    error // of receiving ahead

	closing sync.Once
}

// Context ends with the stream.
func (s *clientStream) Context() context.Context { return s.ctx }

// end tells the options how the stream has ended.
func (s *clientStream) end(err error) {
	header, trailer := s.got.metadata()
	if len(s.opts.headers) > 0 && len(header) > 0 {
		for _, to := range s.opts.headers {
			*to = header
		}
	}
	s.got.deliverEnd(s.opts, trailer)
	_ = s.opts.finish(toStatus(err))
}

// Header waits for the header of the response: for the first message over tandem's own protocol,
// unless the server sends it before.
func (s *clientStream) Header() (metadata.MD, error) {
	if !s.native {
		return s.headerOfHTTP()
	}
	s.receiving.Lock()
	defer s.receiving.Unlock()
	s.lookAhead()
	if s.header != nil {
		return s.header, nil
	}
	header, _ := s.got.metadata() // of a stream that has ended without a message
	if s.failed != nil && !errors.Is(s.failed, io.EOF) && len(header) == 0 {
		return nil, toStatus(s.failed)
	}
	return header, nil
}

func (s *clientStream) headerOfHTTP() (metadata.MD, error) {
	select {
	case <-s.got.came:
	case <-s.ctx.Done():
	}
	s.got.mu.Lock()
	header := s.got.header
	s.got.mu.Unlock()
	if header == nil {
		return nil, toStatus(tandem.AsError(context.Cause(s.ctx)))
	}
	return toMD(header), nil
}

// lookAhead receives the header, or else the first message, which RecvMsg returns later.
func (s *clientStream) lookAhead() {
	if s.begun {
		return
	}
	s.begun = true
	first := new(frame)
	if s.failed = s.stream.RecvMsg(first); s.failed != nil {
		return
	}
	if isHeader(first.b) {
		s.header, s.failed = parseHeader(first.b)
		return
	}
	s.ahead = first
}

// Trailer returns the trailer of a stream that has ended.
func (s *clientStream) Trailer() metadata.MD {
	_, trailer := s.got.metadata()
	return trailer
}

// SendMsg sends a message. It returns io.EOF when the stream has ended: RecvMsg says how.
func (s *clientStream) SendMsg(m any) error {
	if err := s.opts.sendable(m); err != nil {
		_ = s.stream.Close()
		return err
	}
	err := s.stream.SendMsg(m)
	switch {
	case err == nil:
	case tandem.CodeOf(err) == tandem.Internal && s.stream.Context().Err() == nil: // m does not encode
		_ = s.stream.Close()
		return toStatus(err)
	case !s.desc.ClientStreams:
		return nil // as grpc-go does: generated code receives then, and learns how the stream ended
	default:
		return io.EOF
	}
	if !s.desc.ClientStreams {
		return s.CloseSend()
	}
	return nil
}

// CloseSend tells the server that no more messages come. Like grpc-go's it returns no error: RecvMsg
// says how the stream has ended.
func (s *clientStream) CloseSend() error {
	s.closing.Do(func() { _ = s.stream.CloseSend() })
	return nil
}

// RecvMsg receives a message, io.EOF when the stream has ended without an error. The only response of
// a method is returned when the method has ended without an error.
func (s *clientStream) RecvMsg(m any) error {
	s.receiving.Lock()
	defer s.receiving.Unlock()
	if err := s.receive(m); err != nil {
		if !s.desc.ServerStreams && errors.Is(err, io.EOF) {
			return refused(tandem.Internal, "the method has ended without a response")
		}
		return toStatus(err)
	}
	if s.desc.ServerStreams {
		return nil
	}
	switch err := s.stream.RecvMsg(new(frame)); {
	case errors.Is(err, io.EOF):
		return nil
	case err != nil:
		return toStatus(err)
	}
	_ = s.stream.Close()
	return toStatus(tandem.Errorf(tandem.Internal, "the method has sent more than one response"))
}

func (s *clientStream) receive(m any) error {
	into := &incoming{into: m, most: s.opts.maxReceive, first: s.native && !s.begun}
	if s.begun && s.failed != nil {
		return s.failed
	}
	if first := s.ahead; first != nil {
		s.ahead = nil
		return s.decoded(into, into.Unmarshal(first.b))
	}
	s.begun = true
	err := s.decoded(into, s.stream.RecvMsg(into))
	if err != nil || !into.isHeader {
		return err
	}
	s.header = into.header
	into.first = false
	return s.decoded(into, s.stream.RecvMsg(into))
}

// decoded returns the error of a message. One that is refused ends the stream.
func (s *clientStream) decoded(into *incoming, err error) error {
	switch {
	case into.tooLarge != nil:
		err = tandem.Errorf(tandem.ResourceExhausted, "%w", into.tooLarge)
	case into.unfit != nil:
		err = tandem.Errorf(tandem.Internal, "stream message: %w", into.unfit)
	default:
		return err
	}
	_ = s.stream.Close()
	return err
}
