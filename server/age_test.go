package server_test

import (
	"context"
	"errors"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/registry"
	"github.com/tandem-rpc/tandem/server"
	"github.com/tandem-rpc/tandem/transport"
)

// arrivals counts the connections that a server accepts.
type arrivals struct{ n atomic.Int64 }

func (a *arrivals) ConnAccepted(c net.Conn) (net.Conn, error) {
	a.n.Add(1)
	return c, nil
}

// calling dials a server that serving has started.
func calling(t *testing.T, network *transport.Memory) (c *client.Client, stop func()) {
	t.Helper()
	c, err := client.Dial("mem://here", client.WithTransport("mem", network))
	if err != nil {
		t.Fatal(err)
	}
	return c, func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
}

// Connections end at their age, one after the other, and no call fails because of that.
func TestOldConnectionsEndWithoutALoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen arrivals
		_, network, stop := serving(t, server.WithPlugins(&seen), server.WithMaxConnectionAge(time.Minute, 0))
		defer stop()
		c, hangUp := calling(t, network)
		defer hangUp()
		for i := range 6000 { // ten minutes
			if err := c.Call(t.Context(), "First.Do", nil, nil); err != nil {
				t.Errorf("call %d: %v", i, err)
			}
			time.Sleep(100 * time.Millisecond)
		}
		if n := seen.n.Load(); n < 10 || n > 12 { // an age is 54 to 66 s
			t.Errorf("%d connections in ten minutes", n)
		}
	})
}

// A call that is still running when its connection reaches its age may go on for the grace.
func TestOldConnectionsGiveCallsTime(t *testing.T) {
	for takes, want := range map[time.Duration]tandem.Code{9 * time.Second: tandem.OK, 30 * time.Second: tandem.Unavailable} {
		synctest.Test(t, func(t *testing.T) {
			srv, network, stop := serving(t, server.WithMaxConnectionAge(time.Minute, 10*time.Second))
			defer stop()
			if err := server.Handle(srv, "Slow.Do", func(ctx context.Context, _ *int) (*int, error) {
				select {
				case <-time.After(takes):
					return new(1), nil
				case <-ctx.Done():
					return nil, ctx.Err()
				}
			}); err != nil {
				t.Fatal(err)
			}
			c, hangUp := calling(t, network)
			defer hangUp()
			time.Sleep(53 * time.Second)
			err := c.Call(t.Context(), "Slow.Do", 1, nil, client.Timeout(time.Minute))
			if tandem.CodeOf(err) != want {
				t.Errorf("a call of %v: %v, want %v", takes, err, want)
			}
		})
	}
}

// Connections of other protocols have a maximum age, too.
func TestOldForeignConnectionsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, network, stop := serving(t, server.WithProtocols(asleep{}), server.WithMaxConnectionAge(time.Minute, time.Second))
		defer stop()
		conn, err := network.Dial(t.Context(), "here")
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := conn.Write([]byte("Zzz")); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		_, err = conn.Read(make([]byte, 1))
		if took := time.Since(began); !errors.Is(err, io.EOF) || took < 54*time.Second || took > 67*time.Second {
			t.Errorf("%v after %v", err, took)
		}
	})
}

// asleep is a protocol that reads until io.EOF.
type asleep struct{}

func (asleep) Name() string { return "asleep" }

func (asleep) Match(first []byte) server.Verdict {
	if first[0] == 'Z' {
		return server.Yes
	}
	return server.No
}

func (asleep) Serve(_ context.Context, c *server.Conn) error {
	_, err := io.Copy(io.Discard, c)
	return err
}

// A lame duck has left its registry and told its clients, and goes on serving until its time is
// over. Then it accepts no connection.
func TestLameDuck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		list, seen := registry.NewMemory(), new(arrivals)
		srv, network, stop := serving(t, server.WithPlugins(seen), server.WithLameDuck(10*time.Second),
			server.WithRegistrar(list, tandem.Instance{ID: "a"}))
		defer stop()
		c, hangUp := calling(t, network)
		defer hangUp()
		if err := c.Call(t.Context(), "First.Do", nil, nil); err != nil {
			t.Fatal(err)
		}
		began, ended := time.Now(), make(chan error, 1)
		go func() { ended <- srv.Shutdown(t.Context()) }()
		time.Sleep(time.Second)
		if got := listed(t, list); len(got) != 0 {
			t.Errorf("a lame duck is listed: %v", got)
		}
		for range 8 {
			if err := c.Call(t.Context(), "First.Do", nil, nil); err != nil {
				t.Errorf("after %v: %v", time.Since(began), err)
			}
			time.Sleep(time.Second)
		}
		if n := seen.n.Load(); n != 2 {
			t.Errorf("%d connections: the client was to connect again once", n)
		}
		if err := <-ended; err != nil || time.Since(began) < 10*time.Second || time.Since(began) > 12*time.Second {
			t.Errorf("Shutdown: %v after %v", err, time.Since(began))
		}
		if conn, err := network.Dial(t.Context(), "here"); err == nil {
			conn.Close()
			t.Error("it accepts connections after its time")
		}
	})
}

// Close ends a lame duck at once, as does Shutdown's context.
func TestLameDuckIsCutShort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv, _, stop := serving(t, server.WithLameDuck(time.Hour))
		defer stop()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		began := time.Now()
		if err := srv.Shutdown(ctx); err != nil || time.Since(began) != time.Minute {
			t.Errorf("Shutdown: %v after %v", err, time.Since(began))
		}
	})
	synctest.Test(t, func(t *testing.T) {
		srv, _, stop := serving(t, server.WithLameDuck(time.Hour))
		defer stop()
		time.AfterFunc(time.Minute, func() { _ = srv.Close() })
		began := time.Now()
		if err := srv.Shutdown(t.Context()); err != nil || time.Since(began) != time.Minute {
			t.Errorf("Shutdown beside Close: %v after %v", err, time.Since(began))
		}
	})
}
