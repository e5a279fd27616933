package client_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/registry"
	"github.com/tandem-rpc/tandem/server"
	"github.com/tandem-rpc/tandem/transport"
)

// named is a method of a client that returns the client's name.
func named(name string) client.Option {
	return client.WithFunc("Client.Name", func(context.Context, *string) (*string, error) { return &name, nil })
}

func nameOf(ctx context.Context, c tandem.Caller) (string, error) {
	got, err := client.Invoke[string](ctx, c, "Client.Name", new(string))
	if err != nil {
		return "", err
	}
	return *got, nil
}

// await waits until the client with that ID is connected.
func await(t *testing.T, srv *server.Server, id string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := srv.AwaitClient(ctx, id); err != nil {
		t.Fatalf("client %q: %v", id, err)
	}
}

// notConnected checks the error of a call to a client that is not connected.
func notConnected(t *testing.T, err error) {
	t.Helper()
	if e := tandem.AsError(err); !errors.Is(err, server.ErrNoClient) || e.Code != tandem.Unavailable || !e.NotExecuted {
		t.Errorf("got %v, want ErrNoClient, Unavailable, not executed", err)
	}
}

// A server calls any client that has announced itself, even if the client has made no call.
func TestServerCallsClients(t *testing.T) {
	srv, addr := serve(t, methods, server.WithClients(nil))
	_, err := nameOf(t.Context(), srv.Client("a"))
	notConnected(t, err)
	for _, id := range []string{"b", "a", "c"} {
		dial(t, "tcp://"+addr, client.WithID(id), named("I am "+id), client.WithService("Arith", new(Arith)))
	}
	for _, id := range []string{"a", "b", "c"} {
		await(t, srv, id)
		if got, err := nameOf(t.Context(), srv.Client(id)); got != "I am "+id || err != nil {
			t.Errorf("%s: %q, %v", id, got, err)
		}
	}
	var reply Reply
	if err := srv.Client("b").Call(t.Context(), "Arith.Mul", &Args{6, 7}, &reply); err != nil || reply.C != 42 {
		t.Error(reply, err)
	}
	if err := srv.Client("b").Call(t.Context(), "Client.Missing", &Args{}, nil); tandem.AsError(err).Code != tandem.Unimplemented {
		t.Error(err)
	}
	var ids []string
	for _, c := range srv.Clients() {
		ids = append(ids, c.ID)
		if c.Connections != 1 || c.Peer.Addr == nil || c.Since.IsZero() {
			t.Errorf("%+v", c)
		}
	}
	if !slices.Equal(ids, []string{"a", "b", "c"}) {
		t.Error(ids)
	}
}

// Close also closes a connection that is just being announced, and does not wait for the
// announcement.
func TestCloseWhileAnnouncing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := transport.NewMemory()
		srv, _ := serveOn(t, mem, "a", methods, server.WithClients(nil))
		held := make(chan struct{})
		c := dial(t, "mem://a", client.WithTransport("mem", mem), client.WithID("a"), client.WithAttemptInterceptors(func(next tandem.Func) tandem.Func {
			return func(ctx context.Context, call *tandem.Call) error {
				err := next(ctx, call)
				<-held // it is announced, and the client does not know it yet
				return err
			}
		}))
		await(t, srv, "a")
		closed := make(chan error, 1)
		start := time.Now()
		go func() { closed <- c.Close() }()
		synctest.Wait()
		close(held)
		if err := <-closed; err != nil || time.Since(start) != 0 {
			t.Errorf("closed with %v after %v", err, time.Since(start))
		}
	})
}

// A call to a client that is gone returns a typed error, in flight and afterwards.
func TestServerCallsGoneClient(t *testing.T) {
	srv, addr := serve(t, methods, server.WithClients(nil))
	began := make(chan struct{})
	c := dial(t, "tcp://"+addr, client.WithID("a"), client.WithFunc("Client.Wait", func(ctx context.Context, _ *string) (*string, error) {
		close(began)
		<-ctx.Done()
		return nil, ctx.Err()
	}))
	await(t, srv, "a")
	called := make(chan error, 1)
	go func() { called <- srv.Client("a").Call(t.Context(), "Client.Wait", new(string), nil) }()
	<-began
	c.Close()
	if e := tandem.AsError(<-called); e.Code != tandem.Unavailable || e.NotExecuted {
		t.Errorf("the call in flight: %v", e)
	}
	untilOK(t, func() error {
		if n := len(srv.Clients()); n > 0 {
			return fmt.Errorf("%d clients", n)
		}
		return nil
	})
	_, err := nameOf(t.Context(), srv.Client("a"))
	notConnected(t, err)
	_, err = srv.Client("a").OpenStream(t.Context(), "Client.Talk")
	notConnected(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := srv.AwaitClient(ctx, "a"); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
}

// token adds credentials to every call.
func token(value string) client.Option {
	return client.WithInterceptors(func(next tandem.Func) tandem.Func {
		return func(ctx context.Context, call *tandem.Call) error {
			call.Metadata = tandem.Metadata{"token": {value}}
			return next(ctx, call)
		}
	})
}

// A client that may not call may not announce itself, nor use another's ID.
func TestAnnouncementsPassAuth(t *testing.T) {
	auth := server.WithInterceptors(func(next tandem.Func) tandem.Func {
		return func(ctx context.Context, call *tandem.Call) error {
			if !strings.HasPrefix(call.Metadata.Get("token"), "of-") {
				return tandem.Errorf(tandem.Unauthenticated, "who are you?")
			}
			return next(ctx, call)
		}
	})
	own := server.WithClients(func(ctx context.Context, id string) error {
		if tandem.FromContext(ctx).Metadata.Get("token") != "of-"+id {
			return errors.New("not yours")
		}
		return nil
	})
	srv, addr := serve(t, methods, auth, own)
	for _, c := range []struct{ id, token, want string }{
		{"a", "", "who are you?"},
		{"a", "forged", "who are you?"},
		{"a", "of-b", "not yours"},
		{strings.Repeat("x", server.MaxClientID+1), "of-x", "want 1 to 256"},
		{"\xff", "of-\xff", "UTF-8"},
	} {
		stranger := dial(t, "tcp://"+addr, client.WithID(c.id), token(c.token), named("a stranger"), client.WithTimeout(20*time.Second), client.WithWait(200*time.Millisecond))
		_, err := client.Invoke[[]byte](t.Context(), stranger, "Test.Echo", &[]byte{1})
		if e := tandem.AsError(err); e.Code != tandem.Unavailable || !e.NotExecuted || !strings.Contains(e.Message, c.want) {
			t.Errorf("%.20q with the token %q: %v, want %q in it", c.id, c.token, err, c.want)
		}
	}
	if list := srv.Clients(); len(list) > 0 {
		t.Errorf("connected: %+v", list)
	}
	dial(t, "tcp://"+addr, client.WithID("a"), token("of-a"), named("a"))
	await(t, srv, "a")
	if got, err := nameOf(t.Context(), srv.Client("a")); got != "a" || err != nil {
		t.Error(got, err)
	}
}

// Of several connections under one ID the latest is called, after its end the one before.
func TestLatestConnectionIsCalled(t *testing.T) {
	srv, addr := serve(t, methods, server.WithClients(nil))
	first := dial(t, "tcp://"+addr, client.WithID("a"), named("first"))
	await(t, srv, "a")
	second := dial(t, "tcp://"+addr, client.WithID("a"), named("second"))
	calls := func(want string) func() error {
		return func() error {
			if got, err := nameOf(t.Context(), srv.Client("a")); got != want || err != nil {
				return fmt.Errorf("called %q: %w", got, err)
			}
			return nil
		}
	}
	untilOK(t, calls("second"))
	if list := srv.Clients(); len(list) != 1 || list[0].Connections != 2 {
		t.Errorf("%+v", list)
	}
	second.Close()
	untilOK(t, calls("first"))
	first.Close()
	dial(t, "tcp://"+addr, client.WithID("a"), named("three"), client.WithConnections(client.Connections{PerInstance: 3}))
	untilOK(t, func() error {
		if list := srv.Clients(); len(list) != 1 || list[0].Connections != 3 {
			return fmt.Errorf("%+v", list)
		}
		return calls("three")()
	})
}

// cutter dials connections that can all be cut.
type cutter struct {
	tandem.Transport
	mu    sync.Mutex
	conns []net.Conn
}

func (c *cutter) Dial(ctx context.Context, address string) (net.Conn, error) {
	conn, err := c.Transport.Dial(ctx, address)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.conns = append(c.conns, conn)
	return conn, err
}

func (c *cutter) cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, conn := range c.conns {
		conn.Close()
	}
	c.conns = nil
}

// A client that has lost its connection announces the next one before it uses it for anything
// else, also if that is to another server.
func TestReconnectedClientIsCalled(t *testing.T) {
	mem := &cutter{Transport: transport.NewMemory()}
	srv, _ := serveOn(t, mem, "a", methods, server.WithClients(nil))
	c := dial(t, "mem://a", client.WithTransport("mem", mem), client.WithID("x"), named("x"), client.WithConnections(client.Connections{Backoff: time.Millisecond, MaxBackoff: 10 * time.Millisecond}))
	for range 5 {
		untilOK(t, func() error { _, err := nameOf(t.Context(), srv.Client("x")); return err })
		mem.cut()
		untilOK(t, func() error { return c.Call(t.Context(), "Test.Echo", &[]byte{1}, nil) })
		if list := srv.Clients(); len(list) != 1 {
			t.Fatalf("a call has come, but connected are %+v", list)
		}
	}
	srv.Close()
	var next *server.Server
	untilOK(t, func() error {
		ln, err := mem.Listen(t.Context(), "a")
		if err != nil {
			return err
		}
		next = server.New(server.WithClients(nil))
		go func() { _ = next.ServeListener(ln) }()
		return nil
	})
	defer next.Close()
	await(t, next, "x")
	if got, err := nameOf(t.Context(), next.Client("x")); got != "x" || err != nil {
		t.Error(got, err)
	}
}

// A server that refuses announcements returns an error, and gets no calls of the client.
func TestServerWithoutClients(t *testing.T) {
	srv, addr := serve(t, methods)
	c := dial(t, "tcp://"+addr, client.WithID("a"))
	err := c.Call(t.Context(), "Test.Echo", &[]byte{1}, nil)
	if e := tandem.AsError(err); e.Code != tandem.Unavailable || !strings.Contains(e.Message, tandem.AnnounceMethod) {
		t.Error(err)
	}
	_, err = nameOf(t.Context(), srv.Client("a"))
	notConnected(t, err)
}

// One connection is one client: a second announcement changes nothing, another ID is refused. A
// registry does not list the announcing method as a service.
func TestAnnouncedOnce(t *testing.T) {
	list := registry.NewMemory()
	srv, addr := serve(t, methods, server.WithClients(nil), server.WithRegistrar(list, tandem.Instance{}))
	c := dial(t, "tcp://"+addr)
	for id, want := range map[string]tandem.Code{"": tandem.InvalidArgument} {
		if err := c.Call(t.Context(), tandem.AnnounceMethod, []byte(id), nil, client.Codec("raw")); tandem.AsError(err).Code != want {
			t.Errorf("%q: %v", id, err)
		}
	}
	for _, step := range []struct {
		id   string
		want tandem.Code
	}{{"a", tandem.OK}, {"a", tandem.OK}, {"b", tandem.FailedPrecondition}} {
		err := c.Call(t.Context(), tandem.AnnounceMethod, []byte(step.id), nil, client.Codec("raw"))
		if (err == nil) != (step.want == tandem.OK) || err != nil && tandem.AsError(err).Code != step.want {
			t.Errorf("%q: %v, want %v", step.id, err, step.want)
		}
	}
	if l := srv.Clients(); len(l) != 1 || l[0].ID != "a" || l[0].Connections != 1 {
		t.Errorf("%+v", l)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	_ = list.Watch(ctx, registry.Target{}, func(s registry.Snapshot) {
		for _, in := range s.Instances {
			if slices.Contains(in.Services, "tandem") {
				t.Errorf("listed: %v", in.Services)
			}
			cancel()
		}
	})
}

// A server that calls no clients says which option it needs.
func TestAnnouncedToServerWithoutClients(t *testing.T) {
	_, addr := serve(t, methods)
	c := dial(t, "tcp://"+addr, client.WithID("a"), client.WithWait(0))
	err := c.Call(t.Context(), "Arith.Mul", &Args{6, 7}, new(Reply))
	if tandem.CodeOf(err) != tandem.Unavailable || !strings.Contains(err.Error(), "give it WithClients") {
		t.Error(err)
	}
}
