package session

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/internal/machine"
	"github.com/tandem-rpc/tandem/wire"
)

// bare is a peer that can send any frame to a session.
type bare struct {
	t    *testing.T
	conn net.Conn
	ses  *Session
	stop func()
}

// newBare returns a peer past the handshake. It is for tests in a bubble.
func newBare(t *testing.T, m methods) *bare {
	t.Helper()
	env := NewEnv(Config{Settings: wire.DefaultSettings(), Codecs: []tandem.Codec{rawCodec{}}, Resolve: m.find, Stall: time.Second})
	ours, theirs := memory()
	accepted := make(chan *Session, 1)
	go func() {
		s, loop, err := env.Accept(context.Background(), theirs, nil, nil)
		accepted <- s
		if err == nil {
			loop()
		}
	}()
	b := &bare{t: t, conn: ours}
	b.send(wire.AppendPreface(nil, wire.DefaultSettings()))
	head := make([]byte, wire.PrefaceLen)
	_, err := io.ReadFull(ours, head)
	_, n, bad := wire.ParsePrefaceHead(head)
	_, rest := io.ReadFull(ours, make([]byte, n))
	if err := errors.Join(err, bad, rest); err != nil {
		t.Fatal(err)
	}
	b.ses = <-accepted
	b.stop = func() {
		b.ses.Close()
		_ = ours.Close()
		env.Close(time.Minute)
	}
	return b
}

func (b *bare) send(p []byte) {
	if _, err := b.conn.Write(p); err != nil {
		b.t.Log("write:", err)
	}
}

// request sends the first frame of a call.
func (b *bare) request(slot int, f wire.Flags, r wire.Request, message []byte) {
	p := append(wire.AppendRequest(nil, &r), message...)
	b.send(rawFrame(wire.TypeRequest, f, wire.MakeStream(uint16(slot), uint64(slot+1)), p))
}

func rawFrame(typ wire.Type, f wire.Flags, id wire.Stream, payload []byte) []byte {
	return append(wire.AppendHeader(nil, wire.Header{Length: len(payload), Type: typ, Flags: f, Stream: id}), payload...)
}

func byName(method string) wire.Name { return wire.Name{Text: []byte(method)} }

// Stream messages that are not received take about as much memory as the peer has
// sent, however small they are.
func TestEmptyStreamMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hold := make(chan struct{})
		b := newBare(t, methods{"hold": streaming(func(tandem.MessageStream) error { <-hold; return nil })})
		go func() { _, _ = io.Copy(io.Discard, b.conn) }()
		b.request(0, wire.FlagStream|wire.FlagEnd, wire.Request{Name: byName("hold")}, nil)
		b.send(bytes.Repeat(rawFrame(wire.TypeData, wire.FlagStream|wire.FlagEnd, wire.MakeStream(0, 1), nil), 5000))
		synctest.Wait()
		b.ses.mu.Lock()
		st := &b.ses.inbounds[0].stream.m
		count, total := 0, 0
		for ; st.HasMessage(); count++ {
			total += cap(b.ses.m.Pop(st).Buf.B)
		}
		b.ses.mu.Unlock()
		if count != 5000 || total > 256<<10 {
			t.Errorf("%d messages in buffers of %d bytes", count, total)
		}
		close(hold)
		b.stop()
	})
}

// Large requests that begin and do not go on are held up to a limit, and not for
// ever: until their deadline, or until the stall timeout.
func TestUnfinishedRequestsAreBounded(t *testing.T) {
	for name, timeout := range map[string]time.Duration{"deadline": 100 * time.Millisecond, "silence": 0} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBare(t, methods{"echo": echo()})
				go b.answerPings()
				first := make([]byte, 60<<10)
				for i := range 1000 {
					b.request(i, 0, wire.Request{Name: byName("echo"), Size: 4 << 20, Timeout: timeout}, first)
				}
				synctest.Wait()
				if _, held := b.incoming(); held > machine.MaxHeld+machine.AssemblyBudget {
					t.Errorf("%d bytes are held", held)
				}
				time.Sleep(3 * time.Second)
				n, held := b.incoming()
				// All of them end: only the oldest has credit, but when it stalls the others end too.
				if held > 0 || n > 0 {
					t.Errorf("%d requests with %d bytes are held for ever", n, held)
				}
				b.stop()
			})
		})
	}
}

func (b *bare) incoming() (n int, held int64) {
	b.ses.mu.Lock()
	defer b.ses.mu.Unlock()
	return b.ses.m.Arriving(), b.ses.m.Counts().Held
}

// frame reads one frame.
func (b *bare) frame() (h wire.Header, payload []byte, err error) {
	head := make([]byte, wire.HeaderLen)
	if _, err = io.ReadFull(b.conn, head); err != nil {
		return h, nil, err
	}
	if h, err = wire.ParseHeader(head); err != nil {
		return h, nil, err
	}
	payload = make([]byte, h.Length)
	_, err = io.ReadFull(b.conn, payload)
	return h, payload, err
}

// answerPings answers pings, so that the session does not find the peer silent.
func (b *bare) answerPings() {
	for {
		h, payload, err := b.frame()
		if err != nil {
			return
		}
		if h.Type == wire.TypePing {
			b.send(rawFrame(wire.TypePong, 0, 0, payload))
		}
	}
}

// A peer that reads a byte now and then is not silent. The responses that are queued
// for it, refusals included, must be bounded all the same.
func TestPeerThatReadsByTheByte(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBare(t, methods{})
		go func() {
			for one := make([]byte, 1); b.ses.Err() == nil; time.Sleep(500 * time.Millisecond) {
				_, _ = b.conn.Read(one)
			}
		}()
		b.request(0, wire.FlagEnd, wire.Request{Name: wire.Name{Text: []byte("x"), Define: true}}, nil)
		many := bytes.Repeat(rawFrame(wire.TypeRequest, wire.FlagEnd, wire.MakeStream(0, 2), wire.AppendRequest(nil, &wire.Request{})), 1000)
		go func() {
			for b.ses.Err() == nil {
				b.send(many)
			}
		}()
		select {
		case <-b.ses.Done():
		case <-time.After(10 * time.Minute):
			t.Error("not cut off")
		}
		if err := b.ses.Err(); !errors.Is(err, machine.ErrFlood) {
			t.Errorf("ended with %v", err)
		}
		b.stop()
	})
}

// A method's limit holds for each message of its streams, decompressed.
func TestMaxMessageOfAStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		target := streaming(func(st tandem.MessageStream) error {
			for {
				var m []byte
				if err := st.RecvMsg(&m); errors.Is(err, io.EOF) {
					return nil
				} else if err != nil {
					return err
				}
			}
		})
		target.MaxMessage = 1000
		p := newPair(t, memory, methods{"s": target})
		for size, want := range map[int]tandem.Code{1000: tandem.OK, 1001: tandem.ResourceExhausted} {
			c := p.clientEnv.NewPending()
			c.Method, c.Codec = "s", "raw"
			st, err := p.client.Open(context.Background(), c, time.Now().Add(time.Second))
			if err != nil {
				t.Fatal(err)
			}
			err = errors.Join(st.SendMsg(make([]byte, size)), st.CloseSend())
			if err == nil {
				var m []byte
				err = st.RecvMsg(&m)
			}
			if errors.Is(err, io.EOF) {
				err = nil
			}
			if got := tandem.CodeOf(err); got != want {
				t.Errorf("message of %d bytes: %v, want %v", size, err, want)
			}
		}
		p.close()
	})
}
