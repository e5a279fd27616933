package main

import (
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/tandem-rpc/tandem/bench/message"
)

// relay passes on what one connection to addr carries, and counts its bytes.
type relay struct {
	net.Listener
	there, back atomic.Int64
	copying     sync.WaitGroup
}

func newRelay(t *testing.T, addr string) *relay {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{Listener: ln}
	r.copying.Go(func() {
		client, err := ln.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", addr)
		if err != nil {
			t.Error(err)
			return
		}
		r.copying.Go(func() { r.pass(server, client, &r.there) })
		r.pass(client, server, &r.back)
	})
	return r
}

func (r *relay) pass(to, from net.Conn, count *atomic.Int64) {
	_, _ = io.Copy(to, io.TeeReader(from, counter{count})) // ends with the connection
	_ = to.Close()
}

type counter struct{ n *atomic.Int64 }

func (c counter) Write(b []byte) (int, error) {
	c.n.Add(int64(len(b)))
	return len(b), nil
}

// What a call adds to its message on the wire, once both sides know the
// method's number, with the default deadline and the server's load report.
func TestWireOverhead(t *testing.T) {
	const most, calls = 20, 1000
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go options{}.serve(ln)
	r := newRelay(t, ln.Addr().String())
	c, err := options{}.dial(r.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	req, reply := message.New(), new(message.BenchmarkMessage)
	call := func(times int) {
		for range times {
			reply.Reset()
			if err := c.Call(req, reply); err != nil {
				t.Fatal(err)
			}
		}
	}
	call(10)
	there, back := r.there.Load(), r.back.Load()
	call(calls)
	there, back = r.there.Load()-there, r.back.Load()-back
	request := float64(there)/calls - float64(req.SizeVT())
	answer := float64(back)/calls - float64(reply.SizeVT())
	t.Logf("a request takes %.2f bytes beyond its message, an answer %.2f", request, answer)
	if request > most || answer > most || request < 1 || answer < 1 {
		t.Errorf("want at most %d each", most)
	}
	_ = c.Close()
	_ = r.Close()
	r.copying.Wait()
}
