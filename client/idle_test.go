package client_test

import (
	"context"
	"io"
	"net"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/codec"
	"github.com/tandem-rpc/tandem/wire"
)

// A client that is connected, and whose list can't change, has one goroutine: the reader.
func TestIdleClientGoroutines(t *testing.T) {
	const clients = 50
	_, addr := serve(t, methods)
	before := runtime.NumGoroutine()
	for range clients {
		c := dial(t, "tcp://"+addr)
		if _, err := client.Invoke[Reply](t.Context(), c, "Arith.Mul", &Args{7, 8}); err != nil {
			t.Fatal(err)
		}
	}
	const few = 10 // that end soon, or are not the client's
	for began := time.Now(); ; runtime.Gosched() {
		more := runtime.NumGoroutine() - before
		if more <= 2*clients+few { // the server has one a connection, too
			return
		}
		if time.Since(began) > 30*time.Second {
			t.Fatalf("%d goroutines for %d idle clients and their server", more, clients)
		}
	}
}

// BenchmarkClientMemory is what an idle client, which has made a call, needs beyond its
// connection: goroutines, bytes of the heap and of stacks.
func BenchmarkClientMemory(b *testing.B) {
	const clients = 200
	addr := cannedServers(b)
	message, reply := make([]byte, 600), make([]byte, 0, 600)
	for b.Loop() {
		bare := usage(b, clients, func() io.Closer { return bareConnection(b, addr) })
		all := usage(b, clients, func() io.Closer {
			c := dial(b, "tcp://"+addr, client.WithCodec(codec.Raw()))
			for range 10 {
				if err := c.Call(context.Background(), "Test.Echo", &message, &reply); err != nil {
					b.Fatal(err)
				}
			}
			return c
		})
		for i, unit := range []string{"goroutines", "heap-B", "stack-B"} {
			b.ReportMetric((all[i]-bare[i])/clients, unit+"/client")
		}
	}
}

// usage returns what each of n values that open returns needs: goroutines, heap and stacks.
func usage(b *testing.B, n int, open func() io.Closer) (used [3]float64) {
	before := memory()
	all := make([]io.Closer, n)
	for i := range all {
		all[i] = open()
	}
	time.Sleep(time.Second) // until the goroutines of the calls have ended
	after := memory()
	for _, c := range all {
		if err := c.Close(); err != nil {
			b.Error(err)
		}
	}
	for i := range used {
		used[i] = after[i] - before[i]
	}
	return used
}

func memory() [3]float64 {
	for range 3 {
		runtime.GC() // the second empties the pools, the third takes what was in them
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return [3]float64{float64(runtime.NumGoroutine()), float64(m.HeapAlloc), float64(m.StackInuse)}
}

// bareConnection returns a connection on which the prefaces have been exchanged.
func bareConnection(b *testing.B, addr string) net.Conn {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		b.Fatal(err)
	}
	settings := wire.DefaultSettings()
	settings.Codecs = []string{"raw"}
	if _, err := conn.Write(wire.AppendPreface(nil, settings)); err != nil {
		b.Fatal(err)
	}
	head := make([]byte, wire.PrefaceLen)
	if _, err := io.ReadFull(conn, head); err != nil {
		b.Fatal(err)
	}
	_, n, err := wire.ParsePrefaceHead(head)
	if err != nil {
		b.Fatal(err)
	}
	if _, err := io.CopyN(io.Discard, conn, int64(n)); err != nil {
		b.Fatal(err)
	}
	return conn
}

// cannedServers answers every request of every connection with an empty message.
func cannedServers(b *testing.B) string {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			all.Go(func() { can(conn) })
		}
	})
	b.Cleanup(func() {
		_ = ln.Close()
		all.Wait()
	})
	return ln.Addr().String()
}
