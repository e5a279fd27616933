package consul

import (
	"io"
	"net"
	"sync"
	"testing"
)

// relay forwards connections to a server, so that a test can cut them.
type relay struct {
	addr   string // address where it listens
	server string

	mu    sync.Mutex
	ln    net.Listener // nil while it is cut
	conns map[net.Conn]bool
	done  sync.WaitGroup
}

// newRelay starts a relay that is closed when the test ends.
func newRelay(t testing.TB, server string) *relay {
	r := &relay{addr: "127.0.0.1:0", server: server, conns: map[net.Conn]bool{}}
	if err := r.restore(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		r.cut()
		r.done.Wait()
	})
	return r
}

// restore listens, at the same address as before.
func (r *relay) restore() error {
	ln, err := net.Listen("tcp", r.addr)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ln, r.addr = ln, ln.Addr().String()
	r.done.Go(func() { r.accept(ln) })
	return nil
}

func (r *relay) accept(ln net.Listener) {
	for {
		client, err := ln.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", r.server)
		if err != nil {
			client.Close()
			continue
		}
		if !r.keep(ln, client, server) {
			return
		}
		r.done.Go(func() { pass(client, server) })
		r.done.Go(func() { pass(server, client) })
	}
}

// keep records the connections, or closes them and returns false when ln was cut.
func (r *relay) keep(ln net.Listener, conns ...net.Conn) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, conn := range conns {
		if r.ln != ln {
			conn.Close()
			continue
		}
		r.conns[conn] = true
	}
	return r.ln == ln
}

func pass(to, from net.Conn) {
	_, _ = io.Copy(to, from)
	to.Close()
	from.Close()
}

// cut ends all connections and refuses new ones.
func (r *relay) cut() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ln != nil {
		r.ln.Close()
		r.ln = nil
	}
	for conn := range r.conns {
		conn.Close()
	}
	clear(r.conns)
}
