package zookeeper

import (
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/registry"
)

// TestServersInTurn: the servers are tried in turn, with a pause when each of them has failed or
// has given a connection that did not last.
func TestServersInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newHostProvider([]string{"a", "b", "c"})
		next := func(pause bool) string {
			t.Helper()
			server, paused := r.Next()
			if paused != pause {
				t.Errorf("%s: pause is %v, want %v", server, paused, pause)
			}
			return server
		}
		round := []string{next(false), next(false), next(false)}
		if slices.Sort(round); !slices.Equal(round, []string{"a", "b", "c"}) {
			t.Errorf("tried %q", round)
		}
		next(true)
		next(false)
		r.Connected()
		next(false) // the third: a connection that fails at once counts as a failure
		next(true)
		r.Connected()
		time.Sleep(lasting)
		next(false)
		next(false)
		next(false)
		next(true)
		next(false)
		next(false)
		r.again()
		next(false)
	})
}

// TestWatchesAreSetOnce: a watch that is set is not set again before it has fired.
func TestWatchesAreSetOnce(t *testing.T) {
	key := watchKey{"/d/a", ofData}
	var w watching
	first, second := w.begin(key), w.begin(key)
	if !first || !second {
		t.Error("a watch that nobody has set yet need not be set")
	}
	w.end(key, true)
	w.end(key, false)
	if w.begin(key) || !w.isSet(key) {
		t.Error("a watch that is set must be set")
	}
	w.fired(zk.Event{Type: zk.EventNodeChildrenChanged, Path: "/d/a"})
	w.fired(zk.Event{Type: zk.EventNodeDataChanged, Path: "/d"})
	if w.begin(key) {
		t.Error("the watch of something else has fired")
	}
	for _, event := range []zk.EventType{zk.EventNodeDataChanged, zk.EventNodeDeleted} {
		w.fired(zk.Event{Type: event, Path: "/d/a"})
		if !w.begin(key) {
			t.Errorf("after event %v the watch need not be set", event)
		}
		w.end(key, true)
	}
	w.forget()
	if !w.begin(key) {
		t.Error("in a new session the watch need not be set")
	}
	w.fired(zk.Event{Type: zk.EventNodeDataChanged, Path: "/d/a"}) // before end is called
	w.end(key, true)
	if w.isSet(key) {
		t.Error("a watch that has fired is set")
	}
	if !w.begin(key) {
		t.Error("a watch that has fired need not be set")
	}
	w.end(key, false)
	if len(w.states) > 0 {
		t.Errorf("left: %v", w.states)
	}
}

// TestReceivers: a receiver gets the changes of its directory and of the nodes in it, until
// unlisten.
func TestReceivers(t *testing.T) {
	l := new(link)
	one, two, other := l.listen("/d"), l.listen("/d"), l.listen("/d/a")
	l.watching.fired(zk.Event{Type: zk.EventNodeChildrenChanged, Path: "/d"})
	l.watching.fired(zk.Event{Type: zk.EventNodeDataChanged, Path: "/d/a"})
	l.unlisten("/d", two)
	l.watching.fired(zk.Event{Type: zk.EventNodeDataChanged, Path: "/d/b"})
	for name, c := range map[string]struct {
		rcv   *receiver
		list  bool
		nodes int
	}{"one": {one, true, 2}, "two": {two, true, 1}, "other": {other, true, 0}} {
		select {
		case <-c.rcv.news:
		default:
			t.Errorf("%s was not woken", name)
		}
		if list, nodes := l.takeChanges(c.rcv); list != c.list || len(nodes) != c.nodes {
			t.Errorf("%s heard %v, %v", name, list, nodes)
		}
		if list, nodes := l.takeChanges(c.rcv); list || len(nodes) > 0 {
			t.Errorf("%s heard %v, %v again", name, list, nodes)
		}
	}
	l.unlisten("/d", one)
	l.unlisten("/d/a", other)
	if len(l.watching.receivers) > 0 {
		t.Errorf("left: %v", l.watching.receivers)
	}
}

// TestInterrupted: an operation is retried when its connection is lost, also when a write
// of the library fails.
func TestInterrupted(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	conn, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	peer, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	if err := peer.(*net.TCPConn).SetLinger(0); err != nil { // closing it resets the connection
		t.Fatal(err)
	}
	peer.Close()
	var reset error
	for reset == nil {
		_, reset = conn.Write([]byte("ping"))
	}
	for _, err := range []error{reset, zk.ErrConnectionClosed, zk.ErrSessionExpired, net.ErrClosed} {
		if !interrupted(err) {
			t.Errorf("%v does not interrupt an operation", err)
		}
	}
	for _, err := range []error{nil, zk.ErrNoNode, zk.ErrNodeExists, zk.ErrNoAuth} {
		if interrupted(err) {
			t.Errorf("%v interrupts an operation", err)
		}
	}
}

// TestNoServer: without a server a registration fails in time and a watch delivers an
// error; both give the reason.
func TestNoServer(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := ln.Addr().String()
	ln.Close()
	r, err := New("zookeeper://" + address + "/a/B?ttl=1s")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	err = r.Watch(ctx, registry.Target{}, func(s registry.Snapshot) {
		if s.Err == nil || !strings.Contains(s.Err.Error(), "refused") {
			t.Errorf("got %+v, want that the connection was refused", s)
		}
		cancel()
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("Watch returned %v", err)
	}
	in := tandem.Instance{ID: "a", Endpoints: []tandem.Endpoint{{Transport: "tcp", Address: "a:1"}}}
	short, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := r.Register(short, in); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), address) {
		t.Errorf("Register returned %v", err)
	}
	r.Close()
	r.Close()
	if _, err := r.Register(t.Context(), in); !errors.Is(err, errClosed) {
		t.Errorf("Register after Close returned %v", err)
	}
}

// TestSessionAfterExpiry: the session that follows an expired one is kept, however long it
// took to get.
func TestSessionAfterExpiry(t *testing.T) {
	up := make(chan struct{})
	close(up)
	l := &link{
		hostProvider: newHostProvider([]string{"a"}), ttl: time.Second, connected: true,
		changed: make(chan struct{}, 1), up: up, down: make(chan struct{}),
	}
	for _, c := range []struct {
		state   zk.State
		refused bool
	}{
		{zk.StateDisconnected, false}, // it was lost just now
		{zk.StateDisconnected, true},
		{zk.StateExpired, true},
		{zk.StateDisconnected, true},
		{zk.StateHasSession, false}, // or it would be given up before it is set up
		{zk.StateDisconnected, false},
	} {
		l.event(zk.Event{Type: zk.EventSession, State: c.state})
		if l.refused != c.refused {
			t.Fatalf("after %v it counts as refused: %v, want %v", c.state, l.refused, c.refused)
		}
	}
}

// TestSilentServer: a server that accepts connections and sends nothing is given up for
// the next one, and delays neither await nor close.
func TestSilentServer(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	l, err := openLink(ln.Addr().String()+"?1s", &options{log: discard})
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	for range 2 {
		conn, err := ln.Accept()
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
	}
	if took := time.Since(began); took > 4*time.Second { // the library alone takes 6.7 s
		t.Errorf("the next connection came after %v", took)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, _, err := l.await(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("await returned %v", err)
	}
	began = time.Now()
	l.close()
	if took := time.Since(began); took > closeWait/2 {
		t.Errorf("closing took %v", took)
	}
}
