package web_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"

	"github.com/tandem-rpc/tandem/internal/honestcalls"
	"github.com/tandem-rpc/tandem/protocol/web"
	"github.com/tandem-rpc/tandem/server"
	"github.com/tandem-rpc/tandem/transport"
)

// http2Attack is what a hostile client does again and again, until its connection ends.
type http2Attack struct {
	settings string                         // the first settings
	begin    func(a *http2Attacker)         // once
	round    func(a *http2Attacker, id int) // id is the number of an unused stream
	reason   string                         // of the server's GOAWAY
}

// http2Attacker gathers what a hostile client sends next.
type http2Attacker struct{ bytes.Buffer }

func (a *http2Attacker) frame(kind http2.FrameType, flags byte, stream int, payload string) {
	a.Write(frame(byte(kind), flags, uint32(stream), []byte(payload)))
}

// post is a request whose body follows; fields are in HPACK.
func (a *http2Attacker) post(id int, path, fields string) {
	a.frame(http2.FrameHeaders, endHeaders, id, block(path)+fields)
}

// large adds HEADERS and CONTINUATION of a block.
func (a *http2Attacker) large(id int, block string) {
	const most = 16384
	kind, flags := http2.FrameHeaders, byte(flagEndStream)
	for ; len(block) > most; block = block[most:] {
		a.frame(kind, flags, id, block[:most])
		kind, flags = http2.FrameContinuation, 0
	}
	a.frame(kind, flags|endHeaders, id, block)
}

// block is the header of a call over gRPC.
func block(path string) string {
	return "\x83\x86" + literal(false, ":path", path) + literal(false, ":authority", "localhost") + literal(false, "content-type", "application/grpc+json")
}

// literal is a field in HPACK, that enters the table if indexed.
func literal(indexed bool, name, value string) string {
	b := []byte{0x00}
	if indexed {
		b[0] = 0x40
	}
	text := func(s string) {
		if len(s) < 127 {
			b = append(b, byte(len(s)))
		} else {
			b = binary.AppendUvarint(append(b, 127), uint64(len(s)-127)) // RFC 7541, section 5.1, is the same from there on
		}
		b = append(b, s...)
	}
	text(name)
	text(value)
	return string(b)
}

const (
	one     = "\x00\x00\x00\x01"
	cancel  = "\x00\x00\x00\x08"
	nothing = "\x00\x00\x00\x00"

	flagPadded = 8
)

// windowOf is a setting of the windows of streams.
func windowOf(n uint32) string { return string(setting(http2.SettingInitialWindowSize, n)) }

var http2Attacks = map[string]http2Attack{
	"streams beyond the limit": {round: func(a *http2Attacker, id int) { a.post(id, "/Secret", "") }},
	"resets of requests that take a while": {round: func(a *http2Attacker, id int) {
		a.post(id, "/Secret", "")
		a.frame(http2.FrameRSTStream, 0, id, cancel)
	}},
	"resets of quick calls": {round: func(a *http2Attacker, id int) {
		a.post(id, "/Len", "")
		a.frame(http2.FrameData, flagEndStream, id, "\x00\x00\x00\x00\x02\"\"")
		a.frame(http2.FrameRSTStream, 0, id, cancel)
	}},
	"resets of requests that are refused": {round: func(a *http2Attacker, id int) {
		a.post(id, "/None", "")
		a.frame(http2.FrameRSTStream, 0, id, cancel)
	}},
	"resets provoked by windows of 0": {round: func(a *http2Attacker, id int) {
		a.post(id, "/Secret", "")
		a.frame(http2.FrameWindowUpdate, 0, id, nothing)
	}},
	"resets provoked by windows that overflow": {round: func(a *http2Attacker, id int) {
		a.post(id, "/Len", "")
		a.frame(http2.FrameWindowUpdate, 0, id, "\x7f\xff\xff\xff")
	}},
	"resets provoked by bodies that are too long": {round: func(a *http2Attacker, id int) {
		a.post(id, "/Len", literal(false, "content-length", "1"))
		a.frame(http2.FrameData, 0, id, "12")
	}},
	"resets provoked by bodies that are too short": {round: func(a *http2Attacker, id int) {
		a.post(id, "/Len", literal(false, "content-length", "3"))
		a.frame(http2.FrameData, flagEndStream, id, "12")
	}},
	"resets provoked by data after the end": {round: func(a *http2Attacker, id int) {
		a.post(id, "/Len", "")
		a.frame(http2.FrameData, flagEndStream, id, "\x00")
		a.frame(http2.FrameData, 0, id, "2")
	}},
	"resets provoked by trailers that don't end": {round: func(a *http2Attacker, id int) {
		a.post(id, "/Len", "")
		a.frame(http2.FrameHeaders, endHeaders, id, literal(false, "a", "b"))
	}},
	"resets provoked by priorities": {round: func(a *http2Attacker, id int) {
		a.post(id, "/Len", "")
		a.frame(http2.FramePriority, 0, id, "\x00\x00\x00\x00")
	}},
	"malformed requests": {round: func(a *http2Attacker, id int) { a.post(id, "/Len", literal(false, "A", "b")) }},
	"headers that are larger": {round: func(a *http2Attacker, id int) {
		a.large(id, block("/Len")+strings.Repeat(literal(false, "a", strings.Repeat("x", 17<<10)), 2))
	}},
	"headers that are much larger": {reason: "a header of more than", round: func(a *http2Attacker, id int) {
		a.large(id, block("/Len")+strings.Repeat(literal(false, "a", strings.Repeat("x", 10<<10)), 10))
	}},
	"headers from the table": {
		begin: func(a *http2Attacker) {
			a.frame(http2.FrameHeaders, endHeaders|flagEndStream, 1, block("/Len")+literal(true, "a", strings.Repeat("x", 4000)))
		},
		round: func(a *http2Attacker, id int) {
			a.large(id, block("/Len")+strings.Repeat("\xbe", 60<<10))
		},
	},
	"CONTINUATION without end": {
		begin: func(a *http2Attacker) { a.frame(http2.FrameHeaders, 0, 1, block("/Len")) },
		round: func(a *http2Attacker, _ int) { a.frame(http2.FrameContinuation, 0, 1, "") },
	},
	"CONTINUATION of many fields": {reason: "a header of more than",
		begin: func(a *http2Attacker) { a.frame(http2.FrameHeaders, 0, 1, block("/Len")) },
		round: func(a *http2Attacker, _ int) {
			a.frame(http2.FrameContinuation, 0, 1, strings.Repeat(literal(false, "a", "b"), 1000))
		},
	},
	"PING":           {round: func(a *http2Attacker, _ int) { a.frame(http2.FramePing, 0, 0, "pingpong") }},
	"PING's answers": {round: func(a *http2Attacker, _ int) { a.frame(http2.FramePing, flagAck, 0, "pingpong") }},
	"SETTINGS":       {round: func(a *http2Attacker, _ int) { a.frame(http2.FrameSettings, 0, 0, "") }},
	"many SETTINGS":  {round: func(a *http2Attacker, _ int) { a.frame(http2.FrameSettings, 0, 0, strings.Repeat(windowOf(0), 2700)) }},
	"table sizes":    {round: func(a *http2Attacker, _ int) { a.frame(http2.FrameSettings, 0, 0, "\x00\x01\x00\x00\x00\x00") }},
	"PRIORITY":       {round: func(a *http2Attacker, id int) { a.frame(http2.FramePriority, 0, id, "\x00\x00\x00\x00\x01") }},
	"GOAWAY":         {round: func(a *http2Attacker, _ int) { a.frame(http2.FrameGoAway, 0, 0, nothing+nothing) }},
	"unknown frames": {round: func(a *http2Attacker, _ int) { a.frame(0x77, 0, 0, strings.Repeat("x", 16384)) }},
	"empty DATA": {
		begin: func(a *http2Attacker) { a.post(1, "/Len", "") },
		round: func(a *http2Attacker, _ int) { a.frame(http2.FrameData, 0, 1, "") },
	},
	"padding": {
		begin: func(a *http2Attacker) { a.post(1, "/Len", "") },
		round: func(a *http2Attacker, _ int) {
			a.frame(http2.FrameData, flagPadded, 1, "\xff"+strings.Repeat("\x00", 255))
		},
	},
	"the connection's window by 1": {round: func(a *http2Attacker, _ int) { a.frame(http2.FrameWindowUpdate, 0, 0, one) }},
	"windows of answers by 1": {
		settings: windowOf(0),
		begin: func(a *http2Attacker) {
			for id := 1; id < 200; id += 2 {
				a.post(id, "/Long", "")
				a.frame(http2.FrameData, flagEndStream, id, "\x00\x00\x00\x00\x011")
			}
		},
		round: func(a *http2Attacker, id int) { a.frame(http2.FrameWindowUpdate, 0, 1+(id-1)%200, one) },
	},
	"windows of answers that come and go": {
		settings: windowOf(0),
		begin: func(a *http2Attacker) {
			for id := 1; id < 200; id += 2 {
				a.post(id, "/Long", "")
				a.frame(http2.FrameData, flagEndStream, id, "\x00\x00\x00\x00\x011")
			}
		},
		round: func(a *http2Attacker, _ int) { a.frame(http2.FrameSettings, 0, 0, windowOf(1)+windowOf(0)) },
	},
	"the connection's window overflows": {reason: "a window larger than 2 GiB", round: func(a *http2Attacker, _ int) { a.frame(http2.FrameWindowUpdate, 0, 0, "\x7f\xff\xff\xff") }},
	"a first window that overflows": {reason: "a window larger than 2 GiB",
		begin: func(a *http2Attacker) {
			a.post(1, "/Len", "")
			a.frame(http2.FrameWindowUpdate, 0, 1, "\x00\x10\x00\x00")
		},
		round: func(a *http2Attacker, _ int) { a.frame(http2.FrameSettings, 0, 0, windowOf(1<<31-1)) },
	},
	"more data than the window": {reason: "more ", // the connection's window has, or it is data of a stream that was refused
		begin: func(a *http2Attacker) { a.post(1, "/Len", "") },
		round: func(a *http2Attacker, _ int) { a.frame(http2.FrameData, 0, 1, strings.Repeat("x", 16384)) },
	},
}

// run attacks until the server closes the connection, and returns the reason of its GOAWAY.
// Rounds are sent together or one by one.
func (x *http2Attack) run(ctx context.Context, address string, together bool) (reason string, err error) {
	c, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return "", err
	}
	defer c.Close()
	stop := context.AfterFunc(ctx, func() { _ = c.Close() })
	defer stop()
	var writer sync.WaitGroup
	writer.Go(func() {
		a := &http2Attacker{}
		a.WriteString(http2.ClientPreface)
		a.frame(http2.FrameSettings, 0, 0, x.settings)
		id := 1
		if x.begin != nil {
			x.begin(a)
			id = 201
		}
		for err := error(nil); err == nil; a.Reset() {
			x.round(a, id)
			for id += 2; together && a.Len() < 16<<10; id += 2 {
				x.round(a, id)
			}
			_, err = a.WriteTo(c)
		}
	})
	defer writer.Wait()
	f := http2.NewFramer(io.Discard, c)
	for {
		fr, err := f.ReadFrame()
		if err != nil {
			return reason, ctx.Err() // any error ends the connection
		}
		if g, ok := fr.(*http2.GoAwayFrame); ok && g.ErrCode != http2.ErrCodeNo {
			reason = fmt.Sprintf("%v: %s", g.ErrCode, g.DebugData())
		}
	}
}

// Hostile clients of HTTP/2 lose their connections within a second, and are told why. Without the race
// detector each attack comes on eight connections at once. Meanwhile other clients lose no call,
// and the server needs little memory.
func TestHostileHTTP2(t *testing.T) {
	if *netHTTP2 {
		return // net/http does not bound these floods
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := honestcalls.Serve(t, ln, server.WithProtocols(web.New()), server.WithLogger(slog.New(slog.DiscardHandler)))
	for name, method := range map[string]any{
		"Len":    func(s string) int { return len(s) },
		"Long":   func(int) string { return strings.Repeat("x", 1000) },
		"Secret": func(ctx context.Context, _ string) int { <-ctx.Done(); return 0 },
	} {
		if err := srv.RegisterFunc(name, method); err != nil {
			t.Fatal(err)
		}
	}
	honestcalls.Beside(t, transport.TCP(), ln.Addr().String(), func() {
		for name, x := range http2Attacks {
			t.Run(name, func(t *testing.T) { x.measureAttack(t, ln.Addr().String()) })
		}
	})
}

func (x *http2Attack) measureAttack(t *testing.T, address string) {
	const most = 64 << 20
	if x.reason == "" {
		x.reason = "frames that further no message"
	}
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	before := m.HeapInuse + m.StackInuse
	watching, watched := context.WithCancel(t.Context())
	usage := make(chan peak, 1)
	go func() { usage <- watch(watching) }()
	took, err := x.repeatAttack(t.Context(), address)
	watched()
	used := <-usage
	t.Logf("%v, %d KiB more memory, %d goroutines", took.Round(time.Millisecond), (int64(used.bytes)-int64(before))>>10, used.goroutines)
	if err != nil || used.bytes > before+most {
		t.Errorf("%v after %v, memory grows from %d to %d KiB", err, took, before>>10, used.bytes>>10)
	}
}

// Bounds of an attack: the connections are closed within closedWithin, without the time in which this
// process could run and the machine did not let it, and within longestAttack in any case.
const (
	closedWithin  = time.Second
	longestAttack = 8 * time.Second
)

// repeatAttack makes the attack, again if the connections are not closed in time: the machine may be
// busy. The next one begins when it seems to have time, and has no longer.
func (x *http2Attack) repeatAttack(ctx context.Context, address string) (took time.Duration, err error) {
	const tries = 6
	attackers := 8
	if raceEnabled {
		attackers = 1
	}
	for try := range tries {
		if try > 0 {
			awaitCalm()
		}
		before := starved()
		took, err = x.on(ctx, address, attackers)
		if took -= starved() - before; err == nil && took > closedWithin {
			err = errTooLate
		}
		if !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, errTooLate) {
			break
		}
	}
	return took, err
}

var errTooLate = errors.New("the connections are closed too late")

// starved returns for how long this process's goroutines could run and waited for a processor, as far
// as the system says: the time of its threads, which are as many as processors at a time.
func starved() (d time.Duration) {
	files, _ := filepath.Glob("/proc/self/task/*/schedstat") // none on other systems
	for _, name := range files {
		var ran, waited int64
		if b, err := os.ReadFile(name); err == nil { // else the thread has ended
			_, _ = fmt.Sscan(string(b), &ran, &waited)
		}
		d += time.Duration(waited)
	}
	return max(0, d/time.Duration(runtime.GOMAXPROCS(0)))
}

// awaitCalm waits until the machine runs a goroutine when it is due, twenty times in a row, at most
// ten seconds.
func awaitCalm() {
	const nap, late = time.Millisecond, 2 * time.Millisecond
	end := time.Now().Add(10 * time.Second)
	for calm := 0; calm < 20 && time.Now().Before(end); calm++ {
		began := time.Now()
		time.Sleep(nap) // it measures the machine
		if time.Since(began) > nap+late {
			calm = 0
		}
	}
}

// on makes the attack on several connections at once, and returns why one of them was not closed as it
// should.
func (x *http2Attack) on(ctx context.Context, address string, attackers int) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, longestAttack)
	defer cancel()
	start := time.Now()
	errs := make([]error, attackers)
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() {
			reason, err := x.run(ctx, address, i%4 != 3)
			if err == nil && !strings.Contains(reason, x.reason) {
				err = fmt.Errorf("closed with %q", reason)
			}
			errs[i] = err
		})
	}
	wg.Wait()
	return time.Since(start), errors.Join(errs...)
}

// A client that grants all windows and does not read loses its connection after the stall timeout.
func TestHTTP2ClientThatNeverReads(t *testing.T) {
	for name, opts := range map[string][]web.Option{"net/http": {web.WithNetHTTP2()}, "internal/http2": nil} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWebTest(t, web.New(opts...), server.WithStallTimeout(time.Second))
				w.must(w.srv.RegisterFunc("Long", func(n int) string { return strings.Repeat("x", n) }))
				c := w.raw("")
				a := &http2Attacker{}
				a.WriteString(http2.ClientPreface)
				a.frame(http2.FrameSettings, 0, 0, windowOf(1<<31-1))
				a.frame(http2.FrameWindowUpdate, 0, 0, "\x7f\x00\x00\x00")
				for id := 1; id < 40; id += 2 {
					a.post(id, "/Long", "")
					a.frame(http2.FrameData, flagEndStream, id, "\x00\x00\x00\x00\x071000000")
				}
				_, err := a.WriteTo(c)
				w.must(err)
				time.Sleep(3 * time.Second) // of the bubble
				start := time.Now()
				n, _ := io.Copy(io.Discard, c) // it ends at once, if the server has closed the connection
				if took := time.Since(start); took > 0 || n > 8<<20 {
					t.Errorf("closed after %v and %d bytes more", took, n)
				}
			})
		})
	}
}
