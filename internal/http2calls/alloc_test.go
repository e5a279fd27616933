package http2calls

import (
	"bufio"
	"context"
	"encoding/binary"
	"io"
	"net"
	"testing"

	"github.com/tandem-rpc/tandem/internal/http2"
)

// A call makes two allocations: the stream, and the response's body. The server is a loop that makes
// none.
func TestAllocations(t *testing.T) {
	if testing.CoverMode() != "" || raceEnabled {
		t.Skip("what watches the program allocates; CI runs the tests without it too")
	}
	address := cannedServer(t)
	s := NewConns(Config{Stall: stall, Skim: func(*http2.Block, bool) bool { return true }}, 1, func(ctx context.Context) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", address)
	})
	defer s.Close()
	call := func() {
		x := s.Exchange()
		defer x.Release()
		x.Header = append(x.Header, request...)
		x.Body = append(x.Body, "message"...)
		x.MaxBody = 1 << 10
		if err := s.Do(context.Background(), x); err != nil || string(x.Response) != "reply" || !x.Fine {
			t.Fatalf("%q, %v", x.Response, err)
		}
	}
	for range 1000 {
		call()
	}
	if n := testing.AllocsPerRun(5000, call); n > 2 {
		t.Errorf("%v allocations a call, budget 2", n)
	}
}

// cannedServer answers every request of one connection in the same way.
func cannedServer(t *testing.T) (address string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		c, err := ln.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		in := bufio.NewReader(c)
		_, _ = in.Discard(len(http2.Preface))
		_, _ = c.Write(frame(settings, 0, 0, ""))
		answer := append(append(frame(headers, endHeaders, 1, ok), frame(data, 0, 1, "reply")...), frame(headers, endHeaders|endStream, 1, finished)...)
		starts := []int{5, 9 + len(ok) + 5, 9 + len(ok) + 9 + len("reply") + 5} // of the stream's number
		var head [9]byte
		for {
			if _, err := io.ReadFull(in, head[:]); err != nil {
				return
			}
			if _, err := in.Discard(int(binary.BigEndian.Uint32(head[:]) >> 8)); err != nil {
				return
			}
			if head[3] != data {
				continue
			}
			for _, at := range starts {
				copy(answer[at:], head[5:])
			}
			if _, err := c.Write(answer); err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() {
		_ = ln.Close()
		<-ended
	})
	return ln.Addr().String()
}
