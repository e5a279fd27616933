// Package protocoltest is shared by tests of clients of other protocols: a relay that cuts
// connections, and checks of calls whose connection is lost. Tests of this module run it
// against tandem's own server, tests in other modules against servers of other projects.
package protocoltest

import (
	"context"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/tandem-rpc/tandem/transport"
)

// Cut says where a [Relay] cuts a connection: after so many bytes of the request, or of the
// response. A negative number means no cut.
type Cut struct {
	Request, Answer int64
	Reset           bool   // with a reset, not an orderly end
	Garbage         string // is sent to the client in place of the bytes cut off
}

// String returns a description of the cut.
func (c Cut) String() string {
	return fmt.Sprintf("%d bytes of the request, %d of the answer, reset %v, then %q", c.Request, c.Answer, c.Reset, c.Garbage)
}

// Relay connects clients with a server, and cuts connections. Its methods are safe for
// concurrent use.
type Relay struct {
	ln     net.Listener
	server string
	wg     sync.WaitGroup

	mu   sync.Mutex
	cut  Cut
	left int // connections to cut
	open map[net.Conn]struct{}

	requested, answered atomic.Int64 // of the last connection, in bytes
}

// NewRelay returns a relay to the server at a TCP address. The test's end closes it.
func NewRelay(t testing.TB, server string) *Relay {
	t.Helper()
	ln, err := transport.TCP().Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &Relay{ln: ln, server: server, open: map[net.Conn]struct{}{}}
	r.wg.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			r.wg.Go(func() { r.carry(c.(*net.TCPConn)) }) //nolint:forcetypeassert // ln is of TCP
		}
	})
	t.Cleanup(r.Close)
	return r
}

// Addr returns the address that clients dial.
func (r *Relay) Addr() string { return r.ln.Addr().String() }

// Next sets the cut of the next connections, for that number of connections.
func (r *Relay) Next(c Cut, connections int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cut, r.left = c, connections
}

// Carried returns how many bytes the last connection carried to the server and back.
func (r *Relay) Carried() (requested, answered int64) { return r.requested.Load(), r.answered.Load() }

// Exact reports whether clients get what the server has sent, and no garbage.
func (r *Relay) Exact() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.cut.Garbage == ""
}

// Close closes all connections and waits for their end. It may be called again.
func (r *Relay) Close() {
	_ = r.ln.Close()
	r.mu.Lock()
	for c := range r.open {
		_ = c.Close()
	}
	r.mu.Unlock()
	r.wg.Wait()
}

// take returns how a new connection is cut.
func (r *Relay) take(conns ...net.Conn) Cut {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range conns {
		r.open[c] = struct{}{}
	}
	if r.left == 0 {
		return Cut{Request: -1, Answer: -1}
	}
	r.left--
	return r.cut
}

func (r *Relay) carry(near *net.TCPConn) {
	out, err := transport.TCP().Dial(context.Background(), r.server)
	if err != nil {
		_ = near.Close()
		return
	}
	far := out.(*net.TCPConn) //nolint:forcetypeassert // it was dialed by TCP
	how := r.take(near, far)
	r.requested.Store(0)
	r.answered.Store(0)
	end := sync.OnceFunc(func() {
		_, _ = io.WriteString(near, how.Garbage)
		if how.Reset {
			_ = near.SetLinger(0)
		}
		r.mu.Lock()
		delete(r.open, near)
		delete(r.open, far)
		r.mu.Unlock()
		_ = near.Close()
		_ = far.Close()
	})
	var both sync.WaitGroup
	both.Go(func() { passOn(far, near, how.Request, &r.requested, end) })
	both.Go(func() { passOn(near, far, how.Answer, &r.answered, end) })
	both.Wait()
}

// passOn copies up to most bytes, and ends the connection if more arrive; all bytes if most
// is negative.
func passOn(to, from net.Conn, most int64, count *atomic.Int64, end func()) {
	defer end()
	b := make([]byte, 4096)
	for passed := int64(0); ; {
		n, err := from.Read(b)
		keep := int64(n)
		if most >= 0 {
			keep = min(keep, most-passed)
		}
		if keep > 0 {
			if _, err := to.Write(b[:keep]); err != nil {
				return
			}
		}
		passed += keep
		count.Add(int64(n))
		if err != nil || keep < int64(n) {
			return
		}
	}
}
