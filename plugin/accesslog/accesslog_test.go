package accesslog_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/plugin/accesslog"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func aCall() *tandem.Call {
	return &tandem.Call{
		Method: "Arith.Mul",
		Peer:   &tandem.Peer{Addr: &net.TCPAddr{IP: net.IPv4(10, 1, 2, 3), Port: 4567}, Protocol: "tandem"},
	}
}

func began() time.Time { return time.Date(2026, 11, 22, 10, 11, 12, 130e6, time.UTC) }

// written returns the lines that f writes.
func written(t *testing.T, f func(*accesslog.Log), opts ...accesslog.Option) []map[string]any {
	t.Helper()
	var out bytes.Buffer
	log := accesslog.New(append(opts, accesslog.To(&out))...)
	f(log)
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	return parsed(t, out.String())
}

func parsed(t *testing.T, text string) (list []map[string]any) {
	t.Helper()
	for line := range strings.Lines(text) {
		var m map[string]any
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		list = append(list, m)
	}
	return list
}

func TestLine(t *testing.T) {
	call := aCall()
	call.Identity = "ada"
	call.Trace = tandem.Trace{ID: [16]byte{1}, Span: [8]byte{2}}
	end := tandem.Outcome{Began: began(), Took: 1500 * time.Microsecond, Err: tandem.Errorf(tandem.NotFound, "no \"such\"\nthing")}
	lines := written(t, func(l *accesslog.Log) { l.AfterResponse(t.Context(), call, end) })
	want := map[string]any{
		"time": "2026-11-22T10:11:12.131Z", "level": "WARN", "msg": "call", "side": "server", "method": "Arith.Mul",
		"peer": "10.1.2.3:4567", "protocol": "tandem", "code": "not found", "took": 1.5e6, "error": "no \"such\"\nthing",
		"identity": "ada", "trace_id": "01000000000000000000000000000000", "span_id": "0200000000000000",
	}
	if len(lines) != 1 || len(lines[0]) != len(want) {
		t.Fatalf("got %v", lines)
	}
	for k, v := range want {
		if lines[0][k] != v {
			t.Errorf("%s: got %v, want %v", k, lines[0][k], v)
		}
	}
}

// To and ToLogger write the same line, except for the time.
func TestLoggerWritesTheSame(t *testing.T) {
	call := aCall()
	call.Identity, call.Peer.Addr = 7, &net.UnixAddr{Name: "/x"}
	end := tandem.Outcome{Began: began(), Took: time.Second}
	own := written(t, func(l *accesslog.Log) { l.AfterCall(t.Context(), call, end) })[0]
	var out bytes.Buffer
	log := accesslog.New(accesslog.ToLogger(slog.New(slog.NewJSONHandler(&out, nil))))
	log.AfterCall(t.Context(), call, end)
	theirs := parsed(t, out.String())[0]
	delete(own, "time")
	delete(theirs, "time")
	if !maps.Equal(own, theirs) {
		t.Errorf("%v\n%v", own, theirs)
	}
	out.Reset()
	log = accesslog.New(accesslog.ToLogger(slog.New(slog.NewJSONHandler(&out, &slog.HandlerOptions{Level: slog.LevelError}))))
	if log.AfterCall(t.Context(), call, end); out.Len() > 0 || log.Close() != nil || log.Dropped() != 0 {
		t.Errorf("a logger that is not enabled writes %s", &out)
	}
}

func TestFiltersOfLines(t *testing.T) {
	write := func(l *accesslog.Log) {
		l.AfterResponse(t.Context(), aCall(), tandem.Outcome{Began: began(), Took: time.Millisecond})
		l.AfterResponse(t.Context(), aCall(), tandem.Outcome{Began: began(), Took: time.Second})
		l.AfterResponse(t.Context(), aCall(), tandem.Outcome{Began: began(), Err: errors.New("no")})
	}
	if n := len(written(t, write)); n != 3 {
		t.Errorf("%d lines", n)
	}
	if n := len(written(t, write, accesslog.Errors())); n != 1 {
		t.Errorf("%d lines of errors", n)
	}
	if n := len(written(t, write, accesslog.Slower(time.Second))); n != 2 {
		t.Errorf("%d lines of slow ones and errors", n)
	}
}

// A line is written within the time of WithFlush.
func TestFlush(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out locked
		log := accesslog.New(accesslog.To(&out), accesslog.WithFlush(time.Minute))
		log.AfterResponse(t.Context(), aCall(), tandem.Outcome{Began: began()})
		time.Sleep(59 * time.Second)
		if out.len() > 0 {
			t.Error("written too soon")
		}
		time.Sleep(2 * time.Second)
		if out.len() == 0 {
			t.Error("not written in time")
		}
		_ = log.Close()
	})
}

type locked struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *locked) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *locked) len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Len()
}

// stuck is a writer that blocks until it is released.
type stuck struct{ release chan struct{} }

func (s stuck) Write(p []byte) (int, error) {
	<-s.release
	return len(p), nil
}

// A writer that hangs delays no call: lines without room are dropped and counted.
func TestSlowWriterDelaysNoCall(t *testing.T) {
	s := stuck{make(chan struct{})}
	log := accesslog.New(accesslog.To(s))
	const lines = 5000
	for range lines {
		log.AfterResponse(t.Context(), aCall(), tandem.Outcome{Began: began()})
	}
	if n := log.Dropped(); n == 0 || n >= lines {
		t.Errorf("%d of %d lines dropped", n, lines)
	}
	close(s.release)
	if err := log.Close(); err != nil {
		t.Error(err)
	}
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errors.New("disk full") }

func TestFailedWriteIsTold(t *testing.T) {
	log := accesslog.New(accesslog.To(broken{}))
	log.AfterResponse(t.Context(), aCall(), tandem.Outcome{Began: began()})
	if err := log.Close(); err == nil || log.Dropped() != 1 {
		t.Errorf("got %v, %d dropped", err, log.Dropped())
	}
	log.AfterResponse(t.Context(), aCall(), tandem.Outcome{Began: began()})
	if log.Dropped() != 2 {
		t.Error("a line after Close is not counted as dropped")
	}
}

// Writing a line allocates nothing.
func TestLinesAllocateNothing(t *testing.T) {
	if testing.CoverMode() != "" || raceEnabled {
		t.Skip("what watches the program allocates; CI runs the tests without it too")
	}
	log := accesslog.New(accesslog.To(&locked{}))
	defer func() { _ = log.Close() }()
	call, end, ctx := aCall(), tandem.Outcome{Began: began(), Took: 15 * time.Microsecond}, context.Background()
	if n := testing.AllocsPerRun(100, func() { log.AfterResponse(ctx, call, end) }); n >= 1 {
		t.Errorf("%v allocations a line", n)
	}
}

// Whatever a caller sends, a line is one line of JSON with that text in it.
func FuzzLine(f *testing.F) {
	f.Add("Arith.Mul", "an error")
	f.Add("a\"\\\n\x00\x7f", "\xff\u2028é\xed\xa0\x80")
	f.Fuzz(func(t *testing.T, method, text string) {
		call := aCall()
		call.Method = method
		end := tandem.Outcome{Began: began(), Err: &tandem.Error{Code: tandem.Unknown, Message: text}}
		lines := written(t, func(l *accesslog.Log) { l.AfterResponse(t.Context(), call, end) })
		if len(method)+len(text) > 10<<10 { // there may be no room for it
			return
		}
		if len(lines) != 1 || lines[0]["method"] != asJSON(method) || lines[0]["error"] != asJSON(text) {
			t.Errorf("got %v", lines)
		}
	})
}

// asJSON returns s as JSON can represent it: each byte that is not UTF-8 becomes U+FFFD.
func asJSON(s string) string { return string([]rune(s)) }
