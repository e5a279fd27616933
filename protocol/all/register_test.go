package all_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/codec/protobuf"
	"github.com/tandem-rpc/tandem/protocol/web"
	"github.com/tandem-rpc/tandem/server"
	"github.com/tandem-rpc/tandem/transport"
)

// linkCarts registers a service as generated code does: two unary methods and a stream of
// StringValue to Int64Value.
var linkCarts = sync.OnceValue(func() error {
	method := func(name string, streams bool) *descriptorpb.MethodDescriptorProto {
		return &descriptorpb.MethodDescriptorProto{
			Name: new(name), InputType: new(".google.protobuf.StringValue"),
			OutputType: new(".google.protobuf.Int64Value"), ServerStreaming: new(streams),
		}
	}
	file, err := protodesc.NewFile(&descriptorpb.FileDescriptorProto{
		Name: new("test/carts.proto"), Package: new("test.v1"), Syntax: new("proto3"),
		Dependency: []string{"google/protobuf/wrappers.proto"},
		Service: []*descriptorpb.ServiceDescriptorProto{{
			Name: new("Carts"), Method: []*descriptorpb.MethodDescriptorProto{method("Add", false), method("Remove", false), method("Watch", true)},
		}},
	}, protoregistry.GlobalFiles)
	return errors.Join(err, protoregistry.GlobalFiles.RegisterFile(file))
})

type (
	text   = wrapperspb.StringValue
	number = wrapperspb.Int64Value
)

type adds struct{}

func (adds) Add(context.Context, *text) (*number, error) { return new(number), nil }

type removes struct{}

func (removes) Remove(context.Context, *text) (*number, error) { return new(number), nil }

type watches struct{}

func (watches) Watch(*tandem.Stream[text, number]) error { return nil }

type wrongArgument struct{}

func (wrongArgument) Add(context.Context, *number) (*number, error) { return new(number), nil }

type wrongResult struct{}

func (wrongResult) Add(context.Context, *text) (*text, error) { return new(text), nil }

type wrongKind struct{}

func (wrongKind) Watch(context.Context, *text) (*number, error) { return new(number), nil }

// These types look like grpc-go's generated servers.
type (
	UnimplementedCartsServer struct{}
	CartsWatchServer         interface {
		Context() context.Context
		SendMsg(m any) error
		RecvMsg(m any) error
		SetTrailer(md map[string][]string)
		Send(n *number) error
	}
	embedsStubs struct {
		UnimplementedCartsServer
		adds
	}
	streamsAsGRPC struct{ adds }
)

func (UnimplementedCartsServer) Remove(context.Context, *text) (*number, error) { return nil, nil }

func (streamsAsGRPC) Watch(*text, CartsWatchServer) error { return nil }

// A Protocol Buffers service that is linked into the program is registered completely and
// with its messages, or not at all.
func TestLinkedServices(t *testing.T) {
	if err := linkCarts(); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		service any
		want    []string // texts of the error
		skip    string   // texts of the error with SkipUnsuitable
	}{
		"a part": {struct {
			adds
			removes
		}{}, []string{"lacks methods of its .proto file: Watch", "SkipUnsuitable"}, ""},
		"all": {struct {
			adds
			removes
			watches
		}{}, nil, ""},
		"another argument": {wrongArgument{}, []string{"test.v1.Carts.Add takes the message google.protobuf.StringValue, not google.protobuf.Int64Value"}, "takes the message"},
		"another result":   {wrongResult{}, []string{"returns the message google.protobuf.Int64Value"}, "returns the message"},
		"no stream":        {wrongKind{}, []string{"is a stream in its .proto file, and unary here"}, "is a stream"},
		"grpc-go":          {embedsStubs{}, []string{"written for grpc-go", "UnimplementedCartsServer", "docs/howto/migrating/grpc.md"}, ""},
		"grpc-go's stream": {streamsAsGRPC{}, []string{"written for grpc-go", "CartsWatchServer", "tandem.Stream"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			for _, opt := range []server.Option{server.WithCodecs(protobuf.Codec()), server.WithProtocols(web.New())} {
				checkError(t, server.New(opt).RegisterName("test.v1.Carts", c.service), c.want...)
				err := server.New(opt).RegisterName("test.v1.Carts", c.service, server.SkipUnsuitable())
				if (err == nil) != (c.skip == "") || err != nil && !strings.Contains(err.Error(), c.skip) {
					t.Errorf("with SkipUnsuitable: %v", err)
				}
			}
		})
	}
}

func checkError(t *testing.T, err error, want ...string) {
	t.Helper()
	if (err == nil) != (len(want) == 0) {
		t.Error(err)
		return
	}
	for _, part := range want {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%v\nsays nothing of %q", err, part)
		}
	}
}

// Handlers of single methods are checked too, and may implement a part of a service.
func TestLinkedHandlers(t *testing.T) {
	if err := linkCarts(); err != nil {
		t.Fatal(err)
	}
	srv := server.New(server.WithProtocols(web.New()))
	checkError(t, server.Handle(srv, "test.v1.Carts.Add", func(context.Context, *number) (*number, error) { return new(number), nil }), "takes the message")
	checkError(t, server.HandleStream(srv, "test.v1.Carts.Add", func(context.Context, *tandem.Stream[text, number]) error { return nil }), "is unary in its .proto file")
	checkError(t, server.HandleStream(srv, "test.v1.Carts.Watch", func(context.Context, *tandem.Stream[text, text]) error { return nil }), "returns the message")
	checkError(t, server.HandleStream(srv, "test.v1.Carts.Watch", func(context.Context, *tandem.Stream[text, number]) error { return nil }))
	checkError(t, srv.RegisterName("test.v1.Carts", struct {
		adds
		removes
	}{})) // with the handler the service is complete
	checkError(t, server.Handle(srv, "other.v1.Carts.Add", func(context.Context, *number) (*text, error) { return new(text), nil }))
}

// A client refuses messages that do not match a linked method before it sends them; other
// methods are not checked.
func TestLinkedCalls(t *testing.T) {
	if err := linkCarts(); err != nil {
		t.Fatal(err)
	}
	dial, _ := protoServer(t, server.WithProtocols(web.New()))
	c := dial(client.WithCodec(protobuf.Codec()))
	for range 2 { // the second call may use the cache
		err := c.Call(t.Context(), "test.v1.Carts.Add", new(number), new(number))
		checkError(t, err, "test.v1.Carts.Add takes the message google.protobuf.StringValue, not google.protobuf.Int64Value")
		checkError(t, c.Call(t.Context(), "test.v1.Carts.Add", new(text), new(text)), "returns the message")
		checkError(t, c.Notify(t.Context(), "test.v1.Carts.Add", new(number)), "takes the message")
		if e := tandem.AsError(err); !e.NotExecuted || e.Code != tandem.InvalidArgument {
			t.Error(err)
		}
		for range 2 {
			checkError(t, c.Call(t.Context(), "test.v1.Carts.Add", new(text), new(number)), "no method") // it was sent
		}
		checkError(t, c.Call(t.Context(), "Proto.Field", new(text), nil))
	}
	s, err := client.Stream[number, number](t.Context(), c, "Proto.Stream")
	checkError(t, err)
	checkError(t, s.Send(new(number)))
	_ = s.Close()
}

// The messages of a stream are checked, too.
func TestLinkedStream(t *testing.T) {
	if err := linkCarts(); err != nil {
		t.Fatal(err)
	}
	memory := transport.NewMemory()
	srv := server.New(server.WithTransport("memory", memory), server.WithCodecs(protobuf.Codec()))
	checkError(t, server.HandleStream(srv, "test.v1.Carts.Watch", func(_ context.Context, s *tandem.Stream[text, number]) error {
		in, err := s.Recv()
		return errors.Join(err, s.Send(&number{Value: int64(len(in.GetValue()))}))
	}))
	served := make(chan error, 1)
	go func() { served <- srv.Serve("memory", "here") }()
	c, err := client.Dial("memory://here", client.WithTransport("memory", memory), client.WithCodec(protobuf.Codec()))
	checkError(t, err)
	wrong, err := client.Stream[number, text](t.Context(), c, "test.v1.Carts.Watch")
	checkError(t, err)
	checkError(t, wrong.Send(new(number)), "takes the message google.protobuf.StringValue")
	_, err = wrong.Recv()
	checkError(t, err, "returns the message google.protobuf.Int64Value")
	checkError(t, wrong.Close())
	right, err := client.Stream[text, number](t.Context(), c, "test.v1.Carts.Watch")
	checkError(t, err)
	checkError(t, right.Send(&text{Value: "four"}))
	n, err := right.Recv()
	if err != nil || n.GetValue() != 4 {
		t.Error(n, err)
	}
	_, _ = right.Recv()
	checkError(t, c.Close())
	checkError(t, srv.Close())
	<-served
}
