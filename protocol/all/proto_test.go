package all_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync/atomic"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/codec"
	"github.com/tandem-rpc/tandem/codec/protobuf"
	"github.com/tandem-rpc/tandem/protocol/all"
	"github.com/tandem-rpc/tandem/protocol/rpcx"
	"github.com/tandem-rpc/tandem/protocol/web"
	"github.com/tandem-rpc/tandem/server"
	"github.com/tandem-rpc/tandem/transport"
)

// Field has optional fields, Value a oneof: gob loses zero values of the one, and fails for
// the other.
type (
	Field = descriptorpb.FieldDescriptorProto
	Value = structpb.Value
)

// protoServer serves Protocol Buffers messages in memory, and counts the calls.
func protoServer(t *testing.T, opts ...server.Option) (dial func(...client.Option) *client.Client, ran *atomic.Int64) {
	t.Helper()
	memory := transport.NewMemory()
	srv := server.New(append(opts, server.WithTransport("memory", memory))...)
	ran = new(atomic.Int64)
	err := errors.Join(
		server.Handle(srv, "Proto.Field", func(_ context.Context, f *Field) (*Field, error) { ran.Add(1); return f, nil }),
		server.Handle(srv, "Proto.Value", func(_ context.Context, v *Value) (*Value, error) { ran.Add(1); return v, nil }),
		srv.RegisterFunc("Proto.None", func() (*Field, error) { ran.Add(1); return zeroField(), nil }),
		srv.RegisterFunc("Proto.Mixed", func(int) (*Field, error) { ran.Add(1); return zeroField(), nil }),
		srv.RegisterFunc("Proto.Two", func(a, b *Field) (*Field, error) { ran.Add(1); proto.Merge(a, b); return a, nil }),
		server.HandleStream(srv, "Proto.Stream", func(_ context.Context, s *tandem.Stream[Field, Field]) error {
			ran.Add(1)
			f, err := s.Recv()
			if err != nil {
				return err
			}
			return s.Send(f)
		}),
		srv.RegisterFunc("Proto.Back", func(ctx context.Context, f *Field) (*Field, error) {
			ran.Add(1)
			return client.Invoke[Field](ctx, server.Peer(ctx), "Own.Field", f)
		}),
	)
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- srv.Serve("memory", "here") }()
	t.Cleanup(func() {
		_ = srv.Close()
		<-served
	})
	return func(opts ...client.Option) *client.Client {
		t.Helper()
		c, err := client.Dial("memory://here", append(opts, client.WithTransport("memory", memory))...)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		return c
	}, ran
}

// zeroField has a field that is present and zero.
func zeroField() *Field { return &Field{Number: proto.Int32(0)} }

type own struct{}

func (own) Field(f *Field) (*Field, error) { return f, nil }

// protoCalls are the kinds of calls that can carry a message.
var protoCalls = map[string]func(ctx context.Context, c *client.Client) (*Field, error){
	"unary": func(ctx context.Context, c *client.Client) (*Field, error) {
		return client.Method[Field, Field](c, "Proto.Field")(ctx, zeroField())
	},
	"no arguments": func(ctx context.Context, c *client.Client) (*Field, error) {
		return client.Invoke[Field](ctx, c, "Proto.None", nil)
	},
	"two arguments": func(ctx context.Context, c *client.Client) (*Field, error) {
		return client.Invoke[Field](ctx, c, "Proto.Two", tandem.Args{&Field{Name: new("")}, zeroField()})
	},
	"in the background": func(ctx context.Context, c *client.Client) (*Field, error) {
		reply := new(Field)
		p := <-c.Go(ctx, "Proto.Field", zeroField(), reply, nil).Done
		return reply, p.Error
	},
	"a stream": func(ctx context.Context, c *client.Client) (*Field, error) {
		s, err := client.Stream[Field, Field](ctx, c, "Proto.Stream")
		if err != nil {
			return nil, err
		}
		if err := s.Send(zeroField()); err != nil {
			return nil, err
		}
		f, err := s.Recv()
		if _, end := s.Recv(); err == nil && !errors.Is(end, io.EOF) {
			err = end
		}
		return f, err
	},
	"back to the client": func(ctx context.Context, c *client.Client) (*Field, error) {
		return client.Invoke[Field](ctx, c, "Proto.Back", zeroField())
	},
}

// Protocol Buffers messages are sent with their own codec though the client's default is
// gob, if the client has that codec; else the first call fails before it runs, with an
// error that names the option.
func TestCodecFollowsProto(t *testing.T) {
	dial, ran := protoServer(t, server.WithProtocols(web.New()))
	for name, call := range protoCalls {
		for how, opt := range map[string]client.Option{
			"added": client.WithCodec(nil, protobuf.Codec()), "chosen": client.WithCodec(protobuf.Codec()), "of a protocol": client.WithProtocols(web.GRPC()),
		} {
			c := dial(opt, client.WithService("Own", own{}))
			if f, err := call(t.Context(), c); err != nil || f.Number == nil {
				t.Errorf("%s, %s: %v, %v", name, how, f, err)
			}
		}
		before := ran.Load()
		_, err := call(t.Context(), dial())
		if e := tandem.AsError(err); err == nil || !e.NotExecuted || !strings.Contains(e.Error(), "protobuf.Codec()") || ran.Load() > before {
			t.Errorf("%s, without: %v", name, err)
		}
	}
	for _, v := range []*Value{structpb.NewNullValue(), structpb.NewStringValue(""), structpb.NewNumberValue(0)} {
		got, err := client.Invoke[Value](t.Context(), dial(client.WithCodec(nil, protobuf.Codec())), "Proto.Value", v)
		if err != nil || !proto.Equal(got, v) {
			t.Errorf("%v, %v", got, err)
		}
	}
}

// A method of which only the result is such a message refuses gob before it runs, and so
// does an untyped stream.
func TestGobIsRefusedForMixedMethods(t *testing.T) {
	dial, ran := protoServer(t, server.WithProtocols(rpcx.New()))
	c := dial()
	_, err := client.Invoke[Field](t.Context(), c, "Proto.Mixed", 1)
	if e := tandem.AsError(err); err == nil || !e.NotExecuted || !strings.Contains(e.Error(), "protobuf.Codec()") {
		t.Error(err)
	}
	s, err := c.OpenStream(t.Context(), "Proto.Stream")
	if err == nil {
		err = s.RecvMsg(nil)
	}
	if err == nil || !strings.Contains(err.Error(), "protobuf.Codec()") {
		t.Error(err)
	}
	if err := c.Notify(t.Context(), "Proto.Field", zeroField()); err == nil || !strings.Contains(err.Error(), "protobuf.Codec()") {
		t.Error(err)
	}
	if n := ran.Load(); n > 0 {
		t.Errorf("%d ran", n)
	}
	f, err := client.Invoke[Field](t.Context(), dial(client.WithCodec(codec.JSON())), "Proto.Mixed", 1)
	if err != nil || f.Number == nil {
		t.Errorf("JSON: %v, %v", f, err)
	}
}

// A server without the codec refuses methods with such messages at registration, and a
// client refuses to call them.
func TestProtoNeedsCodec(t *testing.T) {
	srv := server.New()
	for what, err := range map[string]error{
		"handler": server.Handle(srv, "A.B", func(context.Context, *Field) (*Field, error) { return nil, nil }),
		"stream":  server.HandleStream(srv, "A.C", func(context.Context, *tandem.Stream[Field, Field]) error { return nil }),
		"service": srv.RegisterName("A", own{}),
	} {
		if err == nil || !strings.Contains(err.Error(), "WithCodecs") || !strings.Contains(err.Error(), "FieldDescriptorProto") {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := server.New(server.WithCodecs(protobuf.Codec())).RegisterName("A", own{}); err != nil {
		t.Error(err)
	}
	if _, err := client.Dial("tcp://localhost:1", client.WithService("Own", own{})); err == nil || !strings.Contains(err.Error(), "WithCodecs") {
		t.Error(err)
	}
}

// Protocol Buffers messages use their own codec over rpcx too: its default codec sends
// exported fields only, and can't decode a oneof.
func TestProtoOverRPCX(t *testing.T) {
	srv := server.New(server.WithProtocols(all.New()...))
	err := srv.RegisterFunc("Test.Echo", func(ctx context.Context, v *structpb.Value) (*structpb.Value, error) {
		if name := tandem.FromContext(ctx).Codec; name != "protobuf" {
			return nil, tandem.Errorf(tandem.Internal, "the codec is %s", name)
		}
		return v, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.Dial("rpcx://"+listening(t, srv), client.WithProtocols(all.Clients()...))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var v structpb.Value
	if err := c.Call(t.Context(), "Test.Echo", structpb.NewNumberValue(7), &v); err != nil || v.GetNumberValue() != 7 {
		t.Errorf("%v, %v", &v, err)
	}
}
