package main

import (
	"context"
	"time"

	"google.golang.org/grpc/interop/grpc_testing"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/protocol/web"
)

// testService implements grpc.testing.TestService.
type testService struct{}

// The names of metadata that the server must send back.
const (
	echoHeader  = "X-Grpc-Test-Echo-Initial"
	echoTrailer = "x-grpc-test-echo-trailing-bin"
)

// echo sends metadata back.
func echo(ctx context.Context) {
	call := tandem.FromContext(ctx)
	if v := call.Metadata.Get(echoHeader); v != "" {
		web.Header(ctx).Set(echoHeader, v)
	}
	if v := call.Metadata.Get(echoTrailer); v != "" {
		call.Trailer = tandem.Metadata{echoTrailer: {v}}
	}
}

func failure(s *grpc_testing.EchoStatus) error {
	if s.GetCode() == 0 {
		return nil
	}
	return &tandem.Error{Code: tandem.Code(s.GetCode()), Message: s.GetMessage()} //nolint:gosec // a status
}

// largest bounds the size of a payload: a suite that generates requests would request
// gigabytes.
const largest = 8 << 20

func zeros(size int32) *grpc_testing.Payload {
	return &grpc_testing.Payload{Body: make([]byte, min(max(0, size), largest))}
}

// EmptyCall returns an empty message.
func (testService) EmptyCall(ctx context.Context, _ *grpc_testing.Empty) (*grpc_testing.Empty, error) { //nolint:unparam // the signature that generated clients have
	echo(ctx)
	return &grpc_testing.Empty{}, nil
}

// UnaryCall responds as the request says.
func (testService) UnaryCall(ctx context.Context, r *grpc_testing.SimpleRequest) (*grpc_testing.SimpleResponse, error) {
	echo(ctx)
	if err := failure(r.GetResponseStatus()); err != nil {
		return nil, err
	}
	return &grpc_testing.SimpleResponse{Payload: zeros(r.GetResponseSize())}, nil
}

// StreamingOutputCall sends messages as the request says.
func (t testService) StreamingOutputCall(ctx context.Context, s *tandem.Stream[grpc_testing.StreamingOutputCallRequest, grpc_testing.StreamingOutputCallResponse]) error {
	r, err := s.Recv()
	if err != nil {
		return err
	}
	return t.send(ctx, s, r)
}

func (testService) send(ctx context.Context, s *tandem.Stream[grpc_testing.StreamingOutputCallRequest, grpc_testing.StreamingOutputCallResponse], r *grpc_testing.StreamingOutputCallRequest) error {
	for _, p := range r.GetResponseParameters() {
		select {
		case <-time.After(time.Duration(p.GetIntervalUs()) * time.Microsecond):
		case <-ctx.Done():
			return ctx.Err()
		}
		if err := s.Send(&grpc_testing.StreamingOutputCallResponse{Payload: zeros(p.GetSize())}); err != nil {
			return err
		}
	}
	return nil
}

// StreamingInputCall adds up the sizes of messages.
func (testService) StreamingInputCall(s *tandem.Stream[grpc_testing.StreamingInputCallRequest, grpc_testing.StreamingInputCallResponse]) error {
	total := 0
	for r, err := range s.All() {
		if err != nil {
			return err
		}
		total += len(r.GetPayload().GetBody())
	}
	return s.Send(&grpc_testing.StreamingInputCallResponse{AggregatedPayloadSize: int32(total)})
}

// FullDuplexCall responds to each message as it says.
func (t testService) FullDuplexCall(ctx context.Context, s *tandem.Stream[grpc_testing.StreamingOutputCallRequest, grpc_testing.StreamingOutputCallResponse]) error {
	echo(ctx)
	for r, err := range s.All() {
		if err != nil {
			return err
		}
		if err := failure(r.GetResponseStatus()); err != nil {
			return err
		}
		if err := t.send(ctx, s, r); err != nil {
			return err
		}
	}
	return nil
}

// HalfDuplexCall responds to all messages after it has received the last.
func (t testService) HalfDuplexCall(ctx context.Context, s *tandem.Stream[grpc_testing.StreamingOutputCallRequest, grpc_testing.StreamingOutputCallResponse]) error {
	var all []*grpc_testing.StreamingOutputCallRequest
	for r, err := range s.All() {
		if err != nil {
			return err
		}
		all = append(all, r)
	}
	for _, r := range all {
		if err := t.send(ctx, s, r); err != nil {
			return err
		}
	}
	return nil
}
