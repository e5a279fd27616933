package client_test

import (
	"context"
	"fmt"
	"testing"

	"go.uber.org/goleak"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/codec"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestCallShapes(t *testing.T) {
	_, addr := serve(t, methods)
	c := dial(t, "tcp://"+addr)
	ctx := context.Background()
	var reply Reply
	if err := c.Call(ctx, "Arith.Mul", &Args{7, 8}, &reply); err != nil || reply.C != 56 {
		t.Fatalf("got %v, %v", reply, err)
	}
	r, err := client.Invoke[Reply](ctx, c, "Arith.Mul", &Args{3, 4}, client.Codec("json"))
	if err != nil || r.C != 12 {
		t.Fatalf("got %v, %v", r, err)
	}
	var quo, rem int
	if err := c.Call(ctx, "Arith.Divide", tandem.Args{17, 5}, tandem.Results{&quo, &rem}); err != nil || quo != 3 || rem != 2 {
		t.Fatalf("got %d %d %v", quo, rem, err)
	}
	err = c.Call(ctx, "Arith.Divide", tandem.Args{17, 0}, tandem.Results{&quo, &rem})
	if tandem.CodeOf(err) != tandem.Unknown || !tandem.MayHaveExecuted(err) {
		t.Errorf("got %v", err)
	}
	p := <-c.Go(ctx, "Arith.Mul", &Args{5, 5}, &reply, nil).Done
	if p.Error != nil || reply.C != 25 {
		t.Errorf("got %v %v", reply, p.Error)
	}
}

func TestShutdownLosesNothing(t *testing.T) {
	a, addrA := serve(t, methods)
	_, addrB := serve(t, methods)
	c := dial(t, "static://"+addrA+","+addrB)
	down := make(chan error, 1)
	for calls, over := 1, false; calls < 100 || !over; calls++ {
		if calls == 50 {
			go func() { down <- a.Shutdown(context.Background()) }()
		}
		select {
		case err := <-down:
			over = true
			if err != nil {
				t.Error(err)
			}
		default:
		}
		r, err := client.Invoke[Reply](context.Background(), c, "Arith.Mul", &Args{calls, 2})
		if err != nil || r.C != 2*calls {
			t.Fatalf("call %d: %v, %v", calls, r, err)
		}
	}
}

// An interceptor may use a call after it has ended; without interceptors the call's memory is
// used for the next call.
func TestInterceptorsMayKeepACall(t *testing.T) {
	var kept []*tandem.Call
	_, addr := serve(t, methods)
	c := dial(t, "tcp://"+addr, client.WithCodec(codec.Raw()), client.WithInterceptors(func(next tandem.Func) tandem.Func {
		return func(ctx context.Context, call *tandem.Call) error {
			kept = append(kept, call)
			return next(ctx, call)
		}
	}))
	for i := range 10 {
		in, out := []byte{byte(i)}, []byte(nil)
		if err := c.Call(context.Background(), "Test.Echo", &in, &out, client.HashKey(fmt.Sprint(i))); err != nil {
			t.Fatal(err)
		}
	}
	for i, call := range kept {
		if call.HashKey != fmt.Sprint(i) || call.Method != "Test.Echo" || call.Peer.Addr == nil {
			t.Errorf("call %d is now %+v", i, call)
		}
	}
}
