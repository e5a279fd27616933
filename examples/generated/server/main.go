// Command server serves shop.proto, and lists itself in a registry: the folder /tmp/generated/shop, or
// its argument.
package main

import (
	"context"
	"errors"
	"log"
	"maps"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/codec/protobuf"
	pb "github.com/tandem-rpc/tandem/examples/generated/shop"
	"github.com/tandem-rpc/tandem/grpcbridge"
	"github.com/tandem-rpc/tandem/protocol/web"
	"github.com/tandem-rpc/tandem/registry/file"
	"github.com/tandem-rpc/tandem/server"
)

// carts implements the interface that protoc-gen-go-grpc has generated, as for grpc-go.
type carts struct {
	pb.UnimplementedCartsServer

	mu  sync.Mutex
	all map[string]map[string]int32
}

func (c *carts) Add(_ context.Context, req *pb.AddRequest) (*pb.Cart, error) {
	if req.GetCount() <= 0 {
		return nil, status.Errorf(codes.InvalidArgument, "%d of %s: want 1 or more", req.GetCount(), req.GetItem())
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.all[req.GetCustomer()] == nil {
		c.all[req.GetCustomer()] = map[string]int32{}
	}
	c.all[req.GetCustomer()][req.GetItem()] += req.GetCount()
	return c.cart(req.GetCustomer()), nil
}

func (c *carts) Get(_ context.Context, req *pb.GetRequest) (*pb.Cart, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cart(req.GetCustomer()), nil
}

// Watch sends the cart twice a second.
func (c *carts) Watch(req *pb.GetRequest, s grpc.ServerStreamingServer[pb.Cart]) error {
	tick := time.NewTicker(time.Second / 2)
	defer tick.Stop()
	for {
		cart, err := c.Get(s.Context(), req)
		if err != nil {
			return err
		}
		if err := s.Send(cart); err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-s.Context().Done():
			return s.Context().Err()
		}
	}
}

func (c *carts) cart(customer string) *pb.Cart {
	return &pb.Cart{Items: maps.Clone(c.all[customer])}
}

func main() {
	folder := "/tmp/generated/shop"
	if len(os.Args) > 1 {
		folder = os.Args[1]
	}
	srv := server.New(
		server.WithCodecs(protobuf.Codec()),
		server.WithProtocols(web.New()), // gRPC, Connect, gRPC-Web, JSON
		server.WithRegistrar(file.New(folder), tandem.Instance{}),
	)
	err := grpcbridge.Register(srv, func(r grpc.ServiceRegistrar) {
		pb.RegisterCartsServer(r, &carts{all: map[string]map[string]int32{}})
	}, grpcbridge.WithMethodOptions("shop.v1.Carts.Add", server.MethodConcurrency(100, 1000)))
	if err != nil {
		log.Fatal(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	go func() {
		if err := srv.Serve("tcp", "127.0.0.1:0"); !errors.Is(err, server.ErrServerClosed) {
			log.Fatal(err)
		}
	}()
	<-ctx.Done()
	drained, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := srv.Shutdown(drained); err != nil {
		log.Print(err)
	}
}
