package server_test

import (
	"context"
	"io"
	"net/rpc"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/internal/overload"
	"github.com/tandem-rpc/tandem/protocol/netrpc"
	"github.com/tandem-rpc/tandem/server"
	"github.com/tandem-rpc/tandem/transport"
)

// overloaded is a server that has as many slots as processors, all of which are taken by calls
// of Test.Hold.
type overloaded struct {
	*testing.T

	srv     *server.Server
	gate    *overload.Gate
	network tandem.Transport
	client  *client.Client
	release chan bool
	once    *sync.Once // of closing it
	held    chan error
}

func newOverloaded(t *testing.T, opts ...server.Option) *overloaded {
	t.Helper()
	o := &overloaded{
		T: t, srv: server.New(append(opts, server.WithProtocols(netrpc.New()))...), network: transport.NewMemory(),
		release: make(chan bool), once: new(sync.Once), held: make(chan error, 100),
	}
	o.gate = o.srv.Gate()
	o.must(server.Handle(o.srv, "Test.Hold", func(_ context.Context, b *[]byte) (*[]byte, error) {
		<-o.release
		return b, nil
	}))
	t.Cleanup(func() { o.let() })
	o.must(server.Handle(o.srv, "Test.Nop", func(_ context.Context, n *int) (*int, error) { return n, nil }))
	serve(t, o.srv, o.network, "a")
	o.client = o.connect()
	for range 20 {
		o.gate.Sample(overload.Load{Runnable: 100, Wait: time.Second, Timeout: time.Second}, o.srv.Now())
	}
	for range runtime.GOMAXPROCS(0) {
		go func() { o.held <- o.client.Call(t.Context(), "Test.Hold", &[]byte{}, &[]byte{}) }()
	}
	synctest.Wait()
	if s := o.gate.State(); s.Slots != s.Running || s.Running != int64(runtime.GOMAXPROCS(0)) || !o.gate.Guarding() {
		t.Fatalf("%+v", s)
	}
	return o
}

func (o *overloaded) must(err error) {
	o.Helper()
	if err != nil {
		o.Fatal(err)
	}
}

func (o *overloaded) connect() *client.Client {
	o.Helper()
	c, err := client.Dial("memory://a", client.WithTransport("memory", o.network), client.WithFailMode(client.Failfast))
	o.must(err)
	o.Cleanup(func() { o.must(c.Close()) })
	return c
}

// let ends the calls of Test.Hold.
func (o *overloaded) let() { o.once.Do(func() { close(o.release) }) }

// finish ends all calls of Test.Hold, and checks that none is left.
func (o *overloaded) finish() {
	o.Helper()
	o.let()
	for range runtime.GOMAXPROCS(0) {
		o.must(<-o.held)
	}
	synctest.Wait()
	if s := o.srv.Overload(); s.Running != 0 || s.Waiting != 0 {
		o.Errorf("in the end: %+v", s)
	}
}

func (o *overloaded) wantWaiting(n int) {
	o.Helper()
	synctest.Wait()
	if s := o.gate.State(); s.Waiting != n {
		o.Fatalf("%d calls wait, want %d", s.Waiting, n)
	}
}

// A call that finds no slot waits, whatever its protocol, and is answered when it has got one.
func TestOverloadQueues(t *testing.T) {
	for name, call := range map[string]func(o *overloaded, n int) (reply int, err error){
		"tandem": func(o *overloaded, n int) (reply int, err error) {
			return reply, o.client.Call(o.Context(), "Test.Nop", &n, &reply)
		},
		"net/rpc": func(o *overloaded, n int) (reply int, err error) {
			conn, err := o.network.Dial(o.Context(), "a")
			o.must(err)
			c := rpc.NewClient(conn)
			defer func() { o.must(c.Close()) }()
			return reply, c.Call("Test.Nop", &n, &reply)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := newOverloaded(t)
				done := make(chan error, 3)
				for i := range 3 {
					go func() {
						reply, err := call(o, i+7)
						if err == nil && reply != i+7 {
							t.Errorf("%d was answered with %d", i+7, reply)
						}
						done <- err
					}()
				}
				o.wantWaiting(3)
				o.finish()
				for range 3 {
					o.must(<-done)
				}
			})
		})
	}
}

// A call that could not end in time is refused at once, as not executed and with a RetryAfter.
func TestOverloadRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOverloaded(t)
		time.Sleep(time.Second)
		o.let()
		for range runtime.GOMAXPROCS(0) {
			o.must(<-o.held) // the gate learns that the method takes a second
		}
		o.release, o.once = make(chan bool), new(sync.Once)
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		for range runtime.GOMAXPROCS(0) {
			go func() { o.held <- o.client.Call(t.Context(), "Test.Hold", &[]byte{}, &[]byte{}) }()
		}
		synctest.Wait()
		began := time.Now()
		err := tandem.AsError(o.client.Call(ctx, "Test.Hold", &[]byte{}, &[]byte{}))
		if err == nil || err.Code != tandem.ResourceExhausted || !err.NotExecuted || err.RetryAfter <= 0 || time.Since(began) != 0 {
			t.Errorf("after %v: %+v", time.Since(began), err)
		} else if want := "the server is overloaded: Test.Hold could not end in time"; err.Message != want {
			t.Errorf("got message %q, want %q", err.Message, want)
		}
		o.finish()
	})
}

// lateMessage is a protocol whose messages arrive ten seconds after their calls.
type lateMessage struct{}

func (lateMessage) Name() string { return "late" }

func (lateMessage) Match(first []byte) server.Verdict {
	if first[0] == 'L' {
		return server.Yes
	}
	return server.No
}

func (lateMessage) Serve(ctx context.Context, c *server.Conn) error {
	done := make(chan error, 1)
	c.Go(ctx, &tandem.Call{Method: "Test.Nop", Body: lateMessage{}}, func(err error) { done <- err })
	err := <-done
	_, _ = c.Write([]byte{'L'})
	return err
}

func (lateMessage) Decode(any) error {
	time.Sleep(10 * time.Second)
	return nil
}

func (lateMessage) Encode(any) error             { return nil }
func (lateMessage) Stream() tandem.MessageStream { return nil }

// How long messages take to arrive is no time of their methods: a call that has little time is
// not refused because of it.
func TestOverloadIgnoresArrival(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOverloaded(t, server.WithProtocols(lateMessage{}))
		o.let()
		for range runtime.GOMAXPROCS(0) {
			o.must(<-o.held)
		}
		for range 20 {
			conn, err := o.network.Dial(t.Context(), "a")
			o.must(err)
			_, err = conn.Write([]byte{'L'})
			o.must(err)
			if _, err := io.ReadFull(conn, make([]byte, 1)); err != nil {
				t.Fatal("no answer:", err)
			}
			o.must(conn.Close())
		}
		o.release, o.once = make(chan bool), new(sync.Once)
		for range runtime.GOMAXPROCS(0) {
			go func() { o.held <- o.client.Call(t.Context(), "Test.Hold", &[]byte{}, &[]byte{}) }()
		}
		synctest.Wait()
		done := make(chan error, 1)
		go func() {
			done <- o.client.Call(t.Context(), "Test.Nop", new(int), new(int), client.Timeout(time.Second))
		}()
		o.wantWaiting(1)
		o.finish()
		o.must(<-done)
	})
}

// hungry is a protocol whose calls want more memory than there is until release is closed.
type hungry struct {
	lateMessage

	held    *server.Reservation
	release chan bool
}

func (h hungry) Serve(ctx context.Context, c *server.Conn) error {
	all := c.Reserve(ctx)
	if err := all.Reserve(2 << 20); err != nil {
		return err
	}
	call := &tandem.Call{Method: "Test.Nop"}
	h.held = c.Reserve(ctx).For(call)
	call.Body = h
	done := make(chan error, 1)
	c.Go(ctx, call, func(err error) { done <- err })
	<-h.release
	all.Release()
	err := <-done
	h.held.Release()
	return err
}

func (h hungry) Decode(any) error { return h.held.Reserve(1 << 20) }

// A call that waits for memory holds no slot.
func TestOverloadWithoutMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := hungry{release: make(chan bool)}
		srv := server.New(server.WithProtocols(p), server.WithMemory(1<<20))
		if err := server.Handle(srv, "Test.Nop", func(_ context.Context, n *int) (*int, error) { return n, nil }); err != nil {
			t.Fatal(err)
		}
		network := transport.NewMemory()
		serve(t, srv, network, "a")
		conn, err := network.Dial(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := conn.Write([]byte{'L'}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if s := srv.Gate().State(); s.Running != 0 {
			t.Errorf("%d calls hold a slot while one waits for memory", s.Running)
		}
		close(p.release)
		synctest.Wait()
		if s := srv.Gate().State(); s.Running != 0 {
			t.Errorf("in the end %d calls hold a slot", s.Running)
		}
	})
}

// Calls whose callers have gone leave the queue: the caller cancels, or its connection ends.
func TestOverloadLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOverloaded(t)
		ctx, cancel := context.WithCancel(t.Context())
		canceled := make(chan error, 1)
		go func() { canceled <- o.client.Call(ctx, "Test.Nop", new(int), new(int)) }()
		other := o.connect()
		gone := make(chan error, 1)
		go func() { gone <- other.Call(t.Context(), "Test.Nop", new(int), new(int)) }()
		o.wantWaiting(2)
		cancel()
		if err := <-canceled; tandem.CodeOf(err) != tandem.Canceled {
			t.Errorf("canceled: %v", err)
		}
		o.wantWaiting(1)
		o.must(other.Close())
		<-gone
		o.wantWaiting(0)
		o.finish()
	})
}

// A server that drains answers the calls that wait.
func TestOverloadDrains(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOverloaded(t)
		done := make(chan error, 1)
		go func() { done <- o.client.Call(t.Context(), "Test.Nop", new(int), new(int)) }()
		o.wantWaiting(1)
		shut := make(chan error, 1)
		go func() { shut <- o.srv.Shutdown(t.Context()) }()
		synctest.Wait()
		o.finish()
		o.must(<-done)
		o.must(<-shut)
	})
}

// Close ends the calls that wait.
func TestOverloadClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOverloaded(t)
		done := make(chan error, 1)
		go func() { done <- o.client.Call(t.Context(), "Test.Nop", new(int), new(int)) }()
		o.wantWaiting(1)
		go func() {
			time.Sleep(time.Second)
			o.let()
		}()
		o.must(o.srv.Close())
		if err := <-done; tandem.CodeOf(err) != tandem.Unavailable {
			t.Errorf("the call that waited: %v", err)
		}
		for range runtime.GOMAXPROCS(0) {
			<-o.held
		}
	})
}

// Waiting calls of a higher class are served first, if the server trusts their callers. A call
// that a handler makes has the class of the call that it serves.
func TestOverloadClasses(t *testing.T) {
	for name, c := range map[string]struct {
		trusts bool
		want   []string
	}{
		"trusted":     {true, []string{"critical-plus", "critical", "chained", "normal", "sheddable"}},
		"not trusted": {false, []string{"normal", "critical", "critical-plus", "chained", "sheddable"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var mu sync.Mutex
				var order []string
				o := newOverloaded(t, server.WithTrustedCriticality(func(*tandem.Peer) bool { return c.trusts }))
				o.must(server.Handle(o.srv, "Test.Note", func(_ context.Context, b *[]byte) (*[]byte, error) {
					mu.Lock()
					defer mu.Unlock()
					order = append(order, string(*b))
					return b, nil
				}))
				var all sync.WaitGroup
				waiting := 0
				call := func(ctx context.Context, what string, opts ...tandem.CallOption) {
					all.Go(func() {
						msg := []byte(what)
						if err := o.client.Call(ctx, "Test.Note", &msg, &[]byte{}, opts...); err != nil {
							t.Errorf("%s: %v", what, err)
						}
					})
					waiting++
					o.wantWaiting(waiting)
				}
				call(t.Context(), "sheddable", client.Criticality(tandem.Sheddable))
				call(t.Context(), "normal")
				call(t.Context(), "critical", client.Criticality(tandem.Critical))
				call(t.Context(), "critical-plus", client.Criticality(tandem.CriticalPlus))
				served := &tandem.Call{Metadata: tandem.Metadata{}}
				served.Metadata.Set(tandem.CriticalityKey, string(tandem.Critical))
				call(tandem.NewContext(t.Context(), served), "chained")
				for o.gate.State().Waiting > 0 { // one slot after the other is free
					o.release <- true
					synctest.Wait()
				}
				all.Wait()
				if !slices.Equal(order, c.want) {
					t.Errorf("served %v, want %v", order, c.want)
				}
				o.finish()
			})
		})
	}
}

// A server without overload control has no gate.
func TestWithoutOverloadControl(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := server.New(server.WithoutOverloadControl())
		if err := server.Handle(srv, "Test.Nop", nop); err != nil {
			t.Fatal(err)
		}
		network := transport.NewMemory()
		serve(t, srv, network, "a")
		if s := srv.Overload(); s.Guarding || s.Methods != nil {
			t.Errorf("%+v", s)
		}
	})
}

// The constants can be set: here one handler of a method may run, and one request may wait.
func TestOverloadConstants(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := server.New(server.WithOverloadControl(server.OverloadConfig{FirstLimit: 1, Calls: 1}))
		release := make(chan bool)
		if err := server.Handle(srv, "Test.Hold", func(context.Context, *int) (*int, error) {
			<-release
			return new(int), nil
		}); err != nil {
			t.Fatal(err)
		}
		network := transport.NewMemory()
		serve(t, srv, network, "a")
		c, err := client.Dial("memory://a", client.WithTransport("memory", network), client.WithFailMode(client.Failfast), client.WithTimeout(time.Minute))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Close() }() // the test is over
		done := make(chan error, 4)
		for range 4 {
			go func() { done <- c.Call(t.Context(), "Test.Hold", new(int), new(int)) }()
			synctest.Wait()
			time.Sleep(time.Second) // the first runs in the reader until that is noticed
		}
		if err := tandem.AsError(<-done); err.Code != tandem.ResourceExhausted || !err.NotExecuted {
			t.Errorf("the fourth call: %v", err)
		}
		if s := srv.Overload(); s.Waiting != 1 || s.Refused.Full != 1 || len(s.Methods) != 1 || s.Methods[0].Limit != 1 {
			t.Errorf("%+v", s)
		}
		close(release)
		for range 3 {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
	})
}
