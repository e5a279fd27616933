package session

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/wire"
)

// counting is a stream's handler that sends n messages of up to size bytes, the i-th
// sealed with i; then it waits for release, unless that is nil.
func counting(n uint32, size int, release chan struct{}) *Target {
	return streaming(func(st tandem.MessageStream) error {
		for i := range n {
			if err := st.SendMsg(sealed(0, i, 16+rand.IntN(size))); err != nil {
				return err
			}
		}
		if release != nil {
			<-release
		}
		return nil
	})
}

// receiveInOrder receives messages until the stream ends and returns how many.
func receiveInOrder(t *testing.T, st *Stream, each func()) (n uint32) {
	t.Helper()
	for ; ; n++ {
		var m []byte
		switch err := st.RecvMsg(&m); {
		case errors.Is(err, io.EOF):
			return n
		case err != nil:
			t.Errorf("after %d messages: %v", n, err)
			return n
		}
		if _, which, ok := opened(m); !ok || which != n {
			t.Errorf("message %d is %d (intact: %v)", n, which, ok)
			return n
		}
		each()
	}
}

// receiverReads reports whether a receiver has the turn to read, or has parked it.
func (p *pair) receiverReads() bool {
	p.client.mu.Lock()
	defer p.client.mu.Unlock()
	return p.client.receiving != nil || p.client.parked != nil
}

func TestReceiverOfTheOnlyStreamReads(t *testing.T) {
	for name, size := range map[string]int{"small": 100, "a few a read": 16 << 10, "several blocks": 200 << 10} {
		t.Run(name, func(t *testing.T) {
			messages := uint32(min(20_000, 20<<20/size)) // many reads, however full
			p := newPair(t, tcp(t), methods{"count": counting(messages, size, nil)})
			seen := 0
			n := receiveInOrder(t, openRaw(t, p, "count"), func() {
				if p.receiverReads() {
					seen++
				}
			})
			if n != messages {
				t.Errorf("%d of %d messages came", n, messages)
			}
			if seen == 0 && size < 64<<10 { // larger ones are rarely whole at the end of a read
				t.Error("the receiver never had the turn to read")
			}
			wantNothingOpen(t, p)
		})
	}
}

// scriptedStream returns a session with one stream, its peer's end of the connection,
// and the frame of a message of the stream, for the test to send. The session has no monitor.
func scriptedStream(t *testing.T, ctx context.Context) (s *Session, peer net.Conn, st *Stream, message []byte) {
	t.Helper()
	s, peer = connectRaw(t, tcp(t))
	s.env.monitor.stop() // it would have a goroutine read before long, and send pings
	opened := make(chan *Stream, 1)
	go func() {
		c := s.env.NewPending()
		c.Method, c.Codec = "s", "raw"
		st, err := s.Open(ctx, c, time.Now().Add(10*time.Second))
		if err != nil {
			t.Error(err)
		}
		opened <- st
	}()
	id := readFrame(t, peer).Stream
	send(t, peer, rawFrame(wire.TypeResponse, wire.FlagAnswer|wire.FlagStream, id, wire.AppendResponse(nil, &wire.Response{})))
	st = <-opened
	return s, peer, st, rawFrame(wire.TypeData, wire.FlagAnswer|wire.FlagStream|wire.FlagEnd, id, []byte("message"))
}

func receiveOne(t *testing.T, st *Stream) {
	t.Helper()
	var m []byte
	if err := st.RecvMsg(&m); err != nil || string(m) != "message" {
		t.Fatalf("%q, %v", m, err)
	}
}

// A receiver that reads returns when its context ends or its stream is closed, though
// the peer sends nothing.
func TestReadingReceiverIsRelieved(t *testing.T) {
	for name, end := range map[string]func(*Stream, context.CancelFunc){
		"cancel": func(_ *Stream, cancel context.CancelFunc) { cancel() },
		"close":  func(st *Stream, _ context.CancelFunc) { _ = st.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			s, peer, st, message := scriptedStream(t, ctx)
			for range 10 {
				send(t, peer, message)
				receiveOne(t, st)
			}
			ended := make(chan error, 1)
			go func() {
				var m []byte
				ended <- st.RecvMsg(&m)
			}()
			eventually(t, s, "the receiver does not read", func() bool { return s.receiving != nil })
			end(st, cancel)
			select {
			case err := <-ended:
				if tandem.CodeOf(err) != tandem.Canceled {
					t.Error(err)
				}
			case <-time.After(10 * time.Second):
				t.Fatal("the receiver does not end")
			}
		})
	}
}

// With calls beside a stream and a slow receiver, the turn goes from receivers to
// callers and goroutines and back, and nothing is lost.
func TestReceivingChangesHands(t *testing.T) {
	const messages = 20_000
	p := newPair(t, tcp(t), methods{"count": counting(messages, 4<<10, nil), "echo": echo()})
	done := make(chan struct{})
	var callers sync.WaitGroup
	for caller := range uint32(2) {
		callers.Go(func() {
			for call := uint32(0); ; call++ {
				select {
				case <-done:
					return
				case <-time.After(time.Duration(rand.IntN(3000)) * time.Microsecond): // alone now and then
					oneCall(t, p, caller, call)
				}
			}
		})
	}
	direct := 0
	n := receiveInOrder(t, openRaw(t, p, "count"), func() {
		if rand.IntN(2000) == 0 {
			time.Sleep(2 * slowTick) // long enough for a goroutine to read
		}
		if p.receiverReads() {
			direct++
		}
	})
	close(done)
	callers.Wait()
	if n != messages || direct == 0 {
		t.Errorf("%d of %d messages came; the receiver had the turn after %d", n, messages, direct)
	}
}

// While a message waits for credit, a goroutine reads, though the stream's receiver,
// which had the turn, does not.
func TestCreditIsReadForASender(t *testing.T) {
	const size, messages = 16 << 10, 200 // more than the windows hold
	p := newPair(t, tcp(t), methods{"echo": streaming(func(st tandem.MessageStream) error {
		var m []byte
		for err := st.RecvMsg(&m); err == nil; err = st.RecvMsg(&m) {
			if err := st.SendMsg(m); err != nil {
				return err
			}
		}
		return nil
	})})
	p.clientEnv.monitor.stop() // it would have a goroutine read before long
	st := openRaw(t, p, "echo")
	want := bytes.Repeat([]byte("m"), size)
	for range 10 { // one at a time, until the receiver reads
		var got []byte
		if err := errors.Join(st.SendMsg(want), st.RecvMsg(&got)); err != nil || !bytes.Equal(got, want) {
			t.Fatalf("%d bytes, %v", len(got), err)
		}
	}
	eventually(t, p.client, "the turn is not parked", func() bool { return p.client.parked != nil })
	var wg sync.WaitGroup
	wg.Go(func() {
		for range messages {
			if err := st.SendMsg(want); err != nil {
				t.Error(err)
				return
			}
		}
	})
	eventually(t, p.client, "no goroutine reads for the sender", func() bool { return st.m.IsSending() && p.client.parked == nil })
	for i := range messages {
		var got []byte
		if err := st.RecvMsg(&got); err != nil || !bytes.Equal(got, want) {
			t.Fatalf("message %d: %d bytes, %v", i, len(got), err)
		}
	}
	wg.Wait()
	if err := st.Close(); err != nil {
		t.Error(err)
	}
}

// A receiver that waits while another goroutine reads takes the turn when that parks
// it, though nothing has arrived for the receiver.
func TestWaitingReceiverTakesTheTurn(t *testing.T) {
	s, peer, st, message := scriptedStream(t, t.Context())
	ended := make(chan error, 1)
	go func() {
		var m []byte
		ended <- st.RecvMsg(&m)
	}()
	for range parkAfter {
		s.mu.Lock()
		before := s.m.Counts().ConnRoom
		s.mu.Unlock()
		send(t, peer, wire.AppendWindow(nil, 0, 0, 1))
		eventually(t, s, "the window did not come", func() bool { return s.m.Counts().ConnRoom > before })
	}
	eventually(t, s, "the receiver does not read", func() bool { return s.receiving != nil })
	send(t, peer, message)
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("the message was not received")
	}
}

// A part of a frame that a receiver leaves in the buffer is not lost when a call
// takes the turn next.
func TestParkedHalfOfAStreamsFrame(t *testing.T) {
	s, peer, st, message := scriptedStream(t, t.Context())
	send(t, peer, message[:7])
	for range 10 {
		send(t, peer, append(bytes.Clone(message[7:]), message[:7]...)) // each ends in the middle of the next
		receiveOne(t, st)
	}
	eventually(t, s, "the turn is not parked with a part of a frame", func() bool { return s.parked != nil && s.parked.r < s.parked.w })
	ended := goCall(t, s)
	send(t, peer, append(bytes.Clone(message[7:]), emptyAnswer(readFrame(t, peer).Stream)...))
	receiveOne(t, st)
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// A receiver that reads learns that its stream is over when the peer's process hangs, while
// another call still waits for its deadline.
func TestReadingReceiverAndAHungPeer(t *testing.T) {
	s, peer, st, message := scriptedStream(t, t.Context())
	for range 2 * parkAfter {
		send(t, peer, message)
		receiveOne(t, st)
	}
	received := make(chan error, 1)
	go func() {
		var m []byte
		received <- st.RecvMsg(&m)
	}()
	eventually(t, s, "the receiver does not read", func() bool { return s.receiving != nil })
	c := s.env.NewPending()
	c.Method, c.Codec, c.Deadline = "m", "raw", time.Now().Add(time.Minute)
	called := make(chan error, 1)
	go func() { called <- s.Do(context.Background(), c) }()
	readFrame(t, peer)
	now := s.now()
	s.detector.since = now - int64(DefaultSilence)
	s.handleSuspect(now, false, true)
	select {
	case err := <-received:
		if tandem.CodeOf(err) != tandem.Unavailable {
			t.Errorf("the receiver got %v", err)
		}
	case <-time.After(5 * time.Second):
		t.Error("the receiver waits for a byte")
	}
	if err := s.Err(); err != nil {
		t.Errorf("the connection ended though a call waits: %v", err)
	}
	s.Close()
	<-called
}
