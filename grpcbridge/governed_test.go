package grpcbridge_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	reflectpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/balance"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/codec/protobuf"
	"github.com/tandem-rpc/tandem/grpcbridge"
	"github.com/tandem-rpc/tandem/grpcbridge/internal/shop"
	"github.com/tandem-rpc/tandem/protocol/web"
	"github.com/tandem-rpc/tandem/server"
)

// counted is a service that counts its calls, and loses some.
type counted struct {
	shop.UnimplementedCartsServer

	calls *atomic.Int32
	lose  int32 // this many calls fail first, as if their connections were lost
}

func (c counted) next() error {
	if c.calls.Add(1) <= c.lose {
		return status.Error(codes.Unavailable, "lost")
	}
	return nil
}

func (c counted) Add(ctx context.Context, _ *shop.Item) (*shop.Cart, error) {
	if err := c.next(); err != nil {
		return nil, err
	}
	left := int32(0)
	if d, ok := ctx.Deadline(); ok {
		left = int32(time.Until(d) / time.Second)
	}
	return &shop.Cart{Total: left}, nil
}

func (c counted) Get(context.Context, *shop.Item) (*shop.Cart, error) {
	return &shop.Cart{Total: c.calls.Load()}, c.next()
}

func (c counted) Follow(s grpc.BidiStreamingServer[shop.Item, shop.Cart]) error {
	<-s.Context().Done()
	return s.Context().Err()
}

func serveCounted(t *testing.T, c counted, opts ...server.Option) (addr string, srv *server.Server) {
	t.Helper()
	srv = server.New(append(opts, server.WithCodecs(protobuf.Codec()), server.WithProtocols(web.New()))...)
	if err := grpcbridge.Register(srv, func(r grpc.ServiceRegistrar) { shop.RegisterCartsServer(r, c) }); err != nil {
		t.Fatal(err)
	}
	if err := web.RegisterReflection(srv); err != nil {
		t.Fatal(err)
	}
	if _, err := web.RegisterHealth(srv); err != nil {
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

// Calls of stubs are balanced, go to the instance that they name, and elsewhere when an instance is gone.
func TestBalancing(t *testing.T) {
	var one, two atomic.Int32
	a, first := serveCounted(t, counted{calls: &one})
	b, _ := serveCounted(t, counted{calls: &two})
	c := dial(t, "static://"+a+","+b, client.WithBalancer(balance.RoundRobin()), client.WithFailMode(tandem.Failover))
	carts := shop.NewCartsClient(grpcbridge.NewClient(c))
	for one.Load() == 0 || two.Load() == 0 { // until both are connected
		if _, err := carts.Add(patient(t), new(shop.Item)); err != nil {
			t.Fatal(err)
		}
	}
	one.Store(0)
	two.Store(0)
	for range 100 {
		if _, err := carts.Add(patient(t), new(shop.Item)); err != nil {
			t.Fatal(err)
		}
	}
	if one.Load() < 30 || two.Load() < 30 {
		t.Errorf("%d and %d calls", one.Load(), two.Load())
	}
	one.Store(0)
	for range 10 {
		if _, err := carts.Add(patient(t), new(shop.Item), grpcbridge.CallOptions(client.Instance("tcp://"+a))); err != nil {
			t.Fatal(err)
		}
	}
	if one.Load() != 10 {
		t.Errorf("%d of 10 calls went to their instance", one.Load())
	}
	if err := first.Shutdown(patient(t)); err != nil {
		t.Fatal(err)
	}
	for range 100 {
		if _, err := carts.Add(patient(t), new(shop.Item)); err != nil {
			t.Fatal(err)
		}
	}
}

// A method that the .proto file declares to be without side effects is retried, another one is not.
func TestRetries(t *testing.T) {
	var calls atomic.Int32
	addr, _ := serveCounted(t, counted{calls: &calls, lose: 1})
	carts := shop.NewCartsClient(grpcbridge.NewClient(dial(t, "tcp://"+addr, client.WithFailMode(tandem.Failover))))
	if _, err := carts.Get(patient(t), new(shop.Item)); err != nil {
		t.Errorf("Get: %v", err)
	}
	if calls.Load() != 2 {
		t.Errorf("Get ran %d times", calls.Load())
	}
	calls.Store(0)
	if _, err := carts.Add(patient(t), new(shop.Item)); status.Code(err) != codes.Unavailable || calls.Load() != 1 {
		t.Errorf("Add: %v, ran %d times", err, calls.Load())
	}
}

// The deadline reaches the method; without one the client's default does.
func TestDeadlineArrives(t *testing.T) {
	var calls atomic.Int32
	addr, _ := serveCounted(t, counted{calls: &calls})
	carts := shop.NewCartsClient(grpcbridge.NewClient(dial(t, "tcp://"+addr, client.WithTimeout(2*time.Minute))))
	if cart, err := carts.Add(t.Context(), new(shop.Item)); err != nil || cart.GetTotal() < 100 || cart.GetTotal() > 120 {
		t.Error(cart, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if cart, err := carts.Add(ctx, new(shop.Item)); err != nil || cart.GetTotal() < 10 || cart.GetTotal() > 30 {
		t.Error(cart, err)
	}
}

// Interceptors of tandem see calls of generated code on both sides, streams too.
func TestTandemsInterceptors(t *testing.T) {
	refuse := func(next tandem.Func) tandem.Func {
		return func(ctx context.Context, call *tandem.Call) error {
			if call.Metadata.Get("authorization") != "Bearer x" {
				return tandem.Errorf(tandem.Unauthenticated, "who calls %s?", call.Method)
			}
			return next(ctx, call)
		}
	}
	var calls atomic.Int32
	addr, _ := serveCounted(t, counted{calls: &calls}, server.WithInterceptors(refuse))
	carts := shop.NewCartsClient(grpcbridge.NewClient(dial(t, "tcp://"+addr)))
	_, err := carts.Add(patient(t), new(shop.Item))
	if st := status.Convert(err); st.Code() != codes.Unauthenticated || st.Message() != "who calls tandem.bridgetest.v1.Carts.Add?" {
		t.Error(err)
	}
	s, err := carts.Follow(patient(t))
	if err == nil {
		_, err = s.Recv()
	}
	if status.Code(err) != codes.Unauthenticated {
		t.Error(err)
	}
	if _, err := carts.Add(patient(t), new(shop.Item), grpc.PerRPCCredentials(bearer{})); err != nil || calls.Load() != 1 {
		t.Error(err)
	}
}

type bearer struct{}

func (bearer) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{"authorization": "Bearer x"}, nil
}

func (bearer) RequireTransportSecurity() bool { return false }

// Reflection and health know the services of generated code.
func TestReflectionAndHealth(t *testing.T) {
	var calls atomic.Int32
	addr, _ := serveCounted(t, counted{calls: &calls})
	conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	const service = "tandem.bridgetest.v1.Carts"
	res, err := healthpb.NewHealthClient(conn).Check(patient(t), &healthpb.HealthCheckRequest{Service: service})
	if err != nil || res.GetStatus() != healthpb.HealthCheckResponse_SERVING {
		t.Error(res, err)
	}
	ctx, cancel := context.WithCancel(patient(t))
	defer cancel()
	s, err := reflectpb.NewServerReflectionClient(conn).ServerReflectionInfo(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Send(&reflectpb.ServerReflectionRequest{MessageRequest: &reflectpb.ServerReflectionRequest_ListServices{}}); err != nil {
		t.Fatal(err)
	}
	list, err := s.Recv()
	if err != nil || !strings.Contains(list.String(), service) {
		t.Error(list, err)
	}
}

// A method that does not end by itself ends with its caller, and the server with it.
func TestHandlersEnd(t *testing.T) {
	var calls atomic.Int32
	addr, srv := serveCounted(t, counted{calls: &calls})
	carts := shop.NewCartsClient(grpcbridge.NewClient(dial(t, "tcp://"+addr)))
	ctx, cancel := context.WithCancel(patient(t))
	s, err := carts.Follow(ctx)
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	if _, err := s.Recv(); status.Code(err) != codes.Canceled || !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if err := srv.Shutdown(patient(t)); err != nil {
		t.Error(err)
	}
}

func (counted) AddAll(grpc.ClientStreamingServer[shop.Item, shop.Cart]) error { return nil }

// A method with one response that ends without it is an error, also when it says that all is well.
func TestNoResponse(t *testing.T) {
	var calls atomic.Int32
	addr, _ := serveCounted(t, counted{calls: &calls})
	s, err := shop.NewCartsClient(grpcbridge.NewClient(dial(t, "tcp://"+addr))).AddAll(patient(t))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.CloseAndRecv(); status.Code(err) != codes.Internal {
		t.Error(err)
	}
}
