package session

import (
	"context"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tandem-rpc/tandem/internal/machine"
	"github.com/tandem-rpc/tandem/wire"
)

// narrow is a connection that carries so many bytes a second.
type narrow struct {
	net.Conn
	rate int
}

func (c narrow) Write(p []byte) (n int, err error) {
	for n < len(p) && err == nil {
		var k int
		part := p[n:min(len(p), n+4<<10)]
		time.Sleep(time.Second * time.Duration(len(part)) / time.Duration(c.rate)) // virtual
		k, err = c.Conn.Write(part)
		n += k
	}
	return n, err
}

// Uploads that share a slow link all arrive, though each waits for its turn for longer than
// the stall timeout, and small calls beside them do not wait until the uploads end.
func TestUploadsOnASlowLink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const uploads, size, rate = 60, 200 << 10, 128 << 10
		client, server := memory()
		p := newPair(t, func() (net.Conn, net.Conn) { return narrow{client, rate}, server }, methods{
			"take": unary(func(context.Context, []byte) ([]byte, error) { return nil, nil }),
		})
		start := time.Now()
		var all sync.WaitGroup
		for range uploads {
			all.Go(func() {
				if _, err := p.call(context.Background(), "take", make([]byte, size)); err != nil {
					t.Errorf("upload: %v after %v", err, time.Since(start))
				}
			})
		}
		for range 20 {
			time.Sleep(3 * time.Second) // virtual
			before := time.Now()
			if _, err := p.call(context.Background(), "take", nil); err != nil {
				t.Error(err)
			}
			if took := time.Since(before); took > 1500*time.Millisecond {
				t.Errorf("a small call took %v", took)
			}
		}
		all.Wait()
		if took := time.Since(start); took > time.Second*uploads*size*11/10/rate {
			t.Errorf("the uploads took %v", took)
		}
		p.close()
	})
}

// A writer whose peer stops reading gives up, though what it wrote before has arrived at the
// peer's host, as over a unix socket. The last bytes were taken in the first stall timeout, and
// none in the second.
func TestStalledWriteEndsInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const stall = 3 * time.Second
		cfg := serverConfig(methods{"much": unary(func(context.Context, []byte) ([]byte, error) { return make([]byte, 3<<20), nil })})
		cfg.Stall = stall
		env := NewEnv(cfg)
		mine, peer := memory()
		send(t, peer, wire.AppendPreface(nil, rawSettings()))
		s, loop, err := env.Accept(context.Background(), &kernel{Conn: mine}, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		env.wg.Go(loop)
		id := wire.MakeStream(0, 1)
		send(t, peer, rawFrame(wire.TypeRequest, wire.FlagEnd, id, requestHead("much")))
		time.Sleep(time.Second) // virtual
		send(t, peer, wire.AppendWindow(nil, id, 0, 4<<20))
		start := time.Now()
		<-s.Done()
		within(t, "the session ended", start, stall, 2*stall)
		_ = peer.Close()
		env.Close(time.Minute)
	})
}

// The stall timeout of a request runs from when it gets credit, not from its beginning, and
// the time during which the peer sent other requests does not count.
func TestWaitForCreditIsNoStall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBare(t, methods{"echo": echo()})
		go b.answerPings()
		stall := b.ses.env.cfg.Stall
		const more = machine.AssemblyBudget/machine.AssemblyAhead + 2
		for i := range more {
			b.request(i, 0, wire.Request{Name: byName("echo"), Size: machine.AssemblyAhead}, nil)
		}
		piece := make([]byte, machine.AssemblyAhead/64)
		for range 64 { // the oldest only, which takes 32 times the stall timeout
			time.Sleep(stall / 2) // virtual
			b.send(rawFrame(wire.TypeData, 0, wire.MakeStream(0, 1), piece[:len(piece)-1]))
		}
		if n, _ := b.incoming(); n != more {
			t.Errorf("%d of %d requests are left", n, more)
		}
		b.send(rawFrame(wire.TypeData, wire.FlagEnd, wire.MakeStream(0, 1), make([]byte, 64)))
		time.Sleep(stall - 100*time.Millisecond) // virtual
		if n, _ := b.incoming(); n != more-1 {
			t.Errorf("%d of %d requests are left before the others had their time", n, more-1)
		}
		time.Sleep(200 * time.Millisecond) // virtual
		if n, held := b.incoming(); n != 0 || held != 0 {
			t.Errorf("%d requests with %d bytes are left, though nothing comes", n, held)
		}
		b.stop()
	})
}

// Small requests do not keep open a large one of which nothing more arrives.
func TestSmallRequestsAreNoProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBare(t, methods{"echo": echo()})
		go b.answerPings()
		stall := b.ses.env.cfg.Stall
		b.request(0, 0, wire.Request{Name: byName("echo"), Size: machine.AssemblyAhead}, nil)
		for i := range 10 {
			time.Sleep(stall / 4) // virtual
			b.request(i+1, wire.FlagEnd, wire.Request{Name: byName("echo")}, []byte("small"))
		}
		if n, held := b.incoming(); n != 0 || held != 0 {
			t.Errorf("%d requests with %d bytes are left after 2.5 stall timeouts", n, held)
		}
		b.stop()
	})
}
