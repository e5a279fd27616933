package session

import (
	"context"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tandem-rpc/tandem/internal/machine"
)

// Frames that are queued during a write go out in one write, and so do the
// responses of a batch of requests.
func TestWritesAreCombined(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, server := gated(1, 0)
		p := newPair(t, func() (net.Conn, net.Conn) { return client, server },
			methods{"m": unary(func(context.Context, []byte) ([]byte, error) {
				synctest.Wait() // a writer would have written
				return nil, nil
			})})
		client.arm()
		server.arm()
		const calls = 50
		var wg sync.WaitGroup
		for range calls {
			wg.Go(func() {
				if _, err := p.call(context.Background(), "m", nil); err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		client.open()
		wg.Wait()
		// The first call, and the rest; of which a plain connection's first read
		// takes a few.
		if c, s := client.writes.Load(), server.writes.Load(); c > 3 || s > 4 {
			t.Errorf("%d calls took %d writes, their answers %d", calls, c, s)
		}
	})
}

// A write that was left to a reserved goroutine is taken over if that goroutine does
// not run: by a call that finds it overdue, and by one that is large enough for a
// write of its own.
func TestReservedWriteIsTakenOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t, memory, methods{"echo": echo()})
		s := p.client
		begin := func(size int) <-chan error {
			done := make(chan error, 1)
			go func() {
				_, err := p.call(context.Background(), "echo", make([]byte, size))
				done <- err
			}()
			synctest.Wait()
			return done
		}
		reserve := func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			if !s.reserveLocked(2, s.env.now()) || s.reserveLocked(2, s.env.now()) {
				t.Fatal("not reserved once")
			}
		}
		reserve()
		early := begin(10)
		if time.Sleep(longestYield); len(early) > 0 {
			t.Error("the call was written, though a writer is about to come")
		}
		time.Sleep(time.Nanosecond)
		if late := begin(10); len(early) == 0 || len(late) == 0 {
			t.Errorf("overdue: %d and %d of the calls are answered", len(early), len(late))
		}
		s.writeReserved()
		reserve()
		if large := begin(enoughToWrite); len(large) == 0 {
			t.Error("enough for a write was not written")
		}
		s.writeReserved()
		p.close()
	})
}

// A reader that waits for the writer to catch up goes on as soon as the writer has taken
// what was queued, whether or not the writer had to wait for the peer.
func TestReaderGoesOnWhenTheWriterHasCaughtUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t, memory, methods{})
		s := p.client
		s.mu.Lock()
		for s.m.QueuedBytes() <= machine.WriteSoft {
			s.m.Ping([8]byte{})
		}
		s.writing = true // a write is on its way
		s.mu.Unlock()
		began := time.Now()
		var waited time.Duration
		var wg sync.WaitGroup
		wg.Go(func() {
			s.backOff()
			waited = time.Since(began)
		})
		synctest.Wait()
		time.Sleep(time.Millisecond)
		if s.next(0, false) == nil || s.next(0, false) != nil {
			t.Fatal("what was queued was not taken at once")
		}
		if wg.Wait(); waited != time.Millisecond {
			t.Errorf("the reader waited for %v, and the writer was done after 1ms", waited)
		}
	})
}
