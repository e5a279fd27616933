package grpcbridge_test

import (
	"context"
	"net"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/codec/protobuf"
	"github.com/tandem-rpc/tandem/grpcbridge"
	"github.com/tandem-rpc/tandem/grpcbridge/internal/shop"
	"github.com/tandem-rpc/tandem/protocol/web"
	"github.com/tandem-rpc/tandem/registry"
	"github.com/tandem-rpc/tandem/server"
)

// named is a service whose answers say which instance gives them.
type named struct {
	shop.UnimplementedCartsServer

	number int32
}

func (n named) Add(context.Context, *shop.Item) (*shop.Cart, error) {
	return &shop.Cart{Total: n.number}, nil
}

func (n named) Follow(s grpc.BidiStreamingServer[shop.Item, shop.Cart]) error {
	if _, err := s.Recv(); err != nil {
		return err
	}
	return s.Send(&shop.Cart{Total: n.number})
}

// Instances of the test of lanes.
const (
	common = 1 // has no lane
	blue   = 2
	green  = 3
)

// serveLanes lists a common instance and those of two lanes.
func serveLanes(t *testing.T, protocol string) *registry.Memory {
	t.Helper()
	list := registry.NewMemory()
	for number, tags := range map[int32]map[string]string{common: nil, blue: {"lane": "blue"}, green: {"lane": "green"}} {
		srv := server.New(server.WithCodecs(protobuf.Codec()), server.WithProtocols(web.New()))
		if err := grpcbridge.Register(srv, func(r grpc.ServiceRegistrar) { shop.RegisterCartsServer(r, named{number: number}) }); err != nil {
			t.Fatal(err)
		}
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		go func() { _ = srv.ServeListener(l) }()
		t.Cleanup(func() { _ = srv.Close() })
		at := tandem.Endpoint{Transport: "tcp", Address: l.Addr().String(), Protocol: protocol}
		if _, err := list.Register(t.Context(), tandem.Instance{ID: at.Address, Tags: tags, Endpoints: []tandem.Endpoint{at}}); err != nil {
			t.Fatal(err)
		}
	}
	return list
}

// toLane is the route to a lane.
func toLane(name string, force bool) tandem.Route {
	return tandem.Route{Tags: map[string]string{"lane": name}, Force: force}
}

// Calls and streams of stubs keep to the lane of their route, or of their client's. Calls without a
// lane never go to an instance of one, and a lane without instances is the common one unless it is
// forced.
func TestLanes(t *testing.T) {
	for name, protocol := range map[string]string{"tandem": "", "gRPC": "grpc"} {
		t.Run(name, func(t *testing.T) {
			list := serveLanes(t, protocol)
			carts := dialLanes(t, list)
			keepsTo(t, carts, common)
			keepsTo(t, carts, blue, grpcbridge.CallOptions(client.Route(toLane("blue", false))))
			keepsTo(t, carts, green, grpcbridge.CallOptions(client.Route(toLane("green", true))))
			keepsTo(t, carts, common, grpcbridge.CallOptions(client.Route(toLane("red", false))))
			_, err := carts.Add(patient(t), new(shop.Item), grpcbridge.CallOptions(client.Route(toLane("red", true))))
			if status.Code(err) != codes.Unavailable {
				t.Errorf("a forced lane without instances: %v", err)
			}
			keepsTo(t, dialLanes(t, list, client.WithRoute(toLane("green", false))), green)
		})
	}
}

func dialLanes(t *testing.T, list *registry.Memory, opts ...client.Option) shop.CartsClient {
	t.Helper()
	return shop.NewCartsClient(grpcbridge.NewClient(dial(t, "memory:///carts", append(opts, client.WithResolver("memory", list))...)))
}

// keepsTo makes calls and streams, which must all go to one instance once it is connected.
func keepsTo(t *testing.T, carts shop.CartsClient, want int32, opts ...grpc.CallOption) {
	t.Helper()
	connected := false
	for ctx := patient(t); !connected && ctx.Err() == nil; {
		cart, err := carts.Add(ctx, new(shop.Item), opts...)
		connected = err == nil && cart.GetTotal() == want
	}
	for range 20 {
		if cart, err := carts.Add(patient(t), new(shop.Item), opts...); err != nil || cart.GetTotal() != want {
			t.Fatalf("a call went to instance %d, want %d: %v", cart.GetTotal(), want, err)
		}
		s, err := carts.Follow(patient(t), opts...)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Send(new(shop.Item)); err != nil {
			t.Fatal(err)
		}
		if cart, err := s.Recv(); err != nil || cart.GetTotal() != want {
			t.Fatalf("a stream went to instance %d, want %d: %v", cart.GetTotal(), want, err)
		}
	}
}
