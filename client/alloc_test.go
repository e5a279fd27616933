package client_test

import (
	"context"
	"io"
	"net"
	"testing"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/codec"
	"github.com/tandem-rpc/tandem/wire"
)

// The client's half of a unary call makes at most three allocations besides the message. The
// server is a loop that makes none.
func TestClientAllocations(t *testing.T) {
	for name, mode := range map[string]tandem.FailMode{"failfast": client.Failfast, "failover": client.Failover, "failtry": client.Failtry} {
		if n := allocations(t, client.WithFailMode(mode)); n > 3 {
			t.Errorf("%s: %v allocations a call, budget 3", name, n)
		} else {
			t.Logf("%s: %v allocations a call", name, n)
		}
	}
}

// A policy makes no allocation a call.
func TestPolicyAllocatesNothing(t *testing.T) {
	without := allocations(t)
	for name, p := range policies() {
		p.Default.FailMode = "failfast"
		if n := allocations(t, client.WithPolicy(p)); n > without {
			t.Errorf("%v allocations a call by a policy with %s, %v without", n, name, without)
		}
	}
}

// allocations returns how many allocations a call makes.
func allocations(t *testing.T, opts ...client.Option) float64 {
	t.Helper()
	if testing.CoverMode() != "" || raceEnabled {
		t.Skip("what watches the program allocates; CI runs the tests without it too")
	}
	c := dial(t, "tcp://"+cannedServer(t), append(opts, client.WithCodec(codec.Raw()))...)
	message, reply := make([]byte, 600), make([]byte, 0, 600)
	call := func() {
		if err := c.Call(context.Background(), "Test.Echo", &message, &reply); err != nil {
			t.Fatal(err)
		}
	}
	for range 2000 {
		call()
	}
	return testing.AllocsPerRun(5000, call)
}

// cannedServer answers every request of one connection with an empty message.
func cannedServer(t testing.TB) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if conn, err := ln.Accept(); err == nil {
			can(conn)
		}
	}()
	t.Cleanup(func() {
		_ = ln.Close()
		<-done
	})
	return ln.Addr().String()
}

func can(conn net.Conn) {
	defer conn.Close()
	buf := make([]byte, wire.HeaderLen+wire.MaxBlock)
	if _, err := io.ReadFull(conn, buf[:wire.PrefaceLen]); err != nil {
		return
	}
	_, n, _ := wire.ParsePrefaceHead(buf[:wire.PrefaceLen])
	settings := wire.DefaultSettings()
	settings.Codecs = []string{"raw"}
	if _, err := io.ReadFull(conn, buf[:n]); err != nil {
		return
	}
	_, _ = conn.Write(wire.AppendPreface(nil, settings))
	answer := wire.AppendResponse(make([]byte, wire.HeaderLen), &wire.Response{})
	for {
		if _, err := io.ReadFull(conn, buf[:wire.HeaderLen]); err != nil {
			return
		}
		h, _ := wire.ParseHeader(buf)
		if _, err := io.ReadFull(conn, buf[:h.Length]); err != nil {
			return
		}
		if h.Type != wire.TypeRequest {
			continue
		}
		wire.PutHeader(answer, wire.Header{
			Length: len(answer) - wire.HeaderLen, Type: wire.TypeResponse, Stream: h.Stream,
			Flags: wire.FlagAnswer | wire.FlagEnd | wire.FlagLast,
		})
		if _, err := conn.Write(answer); err != nil {
			return
		}
	}
}
