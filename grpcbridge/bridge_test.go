package grpcbridge_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/codec/protobuf"
	"github.com/tandem-rpc/tandem/compress"
	"github.com/tandem-rpc/tandem/grpcbridge"
	"github.com/tandem-rpc/tandem/protocol/web"
	"github.com/tandem-rpc/tandem/server"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// testServer implements gRPC's interop service, as its specification says, and sends metadata.
type testServer struct {
	pb.UnimplementedTestServiceServer
}

const (
	echoInitial  = "x-grpc-test-echo-initial"
	echoTrailing = "x-grpc-test-echo-trailing-bin"
)

// echoes returns what a request wants to have back, in the header and the trailer.
func echoes(ctx context.Context) (header, trailer metadata.MD) {
	md, _ := metadata.FromIncomingContext(ctx)
	header, trailer = metadata.MD{}, metadata.MD{}
	for _, v := range md.Get(echoInitial) {
		header.Append(echoInitial, v)
	}
	for _, v := range md.Get(echoTrailing) {
		trailer.Append(echoTrailing, v)
		header.Append("both-bin", v)
		trailer.Append("both-bin", "trailing")
	}
	return header, trailer
}

func (testServer) EmptyCall(context.Context, *pb.Empty) (*pb.Empty, error) { return new(pb.Empty), nil }

func (testServer) UnaryCall(ctx context.Context, req *pb.SimpleRequest) (*pb.SimpleResponse, error) {
	header, trailer := echoes(ctx)
	if err := errors.Join(grpc.SetHeader(ctx, header), grpc.SetTrailer(ctx, trailer)); err != nil {
		return nil, err
	}
	if s := req.GetResponseStatus(); s.GetCode() != 0 {
		return nil, failure(codes.Code(s.GetCode()), s.GetMessage())
	}
	method, _ := grpc.Method(ctx)
	p, _ := peer.FromContext(ctx)
	if p.Addr == nil {
		return nil, errors.New("no peer")
	}
	return &pb.SimpleResponse{
		Payload: &pb.Payload{Body: make([]byte, req.GetResponseSize())}, Username: method,
	}, nil
}

// failure returns an error with details.
func failure(code codes.Code, text string) error {
	st, err := status.New(code, text).WithDetails(&pb.EchoStatus{Code: 7, Message: "detail"})
	if err != nil {
		return err
	}
	return st.Err()
}

func (testServer) StreamingOutputCall(req *pb.StreamingOutputCallRequest, s grpc.ServerStreamingServer[pb.StreamingOutputCallResponse]) error {
	for _, p := range req.GetResponseParameters() {
		if err := s.Send(&pb.StreamingOutputCallResponse{Payload: &pb.Payload{Body: make([]byte, p.GetSize())}}); err != nil {
			return err
		}
	}
	if st := req.GetResponseStatus(); st.GetCode() != 0 {
		return failure(codes.Code(st.GetCode()), st.GetMessage())
	}
	return nil
}

func (testServer) StreamingInputCall(s grpc.ClientStreamingServer[pb.StreamingInputCallRequest, pb.StreamingInputCallResponse]) error {
	sum := 0
	for {
		in, err := s.Recv()
		if errors.Is(err, io.EOF) {
			return s.SendAndClose(&pb.StreamingInputCallResponse{AggregatedPayloadSize: int32(sum)})
		}
		if err != nil {
			return err
		}
		if sum += len(in.GetPayload().GetBody()); sum > 1<<20 {
			return failure(codes.OutOfRange, "too much")
		}
	}
}

func (testServer) FullDuplexCall(s grpc.BidiStreamingServer[pb.StreamingOutputCallRequest, pb.StreamingOutputCallResponse]) error {
	header, trailer := echoes(s.Context())
	s.SetTrailer(trailer)
	if err := s.SendHeader(header); err != nil {
		return err
	}
	for {
		in, err := s.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if st := in.GetResponseStatus(); st.GetCode() != 0 {
			return failure(codes.Code(st.GetCode()), st.GetMessage())
		}
		for _, p := range in.GetResponseParameters() {
			if err := s.Send(&pb.StreamingOutputCallResponse{Payload: &pb.Payload{Body: make([]byte, p.GetSize())}}); err != nil {
				return err
			}
		}
	}
}

// serve serves the test service on a port with tandem's protocol and HTTP's, and returns its address.
func serve(t *testing.T, opts ...grpcbridge.ServerOption) (addr string, srv *server.Server) {
	t.Helper()
	srv = server.New(server.WithCodecs(protobuf.Codec()), server.WithProtocols(web.New()), server.WithCompressors(compress.Gzip()))
	err := grpcbridge.Register(srv, func(r grpc.ServiceRegistrar) { pb.RegisterTestServiceServer(r, testServer{}) }, opts...)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = srv.ServeListener(l) }()
	t.Cleanup(func() { _ = srv.Close() })
	return l.Addr().String(), srv
}

// dial returns a tandem client.
func dial(t *testing.T, target string, opts ...client.Option) *client.Client {
	t.Helper()
	opts = append([]client.Option{client.WithCodec(protobuf.Codec()), client.WithProtocols(web.GRPC(), web.Connect())}, opts...)
	c, err := client.Dial(target, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// run runs a test with a stub in each deployment: over tandem's protocol, gRPC and Connect at a
// bridged server, over gRPC at grpc-go's server, and with grpc-go's client at a bridged server.
func run(t *testing.T, f func(t *testing.T, stub pb.TestServiceClient)) {
	t.Helper()
	for _, scheme := range []string{"tcp", "grpc", "connect"} {
		t.Run("over "+scheme, func(t *testing.T) {
			addr, _ := serve(t)
			f(t, pb.NewTestServiceClient(grpcbridge.NewClient(dial(t, scheme+"://"+addr))))
		})
	}
	t.Run("at grpc-go's server", func(t *testing.T) {
		f(t, pb.NewTestServiceClient(grpcbridge.NewClient(dial(t, "grpc://"+serveGRPC(t)))))
	})
	t.Run("with grpc-go's client", func(t *testing.T) {
		addr, _ := serve(t)
		conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		f(t, pb.NewTestServiceClient(conn))
	})
}

func serveGRPC(t *testing.T) string {
	t.Helper()
	srv := grpc.NewServer()
	pb.RegisterTestServiceServer(srv, testServer{})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = srv.Serve(l) }()
	t.Cleanup(srv.Stop)
	return l.Addr().String()
}

// patient returns a context that bounds a test's calls.
func patient(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// sent is the metadata of requests, and must come back.
func withMetadata(ctx context.Context) context.Context {
	return metadata.AppendToOutgoingContext(ctx, echoInitial, "first", echoInitial, "second", echoTrailing, "\x00\xab\xff", "User-Agent", "dropped")
}

func checkMetadata(t *testing.T, header, trailer metadata.MD) {
	t.Helper()
	if got := header.Get(echoInitial); strings.Join(got, " ") != "first second" {
		t.Errorf("header: %q", got)
	}
	if got := header.Get("both-bin"); len(got) != 1 || got[0] != "\x00\xab\xff" {
		t.Errorf("header: both-bin is %q", got)
	}
	if got := trailer.Get(echoTrailing); len(got) != 1 || got[0] != "\x00\xab\xff" {
		t.Errorf("trailer: %q", got)
	}
	if got := trailer.Get("both-bin"); len(got) != 1 || got[0] != "trailing" {
		t.Errorf("trailer: both-bin is %q", got)
	}
	if got := trailer.Get(echoInitial); got != nil {
		t.Errorf("the trailer has a pair of the header: %q", got)
	}
	for _, md := range []metadata.MD{header, trailer} {
		for key := range md {
			if strings.Contains(key, "tandem") || strings.Contains(key, "bridge") {
				t.Errorf("the bridge's own key %q is shown", key)
			}
		}
	}
}

func TestUnary(t *testing.T) {
	run(t, func(t *testing.T, stub pb.TestServiceClient) {
		var header, trailer metadata.MD
		var p peer.Peer
		ended := fmt.Errorf("it did not end")
		res, err := stub.UnaryCall(withMetadata(patient(t)), &pb.SimpleRequest{ResponseSize: 300},
			grpc.Header(&header), grpc.Trailer(&trailer), grpc.Peer(&p), grpc.OnFinish(func(err error) { ended = err }))
		if err != nil {
			t.Fatal(err)
		}
		if got := len(res.GetPayload().GetBody()); got != 300 || res.GetUsername() != "/grpc.testing.TestService/UnaryCall" {
			t.Errorf("%d bytes, method %q", got, res.GetUsername())
		}
		checkMetadata(t, header, trailer)
		if p.Addr == nil || ended != nil {
			t.Errorf("peer %v, end %v", p.Addr, ended)
		}
	})
}

// checkFailure checks an error that failure has made.
func checkFailure(t *testing.T, err error, code codes.Code, text string) {
	t.Helper()
	st, ok := status.FromError(err)
	if !ok || st.Code() != code || st.Message() != text {
		t.Fatalf("got %v, want %v: %s", err, code, text)
	}
	if len(st.Details()) != 1 {
		t.Fatalf("details: %v", st.Details())
	}
	if d, ok := st.Details()[0].(*pb.EchoStatus); !ok || !proto.Equal(d, &pb.EchoStatus{Code: 7, Message: "detail"}) {
		t.Errorf("detail: %v", st.Details()[0])
	}
}

func TestUnaryFailure(t *testing.T) {
	run(t, func(t *testing.T, stub pb.TestServiceClient) {
		var header, trailer metadata.MD
		_, err := stub.UnaryCall(withMetadata(patient(t)), &pb.SimpleRequest{
			ResponseStatus: &pb.EchoStatus{Code: int32(codes.DataLoss), Message: "\t\ntest with whitespace\r\nand Unicode BMP ☺\t\n"},
		}, grpc.Header(&header), grpc.Trailer(&trailer))
		checkFailure(t, err, codes.DataLoss, "\t\ntest with whitespace\r\nand Unicode BMP ☺\t\n")
		// Connect sends the trailer of a unary error in its header.
		if got := metadata.Join(header, trailer).Get(echoTrailing); len(got) != 1 || got[0] != "\x00\xab\xff" {
			t.Errorf("trailer: %q", got)
		}
		_, err = stub.UnimplementedCall(patient(t), new(pb.Empty))
		if status.Code(err) != codes.Unimplemented {
			t.Error(err)
		}
	})
}

func TestServerStream(t *testing.T) {
	run(t, func(t *testing.T, stub pb.TestServiceClient) {
		req := &pb.StreamingOutputCallRequest{
			ResponseParameters: []*pb.ResponseParameters{{Size: 1}, {Size: 70000}, {Size: 0}},
			ResponseStatus:     &pb.EchoStatus{Code: int32(codes.Aborted), Message: "enough"},
		}
		s, err := stub.StreamingOutputCall(patient(t), req)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range req.GetResponseParameters() {
			m, err := s.Recv()
			if err != nil || len(m.GetPayload().GetBody()) != int(p.GetSize()) {
				t.Fatalf("%d bytes, %v; want %d", len(m.GetPayload().GetBody()), err, p.GetSize())
			}
		}
		_, err = s.Recv()
		checkFailure(t, err, codes.Aborted, "enough")
	})
}

func TestClientStream(t *testing.T) {
	run(t, func(t *testing.T, stub pb.TestServiceClient) {
		s, err := stub.StreamingInputCall(patient(t))
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range []int{27182, 8, 1828, 45904} {
			if err := s.Send(&pb.StreamingInputCallRequest{Payload: &pb.Payload{Body: make([]byte, n)}}); err != nil {
				t.Fatal(err)
			}
		}
		res, err := s.CloseAndRecv()
		if err != nil || res.GetAggregatedPayloadSize() != 74922 {
			t.Fatal(res, err)
		}
	})
}

// A client that still sends when the method has failed learns of it by io.EOF, and why when it receives.
func TestClientStreamFails(t *testing.T) {
	run(t, func(t *testing.T, stub pb.TestServiceClient) {
		s, err := stub.StreamingInputCall(patient(t))
		if err != nil {
			t.Fatal(err)
		}
		for err == nil {
			err = s.Send(&pb.StreamingInputCallRequest{Payload: &pb.Payload{Body: make([]byte, 64<<10)}})
		}
		if !errors.Is(err, io.EOF) {
			t.Errorf("Send: %v", err)
		}
		_, err = s.CloseAndRecv()
		checkFailure(t, err, codes.OutOfRange, "too much")
	})
}

func TestFullDuplex(t *testing.T) {
	run(t, func(t *testing.T, stub pb.TestServiceClient) {
		s, err := stub.FullDuplexCall(withMetadata(patient(t)))
		if err != nil {
			t.Fatal(err)
		}
		header, err := s.Header() // before any message
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range []int32{31415, 9, 2653, 58979} {
			if err := s.Send(&pb.StreamingOutputCallRequest{ResponseParameters: []*pb.ResponseParameters{{Size: n}}}); err != nil {
				t.Fatal(err)
			}
			m, err := s.Recv()
			if err != nil || len(m.GetPayload().GetBody()) != int(n) {
				t.Fatal(len(m.GetPayload().GetBody()), err)
			}
		}
		if err := s.CloseSend(); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Recv(); !errors.Is(err, io.EOF) {
			t.Fatal(err)
		}
		checkMetadata(t, header, s.Trailer())
		if _, ok := peer.FromContext(s.Context()); !ok {
			t.Error("the stream's context has no peer")
		}
	})
}

func TestCancel(t *testing.T) {
	run(t, func(t *testing.T, stub pb.TestServiceClient) {
		ctx, cancel := context.WithCancel(patient(t))
		s, err := stub.FullDuplexCall(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Header(); err != nil {
			t.Fatal(err)
		}
		cancel()
		if _, err := s.Recv(); status.Code(err) != codes.Canceled {
			t.Error(err)
		}
		if _, err := stub.EmptyCall(ctx, new(pb.Empty)); status.Code(err) != codes.Canceled {
			t.Error(err)
		}
		late, cancel := context.WithTimeout(patient(t), time.Millisecond)
		defer cancel()
		s, err = stub.FullDuplexCall(late)
		if err == nil {
			_, err = s.Recv()
		}
		if status.Code(err) != codes.DeadlineExceeded {
			t.Error(err)
		}
	})
}
