package main

import (
	"context"
	"fmt"

	"google.golang.org/grpc"
	"google.golang.org/grpc/mem"

	"github.com/tandem-rpc/tandem/bench/load"
	"github.com/tandem-rpc/tandem/bench/message"
)

// The option stream=n: messages of n bytes from the server, without a codec,
// received into one buffer. A stream's window is then as large as the
// connection's, else it would bound the stream and not grpc.

const streamMethod = "Stream"

// streamOptions are what the option adds at the server.
func streamOptions() []grpc.ServerOption {
	return []grpc.ServerOption{grpc.ForceServerCodecV2(plain{}), grpc.StaticStreamWindowSize(windowSize)}
}

// streamDialOptions are what it adds at the client.
func streamDialOptions() []grpc.DialOption {
	return []grpc.DialOption{
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(plain{})),
		grpc.WithStaticStreamWindowSize(windowSize),
	}
}

var streamDesc = grpc.StreamDesc{
	StreamName: streamMethod, ServerStreams: true,
	Handler: func(_ any, s grpc.ServerStream) error {
		payload := load.Payload(load.Named().Bytes("stream"))
		for {
			message.Work()
			if err := s.SendMsg(&payload); err != nil {
				return err
			}
		}
	},
}

// streamCaller receives a stream into one buffer. It is for one goroutine.
type streamCaller struct {
	*grpc.ClientConn
	stream grpc.ClientStream
	buf    []byte
}

func dialStream(addr string) (load.Caller, error) {
	conn, err := dial(addr)
	if err != nil {
		return nil, err
	}
	stream, err := conn.NewStream(context.Background(), &streamDesc, "/"+service+"/"+streamMethod)
	if err != nil {
		return nil, fmt.Errorf("grpc: opening the stream: %w", err)
	}
	if err := stream.CloseSend(); err != nil {
		return nil, fmt.Errorf("grpc: opening the stream: %w", err)
	}
	size := load.Named().Bytes("stream")
	return load.CallBytes(&streamCaller{conn.ClientConn, stream, make([]byte, size)}, size), nil
}

func (s *streamCaller) Exchange() ([]byte, error) {
	err := s.stream.RecvMsg(&s.buf)
	return s.buf, err
}

// plain is an encoding.CodecV2 of *[]byte. What is sent is not copied; what
// comes is copied into the slice as far as it has room.
type plain struct{}

func (plain) Name() string { return "plain" }

func (plain) Marshal(v any) (mem.BufferSlice, error) {
	b, ok := v.(*[]byte)
	if !ok {
		return nil, fmt.Errorf("grpc: a %T, expected *[]byte", v)
	}
	return mem.BufferSlice{mem.SliceBuffer(*b)}, nil
}

func (plain) Unmarshal(data mem.BufferSlice, v any) error {
	b, ok := v.(*[]byte)
	if !ok {
		return fmt.Errorf("grpc: a %T, expected *[]byte", v)
	}
	*b = (*b)[:min(cap(*b), data.Len())]
	data.CopyTo(*b)
	return nil
}
