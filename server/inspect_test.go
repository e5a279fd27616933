package server_test

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/codec"
	"github.com/tandem-rpc/tandem/compress"
	"github.com/tandem-rpc/tandem/server"
	"github.com/tandem-rpc/tandem/transport"
)

// holder has a method whose calls go on until they are released.
type holder struct{ release chan struct{} }

func (h *holder) Hold(ctx context.Context, _ string) (string, error) {
	select {
	case <-h.release:
	case <-ctx.Done():
	}
	return "", nil
}

func newHolder() *holder { return &holder{make(chan struct{})} }

// running describes the running calls, the oldest first.
func running(srv *server.Server, most int) []string {
	var list []string
	for _, r := range srv.Running(most) {
		list = append(list, strings.TrimSpace(fmt.Sprintln(r.Peer.Protocol, r.Method, r.Kind, r.Waits)))
	}
	return list
}

func wantRunning(t *testing.T, srv *server.Server, want ...string) {
	t.Helper()
	synctest.Wait()
	if got := running(srv, 100); !slices.Equal(got, want) {
		t.Errorf("running: %q, want %q", got, want)
	}
}

// background makes a call that the test does not wait for.
func background(c *client.Client, method string) {
	go func() { _ = c.Call(context.Background(), method, "", new(string), client.Timeout(time.Hour)) }()
	synctest.Wait()
	time.Sleep(time.Second) // virtual: no two calls have the same age
}

// Connections of all protocols are described, from their accept to their end.
func TestConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, h := newProtocolTest(t), newHolder()
		p.register("Holder.Hold", h.Hold)
		if n := len(p.srv.Connections()); n != 0 {
			t.Fatalf("%d connections before the first", n)
		}
		start := time.Now()
		c := dialMemory(t, p.net)
		background(c, "Holder.Hold")
		conn, r := p.dial("CALL Echo hello\n")
		p.wantLine(r, "hello")
		_, _ = conn.Write([]byte("CALL Holder.Hold x\nCALL Absent x\n"))
		p.wantLine(r, "failed: unimplemented: no method \"Absent\" here")
		time.Sleep(10 * time.Second) // until the round trip is measured
		synctest.Wait()
		list := p.srv.Connections()
		if len(list) != 2 {
			t.Fatalf("connections: %+v", list)
		}
		native, talked := list[0], list[1]
		if native.Protocol != "tandem" || native.Running != 1 || native.Calls != 1 || native.RTT == 0 || native.Draining {
			t.Errorf("native: %+v", native)
		}
		if talked.Protocol != "talk" || talked.Running != 1 || talked.Calls != 3 || talked.RTT != 0 || talked.Draining {
			t.Errorf("talk: %+v", talked)
		}
		if native.ID == 0 || native.ID >= talked.ID || !native.Since.Equal(start) || talked.Since.Sub(start) != time.Second {
			t.Errorf("IDs %d and %d, since %v and %v", native.ID, talked.ID, native.Since.Sub(start), talked.Since.Sub(start))
		}
		for _, c := range list {
			if c.Peer.Addr == nil || c.Peer.Protocol != c.Protocol {
				t.Errorf("%+v", c.Peer)
			}
			if i := slices.IndexFunc(p.srv.Running(10), func(r server.RunningCall) bool { return r.Connection == c.ID }); i < 0 {
				t.Errorf("no running call has the ID of the %s connection", c.Protocol)
			}
		}
		go func() { _ = p.srv.Shutdown(context.Background()) }()
		time.Sleep(time.Second)
		if list = p.srv.Connections(); len(list) != 2 || !list[0].Draining || !list[1].Draining {
			t.Errorf("while the server drains: %+v", list)
		}
		close(h.release)
		time.Sleep(10 * time.Second)
		if n := len(p.srv.Connections()); n != 0 {
			t.Errorf("%d connections after the last", n)
		}
	})
}

// Running calls of all protocols and kinds are listed, the oldest first, with what they wait for.
func TestRunning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, h := newProtocolTest(t, server.WithMaxConcurrency(4, 2), server.WithTimeout(2*time.Hour)), newHolder()
		p.register("Holder.Hold", h.Hold)
		check(p.srv.Alias("Again.Hold", "Holder.Hold"))
		check(server.HandleStream(p.srv, "Holder.Stream", func(ctx context.Context, _ *tandem.Stream[int, int]) error {
			<-ctx.Done()
			return nil
		}))
		start := time.Now()
		c := dialMemory(t, p.net)
		background(c, "Holder.Hold")
		conn, _ := p.dial("CALL Again.Hold x\n")
		time.Sleep(time.Second)
		check(c.Notify(t.Context(), "Holder.Hold", ""))
		time.Sleep(time.Second)
		ctx, cancel := context.WithCancel(t.Context())
		_, err := c.OpenStream(ctx, "Holder.Stream")
		check(err)
		time.Sleep(time.Second)
		background(c, "Holder.Hold") // in the limiter's queue, as is the next
		_, _ = conn.Write([]byte("CALL Holder.Hold x\n"))
		time.Sleep(time.Second)
		all := []string{
			"tandem Holder.Hold 0", "talk Holder.Hold 0", "tandem Holder.Hold 1", "tandem Holder.Stream 2",
			"tandem Holder.Hold 0 slot", "talk Holder.Hold 0 slot",
		}
		wantRunning(t, p.srv, all...)
		for most := range all {
			if got := running(p.srv, most); !slices.Equal(got, all[:most]) {
				t.Errorf("at most %d: %q", most, got)
			}
		}
		for i, r := range p.srv.Running(100) {
			if since := r.Since.Sub(start); since != time.Duration(i)*time.Second {
				t.Errorf("call %d is running since %v", i, since)
			}
			if want := r.Since.Add(2 * time.Hour); r.Kind == tandem.Unary && r.Peer.Protocol == "talk" && !r.Deadline.Equal(want) {
				t.Errorf("call %d has the deadline %v, want %v", i, r.Deadline, want)
			}
		}
		want := server.Limit{Running: 4, Limit: 4, Queued: 2, Queue: 2}
		if l := p.srv.Limits(); len(l) != 1 || l[0] != want {
			t.Errorf("limits: %+v", l)
		}
		err = c.Call(t.Context(), "Holder.Hold", "", new(string))
		if want.Refused = 1; tandem.CodeOf(err) != tandem.ResourceExhausted || p.srv.Limits()[0] != want {
			t.Errorf("refused: %v, %+v", err, p.srv.Limits())
		}
		cancel()
		wantRunning(t, p.srv, "tandem Holder.Hold 0", "talk Holder.Hold 0", "tandem Holder.Hold 1", "tandem Holder.Hold 0", "talk Holder.Hold 0 slot")
		close(h.release)
		wantRunning(t, p.srv)
		if p.srv.Running(-1) != nil {
			t.Error("fewer than none")
		}
	})
}

// Calls in the queue of overload control wait for a slot, over every protocol.
func TestRunningInTheGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProtocolTest(t, server.WithOverloadControl(server.OverloadConfig{FirstLimit: 1, Calls: 2}))
		h := newHolder()
		check(p.srv.RegisterFunc("Holder.Hold", h.Hold, server.MethodConcurrency(100, 0)))
		c := dialMemory(t, p.net)
		background(c, "Holder.Hold")
		background(c, "Holder.Hold")
		p.dial("CALL Holder.Hold x\n")
		wantRunning(t, p.srv, "tandem Holder.Hold 0", "tandem Holder.Hold 0 slot", "talk Holder.Hold 0 slot")
		want := server.Limit{Method: "Holder.Hold", Running: 1, Limit: 100}
		if l := p.srv.Limits(); len(l) != 1 || l[0] != want {
			t.Errorf("limits: %+v", l)
		}
		h.release <- struct{}{}
		wantRunning(t, p.srv, "tandem Holder.Hold 0", "talk Holder.Hold 0 slot")
		h.release <- struct{}{}
		wantRunning(t, p.srv, "talk Holder.Hold 0")
		h.release <- struct{}{}
		wantRunning(t, p.srv)
	})
}

// A call of another protocol that waits for memory says so.
func TestRunningWithoutMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProtocolTest(t, server.WithProtocols(parcel{}), server.WithMemory(6<<20))
		release := make(chan struct{})
		check(server.Handle(p.srv, "Parcel.Open", func(_ context.Context, text *string) (*int, error) {
			<-release
			return new(len(*text)), nil
		}))
		text, err := codec.JSON().Append(nil, strings.Repeat("x", 2<<20))
		check(err)
		packed, err := compress.Gzip().Compress([]byte{4, 0, 0, 0, 0}, text)
		check(err)
		binary.BigEndian.PutUint32(packed[1:], uint32(len(packed)-5))
		for range 3 {
			p.dial(string(packed))
			synctest.Wait()
			time.Sleep(time.Millisecond) // virtual
		}
		got := running(p.srv, 10)
		if len(got) != 3 || got[0] != "parcel Parcel.Open 0" || got[2] != "parcel Parcel.Open 0 memory" {
			t.Errorf("running: %q", got)
		}
		close(release)
		wantRunning(t, p.srv)
	})
}

// A registration that is refused leaves the limit of the method as it was.
func TestLimitsOfRegisteredMethods(t *testing.T) {
	srv := server.New()
	none := func() {}
	check(srv.RegisterFunc("B.First", none, server.MethodConcurrency(1, 2)))
	check(srv.RegisterFunc("A.First", none, server.MethodConcurrency(3, 4)))
	check(srv.RegisterFunc("A.Free", none))
	check(srv.Alias("C.First", "A.First"))
	if srv.RegisterFunc("B.First", none, server.MethodConcurrency(5, 6)) == nil {
		t.Fatal("a second method of the name is registered")
	}
	want := []server.Limit{{Method: "A.First", Limit: 3, Queue: 4}, {Method: "B.First", Limit: 1, Queue: 2}}
	if got := srv.Limits(); !slices.Equal(got, want) {
		t.Errorf("limits: %+v", got)
	}
}

// A server is inspected while calls of all kinds begin, change their [tandem.Call], wait and end.
// The race detector finds what is read without its lock, or after the end of a call.
func TestInspectionOfCallsThatEnd(t *testing.T) {
	network := transport.NewMemory()
	srv := server.New(server.WithProtocols(talk{}), server.WithMaxConcurrency(2, 100))
	changed := func(ctx context.Context, s *string) (*string, error) {
		served := tandem.FromContext(ctx)
		served.Method, served.Deadline, served.Kind = "changed", time.Time{}, tandem.Streaming
		return s, nil
	}
	check(server.Handle(srv, "Test.Reuse", changed, server.MethodReuse()))
	check(server.Handle(srv, "Test.Apart", changed, server.MethodReuse(), server.MethodConcurrency(1, 100)))
	serve(t, srv, network, "a")
	c := dialMemory(t, network)
	stop := make(chan struct{})
	var callers, inspector sync.WaitGroup
	inspector.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			srv.Connections()
			srv.Limits()
			for _, r := range srv.Running(5) {
				if !strings.HasPrefix(r.Method, "Test.") || r.Kind == tandem.Streaming || r.Peer == nil || time.Since(r.Since) > time.Minute {
					t.Errorf("running: %+v", r)
				}
			}
		}
	})
	for _, method := range []string{"Test.Reuse", "Test.Apart"} {
		for range 3 {
			callers.Go(func() {
				for i := range 100 {
					if i%4 == 0 {
						check(c.Notify(t.Context(), method, "x"))
					} else if err := c.Call(t.Context(), method, "x", new(string)); err != nil {
						t.Error(err)
					}
				}
			})
		}
		callers.Go(func() {
			conn, err := network.Dial(t.Context(), "a")
			check(err)
			defer conn.Close()
			answers := bufio.NewScanner(conn)
			for range 100 {
				if _, err := fmt.Fprintf(conn, "CALL %s x\n", method); err != nil || !answers.Scan() {
					t.Errorf("no answer: %v", err)
					return
				}
			}
		})
	}
	callers.Wait()
	close(stop)
	inspector.Wait()
}
