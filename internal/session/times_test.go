package session

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tandem-rpc/tandem/internal/machine"
	"github.com/tandem-rpc/tandem/wire"
)

// wantEnd checks that the session ends so long after start, and returns why.
func wantEnd(t *testing.T, s *Session, start time.Time, after time.Duration) error {
	t.Helper()
	select {
	case <-s.Done():
		if took := time.Since(start); took != after {
			t.Errorf("ended after %v, want %v: %v", took, after, s.Err())
		}
	case <-time.After(time.Hour):
		t.Error("it has not ended after an hour")
	}
	return s.Err()
}

// The stall timeout is for all of a frame's rest, however slowly the bytes arrive.
func TestHalfAFrame(t *testing.T) {
	whole := wire.AppendPing(nil, wire.TypePing, [8]byte{1})
	for name, trickle := range map[string]func(t *testing.T, peer net.Conn){
		"silence": func(*testing.T, net.Conn) {},
		"a byte now and then": func(t *testing.T, peer net.Conn) {
			for i := 6; i < 11; i++ {
				time.Sleep(1500 * time.Millisecond) // virtual
				send(t, peer, whole[i:i+1])
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, peer := acceptRaw(t, serverConfig(nil))
				start := time.Now()
				send(t, peer, whole[:6])
				trickle(t, peer)
				if err := wantEnd(t, s, start, defaultStall); !errors.Is(err, machine.ErrFlood) {
					t.Errorf("ended with %v", err)
				}
			})
		})
	}
}

// A frame that is complete in time leaves no deadline behind, neither for silence nor
// for the next frame.
func TestCompleteFrameLeavesNoDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, peer := acceptRaw(t, serverConfig(nil))
		whole := wire.AppendPing(nil, wire.TypePing, [8]byte{1})
		for range 3 {
			send(t, peer, whole[:15])
			for range 3 {
				time.Sleep(defaultStall - time.Second) // virtual
				send(t, peer, slices.Concat(whole[15:], whole[:15]))
			}
			time.Sleep(defaultStall - time.Second) // virtual
			send(t, peer, whole[15:])
			time.Sleep(time.Minute) // virtual
		}
		if err := s.Err(); err != nil {
			t.Errorf("ended: %v", err)
		}
	})
}

// Half a preface fails after the handshake timeout, on both sides.
func TestHalfAPreface(t *testing.T) {
	for name, hello := range map[string]func(e *Env, c net.Conn) error{
		"server": func(e *Env, c net.Conn) error {
			_, _, err := e.Accept(context.Background(), c, nil, nil)
			return err
		},
		"client": func(e *Env, c net.Conn) error {
			_, err := e.Connect(context.Background(), c, "")
			return err
		},
	} {
		for what, sent := range map[string]int{"nothing": 0, "half": wire.PrefaceLen / 2, "no settings": wire.PrefaceLen} {
			t.Run(name+" gets "+what, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					env := NewEnv(serverConfig(nil))
					mine, peer := memory()
					send(t, peer, wire.AppendPreface(nil, rawSettings())[:sent])
					time.AfterFunc(time.Hour, func() { _ = peer.Close() })
					start := time.Now()
					err := hello(env, mine)
					if took := time.Since(start); took != defaultHandshake || !errors.Is(err, os.ErrDeadlineExceeded) {
						t.Errorf("got %v after %v", err, took)
					}
				})
			})
		}
	}
}

// A reader whose responses the peer does not read pauses between reads: until the
// writer has caught up, or 250 ms.
func TestReaderBacksOff(t *testing.T) {
	for name, c := range map[string]struct{ reads, want time.Duration }{
		"the peer does not read":   {time.Hour, 250 * time.Millisecond},
		"the peer reads meanwhile": {100 * time.Millisecond, 100 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ran := make(chan time.Time, 1)
				_, peer := acceptRaw(t, serverConfig(methods{
					"give":  unary(func(context.Context, []byte) ([]byte, error) { return make([]byte, 60_000), nil }),
					"probe": unary(func(context.Context, []byte) ([]byte, error) { ran <- time.Now(); return nil, nil }),
				}))
				call := func(from, to int, method string) {
					var b []byte
					for slot := from; slot < to; slot++ {
						b = append(b, rawFrame(wire.TypeRequest, wire.FlagEnd, wire.MakeStream(uint16(slot), 1), requestHead(method))...)
					}
					send(t, peer, b)
					synctest.Wait()
				}
				call(0, 2, "give") // the writer waits for the peer with these, and the rest gathers
				start := time.Now()
				call(2, 3+machine.WriteSoft/60_000, "give")
				call(100, 101, "probe")
				time.AfterFunc(c.reads, func() { _, _ = io.Copy(io.Discard, peer) })
				if took := (<-ran).Sub(start); took != c.want {
					t.Errorf("the next call ran after %v, want %v", took, c.want)
				}
			})
		})
	}
}

// connectAlso makes another connection between the sides of a pair.
func connectAlso(t *testing.T, p *pair, client, server net.Conn) *Session {
	t.Helper()
	p.serverEnv.wg.Go(func() {
		s, loop, err := p.serverEnv.Accept(context.Background(), server, nil, nil)
		if err == nil {
			loop()
			s.Close()
		}
	})
	s, err := p.clientEnv.Connect(context.Background(), client, "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.Close()
		_ = server.Close()
	})
	return s
}

// slowAddr is an address whose String takes long, the first time.
type slowAddr struct {
	net.Addr
	pause   time.Duration
	written atomic.Bool
}

func (a *slowAddr) String() string {
	if !a.written.Swap(true) {
		time.Sleep(a.pause) // virtual
	}
	return a.Addr.String()
}

type addressed struct {
	net.Conn
	remote net.Addr
}

func (c addressed) RemoteAddr() net.Addr { return c.remote }

// A monitor that is held up itself, in the end of another session, and then finds an old
// ping unanswered, gives no verdict: the peer gets more time.
func TestLateMonitorGivesNoVerdict(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const pause = 3 * time.Second
		client, server, first := relayed()
		slow := addressed{client, &slowAddr{Addr: client.RemoteAddr(), pause: pause}}
		p := newPair(t, func() (net.Conn, net.Conn) { return slow, server }, methods{"wait": waiting(nil)})
		client, server, second := relayed()
		late := connectAlso(t, p, client, server)
		go callOn(context.Background(), p.client, "wait", nil)
		time.Sleep(200 * time.Millisecond) // virtual: its verdict is due during the pause
		go callOn(context.Background(), late, "wait", nil)
		close(first.hold)
		close(second.hold)
		<-p.client.Done() // after the pause
		start := time.Now()
		<-late.Done()
		if took := time.Since(start); took < leastSuspectAfter {
			t.Errorf("found dead %v after the monitor had slept for %v", took, pause)
		}
	})
}

func TestSlept(t *testing.T) {
	for late, want := range map[time.Duration]bool{tickEvery: false, lateTick: false, lateTick + 1: true, time.Hour: true} {
		if got := slept(int64(time.Minute+late), int64(time.Minute)); got != want {
			t.Errorf("a tick after %v: slept %v, want %v", late, got, want)
		}
	}
}

// Requests that come in one read after a silence have their whole time, also on a connection that
// can't tell whether a read waited, as one with TLS.
func TestSilenceIsNoWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		left := make(chan time.Duration, 3)
		_, peer := acceptRaw(t, serverConfig(methods{"left": unary(func(ctx context.Context, _ []byte) ([]byte, error) {
			deadline, _ := ctx.Deadline()
			left <- time.Until(deadline)
			return nil, nil
		})}))
		go func() { _, _ = io.Copy(io.Discard, peer) }()
		var b []byte
		for slot := range cap(left) {
			head := wire.AppendRequest(nil, &wire.Request{Name: wire.Name{Text: []byte("left")}, Timeout: 2 * time.Second})
			b = append(b, rawFrame(wire.TypeRequest, wire.FlagEnd, wire.MakeStream(uint16(slot), 1), head)...)
		}
		time.Sleep(10 * time.Second) // virtual
		send(t, peer, b)
		for range cap(left) {
			select {
			case got := <-left:
				if got != 2*time.Second {
					t.Errorf("%v are left of 2 s", got)
				}
			case <-time.After(time.Minute):
				t.Fatal("a request did not run")
			}
		}
	})
}
