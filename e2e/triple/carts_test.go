//go:build integration

package triple

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"slices"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/server"
)

// carts implements carts.proto, except Clear.
type carts struct {
	left chan time.Duration // how much of its deadline a call had left
	gone chan error         // the error of a context whose caller is gone
}

func newCarts() *carts {
	return &carts{left: make(chan time.Duration, 10), gone: make(chan error, 10)}
}

// register serves the methods under their names in the proto, which generated stubs call,
// and under those of the Java interface.
func (c *carts) register(srv *server.Server) error {
	return errors.Join(
		server.Handle(srv, "shop.v1.Carts.Add", c.add),
		server.HandleStream(srv, "shop.v1.Carts.Watch", c.watch),
		server.HandleStream(srv, "shop.v1.Carts.Fill", c.fill),
		server.HandleStream(srv, "shop.v1.Carts.Follow", c.follow),
		srv.Alias("shop.v1.Baskets.add", "shop.v1.Carts.Add"),
		srv.RegisterName(stockName, &stock{c.gone}),
	)
}

var errMissing = tandem.Errorf(tandem.NotFound, "no such item: 100 %% “missing”")

func (c *carts) add(ctx context.Context, req *AddRequest) (*Cart, error) {
	switch req.GetItem() {
	case "":
		slices.Reverse(req.GetNote())
		return &Cart{Note: req.GetNote()}, nil
	case "missing":
		return nil, errMissing
	case "broken":
		return nil, io.ErrUnexpectedEOF
	case "panic":
		panic("as asked")
	case "metadata":
		return metadata(ctx)
	case "deadline":
		at, _ := ctx.Deadline()
		c.left <- time.Until(at)
	case "slow":
		<-ctx.Done()
		c.gone <- ctx.Err()
		return nil, ctx.Err()
	}
	return one(req), nil
}

func one(req *AddRequest) *Cart {
	return &Cart{Items: map[string]int32{req.GetItem(): req.GetCount()}}
}

// metadata returns the metadata of the call, and sends the same back.
func metadata(ctx context.Context) (*Cart, error) {
	call := tandem.FromContext(ctx)
	var items []string
	for _, name := range []string{"user", "camelcase", "key-bin", "tri-consumer-appname"} {
		items = append(items, fmt.Sprintf("%s is %q", name, call.Metadata.Get(name)))
	}
	call.Trailer = tandem.Metadata{"user-answer": {"bob"}, "key-answer-bin": {"\x00\xfe"}}
	cart := &Cart{Items: map[string]int32{}}
	for _, item := range items {
		cart.Items[item] = 1
	}
	return cart, nil
}

// watch answers count times, and then fails if the item is missing.
func (*carts) watch(_ context.Context, s *tandem.Stream[AddRequest, Cart]) error {
	req, err := s.Recv()
	if err != nil {
		return err
	}
	for i := range req.GetCount() {
		if err := s.Send(one(&AddRequest{Item: req.GetItem(), Count: i + 1})); err != nil {
			return err
		}
	}
	if req.GetItem() == "missing" {
		return errMissing
	}
	return nil
}

// fill answers once, with all messages.
func (*carts) fill(_ context.Context, s *tandem.Stream[AddRequest, Cart]) error {
	cart := &Cart{Items: map[string]int32{}}
	for req, err := range s.All() {
		if err != nil {
			return err
		}
		cart.Items[req.GetItem()] += req.GetCount()
	}
	return s.Send(cart)
}

// follow answers each message with all messages so far.
func (c *carts) follow(_ context.Context, s *tandem.Stream[AddRequest, Cart]) error {
	cart := &Cart{Items: map[string]int32{}}
	for req, err := range s.All() {
		if err != nil {
			c.gone <- err
			return err
		}
		cart.Items[req.GetItem()] += req.GetCount()
		if err := s.Send(cart); err != nil {
			return err
		}
	}
	return nil
}

// noted returns the checksum of the response to the consumer's large message.
func noted(n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i*31 + i>>8)
	}
	slices.Reverse(b)
	return fmt.Sprintf("%d bytes, %x", n, crc32.ChecksumIEEE(b))
}
