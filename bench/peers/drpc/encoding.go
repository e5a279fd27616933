package main

import (
	"fmt"

	"storj.io/drpc"

	"github.com/tandem-rpc/tandem/bench/message"
)

// generated is a drpc.Encoding for the bench's message.
type generated struct{}

func (e generated) Marshal(msg drpc.Message) ([]byte, error) { return e.MarshalAppend(nil, msg) }

// MarshalAppend is what drpc prefers to Marshal: b is the connection's buffer.
func (generated) MarshalAppend(b []byte, msg drpc.Message) ([]byte, error) {
	m, ok := msg.(*message.BenchmarkMessage)
	if !ok {
		return nil, fmt.Errorf("drpc: %T is not the bench's message", msg)
	}
	return message.AppendTo(b, m)
}

// Unmarshal keeps nothing of b: the generated code copies its strings.
func (generated) Unmarshal(b []byte, msg drpc.Message) error {
	m, ok := msg.(*message.BenchmarkMessage)
	if !ok {
		return fmt.Errorf("drpc: %T is not the bench's message", msg)
	}
	return m.UnmarshalVT(b)
}
