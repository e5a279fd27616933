package session

import (
	"context"
	"net"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tandem-rpc/tandem/wire"
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

// pumped returns the messages of which blocks are sent, in that many rounds of writing.
func pumped(t *testing.T, m *machine, rounds int) (ids []wire.Stream) {
	t.Helper()
	for range rounds {
		b := m.take()
		if b == nil {
			return ids
		}
		for _, h := range headers(t, b.B) {
			ids = append(ids, h.Stream)
		}
	}
	return ids
}

func addBulk(m *machine, id wire.Stream, blocks int, credit int64) {
	m.ring.add(&bulk{id: id, data: make([]byte, blocks*wire.MaxBlock), credit: credit})
}

func TestBlocksTakeTurns(t *testing.T) {
	const a, b, c, plenty = wire.Stream(1 << 16), wire.Stream(1<<16 + 1), wire.Stream(1<<16 + 2), 1 << 30
	for name, test := range map[string]struct {
		fill func(m *machine)
		want []wire.Stream
	}{
		"two": {func(m *machine) {
			addBulk(m, a, 4, plenty)
			addBulk(m, b, 4, plenty)
		}, []wire.Stream{a, b, a, b, a, b, a, b}},
		"three": {func(m *machine) {
			addBulk(m, a, 3, plenty)
			addBulk(m, b, 2, plenty)
			addBulk(m, c, 2, plenty)
		}, []wire.Stream{a, b, c, a, b, c, a}},
		"the first without credit": {func(m *machine) {
			addBulk(m, a, 2, 0)
			addBulk(m, b, 2, plenty)
			addBulk(m, c, 2, plenty)
		}, []wire.Stream{b, c, b, c}},
		"one that ends early": {func(m *machine) {
			addBulk(m, a, 1, plenty)
			addBulk(m, b, 3, plenty)
			addBulk(m, c, 3, plenty)
		}, []wire.Stream{a, b, c, b, c, b, c}},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(serverConfig(nil))
			m.served = make([]*Inbound, 3)
			test.fill(m)
			for _, x := range m.ring.list {
				x.in = &Inbound{}
			}
			if got := pumped(t, m, 10); !slices.Equal(got, test.want) {
				t.Errorf("blocks of %v, want %v", got, test.want)
			}
		})
	}
}

// The message whose turn is next stays next when one before it is removed.
func TestTurnsSurviveARemoval(t *testing.T) {
	m := newMachine(serverConfig(nil))
	m.served = make([]*Inbound, 3)
	for i := range uint16(3) {
		addBulk(m, wire.MakeStream(i, 1), 3, 1<<30)
	}
	first := m.ring.list[0]
	got := pumped(t, m, 1) // two blocks: the third message is next
	m.ring.remove(first)
	got = append(got, pumped(t, m, 1)...)
	turns := make([]uint16, len(got))
	for i, id := range got {
		turns[i] = id.Index()
	}
	if want := []uint16{0, 1, 2, 1}; !slices.Equal(turns, want) {
		t.Errorf("blocks of %v, want %v", turns, want)
	}
}

// A reader that waits for the writer to catch up goes on as soon as the writer has taken
// what was queued, whether or not the writer had to wait for the peer.
func TestReaderGoesOnWhenTheWriterHasCaughtUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t, memory, methods{})
		s := p.client
		s.mu.Lock()
		b := s.m.buf()
		b.B = append(b.B, make([]byte, writeSoft+1)...)
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
