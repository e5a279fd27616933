package session

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/internal/budget"
	"github.com/tandem-rpc/tandem/internal/machine"
	"github.com/tandem-rpc/tandem/wire"
)

// listed describes the calls that run on a session, sorted.
func listed(s *Session) []string {
	var list []string
	s.EachRunning(func(r Running) {
		list = append(list, fmt.Sprint(r.Method, " ", r.Kind, " ", r.Awaits))
	})
	slices.Sort(list)
	return list
}

func wantListed(t *testing.T, s *Session, want ...string) {
	t.Helper()
	synctest.Wait()
	if got := listed(s); !slices.Equal(got, want) {
		t.Errorf("listed: %q, want %q", got, want)
	}
}

// Calls of each kind are listed while they run, in the reader and in goroutines of their own, and
// no longer.
func TestRunningCallsAreListed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, _, release := keepers()
		m["apart"] = &Target{Func: m["hold"].Func, Spawn: true, Name: "Apart"}
		m["stream"] = streaming(func(st tandem.MessageStream) error { return st.RecvMsg(new([]byte)) })
		p := newPair(t, memory, m)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		began := time.Now()
		var wg sync.WaitGroup
		wg.Go(func() { _, _ = p.call(ctx, "hold", []byte{1}) })
		synctest.Wait()
		time.Sleep(time.Second)        // virtual: the monitor hands the turn to another reader
		for _, call := range []func(){ // one by one: the session estimates when each of several in one read arrived
			func() { _, _ = p.call(ctx, "apart", []byte{1}) },
			func() { notifyOnce(t, p, "apart", 1) },
			func() { notifyOnce(t, p, "apart", 100_000) },
			func() { notifyOnce(t, p, "hold", 1) },
		} {
			wg.Go(call)
			synctest.Wait()
		}
		q := p.client.env.NewPending()
		q.Method, q.Codec, q.Stream = "stream", "raw", nil
		wg.Go(func() {
			st, err := p.client.Open(ctx, q, began.Add(time.Minute))
			if err != nil {
				t.Error(err)
				return
			}
			_ = st.RecvMsg(new([]byte))
		})
		wantListed(t, p.server, "Apart 0 0", "Apart 1 0", "Apart 1 0", "hold 0 0", "hold 1 0", "stream 2 0")
		p.server.EachRunning(func(r Running) {
			late := r.Method != "hold" || r.Kind == tandem.OneWay
			if since := r.Arrived.Sub(began); since < 0 || (since >= time.Second) != late {
				t.Errorf("%s arrived after %v", r.Method, since)
			}
			if d := r.Deadline; r.Kind == tandem.Unary && (d.Sub(began) < 59*time.Second || d.Sub(began) > time.Minute+time.Second) {
				t.Errorf("%s has the deadline %v", r.Method, d)
			}
		})
		if l := p.server.Load(); l != (Load{Running: 6, Accepted: 6}) {
			t.Errorf("%+v", l)
		}
		close(release)
		cancel()
		wg.Wait()
		wantListed(t, p.server)
		if cap(p.server.oneWays) > keptOneWays {
			t.Error("an idle session keeps memory of one-way calls")
		}
		p.close()
	})
}

// Many one-way calls end in another order than they came.
func TestOneWayCallsEndInAnyOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const calls = 200
		var gates [calls]chan struct{}
		for i := range gates {
			gates[i] = make(chan struct{})
		}
		slow := unary(func(_ context.Context, in []byte) ([]byte, error) {
			<-gates[len(in)]
			return nil, nil
		})
		slow.Spawn = true
		p := newPair(t, memory, methods{"slow": slow})
		for i := range calls {
			notifyOnce(t, p, "slow", i)
		}
		synctest.Wait()
		for i := range calls {
			if n := len(listed(p.server)); n != calls-i {
				t.Fatalf("%d calls are listed, want %d", n, calls-i)
			}
			close(gates[i*77%calls]) // 77 and 200 have no common divisor
			synctest.Wait()
		}
		if p.server.oneWays != nil {
			t.Error("memory of 200 one-way calls is kept")
		}
		p.close()
	})
}

// A call that waits for memory, or for the rest of its request, says so.
func TestWaitsAreListed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, _, release := keepers()
		m["hold"].Spawn = true
		p := newPair(t, memory, m, withBudget(budget.New(1<<20)))
		var wg sync.WaitGroup
		for _, size := range []int{1 << 20, 1 << 20, 20_000} { // the second in several blocks, the third copied
			wg.Go(func() { _, _ = p.call(t.Context(), "hold", make([]byte, size)) })
			synctest.Wait()
		}
		wantListed(t, p.server, "hold 0 0", "hold 0 2", "hold 0 2")
		close(release)
		wg.Wait()
		wantListed(t, p.server)
		p.close()
	})
	synctest.Test(t, func(t *testing.T) {
		s, peer := acceptRaw(t, serverConfig(methods{"echo": echo()}))
		head := wire.AppendRequest(nil, &wire.Request{Name: byName("echo"), Size: 100_000})
		send(t, peer, rawFrame(wire.TypeRequest, 0, wire.MakeStream(0, 1), append(head, make([]byte, 1000)...)))
		wantListed(t, s, "echo 0 3")
		_ = peer.Close()
		<-s.Done()
		wantListed(t, s)
	})
}

// A call in a limiter's queue says so through its context.
func TestWaiterOfAContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		next := make(chan struct{})
		limited := unary(func(ctx context.Context, _ []byte) ([]byte, error) {
			w := ctx.Value(WaiterKey()).(Waiter)
			w.AwaitSlot(true)
			<-next
			w.AwaitSlot(false)
			<-next
			return nil, nil
		})
		p := newPair(t, memory, methods{"limited": limited})
		done := make(chan struct{})
		go func() { _, _ = p.call(t.Context(), "limited", nil); close(done) }()
		wantListed(t, p.server, "limited 0 1")
		next <- struct{}{}
		wantListed(t, p.server, "limited 0 0")
		next <- struct{}{}
		<-done
		p.close()
	})
}

// Calls are listed while others begin, change their [tandem.Call], end, and have their memory used
// again. The race detector finds a field that is read without the mutex, and a call that was
// answered would be listed without its method.
func TestListingOfCallsThatEnd(t *testing.T) {
	changed := func(ctx context.Context, call *tandem.Call) error {
		call.Method, call.Deadline, call.Kind, call.Peer = "changed", time.Time{}, tandem.Streaming, nil
		_ = ctx.Err()
		return call.Body.Encode([]byte{1})
	}
	quick := &Target{Func: changed, Name: "quick", Method: machine.Method{Reuse: true}}
	apart := &Target{Func: changed, Name: "apart", Spawn: true, Method: machine.Method{Reuse: true}}
	p := newPair(t, tcp(t), methods{"quick": quick, "apart": apart})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	stop := make(chan struct{})
	var callers, lister sync.WaitGroup
	lister.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			p.server.EachRunning(func(r Running) {
				if r.Method != "quick" && r.Method != "apart" || r.Kind == tandem.Streaming || time.Since(r.Arrived) > time.Minute {
					t.Errorf("listed: %+v", r)
				}
			})
		}
	})
	for _, method := range []string{"quick", "apart"} {
		for range 4 {
			callers.Go(func() {
				for i := range 200 {
					if i%4 == 0 {
						notifyOnce(t, p, method, 10)
					} else if _, err := p.call(ctx, method, make([]byte, 10)); err != nil {
						t.Error(err)
					}
				}
			})
		}
	}
	callers.Wait()
	close(stop)
	lister.Wait()
	for len(listed(p.server)) > 0 { // one-way calls
		if ctx.Err() != nil {
			t.Fatal(strings.Join(listed(p.server), ", "))
		}
		time.Sleep(time.Millisecond) // real connections are beyond synctest
	}
}

// The listing must not make calls larger: their size is one of the allocator's classes.
func TestInboundFitsItsSizeClass(t *testing.T) {
	const class = 512
	if n := unsafe.Sizeof(Inbound{}); n > class {
		t.Errorf("an Inbound takes %d bytes", n)
	}
}
