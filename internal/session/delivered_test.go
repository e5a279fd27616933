package session

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tandem-rpc/tandem"
)

// lateConn returns from Write only when it is released, like a thread that loses
// the processor. Before that it has delivered all of what was written, or nothing.
type lateConn struct {
	net.Conn
	delivers bool
	on       atomic.Bool
	release  chan struct{}
}

func (c *lateConn) Write(p []byte) (int, error) {
	if !c.on.Load() {
		return c.Conn.Write(p)
	}
	n := 0
	if c.delivers {
		n, _ = c.Conn.Write(p)
	}
	<-c.release
	return n, net.ErrClosed
}

func latePair(t *testing.T, delivers bool, m methods) (*pair, *lateConn) {
	c := &lateConn{delivers: delivers, release: make(chan struct{})}
	p := newPair(t, func() (net.Conn, net.Conn) {
		a, b := memory()
		c.Conn = a
		return c, b
	}, m)
	c.on.Store(true)
	return p, c
}

// A peer may act on bytes before the write that carried them has returned. If the
// connection ends then, the call may have executed: a retry elsewhere could run it
// twice.
func TestDeliveredBeforeWriteReturns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ran := make(chan struct{}, 1)
		p, c := latePair(t, true, methods{"once": unary(func(ctx context.Context, _ []byte) ([]byte, error) {
			ran <- struct{}{}
			<-ctx.Done()
			return nil, ctx.Err()
		})})
		failed := make(chan error, 1)
		go func() {
			_, err := p.call(context.Background(), "once", []byte("x"))
			failed <- err
		}()
		<-ran
		p.server.Close()
		if err := <-failed; !tandem.MayHaveExecuted(err) {
			t.Errorf("the handler ran, and the error says that it certainly did not: %v", err)
		}
		close(c.release)
		synctest.Wait()
		p.close()
	})
}

// A request that is queued behind a write that delivered nothing is known not to be executed.
func TestUnwrittenRequestIsNotExecuted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, c := latePair(t, false, methods{"m": echo()})
		failed := make(chan error, 2)
		for _, message := range []string{"in the write", "behind it"} {
			go func() {
				_, err := p.call(context.Background(), "m", []byte(message))
				failed <- err
			}()
			synctest.Wait()
		}
		time.AfterFunc(time.Millisecond, p.server.Close)
		certain := 0
		for range 2 {
			if !tandem.MayHaveExecuted(<-failed) {
				certain++
			}
		}
		if certain != 1 {
			t.Errorf("%d calls were certainly not executed, want the one behind the write", certain)
		}
		close(c.release)
		synctest.Wait()
		p.close()
	})
}

// A reader that executes one short handler after the other does not read, which does
// not make the peer silent. And responses do not wait for the last handler.
func TestLongBatchIsNoSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const long, calls = 1900 * time.Microsecond, 1500
		p := newPair(t, memory, methods{"m": unary(func(_ context.Context, in []byte) ([]byte, error) {
			time.Sleep(long)
			return in, nil
		})})
		start := time.Now()
		var first atomic.Int64
		failed := make(chan error, calls)
		for range calls {
			go func() {
				_, err := p.call(context.Background(), "m", nil)
				first.CompareAndSwap(0, int64(time.Since(start)))
				failed <- err
			}()
		}
		for range calls {
			if err := <-failed; err != nil {
				t.Fatalf("after %v: %v", time.Since(start), err)
			}
		}
		if took := time.Duration(first.Load()); took > 10*tickEvery {
			t.Errorf("the first answer came after %v", took)
		}
		p.close()
	})
}
