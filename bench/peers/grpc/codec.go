package main

import (
	"fmt"

	"google.golang.org/grpc/mem"

	"github.com/tandem-rpc/tandem/bench/message"
)

// generated is an encoding.CodecV2 for messages with generated code. Its
// buffers come from grpc's pool and go back when grpc frees them; those below
// grpc's threshold are not worth pooling.
type generated struct{}

// Name is the name of the encoding, not of the codec.
func (generated) Name() string { return "proto" }

func (generated) Marshal(v any) (mem.BufferSlice, error) {
	m, ok := v.(*message.BenchmarkMessage)
	if !ok {
		return nil, fmt.Errorf("grpc: %T is not the bench's message", v)
	}
	size := m.SizeVT()
	if mem.IsBelowBufferPoolingThreshold(size) {
		b := make([]byte, size)
		_, err := m.MarshalToSizedBufferVT(b)
		return mem.BufferSlice{mem.SliceBuffer(b)}, err
	}
	pool := mem.DefaultBufferPool()
	b := pool.Get(size)
	if _, err := m.MarshalToSizedBufferVT(*b); err != nil {
		pool.Put(b)
		return nil, err
	}
	return mem.BufferSlice{mem.NewBuffer(b, pool)}, nil
}

// Unmarshal does not retain data: the generated code copies its strings. Only a message in
// several buffers is copied first.
func (generated) Unmarshal(data mem.BufferSlice, v any) error {
	whole := data.MaterializeToBuffer(mem.DefaultBufferPool())
	defer whole.Free()
	return message.Decode(whole.ReadOnlyData(), v)
}
