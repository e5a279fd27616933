package call

import (
	"context"
	"testing"
	"time"

	"github.com/tandem-rpc/tandem"
)

// A unary call takes at most six allocations on both sides together, the raw
// codec's argument included.
func TestCallAllocations(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	p := newPair(t, tcp(t), methods{"echo": {Func: func(_ context.Context, call *tandem.Call) error {
		var in []byte
		if err := call.Body.Decode(&in); err != nil {
			return err
		}
		return call.Body.Encode(&in)
	}}})
	message := make([]byte, 600)
	caller := Caller{Session: p.client, Codec: "raw", Timeout: 5 * time.Second}
	var reply []byte
	call := func() {
		if err := caller.Call(context.Background(), "echo", &message, &reply); err != nil {
			t.Fatal(err)
		}
	}
	for range 2000 {
		call()
	}
	// Client: the Outgoing. Server: the Inbound, the argument's slice header
	// and its bytes. That is 4; the budget leaves room for the pools.
	if n := testing.AllocsPerRun(5000, call); n > 6 {
		t.Errorf("%v allocations a call on both sides, budget 6", n)
	} else {
		t.Logf("%v allocations a call on both sides", n)
	}
}

func BenchmarkCall(b *testing.B) {
	p := newPair(b, tcp(b), methods{"echo": echo()})
	message := make([]byte, 600)
	caller := Caller{Session: p.client, Codec: "raw", Timeout: 5 * time.Second}
	for _, callers := range []int{1, 16, 128} {
		b.Run(map[int]string{1: "1", 16: "16", 128: "128"}[callers], func(b *testing.B) {
			b.ReportAllocs()
			b.SetParallelism(callers / 2)
			if callers == 1 {
				var reply []byte
				for b.Loop() {
					if err := caller.Call(context.Background(), "echo", &message, &reply); err != nil {
						b.Fatal(err)
					}
				}
				return
			}
			b.RunParallel(func(pb *testing.PB) {
				var reply []byte
				for pb.Next() {
					if err := caller.Call(context.Background(), "echo", &message, &reply); err != nil {
						b.Error(err)
						return
					}
				}
			})
		})
	}
}
