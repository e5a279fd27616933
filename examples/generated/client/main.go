// Command client calls shop.proto's service at the servers that a registry lists: the folder
// /tmp/generated/shop, or its argument.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"time"

	"google.golang.org/grpc/status"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/balance"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/codec/protobuf"
	pb "github.com/tandem-rpc/tandem/examples/generated/shop"
	"github.com/tandem-rpc/tandem/grpcbridge"
)

func main() {
	folder := "/tmp/generated/shop"
	if len(os.Args) > 1 {
		folder = os.Args[1]
	}
	c, err := client.Dial("file://"+folder, client.WithCodec(protobuf.Codec()),
		client.WithFailMode(tandem.Failover), client.WithBalancer(balance.RingHash()))
	if err != nil {
		log.Fatal(err)
	}
	if err := errors.Join(call(pb.NewCartsClient(grpcbridge.NewClient(c))), c.Close()); err != nil {
		log.Fatal(err)
	}
}

func call(carts pb.CartsClient) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	customer := grpcbridge.CallOptions(client.HashKey("ann")) // the same server for all of a customer's calls
	for _, count := range []int32{2, 3, 0} {
		cart, err := carts.Add(ctx, &pb.AddRequest{Customer: "ann", Item: "tea", Count: count}, customer)
		fmt.Println(cart.GetItems(), status.Code(err), status.Convert(err).Message())
	}
	watch, err := carts.Watch(ctx, &pb.GetRequest{Customer: "ann"}, customer)
	if err != nil {
		return err
	}
	for range 2 {
		cart, err := watch.Recv()
		fmt.Println(cart.GetItems(), err)
	}
	return nil
}
