package session

import (
	"context"
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/internal/machine"
	"github.com/tandem-rpc/tandem/wire"
)

// openRaw opens a stream of raw messages.
func openRaw(t *testing.T, p *pair, method string) *Stream {
	t.Helper()
	c := p.clientEnv.NewPending()
	c.Method, c.Codec = method, "raw"
	st, err := p.client.Open(context.Background(), c, time.Now().Add(time.Second))
	if err != nil {
		t.Fatal(err)
	}
	return st
}

// holding is a stream's handler that receives nothing until it is released.
func holding(release chan struct{}, err error) *Target {
	return streaming(func(tandem.MessageStream) error { <-release; return err })
}

// fill sends messages until the stream takes no more.
func fill(st *Stream, size int, sent *atomic.Int64) {
	for st.SendMsg(make([]byte, size)) == nil {
		sent.Add(int64(size))
		time.Sleep(3 * time.Millisecond) // a steady producer: one message at a time is under way
	}
}

// Messages that are not received take at most a stream's window and one message, also
// when they are so large that their credit is returned before they are complete.
func TestWindowHoldsForLargeMessages(t *testing.T) {
	for _, size := range []int{1000, 64 << 10, 128<<10 + 1, 300 << 10} {
		synctest.Test(t, func(t *testing.T) {
			release := make(chan struct{})
			p := newPair(t, memory, methods{"hold": holding(release, nil)})
			var sent atomic.Int64
			st := openRaw(t, p, "hold")
			var wg sync.WaitGroup
			wg.Go(func() { fill(st, size, &sent) })
			time.Sleep(2 * time.Second) // until the producer is blocked
			if most := int64(wire.DefaultStreamWindow + size); sent.Load() > most {
				t.Errorf("messages of %d bytes: %d bytes that were not received are held, limit %d", size, sent.Load(), most)
			}
			_ = st.Close()
			wg.Wait()
			close(release)
			p.close()
		})
	}
}

// A message larger than the window goes on when the small ones before it are received,
// though they free less credit than is returned at a time.
func TestLargeMessageBehindSmallOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		sizes := make(chan int, 2)
		p := newPair(t, memory, methods{"late": streaming(func(st tandem.MessageStream) error {
			<-release
			for range cap(sizes) {
				var m []byte
				if err := st.RecvMsg(&m); err != nil {
					return err
				}
				sizes <- len(m)
			}
			return nil
		})})
		st := openRaw(t, p, "late")
		const small, large = 1000, 2 * wire.DefaultStreamWindow
		sent := make(chan error, 1)
		go func() { sent <- errors.Join(st.SendMsg(make([]byte, small)), st.SendMsg(make([]byte, large))) }()
		synctest.Wait() // the window is full
		close(release)
		for _, want := range []int{small, large} {
			select {
			case got := <-sizes:
				if got != want {
					t.Errorf("got a message of %d bytes, want %d", got, want)
				}
			case <-time.After(time.Minute):
				t.Errorf("a message of %d bytes stands still", want)
			}
		}
		_ = st.Close()
		if err := <-sent; err != nil {
			t.Error(err)
		}
		p.close()
	})
}

// Streams that are blocked by their own windows do not block others as long as a
// quarter of the connection's window is free.
func TestStalledStreamsStopNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		p := newPair(t, memory, methods{"hold": holding(release, nil), "echo": echoStream()})
		echo := openRaw(t, p, "echo")
		const stalled = wire.DefaultConnWindow / wire.DefaultStreamWindow * 5 / 8
		var wg sync.WaitGroup
		for range stalled {
			st := openRaw(t, p, "hold")
			wg.Go(func() { fill(st, 100_000, new(atomic.Int64)) })
		}
		time.Sleep(time.Second) // until they are blocked
		answered := make(chan error, 1)
		go func() {
			var got []byte
			answered <- errors.Join(echo.SendMsg([]byte("hi")), echo.RecvMsg(&got))
		}()
		select {
		case err := <-answered:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(10 * time.Second):
			p.client.mu.Lock()
			t.Errorf("another stream stands still with %d bytes of the connection's window free", p.client.m.Counts().ConnRoom)
			p.client.mu.Unlock()
		}
		close(release)
		p.close()
		wg.Wait()
	})
}

// A stream's message that waits for its receiver does not keep large messages from getting
// credit, though it is the oldest.
func TestStalledMessageStopsNoLargeOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		p := newPair(t, memory, methods{"hold": holding(release, nil), "echo": echo()}, func(client, server *Config) {
			client.Settings.MaxMessage, server.Settings.MaxMessage = 64<<20, 64<<20
		})
		st := openRaw(t, p, "hold")
		var wg sync.WaitGroup
		wg.Go(func() { fill(st, 16<<10, new(atomic.Int64)) })
		time.Sleep(time.Second) // until it is blocked
		p.server.mu.Lock()
		c := p.server.m.Counts()
		stalled := c.Arriving == 1 && c.Waiting == 1
		p.server.mu.Unlock()
		if !stalled {
			t.Error("no message waits for its receiver in part")
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		const size = machine.AssemblyBudget + 1<<20
		if b, err := callOn(ctx, p.client, "echo", make([]byte, size)); err != nil || len(b) != size {
			t.Errorf("a large call beside it: %d bytes, %v", len(b), err)
		}
		close(release)
		p.close()
		wg.Wait()
	})
}

func echoStream() *Target {
	return streaming(func(st tandem.MessageStream) error {
		for {
			var b []byte
			if err := st.RecvMsg(&b); err != nil {
				return err
			}
			if err := st.SendMsg(b); err != nil {
				return err
			}
		}
	})
}

// An empty message waits for credit like every other. When the stream fails
// meanwhile, it was never sent.
func TestEmptyMessageNeverSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		p := newPair(t, memory, methods{"hold": holding(release, tandem.Errorf(tandem.Aborted, "no"))}, func(_, server *Config) {
			server.Settings.StreamWindow = wire.MinWindow
		})
		st := openRaw(t, p, "hold")
		if err := st.SendMsg(make([]byte, wire.MinWindow-2*wire.HeaderLen+1)); err != nil { // leaves less than a header takes
			t.Fatal(err)
		}
		sent := make(chan error, 1)
		go func() { sent <- st.SendMsg([]byte{}) }()
		synctest.Wait()
		close(release)
		if err := <-sent; tandem.CodeOf(err) != tandem.Aborted {
			t.Errorf("got %v", err)
		}
		p.close()
	})
}

// A callee may end its messages and fail after that: its caller gets the error, not
// io.EOF.
func TestHalfCloseThenFailure(t *testing.T) {
	for name, c := range map[string]struct {
		status []byte
		want   tandem.Code
	}{
		"fails": {machine.EncodeStatus(&tandem.Error{Code: tandem.DataLoss, Message: "half of it is lost"}), tandem.DataLoss},
		"well":  {nil, tandem.OK},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				testHalfClose(t, c.status, c.want)
			})
		})
	}
}

func testHalfClose(t *testing.T, status []byte, want tandem.Code) {
	t.Helper()
	s, peer := connectRaw(t, memory)
	received := make(chan error, 1)
	go func() {
		p := s.env.NewPending()
		p.Method, p.Codec = "m", "raw"
		st, err := s.Open(context.Background(), p, time.Now().Add(time.Minute))
		if err == nil {
			var m []byte
			err = st.RecvMsg(&m)
		}
		received <- err
	}()
	const stream = wire.FlagAnswer | wire.FlagStream
	id := readFrame(t, peer).Stream
	send(t, peer, rawFrame(wire.TypeResponse, stream, id, wire.AppendResponse(nil, &wire.Response{})))
	send(t, peer, rawFrame(wire.TypeData, stream|wire.FlagLast, id, nil))
	synctest.Wait() // the caller has it
	end := wire.AppendResponse(nil, &wire.Response{Status: status})
	send(t, peer, rawFrame(wire.TypeResponse, wire.FlagAnswer|wire.FlagEnd|wire.FlagLast, id, end))
	err := <-received
	if want == tandem.OK && !errors.Is(err, io.EOF) || want != tandem.OK && tandem.CodeOf(err) != want {
		t.Errorf("got %v", err)
	}
}

// A peer behind a slow link takes what was written before it receives the ping, and is
// not silent meanwhile. When it takes nothing more, it is.
func TestSlowLinkIsNoSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, peer := connectRaw(t, memory)
		const calls, size, busy = 16, 60_000, 4 * time.Second
		stopped := make(chan struct{})
		go func() {
			defer close(stopped)
			buf := make([]byte, 20_000)
			for start := time.Now(); time.Since(start) < busy; {
				_, _ = peer.Read(buf)
				time.Sleep(100 * time.Millisecond) // 200 kB/s
			}
		}()
		failed := make(chan error, calls)
		for range calls {
			go func() {
				_, err := callOn(context.Background(), s, "m", make([]byte, size))
				failed <- err
			}()
		}
		select {
		case <-s.Done():
			t.Errorf("ended while the peer was reading: %v", s.Err())
		case <-stopped:
		}
		<-stopped
		start := time.Now()
		for range calls {
			if err := <-failed; tandem.CodeOf(err) != tandem.Unavailable {
				t.Errorf("got %v", err)
			}
		}
		if took := time.Since(start); took > DefaultSilence {
			t.Errorf("a peer that reads nothing was found after %v", took)
		}
	})
}
