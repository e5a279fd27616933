package web_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/protocol/web"
	"github.com/tandem-rpc/tandem/server"
)

// frame is one of HTTP/2 (RFC 9113, section 4.1).
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

// flood opens a batch of streams, resets them, and so on as quickly as it can, over one
// connection after another.
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

// peak is the most that was in use at a time.
type peak struct{ goroutines, bytes uint64 }

// watch looks at the process until ctx ends.
func watch(ctx context.Context) (p peak) {
	var m runtime.MemStats
	for ctx.Err() == nil {
		runtime.ReadMemStats(&m)
		p.goroutines = max(p.goroutines, uint64(runtime.NumGoroutine()))
		p.bytes = max(p.bytes, m.HeapInuse+m.StackInuse)
		time.Sleep(10 * time.Millisecond) // between two looks at the process
	}
	return p
}

// Clients that are not known and reset streams as quickly as they can cost little, and
// harm no other.
func TestResetFlood(t *testing.T) {
	const attackers, mostGoroutines, mostBytes = 8, 2500, 128 << 20
	batches := []uint32{1, 10, 100, 1000} // a stream reset at once costs most in goroutines
	length := func(s string) int { return len(s) }
	srv := server.New(server.WithProtocols(web.New()), server.WithLogger(slog.New(slog.DiscardHandler)), server.WithInterceptors(
		func(next tandem.Func) tandem.Func {
			return func(ctx context.Context, call *tandem.Call) error {
				if call.Method == "Secret" {
					time.Sleep(100 * time.Millisecond) // it asks another server
					return tandem.Errorf(tandem.Unauthenticated, "not known")
				}
				return next(ctx, call)
			}
		}))
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err = errors.Join(err, srv.RegisterFunc("Len", length), srv.RegisterFunc("Secret", length)); err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- srv.ServeListener(ln) }()
	address := ln.Addr().String()

	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	var streams, honest atomic.Int64
	var wg sync.WaitGroup
	wg.Go(func() { honestHTTP(ctx, t, address, &honest) })
	wg.Go(func() { honestNative(ctx, t, address, &honest) })
	for i := range attackers {
		wg.Go(func() { flood(ctx, address, batches[i%len(batches)], &streams) })
	}
	most := watch(ctx)
	wg.Wait()
	t.Logf("%d streams reset, %d honest calls, %d goroutines, %d MiB", streams.Load(), honest.Load(), most.goroutines, most.bytes>>20)
	if most.goroutines > mostGoroutines || most.bytes > mostBytes || honest.Load() == 0 {
		t.Errorf("%d goroutines, %d MiB, %d honest calls", most.goroutines, most.bytes>>20, honest.Load())
	}
	_ = srv.Close()
	<-served
}

func honestHTTP(ctx context.Context, t *testing.T, address string, made *atomic.Int64) {
	t.Helper()
	tr := &http.Transport{}
	defer tr.CloseIdleConnections()
	for ctx.Err() == nil {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+address+"/Len", strings.NewReader(`"abc"`))
		if err != nil {
			t.Error(err)
			return
		}
		req.Header.Set("Content-Type", asJSON)
		res, err := tr.RoundTrip(req)
		if err != nil {
			t.Errorf("an honest call over HTTP: %v", err)
			return
		}
		if _, err = io.Copy(io.Discard, res.Body); err != nil || res.Body.Close() != nil || res.StatusCode != http.StatusOK {
			t.Errorf("an honest call over HTTP: %s, %v", res.Status, err)
		}
		made.Add(1)
	}
}

func honestNative(ctx context.Context, t *testing.T, address string, made *atomic.Int64) {
	t.Helper()
	c, err := client.Dial("tcp://"+address, client.WithTimeout(patience))
	if err != nil {
		t.Error(err)
		return
	}
	defer func() { _ = c.Close() }()
	for ctx.Err() == nil {
		if n, err := client.Invoke[int](t.Context(), c, "Len", "abc"); err != nil || *n != 3 {
			t.Errorf("an honest call: %v", err)
			return
		}
		made.Add(1)
	}
}

// A connection of HTTP/2 is told how many streams it may have.
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
