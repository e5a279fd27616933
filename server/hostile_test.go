package server_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"runtime"
	"runtime/metrics"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/codec"
	"github.com/tandem-rpc/tandem/compress"
	"github.com/tandem-rpc/tandem/compress/snappy"
	"github.com/tandem-rpc/tandem/compress/zstd"
	"github.com/tandem-rpc/tandem/server"
	"github.com/tandem-rpc/tandem/transport"
	"github.com/tandem-rpc/tandem/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// victim is a server under attack, with 200 calls a second of an honest client.
type victim struct {
	t       *testing.T
	addr    string
	release chan struct{} // ends the handlers of "Test.Never"
	room    uint64        // bytes by which the heap in use may grow during the attack
	made    atomic.Int64  // honest calls so far
}

const stall = 400 * time.Millisecond

// besiege runs the attack while honest calls go on. None of them may fail, the heap in use must
// stay small, and afterwards heap and goroutines must be what they were before.
func besiege(t *testing.T, attack func(v *victim), opts ...server.Option) {
	t.Helper()
	v := &victim{t: t, release: make(chan struct{}), room: 64 << 20}
	srv := server.New(append([]server.Option{server.WithHandshakeTimeout(stall), server.WithStallTimeout(stall),
		server.WithCompressors(snappy.Compressor(), zstd.Compressor())}, opts...)...)
	v.register(srv)
	v.addr = serve(t, srv, transport.TCP(), "127.0.0.1:0").String()
	t.Cleanup(func() { close(v.release) }) // before the server waits for its handlers
	c := v.client()
	honest := v.honest(c, 100*time.Millisecond)
	honest()
	recordGoroutines(8192)
	// memory that the server keeps has been allocated now
	heap, goroutines := footprint()

	stop, peak := v.honest(c, 0), watchHeap()
	attack(v)
	after := v.made.Load()
	waitFor(t, "20 honest calls after the attack", func() bool { return v.made.Load() >= after+20 })
	stop()
	live, all := peak()
	t.Logf("heap: %d KiB before, at most %d KiB in use, %d KiB with garbage", heap>>10, live>>10, all>>10)
	if live > heap+v.room {
		t.Errorf("heap in use grew from %d to %d KiB during the attack", heap>>10, live>>10)
	}
	waitFor(t, "goroutines to end", func() bool { return runtime.NumGoroutine() <= goroutines+3 })
	if after, _ := footprint(); after > heap+512<<10 {
		t.Errorf("heap grew from %d to %d KiB", heap>>10, after>>10)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

func (v *victim) register(srv *server.Server) {
	ok := func(errs ...error) {
		if err := errors.Join(errs...); err != nil {
			v.t.Fatal(err)
		}
	}
	ok(server.Handle(srv, "Test.Echo", func(_ context.Context, in *[]byte) (*[]byte, error) { return in, nil }),
		server.Handle(srv, "Test.Add", func(_ context.Context, in *int) (*int, error) { sum := *in + 1; return &sum, nil }),
		server.Handle(srv, "Test.Big", func(context.Context, *[]byte) (*[]byte, error) {
			big := make([]byte, 60<<10)
			return &big, nil
		}),
		server.Handle(srv, "Test.Wait", func(ctx context.Context, _ *[]byte) (*[]byte, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}),
		server.HandleStream(srv, "Test.Hold", func(ctx context.Context, _ *tandem.Stream[[]byte, []byte]) error {
			<-ctx.Done()
			return ctx.Err()
		}),
		server.Handle(srv, "Test.Never", func(context.Context, *[]byte) (*[]byte, error) {
			<-v.release
			return new([]byte), nil
		}))
}

// honest makes 200 calls a second until the returned function is called, or
// for the duration.
func (v *victim) honest(c *client.Client, d time.Duration) (stop func()) {
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		end := time.After(time.Hour)
		if d > 0 {
			end = time.After(d)
		}
		for {
			select {
			case <-done:
				return
			case <-end:
				return
			case <-tick.C:
			}
			wg.Go(func() {
				n := int(v.made.Add(1))
				sum, err := client.Invoke[int](context.Background(), c, "Test.Add", &n, client.Codec("json"),
					client.Timeout(time.Minute)) // on a busy machine all of this process is slow; no call may be lost, or refused
				if err != nil || *sum != n+1 {
					v.t.Errorf("an honest call failed: %v", err)
				}
			})
		}
	})
	return func() {
		if d == 0 {
			close(done)
		}
		wg.Wait()
	}
}

// recordGoroutines runs n goroutines at once. The runtime keeps about 450 bytes of the heap for
// each of the most goroutines that ever ran at once; without this they would count as growth
// during the attack.
func recordGoroutines(n int) {
	var wg sync.WaitGroup
	done := make(chan struct{})
	for range n {
		wg.Go(func() { <-done })
	}
	close(done)
	wg.Wait()
}

// watchHeap samples the heap every 50 ms until the returned function is called, which returns
// the maximum in use, and the maximum with garbage.
func watchHeap() (peak func() (live, all uint64)) {
	done := make(chan struct{})
	samples := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/memory/classes/heap/objects:bytes"}}
	var live, all uint64
	var wg sync.WaitGroup
	wg.Go(func() {
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for {
			metrics.Read(samples)
			live, all = max(live, samples[0].Value.Uint64()), max(all, samples[1].Value.Uint64())
			select {
			case <-done:
				return
			case <-tick.C:
			}
		}
	})
	return func() (uint64, uint64) {
		close(done)
		wg.Wait()
		return live, all
	}
}

func footprint() (heap uint64, goroutines int) {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc, runtime.NumGoroutine()
}

func waitFor(t *testing.T, what string, cond func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !cond(); {
		if time.Now().After(end) {
			buf := make([]byte, 1<<16)
			t.Fatalf("timed out waiting for %s\n%s", what, buf[:runtime.Stack(buf, true)])
		}
		time.Sleep(5 * time.Millisecond) // polls a condition
	}
}

// client returns an honest client.
func (v *victim) client(opts ...client.Option) *client.Client {
	v.t.Helper()
	c, err := client.Dial("tcp://"+v.addr, opts...)
	if err != nil {
		v.t.Fatal(err)
	}
	return c
}

func (v *victim) dial() net.Conn {
	c, err := net.Dial("tcp", v.addr)
	if err != nil {
		v.t.Fatal(err)
	}
	return c
}

// greeted returns a connection past the handshake.
func (v *victim) greeted() net.Conn {
	c := v.dial()
	s := wire.DefaultSettings()
	s.Codecs = []string{"raw"}
	v.write(c, wire.AppendPreface(nil, s))
	head := make([]byte, wire.PrefaceLen)
	if _, err := io.ReadFull(c, head); err != nil {
		v.t.Fatal(err)
	}
	_, n, err := wire.ParsePrefaceHead(head)
	if err != nil {
		v.t.Fatal(err)
	}
	if _, err := io.ReadFull(c, make([]byte, n)); err != nil {
		v.t.Fatal(err)
	}
	return c
}

func (v *victim) write(c net.Conn, b []byte) {
	if _, err := c.Write(b); err != nil {
		v.t.Log("write:", err)
	}
}

// closedWithin reads until the server closes the connection, and returns the message of its
// GoAway frame.
func (v *victim) closedWithin(c net.Conn, d time.Duration) string {
	v.t.Helper()
	defer c.Close()
	if err := c.SetReadDeadline(time.Now().Add(d)); err != nil {
		v.t.Fatal(err)
	}
	b, err := io.ReadAll(c)
	var ne net.Error
	if errors.As(err, &ne) && ne.Timeout() {
		v.t.Errorf("still connected after %v", d)
	}
	for len(b) >= wire.HeaderLen {
		h, err := wire.ParseHeader(b)
		if err != nil || len(b) < wire.HeaderLen+h.Length {
			break
		}
		if h.Type == wire.TypeGoAway {
			g, err := wire.ParseGoAway(b[wire.HeaderLen : wire.HeaderLen+h.Length])
			if err != nil {
				v.t.Error(err)
			}
			return g.Message
		}
		b = b[wire.HeaderLen+h.Length:]
	}
	return ""
}

func request(stream wire.Stream, flags wire.Flags, r *wire.Request, message []byte) []byte {
	payload := append(wire.AppendRequest(nil, r), message...)
	return append(wire.AppendHeader(nil, wire.Header{Length: len(payload), Type: wire.TypeRequest, Flags: flags, Stream: stream}), payload...)
}

func named(method string) *wire.Request {
	return &wire.Request{Name: wire.Name{Text: []byte(method)}, Codec: 2} // raw is the default server's third
}

func TestGarbage(t *testing.T) {
	besiege(t, func(v *victim) {
		junk, source := make([]byte, 64<<10), rand.NewChaCha8([32]byte{1})
		for range 200 {
			_, _ = source.Read(junk) // never fails
			c := v.dial()
			go v.write(c, junk)
			v.closedWithin(c, 2*time.Second)
		}
		for range 100 { // past the handshake
			_, _ = source.Read(junk[:4<<10])
			c := v.greeted()
			v.write(c, junk[:4<<10])
			if text := v.closedWithin(c, 4*time.Second); text == "" {
				t.Error("closed without a reason")
			}
		}
	})
}

func TestTruncated(t *testing.T) {
	besiege(t, func(v *victim) {
		whole := append(wire.AppendPreface(nil, wire.DefaultSettings()), request(wire.MakeStream(0, 1), wire.FlagEnd, named("Test.Echo"), []byte("hello"))...)
		for n := range whole {
			c := v.dial()
			v.write(c, whole[:n])
			if err := c.(*net.TCPConn).CloseWrite(); err != nil {
				t.Fatal(err)
			}
			v.closedWithin(c, 2*time.Second)
		}
	})
}

func TestOversized(t *testing.T) {
	besiege(t, func(v *victim) {
		c := v.greeted()
		head := wire.AppendHeader(nil, wire.Header{Type: wire.TypeRequest, Stream: wire.MakeStream(0, 1)})
		head[0], head[1], head[2] = 0xff, 0xff, 0xff
		v.write(c, head)
		if text := v.closedWithin(c, time.Second); !strings.Contains(text, "16777215 bytes") {
			t.Errorf("farewell: %q", text)
		}

		big := named("Test.Echo")
		big.Size = 1 << 40
		c = v.greeted()
		v.write(c, request(wire.MakeStream(0, 1), 0, big, []byte("x")))
		if st := v.status(c); st.Code != tandem.ResourceExhausted || !st.NotExecuted {
			t.Errorf("got %+v", st)
		}
		c.Close()

		settings := []byte(wire.Magic + "\x01\x00\xff\xff")
		c = v.dial()
		v.write(c, settings)
		v.closedWithin(c, time.Second)
	})
}

// status reads the next response's status.
func (v *victim) status(c net.Conn) wire.Status {
	v.t.Helper()
	if err := c.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil { // long, as an attack in the same process may hold the processors
		v.t.Fatal(err)
	}
	for {
		head := make([]byte, wire.HeaderLen)
		if _, err := io.ReadFull(c, head); err != nil {
			v.t.Errorf("no response: %v", err)
			return wire.Status{}
		}
		h, err := wire.ParseHeader(head)
		if err != nil {
			v.t.Fatal(err)
		}
		payload := make([]byte, h.Length)
		if _, err := io.ReadFull(c, payload); err != nil {
			v.t.Fatal(err)
		}
		if h.Type != wire.TypeResponse {
			continue
		}
		var r wire.Response
		if _, err := wire.ParseResponse(payload, &r); err != nil {
			v.t.Fatal(err)
		}
		st, err := wire.ParseStatus(r.Status)
		if err != nil {
			v.t.Fatal(err)
		}
		return st
	}
}

func TestSlowAndSilent(t *testing.T) {
	besiege(t, func(v *victim) {
		var wg sync.WaitGroup
		var greeted [60]net.Conn // one after the other: their handshakes must be in time
		for i := range greeted {
			if i%4 >= 2 {
				greeted[i] = v.greeted()
			}
		}
		for i, c := range greeted {
			wg.Go(func() {
				echo := request(wire.MakeStream(0, 1), wire.FlagEnd, named("Test.Echo"), nil)
				switch i % 4 {
				case 0: // says nothing
					c = v.dial()
				case 1:
					c = v.dial()
					go drip(c, wire.AppendPreface(nil, wire.DefaultSettings()))
				case 2: // begins a frame
					v.write(c, echo[:9])
				case 3:
					go drip(c, echo)
				}
				text := v.closedWithin(c, 3*stall)
				if greeted := i%4 >= 2; greeted != (text != "") {
					t.Errorf("past the handshake: %v, farewell: %q", greeted, text)
				}
			})
		}
		wg.Wait()
	})
}

// drip writes a byte every 100 ms until the connection ends.
func drip(c net.Conn, b []byte) {
	for i := range b {
		if _, err := c.Write(b[i : i+1]); err != nil {
			return
		}
		time.Sleep(100 * time.Millisecond) // being slow is the attack
	}
}

func TestUnknownNames(t *testing.T) {
	besiege(t, func(v *victim) {
		c := v.greeted()
		defer c.Close()
		compressed := named("Test.Echo")
		compressed.Compressor = 77
		codecless := named("Test.Echo")
		codecless.Codec = 99
		id := uint64(0)
		for what, r := range map[string]*wire.Request{"method": named("Test.Nothing"), "compressor": compressed, "codec": codecless} {
			id++
			v.write(c, request(wire.MakeStream(0, id), wire.FlagEnd, r, nil))
			if st := v.status(c); st.Code != tandem.Unimplemented || !st.NotExecuted || !strings.Contains(st.Message, what) {
				t.Errorf("%s: %+v", what, st)
			}
		}
		cl := v.client(client.WithCodec(nil, foreign{codec.JSON()}))
		defer cl.Close()
		err := cl.Call(context.Background(), "Test.Echo", "x", nil, client.Codec("foreign"))
		if tandem.CodeOf(err) != tandem.Unimplemented || tandem.MayHaveExecuted(err) {
			t.Errorf("unknown codec: %v", err)
		}
		err = cl.Call(context.Background(), "Test.Add", "not a number", nil, client.Codec("json"))
		if tandem.CodeOf(err) != tandem.InvalidArgument {
			t.Errorf("wrong type: %v", err)
		}
	})
}

// foreign is a codec that the server does not know.
type foreign struct{ tandem.Codec }

func (foreign) Name() string { return "foreign" }

// bomb is a compressor whose output, for any input, is much too large when it is decompressed.
type bomb struct {
	tandem.Compressor
	packed []byte
}

func (b bomb) Compress(dst, _ []byte) ([]byte, error) { return append(dst, b.packed...), nil }

func TestDecompressionBomb(t *testing.T) {
	var bombs []bomb // made before the heap is measured
	for _, c := range []tandem.Compressor{compress.Gzip(), compress.Deflate(), snappy.Compressor(), zstd.Compressor()} {
		packed, err := c.Compress(nil, make([]byte, 32<<20))
		if err != nil {
			t.Fatal(err)
		}
		bombs = append(bombs, bomb{c, bytes.Clone(packed)}) // without its spare capacity
	}
	times := 20
	if raceEnabled {
		times = 4 // each takes 150 ms there
	}
	besiege(t, func(v *victim) {
		for _, b := range bombs {
			c := v.client(client.WithCompression(client.Compression{Usual: b}))
			message := make([]byte, len(b.packed)+1) // a client sends the shorter form
			for range times {
				err := c.Call(context.Background(), "Test.Echo", message, nil, client.Codec("raw"), client.Timeout(time.Minute))
				if tandem.CodeOf(err) != tandem.InvalidArgument || tandem.MayHaveExecuted(err) {
					t.Errorf("%s: %v", b.Name(), err)
				}
			}
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		}
	}, server.WithHandshakeTimeout(10*time.Second), server.WithStallTimeout(10*time.Second)) // this client is no slower than its machine
}

func TestPeerThatNeverReads(t *testing.T) {
	besiege(t, func(v *victim) {
		// One buffer of 8 MiB is being written and one of 8 MiB filled, each up
		// to twice as large; 64 goroutines begin and 64 encode, with a result
		// and an encoded one each. The collector finds as much again that was
		// in use when it began.
		v.room = 96 << 20
		c := v.greeted()
		defer c.Close()
		if err := c.SetWriteDeadline(time.Now().Add(8 * time.Second)); err != nil {
			t.Fatal(err)
		}
		var err error
		for id := uint64(1); err == nil && id < 1<<20; id++ { // 60 KiB answers until it is cut off
			_, err = c.Write(request(wire.MakeStream(uint16(id%4000), id), wire.FlagEnd, named("Test.Big"), nil))
		}
		var ne net.Error
		if err == nil || errors.As(err, &ne) && ne.Timeout() {
			t.Errorf("not cut off: %v", err)
		}
	})
}

func TestPingFlood(t *testing.T) {
	besiege(t, func(v *victim) {
		c := v.greeted()
		pings := bytes.Repeat(wire.AppendPing(nil, wire.TypePing, [8]byte{1}), 2000)
		go v.write(c, pings)
		if text := v.closedWithin(c, 2*time.Second); text != "" && !strings.Contains(text, "pings") {
			t.Errorf("farewell: %q", text)
		}
	})
}

// The calls are made without a client, whose hundred callers would use up the processor time of
// this process, and leave none for honest calls on a busy machine.
func TestHundredThousandCancels(t *testing.T) {
	besiege(t, func(v *victim) {
		total := uint64(100_000)
		if testing.Short() || raceEnabled {
			total = 10_000
		}
		c := v.greeted()
		defer c.Close()
		const atOnce = 100
		for id := uint64(1); id <= total; id += atOnce {
			var calls []byte
			for slot := range uint64(atOnce) {
				stream := wire.MakeStream(uint16(slot), id+slot)
				calls = append(calls, request(stream, wire.FlagEnd, named("Test.Wait"), []byte("x"))...)
				calls = wire.AppendHeader(calls, wire.Header{Type: wire.TypeCancel, Stream: stream})
			}
			v.write(c, calls)
			for range atOnce {
				if st := v.status(c); st.Code != tandem.Canceled {
					t.Fatalf("got %+v", st)
				}
			}
		}
	}, server.WithHandshakeTimeout(10*time.Second), server.WithStallTimeout(10*time.Second)) // this client is no slower than its machine
}

// A hundred callers of a client cancel their calls.
func TestCallersCancel(t *testing.T) {
	v := &victim{t: t, release: make(chan struct{})}
	srv := server.New()
	v.register(srv)
	v.addr = serve(t, srv, transport.TCP(), "127.0.0.1:0").String()
	c := v.client()
	defer c.Close()
	var wg sync.WaitGroup
	for range 100 {
		wg.Go(func() {
			for range 100 {
				ctx, cancel := context.WithCancel(context.Background())
				go cancel()
				err := c.Call(ctx, "Test.Wait", []byte("x"), nil, client.Codec("raw"), client.Timeout(time.Minute))
				if tandem.CodeOf(err) != tandem.Canceled {
					t.Errorf("got %v", err)
					return
				}
			}
		})
	}
	wg.Wait()
	var echoed []byte
	if err := c.Call(context.Background(), "Test.Echo", []byte("afterwards"), &echoed, client.Codec("raw"), client.Timeout(time.Minute)); err != nil {
		t.Error(err)
	}
}

func TestHandlerThatNeverReturns(t *testing.T) {
	besiege(t, func(v *victim) {
		c := v.client()
		defer c.Close()
		start := time.Now()
		err := c.Call(context.Background(), "Test.Never", []byte("x"), nil, client.Codec("raw"), client.Timeout(200*time.Millisecond))
		if tandem.CodeOf(err) != tandem.DeadlineExceeded || time.Since(start) > 2*time.Second {
			t.Errorf("got %v after %v", err, time.Since(start))
		}
		var echoed []byte
		if err := c.Call(context.Background(), "Test.Echo", []byte("same connection"), &echoed, client.Codec("raw")); err != nil {
			t.Error(err)
		}
	})
}

func TestProtocolViolations(t *testing.T) {
	window := binary.LittleEndian.AppendUint32
	frame := func(typ wire.Type, f wire.Flags, s wire.Stream, payload []byte) []byte {
		return append(wire.AppendHeader(nil, wire.Header{Length: len(payload), Type: typ, Flags: f, Stream: s}), payload...)
	}
	id := wire.MakeStream(0, 1)
	cases := map[string][]byte{
		"unknown name number":    request(id, wire.FlagEnd, &wire.Request{Name: wire.Name{Number: 3}}, nil),
		"stream index too high":  request(wire.MakeStream(5000, 1), wire.FlagEnd, named("Test.Echo"), nil),
		"request on stream 0":    request(0, wire.FlagEnd, named("Test.Echo"), nil),
		"stream opened twice":    append(request(id, wire.FlagEnd, named("Test.Wait"), nil), request(id, wire.FlagEnd, named("Test.Wait"), nil)...),
		"empty request":          frame(wire.TypeRequest, wire.FlagEnd, id, nil),
		"response without flag":  frame(wire.TypeResponse, 0, id, []byte{0}),
		"reset without flag":     frame(wire.TypeReset, 0, id, nil),
		"window of nothing":      frame(wire.TypeWindow, 0, 0, window(nil, 0)),
		"window too large":       append(frame(wire.TypeWindow, 0, 0, window(nil, wire.MaxWindow)), frame(wire.TypeWindow, 0, 0, window(nil, wire.MaxWindow))...),
		"short window":           frame(wire.TypeWindow, 0, 0, []byte{1}),
		"short ping":             frame(wire.TypePing, 0, 0, []byte{1}),
		"short goaway":           frame(wire.TypeGoAway, 0, 0, []byte{1}),
		"more than announced":    append(request(id, 0, &wire.Request{Name: wire.Name{Text: []byte("Test.Echo")}, Codec: 2, Size: 10}, []byte("12345")), frame(wire.TypeData, wire.FlagEnd, id, []byte("123456"))...),
		"less than announced":    append(request(id, 0, &wire.Request{Name: wire.Name{Text: []byte("Test.Echo")}, Codec: 2, Size: 10}, []byte("12345")), frame(wire.TypeData, wire.FlagEnd, id, []byte("1234"))...),
		"beyond the window":      append(request(id, wire.FlagEnd|wire.FlagStream, named("Test.Hold"), nil), bytes.Repeat(frame(wire.TypeData, wire.FlagStream|wire.FlagEnd, id, make([]byte, 60<<10)), 18)...),
		"stream data of no size": frame(wire.TypeData, wire.FlagStream|wire.FlagLast, id, []byte("x")),
		"connection window":      bytes.Repeat(frame(wire.TypeData, wire.FlagStream, id, make([]byte, 60<<10)), 1), // allowed: of an unknown stream
	}
	besiege(t, func(v *victim) {
		for name, b := range cases {
			c := v.greeted()
			go v.write(c, b)
			if name == "connection window" {
				v.write(c, request(id, wire.FlagEnd, named("Test.Echo"), nil))
				if st := v.status(c); st.Code != tandem.OK {
					t.Errorf("%s: %+v", name, st)
				}
				c.Close()
				continue
			}
			if text := v.closedWithin(c, 2*time.Second); text == "" {
				t.Errorf("%s: closed without a reason", name)
			}
		}
		c := v.greeted() // frames of later versions are skipped
		for typ := 10; typ < 256; typ++ {
			v.write(c, frame(wire.Type(typ), 0, wire.Stream(typ), []byte("future")))
		}
		v.write(c, request(id, wire.FlagEnd, named("Test.Echo"), nil))
		if st := v.status(c); st.Code != tandem.OK {
			t.Errorf("after unknown frames: %+v", st)
		}
		c.Close()
	})
}

// Shutdown and Close do not wait forever for a handler that never returns.
func TestCloseLeavesStubbornHandlersBehind(t *testing.T) {
	srv := server.New()
	release, started := make(chan struct{}), make(chan struct{})
	err := server.Handle(srv, "Test.Never", func(context.Context, *int) (*int, error) {
		close(started)
		<-release
		return nil, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	addr := serve(t, srv, transport.TCP(), "127.0.0.1:0")
	c, err := client.Dial("tcp://" + addr.String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	go c.Call(context.Background(), "Test.Never", 1, nil)
	<-started
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	start := time.Now()
	err = srv.Shutdown(ctx)
	if !errors.Is(err, server.ErrHandlersRunning) || !errors.Is(err, context.DeadlineExceeded) || time.Since(start) > 2*time.Second {
		t.Errorf("got %v after %v", err, time.Since(start))
	}
	close(release)
}
