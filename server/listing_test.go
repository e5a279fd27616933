package server_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/registry"
	"github.com/tandem-rpc/tandem/server"
	"github.com/tandem-rpc/tandem/transport"
)

// listed returns what a memory registry lists now.
func listed(t *testing.T, m *registry.Memory) []tandem.Instance {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var last registry.Snapshot
	err := m.Watch(ctx, registry.Target{}, func(s registry.Snapshot) { last = s; cancel() })
	if !errors.Is(err, context.Canceled) || last.Err != nil {
		t.Fatal(err, last.Err)
	}
	return last.Instances
}

// serving starts a server on a memory network, in virtual time.
func serving(t *testing.T, opts ...server.Option) (srv *server.Server, network *transport.Memory, stop func()) {
	t.Helper()
	network = transport.NewMemory()
	srv = server.New(append(opts, server.WithTransport("mem", network))...)
	if err := srv.RegisterFunc("First.Do", func() error { return nil }); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- srv.Serve("mem", "here") }()
	synctest.Wait() // it listens
	return srv, network, func() {
		if err := srv.Close(); err != nil {
			t.Error(err)
		}
		if err := <-done; !errors.Is(err, server.ErrServerClosed) {
			t.Errorf("Serve returned %v", err)
		}
	}
}

func TestServerIsListedWhenItsRegistryComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		list := registry.NewMemory()
		list.Fail(errors.New("down"))
		srv, _, stop := serving(t, server.WithRegistrar(list, tandem.Instance{ID: "a"}))
		time.Sleep(time.Hour)
		if len(srv.Addrs()) != 1 {
			t.Error("the server does not serve while its registry is down")
		}
		list.Fail(nil)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if got := listed(t, list); len(got) != 1 || got[0].ID != "a" {
			t.Errorf("listed are %+v", got)
		}
		stop()
		if got := listed(t, list); len(got) != 0 {
			t.Errorf("after Close there are %+v", got)
		}
	})
}

func TestServerEndsWhileItsRegistryIsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		list := registry.NewMemory()
		list.Fail(errors.New("down"))
		_, _, stop := serving(t, server.WithRegistrar(list, tandem.Instance{ID: "a"}))
		time.Sleep(time.Minute)
		stop()
		list.Fail(nil)
		time.Sleep(time.Minute)
		if got := listed(t, list); len(got) != 0 {
			t.Errorf("a server that was closed is listed: %+v", got)
		}
	})
}

// TestServicesRegisteredBeforeAndAfterListing registers services before and after the server is
// listed: both must be in the registry.
func TestServicesRegisteredBeforeAndAfterListing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one, two := registry.NewMemory(), registry.NewMemory()
		srv, _, stop := serving(t, server.WithRegistrar(one, tandem.Instance{ID: "a", Services: []string{"Elsewhere"}}),
			server.WithRegistrar(two, tandem.Instance{ID: "b"}))
		synctest.Wait()
		if err := srv.RegisterName("Second", new(Arith)); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		for list, want := range map[*registry.Memory]string{one: "[Elsewhere First Second]", two: "[First Second]"} {
			got := listed(t, list)
			if len(got) != 1 || fmt.Sprint(got[0].Services) != want {
				t.Errorf("listed: %+v, want services %s", got, want)
			} else if got[0].Incarnation == "" || got[0].Started.IsZero() {
				t.Errorf("the instance does not say which start it is of: %+v", got[0])
			}
		}
		stop()
	})
}

// slow is a registry that takes a second to register.
type slow struct{ *registry.Memory }

func (s slow) Register(ctx context.Context, in tandem.Instance) (registry.Registration, error) {
	time.Sleep(time.Second) // of virtual time
	return s.Memory.Register(ctx, in)
}

// A service that is registered while the server is being listed is listed, too.
func TestServiceWhileListing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		list := registry.NewMemory()
		srv, _, stop := serving(t, server.WithRegistrar(slow{list}, tandem.Instance{ID: "a"}))
		time.Sleep(time.Second / 2)
		if err := srv.RegisterName("Second", new(Arith)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if got := listed(t, list); len(got) != 1 || fmt.Sprint(got[0].Services) != "[First Second]" {
			t.Errorf("listed: %+v", got)
		}
		stop()
	})
}

func TestLoadIsReportedToTheRegistry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		list := registry.NewMemory()
		_, network, stop := serving(t, server.WithRegistrar(list, tandem.Instance{ID: "a"}))
		call := func(n int) {
			c, err := client.Dial("mem://here", client.WithTransport("mem", network))
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			for range n {
				if err := c.Call(t.Context(), "First.Do", tandem.Args{}, nil); err != nil {
					t.Fatal(err)
				}
			}
		}
		call(300) // on a connection that has ended when the report is due
		c, err := client.Dial("mem://here", client.WithTransport("mem", network))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		for range 300 {
			if err := c.Call(t.Context(), "First.Do", tandem.Args{}, nil); err != nil {
				t.Fatal(err)
			}
		}
		if got := listed(t, list)[0].Load; got != nil {
			t.Errorf("before the first minute is over there is a report: %+v", got)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		got := listed(t, list)[0].Load
		if got == nil || got.Rate < 10 || got.Rate > 11.5 {
			t.Errorf("600 calls in a minute, reported as %+v", got)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if next := listed(t, list)[0].Load; next.Rate != 0 || !next.At.After(got.At) {
			t.Errorf("after a minute without calls: %+v", next)
		}
		stop()
	})
}

func TestServeRefusesATakenID(t *testing.T) {
	list := registry.NewMemory()
	at := tandem.Endpoint{Transport: "tcp", Address: "10.0.0.1:1"}
	if _, err := list.Register(t.Context(), tandem.Instance{ID: "a", Endpoints: []tandem.Endpoint{at}}); err != nil {
		t.Fatal(err)
	}
	srv := server.New(server.WithRegistrar(registry.NewMemory(), tandem.Instance{}), server.WithRegistrar(list, tandem.Instance{ID: "a"}))
	defer srv.Close()
	if err := srv.Serve("tcp", "127.0.0.1:0"); !errors.Is(err, registry.ErrTaken) {
		t.Errorf("Serve returned %v", err)
	}
	srv = server.New(server.WithRegistrar(list, tandem.Instance{ID: "b", Weight: -1}))
	defer srv.Close()
	if err := srv.Serve("tcp", "127.0.0.1:0"); err == nil || errors.Is(err, server.ErrServerClosed) {
		t.Errorf("with a bad weight Serve returned %v", err)
	}
}

// brokenListener accepts nothing.
type brokenListener struct{ net.Listener }

func (brokenListener) Accept() (net.Conn, error) { return nil, net.ErrClosed }

// The listener fails without the server having closed it: an instance that can't be reached
// must not stay listed.
func TestBrokenListenerIsNotListed(t *testing.T) {
	list := registry.NewMemory()
	srv := server.New(server.WithRegistrar(list, tandem.Instance{ID: "a"}))
	defer srv.Close()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := srv.ServeListener(brokenListener{ln}); err == nil || errors.Is(err, server.ErrServerClosed) {
		t.Errorf("Serve returned %v", err)
	}
	if got := listed(t, list); len(got) != 0 {
		t.Errorf("listed are %+v", got)
	}
}

// stuck is a registry that does not answer when an instance leaves.
type stuck struct {
	registry.Registrar

	release chan struct{}
}

type stuckEntry struct {
	registry.Registration

	release chan struct{}
}

func (s stuck) Register(ctx context.Context, in tandem.Instance) (registry.Registration, error) {
	entry, err := s.Registrar.Register(ctx, in)
	return stuckEntry{entry, s.release}, err
}

func (e stuckEntry) Close() error {
	<-e.release
	return e.Registration.Close()
}

// A registry that does not answer takes half of Shutdown's time: running calls have the other
// half.
func TestShutdownBesideAStuckRegistry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		srv, network, stop := serving(t, server.WithRegistrar(stuck{registry.NewMemory(), release}, tandem.Instance{ID: "a"}))
		if err := srv.RegisterFunc("Slow.Do", func() error {
			time.Sleep(700 * time.Millisecond)
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		c, err := client.Dial("mem://here", client.WithTransport("mem", network))
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- c.Call(t.Context(), "Slow.Do", tandem.Args{}, nil) }()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		if err := srv.Shutdown(ctx); err != nil || time.Since(start) > time.Second {
			t.Errorf("Shutdown: %v after %v", err, time.Since(start))
		}
		if err := <-ended; err != nil {
			t.Errorf("the call that was running: %v", err)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		close(release)
		stop()
	})
}

// datagrams is a transport whose listeners have addresses of UDP, and accept nothing.
type datagrams struct{ tandem.Transport }

func (datagrams) Listen(ctx context.Context, address string) (net.Listener, error) {
	var config net.ListenConfig
	socket, err := config.ListenPacket(ctx, "udp", address)
	return &datagramListener{socket: socket}, err
}

type datagramListener struct{ socket net.PacketConn }

func (l *datagramListener) Addr() net.Addr { return l.socket.LocalAddr() }
func (l *datagramListener) Close() error   { return l.socket.Close() }

func (l *datagramListener) Accept() (net.Conn, error) {
	_, _, err := l.socket.ReadFrom(make([]byte, 1)) // until it is closed
	return nil, err
}

// watched returns the first list of a memory registry that has an instance.
func watched(t *testing.T, m *registry.Memory) []tandem.Instance {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	var last registry.Snapshot
	_ = m.Watch(ctx, registry.Target{}, func(s registry.Snapshot) {
		if last = s; len(s.Instances) > 0 {
			cancel()
		}
	})
	if len(last.Instances) == 0 {
		t.Fatal("nothing is listed")
	}
	return last.Instances
}

// served runs serve until the test ends.
func served(t *testing.T, srv *server.Server, serve func() error) {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- serve() }()
	t.Cleanup(func() {
		srv.Close()
		if err := <-done; !errors.Is(err, server.ErrServerClosed) {
			t.Errorf("Serve returned %v", err)
		}
	})
}

// A server that listens on all interfaces is listed under its host's name, over UDP
// too: others can't reach [::], and all would have the same ID.
func TestAllInterfacesOverUDP(t *testing.T) {
	list := registry.NewMemory()
	srv := server.New(server.WithTransport("udp", datagrams{}), server.WithRegistrar(list, tandem.Instance{}))
	served(t, srv, func() error { return srv.Serve("udp", ":0") })
	for _, in := range watched(t, list) {
		if at := in.Endpoints[0].Address; strings.HasPrefix(at, "[::]") || strings.HasPrefix(at, "0.0.0.0") || strings.Contains(in.ID, "[::]") {
			t.Errorf("instance %s is listed at %s", in.ID, at)
		}
	}
}

// nowhere is a listener that does not know its address.
type nowhere struct{ net.Listener }

func (nowhere) Addr() net.Addr { return mounted{} }

type mounted struct{}

func (mounted) Network() string { return "websocket" }
func (mounted) String() string  { return "mounted" }

// A listener that does not know its address is listed only where the instance names its
// endpoints.
func TestListenerWithoutAddress(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	without, with := registry.NewMemory(), registry.NewMemory()
	at := tandem.Endpoint{Transport: "ws", Address: "example.org/rpc"}
	srv := server.New(server.WithRegistrar(without, tandem.Instance{ID: "a"}), // it would be listed first
		server.WithRegistrar(with, tandem.Instance{Endpoints: []tandem.Endpoint{at}}))
	served(t, srv, func() error { return srv.ServeListener(nowhere{ln}) })
	if got := watched(t, with); len(got) != 1 || got[0].Endpoints[0] != at {
		t.Errorf("listed are %+v", got)
	}
	if got := listed(t, without); len(got) != 0 {
		t.Errorf("listed without an address are %+v", got)
	}
}
