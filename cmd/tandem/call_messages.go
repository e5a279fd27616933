package main

import (
	"context"
	"encoding/json"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/cmd/tandem/internal/gobjson"
	"github.com/tandem-rpc/tandem/cmd/tandem/internal/introspect"
	"github.com/tandem-rpc/tandem/codec"
	"github.com/tandem-rpc/tandem/console/rawjson"
)

// messages makes the messages of a method from JSON, and JSON from its messages.
type messages interface {
	dial() []client.Option            // options that the client needs for them
	streams() bool                    // the method is known to be a stream
	nothing() any                     // the arguments of a call without JSON
	message(text []byte) (any, error) // a message of the JSON text
	reply() any                       // to be decoded into
	text(reply any) (string, error)   // the JSON of a reply, "" for no result
	size(v any) int                   // bytes of a message or a reply, encoded
}

// messages returns what the messages of a method are: gobs for net/rpc, Protocol Buffers for a
// gRPC server with reflection, else JSON.
func (p *place) messages(ctx context.Context, method string) (messages, error) {
	if scheme, _, _ := strings.Cut(p.target, "://"); strings.HasPrefix(scheme, "netrpc") {
		return inGob{}, nil
	}
	list, err := p.grpcServers(ctx)
	if err != nil || len(list) == 0 {
		return inJSON{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, describeTimeout)
	defer cancel()
	for _, e := range list {
		m, err := introspect.Definition(ctx, e, introspect.Access{TLS: p.tls, Token: p.token}, method)
		if err == nil {
			return inProto{m}, nil
		}
	}
	return inJSON{}, nil // the call itself says what is wrong with the server
}

// grpcServers returns the endpoints of a target grpc://.
func (p *place) grpcServers(ctx context.Context) ([]tandem.Endpoint, error) {
	_, t, err := p.list()
	if err != nil || t.Query.Get("protocol") != "grpc" {
		return nil, nil //nolint:nilerr // a scheme that is not known is an error of the client
	}
	list, err := p.instances(ctx)
	var endpoints []tandem.Endpoint
	for _, in := range list {
		endpoints = append(endpoints, in.Endpoints...)
	}
	return endpoints, err
}

// inJSON are messages in JSON.
type inJSON struct{}

func (inJSON) dial() []client.Option {
	return []client.Option{client.WithCodec(rawjson.Codec())}
}
func (inJSON) streams() bool                    { return false }
func (inJSON) nothing() any                     { return tandem.Args{} }
func (inJSON) message(text []byte) (any, error) { return json.RawMessage(text), nil }
func (inJSON) reply() any                       { return new([]byte) }

func (inJSON) text(reply any) (string, error) {
	text, ok := reply.(*[]byte)
	if !ok {
		return "", tandem.Errorf(tandem.Internal, "a reply of type %T", reply)
	}
	return rawjson.Text(*text)
}

func (inJSON) size(v any) int { return encodedSize(codec.JSON(), v) }

// encodedSize returns the bytes of a message, or of a reply, which is still encoded.
func encodedSize(c tandem.Codec, v any) int {
	if reply, ok := v.(*[]byte); ok {
		return len(*reply)
	}
	data, _ := codec.Append(c, nil, v) // the call itself fails if it can't be encoded
	return len(data)
}

// inGob are gobs, whose types the JSON says: see [gobjson.Value].
type inGob struct{ inJSON }

func (inGob) dial() []client.Option {
	return []client.Option{client.WithCodec(gobjson.Codec())}
}

func (inGob) message(text []byte) (any, error) {
	v, err := gobjson.Value(text)
	if err != nil {
		return nil, usagef("%v", err)
	}
	return v, nil
}

func (inGob) text(reply any) (string, error) {
	message, ok := reply.(*[]byte)
	if !ok {
		return "", tandem.Errorf(tandem.Internal, "a reply of type %T", reply)
	}
	text, err := gobjson.Text(*message)
	if err != nil {
		return "", tandem.Errorf(tandem.Internal, "the answer, a gob: %w", err)
	}
	return string(text), nil
}

func (inGob) size(v any) int { return encodedSize(codec.Gob(), v) }

// inProto are the Protocol Buffers of a method.
type inProto struct{ method protoreflect.MethodDescriptor }

func (inProto) dial() []client.Option { return nil }

func (m inProto) streams() bool {
	return m.method.IsStreamingClient() || m.method.IsStreamingServer()
}

func (m inProto) nothing() any { return dynamicpb.NewMessage(m.method.Input()) }

func (m inProto) message(text []byte) (any, error) {
	v := dynamicpb.NewMessage(m.method.Input())
	if err := protojson.Unmarshal(text, v); err != nil {
		return nil, usagef("%s: %v", m.method.Input().FullName(), err)
	}
	return v, nil
}

func (m inProto) reply() any { return dynamicpb.NewMessage(m.method.Output()) }

func (inProto) text(reply any) (string, error) {
	v, ok := reply.(proto.Message)
	if !ok {
		return "", tandem.Errorf(tandem.Internal, "a reply of type %T", reply)
	}
	text, err := json.Marshal(protoJSON{v}) // protojson varies its spaces on purpose
	return string(text), err
}

func (inProto) size(v any) int {
	m, ok := v.(proto.Message)
	if !ok {
		return 0
	}
	return proto.Size(m)
}

// protoJSON is a message that encodes itself.
type protoJSON struct{ proto.Message }

// MarshalJSON encodes the message.
func (m protoJSON) MarshalJSON() ([]byte, error) { return protojson.Marshal(m.Message) }
