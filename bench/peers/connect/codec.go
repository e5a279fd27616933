package main

import (
	"fmt"

	"github.com/tandem-rpc/tandem/bench/message"
)

// generated is a connect.Codec for the bench's message. It has a name of its
// own: under "proto" it would also have to encode what connect sends for itself.
type generated struct{}

func (generated) Name() string { return "vtproto" }

func (c generated) Marshal(v any) ([]byte, error) { return c.MarshalAppend(nil, v) }

// MarshalAppend is what connect prefers to Marshal: b comes from its pool.
func (generated) MarshalAppend(b []byte, v any) ([]byte, error) {
	m, ok := v.(*message.BenchmarkMessage)
	if !ok {
		return nil, fmt.Errorf("connect: %T is not the bench's message", v)
	}
	return message.AppendTo(b, m)
}

// Unmarshal keeps nothing of b: the generated code copies its strings.
func (generated) Unmarshal(b []byte, v any) error {
	m, ok := v.(*message.BenchmarkMessage)
	if !ok {
		return fmt.Errorf("connect: %T is not the bench's message", v)
	}
	return m.UnmarshalVT(b)
}
