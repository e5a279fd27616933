package main

import "github.com/tandem-rpc/tandem/bench/message"

// generated is a connect.Codec for the bench's message. It has a name of its
// own: under "proto" it would also have to encode what connect sends for itself.
type generated struct{}

func (generated) Name() string { return "proto" }

func (generated) Marshal(v any) ([]byte, error) { return message.Encode(nil, v) }

// MarshalAppend is used instead of Marshal: b comes from connect's pool.
func (generated) MarshalAppend(b []byte, v any) ([]byte, error) { return message.Encode(b, v) }

func (generated) Unmarshal(b []byte, v any) error { return message.Decode(b, v) }
