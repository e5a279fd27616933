package grpcbridge_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/experimental"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/codec/protobuf"
	"github.com/tandem-rpc/tandem/grpcbridge"
	"github.com/tandem-rpc/tandem/grpcbridge/internal/shop"
	"github.com/tandem-rpc/tandem/server"
)

// Every option of grpc-go is honoured, or fails the call with an error that names it.
func TestOptionsThatFail(t *testing.T) {
	addr, _ := serve(t)
	stub := pb.NewTestServiceClient(grpcbridge.NewClient(dial(t, "tcp://"+addr)))
	for name, opt := range map[string]grpc.CallOption{
		"WaitForReady":                grpc.WaitForReady(true),
		"MaxCallRecvMsgSize":          grpc.MaxCallRecvMsgSize(1000),
		"MaxCallSendMsgSize":          grpc.MaxCallSendMsgSize(1000),
		"CallAuthority":               grpc.CallAuthority("there"),
		"MaxRetryRPCBufferSize":       grpc.MaxRetryRPCBufferSize(1),
		"CallContentSubtype":          grpc.CallContentSubtype("json"),
		"ForceCodec":                  grpc.ForceCodecV2(encoding.GetCodecV2("proto")),
		"transport security":          grpc.PerRPCCredentials(token{secure: true}),
		"acceptCompressorsCallOption": experimental.AcceptCompressors("gzip"),
		"compressor":                  grpc.UseCompressor("zstd"), // this client has no such compressor
	} {
		t.Run(name, func(t *testing.T) {
			var ended error
			_, err := stub.UnaryCall(patient(t), &pb.SimpleRequest{ResponseSize: 2000, Payload: &pb.Payload{Body: make([]byte, 2000)}},
				opt, grpc.OnFinish(func(err error) { ended = err }))
			if err == nil || !strings.Contains(err.Error(), name) {
				t.Errorf("the error does not name the option: %v", err)
			}
			if !errors.Is(ended, err) {
				t.Errorf("OnFinish got %v", ended)
			}
			if _, ok := status.FromError(err); !ok {
				t.Errorf("no status: %v", err)
			}
			s, err := stub.FullDuplexCall(patient(t), opt)
			if err == nil {
				big := &pb.StreamingOutputCallRequest{ResponseParameters: []*pb.ResponseParameters{{Size: 2000}}, Payload: &pb.Payload{Body: make([]byte, 2000)}}
				if err = s.Send(big); err == nil {
					_, err = s.Recv()
				}
			}
			if err == nil || !strings.Contains(err.Error(), name) {
				t.Errorf("the stream's error does not name the option: %v", err)
			}
		})
	}
}

// token is a credential.
type token struct{ secure bool }

func (token) GetRequestMetadata(_ context.Context, uri ...string) (map[string]string, error) {
	return map[string]string{echoInitial: "token for " + strings.Join(uri, " ")}, nil
}

func (c token) RequireTransportSecurity() bool { return c.secure }

func TestOptionsThatWork(t *testing.T) {
	addr, _ := serve(t)
	c := dial(t, "tcp://"+addr)
	for name, conn := range map[string]*grpcbridge.ClientConn{
		"by the call":    grpcbridge.NewClient(c),
		"of every call":  grpcbridge.NewClient(c, grpcbridge.WithDefaultCallOptions(grpc.PerRPCCredentials(token{secure: true})), grpcbridge.WithTransportSecurity()),
		"overridden too": grpcbridge.NewClient(c, grpcbridge.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(1))),
	} {
		t.Run(name, func(t *testing.T) {
			var header metadata.MD
			stub := pb.NewTestServiceClient(conn)
			res, err := stub.UnaryCall(patient(t), &pb.SimpleRequest{ResponseSize: 50},
				grpc.Header(&header), grpc.UseCompressor("gzip"), grpc.WaitForReady(false), grpc.StaticMethod(), grpc.EmptyCallOption{},
				grpc.MaxCallRecvMsgSize(1000), grpc.MaxCallSendMsgSize(1000), grpc.CallContentSubtype("proto"), grpc.PerRPCCredentials(token{}),
				grpcbridge.CallOptions(client.Metadata(echoInitial, "ours")))
			if err != nil || len(res.GetPayload().GetBody()) != 50 {
				t.Fatal(res, err)
			}
			if got := fmt.Sprint(header.Get(echoInitial)); got != "[ours token for https://tandem/grpc.testing.TestService]" {
				t.Error(got)
			}
		})
	}
}

// A client without a server fails with a status that stubs' callers know.
func TestNobodyThere(t *testing.T) {
	stub := pb.NewTestServiceClient(grpcbridge.NewClient(dial(t, "tcp://127.0.0.1:1", client.WithWait(time.Millisecond))))
	_, err := stub.EmptyCall(patient(t), new(pb.Empty))
	var e *tandem.Error
	if status.Code(err) != codes.Unavailable || !errors.As(err, &e) || !e.NotExecuted {
		t.Errorf("%v", err)
	}
	if !errors.Is(err, status.Error(codes.Unavailable, e.Message)) {
		t.Error("errors.Is does not find the status")
	}
	if _, err = stub.FullDuplexCall(patient(t)); status.Code(err) != codes.Unavailable {
		t.Error(err)
	}
	if _, err := pb.NewTestServiceClient(grpcbridge.NewClient(nil)).EmptyCall(patient(t), new(pb.Empty)); err == nil || !strings.Contains(err.Error(), "no caller") {
		t.Error(err)
	}
	nothing := grpcbridge.NewClient(dial(t, "tcp://127.0.0.1:1"), grpcbridge.WithUnaryClientInterceptors(nil))
	if _, err := pb.NewTestServiceClient(nothing).EmptyCall(patient(t), new(pb.Empty)); err == nil || !strings.Contains(err.Error(), "interceptor is nil") {
		t.Error(err)
	}
}

// chain records in which order interceptors ran.
type chain struct{ log []string }

func (c *chain) client(name string) (grpc.UnaryClientInterceptor, grpc.StreamClientInterceptor) {
	return func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoker grpc.UnaryInvoker, opts ...grpc.CallOption) error {
			c.log = append(c.log, name+" "+method)
			return invoker(metadata.AppendToOutgoingContext(ctx, echoInitial, name), method, req, reply, cc, opts...)
		}, func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, streamer grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
			c.log = append(c.log, name+" "+method)
			return streamer(metadata.AppendToOutgoingContext(ctx, echoInitial, name), desc, cc, method, opts...)
		}
}

func (c *chain) server(name string) (grpc.UnaryServerInterceptor, grpc.StreamServerInterceptor) {
	return func(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
			c.log = append(c.log, name+" "+info.FullMethod)
			return handler(ctx, req)
		}, func(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
			c.log = append(c.log, fmt.Sprint(name, " ", info.FullMethod, " ", info.IsClientStream && info.IsServerStream))
			return handler(srv, ss)
		}
}

func TestInterceptors(t *testing.T) {
	var log chain
	u1, s1 := log.server("server one")
	u2, s2 := log.server("server two")
	addr, _ := serve(t, grpcbridge.WithUnaryServerInterceptors(u1, u2), grpcbridge.WithStreamServerInterceptors(s1, s2))
	cu1, cs1 := log.client("client one")
	cu2, cs2 := log.client("client two")
	stub := pb.NewTestServiceClient(grpcbridge.NewClient(dial(t, "tcp://"+addr),
		grpcbridge.WithUnaryClientInterceptors(cu1, cu2), grpcbridge.WithStreamClientInterceptors(cs1, cs2)))
	var header metadata.MD
	if _, err := stub.UnaryCall(patient(t), new(pb.SimpleRequest), grpc.Header(&header)); err != nil {
		t.Fatal(err)
	}
	s, err := stub.FullDuplexCall(patient(t))
	if err != nil {
		t.Fatal(err)
	}
	streamed, err := s.Header()
	if err != nil {
		t.Fatal(err)
	}
	_ = s.CloseSend()
	_, _ = s.Recv()
	for _, md := range []metadata.MD{header, streamed} {
		if got := fmt.Sprint(md.Get(echoInitial)); got != "[client one client two]" {
			t.Error(got)
		}
	}
	const unary, stream = " /grpc.testing.TestService/UnaryCall", " /grpc.testing.TestService/FullDuplexCall"
	want := []string{
		"client one" + unary, "client two" + unary, "server one" + unary, "server two" + unary,
		"client one" + stream, "client two" + stream, "server one" + stream + " true", "server two" + stream + " true",
	}
	if strings.Join(log.log, "\n") != strings.Join(want, "\n") {
		t.Errorf("got %q", log.log)
	}
}

// Services are checked when they are registered.
func TestRegisterChecks(t *testing.T) {
	register := func(desc grpc.ServiceDesc, impl any, opts ...grpcbridge.ServerOption) error {
		srv := server.New(server.WithCodecs(protobuf.Codec()))
		return grpcbridge.Register(srv, func(r grpc.ServiceRegistrar) { r.RegisterService(&desc, impl) }, opts...)
	}
	good := pb.TestService_ServiceDesc
	if err := register(good, testServer{}); err != nil {
		t.Fatal(err)
	}
	lacking, stale, other, more := good, good, good, good
	lacking.Methods = good.Methods[1:]
	stale.Streams = append([]grpc.StreamDesc(nil), good.Streams...)
	stale.Streams[0].ServerStreams = !stale.Streams[0].ServerStreams
	other.HandlerType = (*interface {
		EmptyCall(ctx context.Context, req *pb.SimpleRequest) (*pb.Empty, error)
	})(nil)
	more.Methods = append([]grpc.MethodDesc{{MethodName: "Unheard"}}, good.Methods...)
	for want, err := range map[string]error{
		"grpcbridge_test.token does not implement grpc_testing.TestServiceServer":      register(good, token{}),
		"has the method EmptyCall, and its generated code has not":                     register(lacking, testServer{}),
		"is a stream of responses in its .proto file, and unary in its generated code": register(stale, testServer{}),
		"takes the message grpc.testing.Empty, not grpc.testing.SimpleRequest":         register(other, nil),
		"has the method Unheard, and its .proto file has not":                          register(more, testServer{}),
		`WithMethodOptions("grpc.testing.TestService.Missing"): no method`:             register(good, testServer{}, grpcbridge.WithMethodOptions("grpc.testing.TestService.Missing")),
		"interceptor is nil": register(good, testServer{}, grpcbridge.WithUnaryServerInterceptors(nil)),
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v\nwant %s", err, want)
		}
	}
	srv := server.New(server.WithCodecs(protobuf.Codec()))
	twice := func(r grpc.ServiceRegistrar) { shop.RegisterCartsServer(r, shop.UnimplementedCartsServer{}) }
	if err := errors.Join(grpcbridge.Register(srv, twice), grpcbridge.Register(srv, twice)); err == nil || !strings.Contains(err.Error(), "taken") {
		t.Error(err)
	}
	if err := grpcbridge.Register(server.New(), twice); err == nil || !strings.Contains(err.Error(), "protobuf.Codec()") {
		t.Error(err)
	}
	if err := grpcbridge.RegisterHandler(srv, "/not.linked/", nil); err == nil {
		t.Error("a handler that is nil was registered")
	}
}

// A limit of package server holds for a method of generated code.
func TestMethodOptions(t *testing.T) {
	addr, srv := serve(t, grpcbridge.WithMethodOptions("grpc.testing.TestService.UnaryCall", server.MethodMaxMessage(100)))
	stub := pb.NewTestServiceClient(grpcbridge.NewClient(dial(t, "tcp://"+addr)))
	_, err := stub.UnaryCall(patient(t), &pb.SimpleRequest{Payload: &pb.Payload{Body: make([]byte, 1000)}})
	if status.Code(err) != codes.ResourceExhausted {
		t.Error(err)
	}
	for _, m := range srv.Describe() {
		if m.Name == "grpc.testing.TestService.FullDuplexCall" {
			if m.Kind != tandem.Streaming || m.In.Name() != "StreamingOutputCallRequest" || m.Out.Name() != "StreamingOutputCallResponse" {
				t.Errorf("%+v", m)
			}
			return
		}
	}
	t.Error("the stream is not described")
}
