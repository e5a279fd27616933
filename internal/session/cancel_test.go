package session

import (
	"context"
	"errors"
	"net"
	"testing"
	"testing/synctest"
	"time"
)

// Calls and cancels go both ways: a server gives up a call that it makes to its
// client, and nothing stays open on either side.
func TestServerCancelsItsCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		started, stopped := make(chan struct{}), make(chan error, 1)
		wait := unary(func(ctx context.Context, _ []byte) ([]byte, error) {
			close(started)
			<-ctx.Done()
			stopped <- ctx.Err()
			return nil, ctx.Err()
		})
		p := newPair(t, memory, nil, func(c, _ *Config) { c.Resolve = methods{"wait": wait}.find })
		time.AfterFunc(time.Minute, p.close) // nothing here takes long
		start := time.Now()
		ctx, cancel := context.WithCancel(context.Background())
		go func() { <-started; cancel() }()
		if _, err := callOn(ctx, p.server, "wait", nil); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		if err := <-stopped; !errors.Is(err, context.Canceled) {
			t.Errorf("handler got %v", err)
		}
		if took := time.Since(start); took > time.Second {
			t.Errorf("the handler learned it after %v", took)
		}
		synctest.Wait()
		wantNothingOpen(t, p)
	})
}

// gatedPair is a pair of sessions of which either can be blocked in a write.
func gatedPair(t *testing.T, client, server *gatedConn, m methods) *pair {
	p := newPair(t, func() (net.Conn, net.Conn) { return client, server }, m)
	client.arm()
	server.arm()
	return p
}

// A call is canceled while its response, of many blocks, is being sent: the other
// side stops sending and answers with a reset.
func TestCancelWhileAnswerArrives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, server := gated(0, 2) // the first block is written; credit for more was given
		p := gatedPair(t, client, server, methods{"give": unary(func(context.Context, []byte) ([]byte, error) {
			return make([]byte, 2<<20), nil
		})})
		ctx, cancel := context.WithCancel(context.Background())
		failed := make(chan error, 1)
		go func() {
			_, err := p.call(ctx, "give", nil)
			failed <- err
		}()
		synctest.Wait()
		if n := blocksArriving(p.client); n != 1 {
			t.Fatalf("%d answers arrive", n)
		}
		cancel()
		if err := <-failed; !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		synctest.Wait()
		if ours, _ := p.client.Outstanding(); ours != 1 {
			t.Errorf("%d slots are taken before the peer has answered, want 1", ours)
		}
		server.open()
		synctest.Wait()
		wantNothingOpen(t, p)
	})
}

// A call is canceled while its request, of many blocks, is being sent.
func TestCancelWhileRequestArrives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, server := gated(3, 0) // the first frame takes two
		p := gatedPair(t, client, server, methods{"take": unary(func(context.Context, []byte) ([]byte, error) {
			t.Error("it was executed")
			return nil, nil
		})})
		ctx, cancel := context.WithCancel(context.Background())
		failed := make(chan error, 1)
		go func() {
			_, err := p.call(ctx, "take", make([]byte, 2<<20))
			failed <- err
		}()
		synctest.Wait()
		if n := blocksArriving(p.server); n != 1 {
			t.Fatalf("%d requests arrive", n)
		}
		cancel()
		if err := <-failed; !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		client.open()
		synctest.Wait()
		wantNothingOpen(t, p)
	})
}

// blocksArriving returns how many messages of several blocks are incomplete.
func blocksArriving(s *Session) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.m.Arriving()
}
