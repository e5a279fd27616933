package session

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/internal/machine"
	"github.com/tandem-rpc/tandem/wire"
)

// A reader does not get far ahead of the goroutines that it starts for calls.
func TestReaderAwaitsStart(t *testing.T) {
	var most, done atomic.Int32
	target := &Target{Name: "m", Spawn: true, Func: func(ctx context.Context, _ *tandem.Call) error {
		s := ctx.(*Inbound).s                           //nolint:forcetypeassert // it is the handler's own context
		most.Store(max(most.Load(), s.starting.Load())) // a lost update does not matter here
		done.Add(1)
		return nil
	}}
	s, peer := acceptRaw(t, serverConfig(methods{"m": target}))
	var requests []byte
	const calls = 1000
	for i := range calls {
		requests = append(requests, rawFrame(wire.TypeRequest, wire.FlagEnd, wire.MakeStream(uint16(i), uint64(i+1)), requestHead("m"))...)
	}
	send(t, peer, requests)
	eventually(t, s, "the last call", func() bool { return done.Load() == calls })
	if n := most.Load(); n < 2 || n > maxStarting {
		t.Errorf("%d goroutines had not begun, limit %d", n, maxStarting)
	}
	if n := s.starting.Load(); n != 0 {
		t.Errorf("%d are still counted", n)
	}
}

// Handlers that return all at once do not queue all responses for a peer that does
// not read: what is queued is bounded, and nothing is lost when it reads again.
func TestAnswersWaitForRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const calls, size = 600, 60 << 10
		release := make(chan struct{})
		big := make([]byte, size)
		target := &Target{Name: "big", Spawn: true, Func: func(ctx context.Context, c *tandem.Call) error {
			<-release
			return c.Body.Encode(&big)
		}}
		b := newBare(t, methods{"big": target})
		for i := range calls {
			b.request(i, wire.FlagEnd, wire.Request{Name: byName("big")}, nil)
		}
		synctest.Wait()
		close(release)
		synctest.Wait()
		b.ses.mu.Lock()
		queued, waiting := b.ses.m.QueuedBytes(), b.ses.m.Running()
		b.ses.mu.Unlock()
		if most := machine.WriteHard + (maxEncoding+1)*size; queued < machine.WriteHard || queued > most {
			t.Errorf("%d bytes are queued, limit %d", queued, most)
		}
		if waiting < 100 {
			t.Errorf("only %d answers wait", waiting)
		}
		for answers := 0; answers < calls; {
			h, payload, err := b.frame()
			switch {
			case err != nil:
				t.Fatalf("%d answers, then %v", answers, err)
			case h.Type == wire.TypeResponse && len(payload) < size:
				t.Fatalf("answer of %d bytes", len(payload))
			case h.Type == wire.TypeResponse:
				answers++
			}
		}
		b.ses.mu.Lock()
		encoding, encoded := b.ses.encoding, b.ses.encoded
		b.ses.mu.Unlock()
		if encoding != 0 || encoded != 0 {
			t.Errorf("%d answers with %d bytes are still counted", encoding, encoded)
		}
		b.stop()
	})
}

// A caller that reads a byte now and then gets an error when its response had to wait
// for too long. The handler of a call that is canceled does not go on waiting.
func TestNoRoomForAnAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const calls, size = 600, 60 << 10
		var mu sync.Mutex
		outcomes := map[tandem.Code]int{}
		count := func(c tandem.Code) int {
			mu.Lock()
			defer mu.Unlock()
			return outcomes[c]
		}
		big := make([]byte, size)
		release := make(chan struct{})
		target := &Target{Name: "big", Spawn: true, Func: func(_ context.Context, c *tandem.Call) error {
			<-release
			err := c.Body.Encode(&big)
			mu.Lock()
			outcomes[tandem.CodeOf(err)]++
			mu.Unlock()
			return err
		}}
		b := newBare(t, methods{"big": target})
		var requests, cancels []byte
		for i := range calls {
			id := wire.MakeStream(uint16(i), uint64(i+1))
			requests = append(requests, rawFrame(wire.TypeRequest, wire.FlagEnd, id, requestHead("big"))...)
			if i >= calls/2 {
				cancels = append(cancels, rawFrame(wire.TypeCancel, 0, id, nil)...)
			}
		}
		b.send(requests)
		synctest.Wait()
		close(release)
		synctest.Wait()
		waiting := calls - count(tandem.OK)
		var reading sync.WaitGroup
		reading.Go(func() {
			for one := make([]byte, 1); b.ses.Err() == nil; time.Sleep(300 * time.Millisecond) {
				_, _ = b.conn.Read(one)
			}
		})
		b.send(cancels)
		time.Sleep(500 * time.Millisecond) // the reader lets the writer go first for 250
		gone := count(tandem.Canceled)
		if gone == 0 {
			t.Error("canceled calls still wait")
		}
		time.Sleep(time.Second) // more than the session's Stall
		if n := count(tandem.ResourceExhausted); n != waiting-gone || n == 0 {
			t.Errorf("%d of %d that waited were given up", n, waiting-gone)
		}
		b.stop()
		reading.Wait()
	})
}
