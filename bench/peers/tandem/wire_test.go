package main

import (
	"net"
	"sync/atomic"
	"testing"

	"github.com/tandem-rpc/tandem/bench/message"
)

// counted counts the bytes on the connections of a listener.
type counted struct {
	net.Listener
	read, written atomic.Int64
}

func (c *counted) Accept() (net.Conn, error) {
	conn, err := c.Listener.Accept()
	return countedConn{conn, c}, err
}

type countedConn struct {
	net.Conn
	by *counted
}

func (c countedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.by.read.Add(int64(n))
	return n, err
}

func (c countedConn) Write(b []byte) (int, error) {
	c.by.written.Add(int64(len(b)))
	return c.Conn.Write(b)
}

// Bytes that a call adds to its message on the wire, once both sides know the method's
// number, with the default timeout and the server's load report.
func TestWireOverhead(t *testing.T) {
	const most, calls = 20, 1000
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	wire := &counted{Listener: ln}
	go options{}.serve(wire)
	c, err := options{}.dial(ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = c.Close(), ln.Close() }()
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
	there, back := wire.read.Load(), wire.written.Load()
	call(calls)
	there, back = wire.read.Load()-there, wire.written.Load()-back
	request := float64(there)/calls - float64(req.SizeVT())
	answer := float64(back)/calls - float64(reply.SizeVT())
	t.Logf("a request takes %.2f bytes beyond its message, an answer %.2f", request, answer)
	if request > most || answer > most || request < 1 || answer < 1 {
		t.Errorf("want at most %d each", most)
	}
}
