package web_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"log/slog"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/internal/honestcalls"
	"github.com/tandem-rpc/tandem/protocol/web"
	"github.com/tandem-rpc/tandem/server"
	"github.com/tandem-rpc/tandem/transport"
)

// frame returns an HTTP/2 frame (RFC 9113, section 4.1).
func frame(kind, flags byte, stream uint32, payload []byte) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(len(payload))<<8|uint32(kind))
	b = append(b, flags)
	return append(binary.BigEndian.AppendUint32(b, stream), payload...)
}

const (
	typeHeaders, typeReset = 1, 3
	endHeaders             = 4
)

// headerBlock is the header of a POST in HPACK, without Huffman codes and tables.
func headerBlock(path string) []byte {
	text := func(b []byte, s string) []byte { return append(append(b, byte(len(s))), s...) }
	b := []byte{0x83, 0x86, 0x04} // :method POST, :scheme http, :path
	b = append(text(b, path), 0x01)
	b = append(text(b, "localhost"), 0x0f, 0x10) // content-type
	return text(b, "application/grpc")
}

// flood opens and resets batches of streams as fast as it can, on one connection after
// another.
func flood(ctx context.Context, address string, batch uint32, streams *atomic.Int64) {
	for ctx.Err() == nil {
		c, err := new(net.Dialer).DialContext(ctx, "tcp", address)
		if err != nil {
			return
		}
		stop := context.AfterFunc(ctx, func() { _ = c.Close() })
		go func() { _, _ = io.Copy(io.Discard, c) }()
		_, err = io.WriteString(c, http2Preface)
		head := headerBlock("/Secret")
		for stream := uint32(1); err == nil && stream < 1<<30; {
			var b bytes.Buffer
			for i := range batch {
				b.Write(frame(typeHeaders, endHeaders, stream+2*i, head))
			}
			for i := range batch {
				b.Write(frame(typeReset, 0, stream+2*i, []byte{0, 0, 0, 8}))
			}
			stream += 2 * batch
			_, err = c.Write(b.Bytes())
			streams.Add(int64(batch))
		}
		stop()
		_ = c.Close()
	}
}

// peak is the highest usage seen.
type peak struct{ goroutines, bytes uint64 }

// watch samples the process until ctx ends.
func watch(ctx context.Context) (p peak) {
	var m runtime.MemStats
	for ctx.Err() == nil {
		runtime.ReadMemStats(&m)
		p.goroutines = max(p.goroutines, uint64(runtime.NumGoroutine()))
		p.bytes = max(p.bytes, m.HeapInuse+m.StackInuse)
		time.Sleep(10 * time.Millisecond) // between two samples
	}
	return p
}

// Unauthenticated clients that reset streams as fast as they can use few resources, and do
// not affect other clients.
func TestResetFlood(t *testing.T) {
	const attackers, mostGoroutines, mostBytes = 8, 2500, 128 << 20
	batches := []uint32{1, 10, 100, 1000} // streams that are reset one at a time cost the most goroutines
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := honestcalls.Serve(t, ln, server.WithProtocols(web.New()), server.WithLogger(slog.New(slog.DiscardHandler)), server.WithInterceptors(
		func(next tandem.Func) tandem.Func {
			return func(ctx context.Context, call *tandem.Call) error {
				if call.Method == "Secret" {
					time.Sleep(100 * time.Millisecond) // stands for a request to an authentication server
					return tandem.Errorf(tandem.Unauthenticated, "not known")
				}
				return next(ctx, call)
			}
		}))
	if err := srv.RegisterFunc("Secret", func(s string) int { return len(s) }); err != nil {
		t.Fatal(err)
	}
	address := ln.Addr().String()

	var streams atomic.Int64
	var most peak
	honestcalls.Beside(t, transport.TCP(), address, func() {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		var wg sync.WaitGroup
		for i := range attackers {
			wg.Go(func() { flood(ctx, address, batches[i%len(batches)], &streams) })
		}
		most = watch(ctx)
		wg.Wait()
	})
	t.Logf("%d streams reset, %d goroutines, %d MiB", streams.Load(), most.goroutines, most.bytes>>20)
	if most.goroutines > mostGoroutines || most.bytes > mostBytes || streams.Load() == 0 {
		t.Errorf("%d streams reset, %d goroutines, %d MiB", streams.Load(), most.goroutines, most.bytes>>20)
	}
}

// The server tells an HTTP/2 client how many streams its connection may have.
func TestMaxStreams(t *testing.T) {
	for want, p := range map[uint32]server.Protocol{250: web.New(), 3: web.New(web.WithMaxStreams(3)), 4: web.New(web.WithMaxStreams(100))} {
		w := newWebTest(t, p, server.WithMaxOpenCalls(max(4, int(want))))
		conn := w.raw(http2Preface)
		head := make([]byte, 9)
		_, err := io.ReadFull(conn.r, head)
		w.must(err)
		settings := make([]byte, binary.BigEndian.Uint32(head)>>8)
		_, err = io.ReadFull(conn.r, settings)
		w.must(err)
		got := uint32(0)
		for ; len(settings) > 0; settings = settings[6:] {
			if binary.BigEndian.Uint16(settings) == 3 { // SETTINGS_MAX_CONCURRENT_STREAMS
				got = binary.BigEndian.Uint32(settings[2:])
			}
		}
		if got != want {
			t.Errorf("%d streams, want %d", got, want)
		}
		w.must(conn.Close())
	}
}
