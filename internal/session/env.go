// Package session carries many calls on one connection, in both directions.
//
// The protocol is a pure state machine, package [machine], guarded by one mutex that
// is never held across a system call: frames in, events and frames out, time
// as an argument. This package is the shell of goroutines round it: one reader a
// connection, which runs short handlers itself; the writer, which is any goroutine
// that queues a frame while no other writes; and one monitor for all sessions of an [Env].
package session

import (
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/internal/budget"
	"github.com/tandem-rpc/tandem/internal/dispatch"
	"github.com/tandem-rpc/tandem/internal/overload"
	"github.com/tandem-rpc/tandem/wire"
)

// Config is the configuration that all sessions of a client or a server share.
type Config struct {
	Settings    wire.Settings // what we accept; its lists of names are filled in
	Codecs      []tandem.Codec
	Compressors []tandem.Compressor
	Usual       string // name of the codec of most calls, which is looked up faster; "" for none

	// CompressAbove is the size from which messages of calls with a
	// compressor are compressed.
	CompressAbove int

	// Resolve finds the method that a peer's request names; nil means there
	// is none. Resolve itself is nil when the peer can't call us at all.
	Resolve func(method string) *Target

	// Load returns the load report of this side, given how many handlers run. The first
	// response of every write carries it. It must not block. May be nil.
	Load func(running int64) wire.Load

	// OnPanic is called for a panic in a function of the application that runs
	// when a call of the peer has ended. May be nil.
	OnPanic dispatch.PanicFunc

	// OnClose is called exactly once when a started session has ended.
	OnClose func(*Session, error)

	// Memory bounds what large requests of the peers hold together; nil for no limit.
	// MaxDecoded bounds what one message takes when it is decoded, in bytes; 0 for no limit.
	Memory     *budget.Budget
	MaxDecoded int64

	// Gate admits the peers' calls; nil for no limit. Caller returns a hash of the caller, and Class
	// returns how critical a call is.
	Gate   *overload.Gate
	Caller func(*tandem.Peer) uint64
	Class  func(*tandem.Call) overload.Class

	Handshake time.Duration // how long a peer may take to say hello; 0 means 3 s
	Stall     time.Duration // how long a frame may take to arrive or a write to be taken; 0 means 10 s
	Silence   time.Duration // how long a peer may be silent while calls are outstanding; 0 means 20 s
	Logger    *slog.Logger

	// Move decides whether a call that waits at a suspect session is given up, to be made
	// at another instance; if so, Move has charged it to the retry budget. The session's
	// mutex is held: Move must neither block nor use the session. With nil no call moves.
	Move func(*Session, *tandem.Call) bool
}

// Times and bounds of every session.
const (
	defaultHandshake = 3 * time.Second
	tickEvery        = 2 * time.Millisecond
	slowTick         = 10 * time.Millisecond
	calmTick         = 250 * time.Millisecond
	quietTime        = 100 * time.Millisecond // how long a session without calls stays on the monitor's list
	tickPerSession   = 4 * time.Microsecond   // added to the time between ticks for each session: an idle one is in no cache, so a tick waits for memory
	lateTick         = 500 * time.Millisecond // a tick this late means that this process did not run
	rttEvery         = 5 * time.Second
	defaultStall     = 10 * time.Second
	drainLinger      = time.Second

	staysLarge = 16 // after this many reads in a row that need only a small buffer, a reader goes back to one
)

// Windows of streams.
const (
	DefaultStreamWindow = 1 << 20
	windowsInAll        = 16 // the window of a connection, in windows of one stream
	MaxStreamWindow     = wire.MaxWindow / windowsInAll
)

// Settings returns the default settings, with streamWindow as the window of each stream.
func Settings(streamWindow int) wire.Settings {
	s := wire.DefaultSettings()
	s.StreamWindow = uint64(streamWindow) //nolint:gosec // from MinWindow to MaxStreamWindow
	s.ConnWindow = windowsInAll * s.StreamWindow
	return s
}

// Env is what sessions share: settings, buffers, the clock and the monitor. It
// belongs to one client or server.
type Env struct {
	// The fields that every call needs come first: with thousands of clients they are
	// in no cache.
	clock
	dones      *sync.Pool // of chan struct{}, with room for a token
	usual      string     // the name of usualCodec
	usualCodec tandem.Codec
	proto      tandem.Codec // the codec named ProtoCodec; nil if there is none
	checker    MessageChecker

	cfg     Config
	monitor monitor
	noPeer  tandem.Peer // the peer of calls for which no instance is chosen yet

	running atomic.Int64 // goroutines that run handlers

	ending sync.Mutex // guards closed, and orders wg.Add before wg.Wait
	closed bool
	wg     sync.WaitGroup
}

// allDones is the process's pool of channels for Env.dones. A test that uses testing/synctest
// needs another pool, as channels must not leave its bubble: see donesOf.
var allDones sync.Pool

// donesOf returns the pool for an Env that was made at start: a new one in a bubble, whose
// times have no monotonic clock reading.
func donesOf(start time.Time) *sync.Pool {
	if start == start.Round(0) { //nolint:staticcheck // Equal would not see the difference
		return new(sync.Pool)
	}
	return &allDones
}

func (e *Env) takeDone() chan struct{} {
	if done, ok := e.dones.Get().(chan struct{}); ok {
		return done
	}
	return make(chan struct{}, 1)
}

// Running returns how many goroutines run handlers.
func (e *Env) Running() int64 { return e.running.Load() }

// Validate returns an error if there are too many codecs or compressors, or a name is invalid.
func (c *Config) Validate() error {
	for what, names := range map[string][]string{"codec": names(c.Codecs), "compressor": names(c.Compressors)} {
		if len(names) > wire.MaxListed {
			return fmt.Errorf("%d %ss, limit %d", len(names), what, wire.MaxListed)
		}
		for _, n := range names {
			if n == "" || len(n) > wire.MaxListedName {
				return fmt.Errorf("%s with the name %.40q: it must have 1 to %d bytes", what, n, wire.MaxListedName)
			}
		}
	}
	return nil
}

func names[T interface{ Name() string }](list []T) (names []string) {
	for _, v := range list {
		names = append(names, v.Name())
	}
	return names
}

// quiet is the logger of an Env whose Config has none.
var quiet = slog.New(slog.DiscardHandler) //nolint:gochecknoglobals // never changed

// NewEnv returns an Env. Close ends it.
func NewEnv(cfg Config) *Env {
	start := time.Now()
	e := &Env{cfg: cfg, clock: clock{start}, dones: donesOf(start)}
	if e.cfg.Handshake == 0 {
		e.cfg.Handshake = defaultHandshake
	}
	if e.cfg.Stall == 0 {
		e.cfg.Stall = defaultStall
	}
	if e.cfg.Silence == 0 {
		e.cfg.Silence = DefaultSilence
	}
	if e.cfg.Logger == nil {
		e.cfg.Logger = quiet
	}
	e.cfg.Settings.Codecs, e.cfg.Settings.Compressors = names(cfg.Codecs), names(cfg.Compressors)
	e.usual, e.usualCodec = cfg.Usual, e.Codec(cfg.Usual)
	e.proto = e.Codec(ProtoCodec)
	e.checker, _ = e.proto.(MessageChecker)
	e.monitor.env = e
	return e
}

// Close ends the monitor and waits, at most wait, for the goroutines of all
// sessions, which must have been closed. It reports whether all have ended: a
// handler that does not return can't be stopped.
func (e *Env) Close(wait time.Duration) bool {
	e.monitor.stop()
	e.ending.Lock()
	e.closed = true
	e.ending.Unlock()
	return WaitFor(&e.wg, wait)
}

// Spawn runs f in a goroutine that Close waits for. After Close it returns false
// and does not run f.
func (e *Env) Spawn(f func()) bool {
	e.ending.Lock()
	defer e.ending.Unlock()
	if !e.closed {
		e.wg.Go(f)
	}
	return !e.closed
}

// run runs f, and Close waits for it; after Close it does nothing.
func (e *Env) run(f func()) {
	e.ending.Lock()
	closed := e.closed
	if !closed {
		e.wg.Add(1)
	}
	e.ending.Unlock()
	if !closed {
		defer e.wg.Done()
		f()
	}
}

// WaitFor waits for wg, at most the duration most, and reports whether wg is done.
func WaitFor(wg *sync.WaitGroup, most time.Duration) bool {
	done := make(chan struct{})
	go func() {
		wg.Wait()
		close(done)
	}()
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case <-done:
		return true
	case <-timer.C:
		return false
	}
}

// Codec returns the codec of that name, or nil.
func (e *Env) Codec(name string) tandem.Codec {
	if name == e.usual && e.usualCodec != nil {
		return e.usualCodec
	}
	if i := slices.Index(e.cfg.Settings.Codecs, name); i >= 0 {
		return e.cfg.Codecs[i]
	}
	return nil
}

// Compressor returns the compressor of that name, or nil.
func (e *Env) Compressor(name string) tandem.Compressor {
	for _, c := range e.cfg.Compressors {
		if c.Name() == name {
			return c
		}
	}
	return nil
}

// In returns the time d from now by the sessions' clock.
func (e *Env) In(d time.Duration) time.Time { return e.at(e.now() + int64(d)) }

// NoPeer is the peer of calls for which no instance is chosen yet.
func (e *Env) NoPeer() *tandem.Peer { return &e.noPeer }

// MaxMessage returns the limit of a received message, in bytes.
func (e *Env) MaxMessage() uint64 { return e.cfg.Settings.MaxMessage }

// Checker returns the codec that knows the types of methods' messages; nil for none.
func (e *Env) Checker() MessageChecker { return e.checker }

// CompressAbove returns the size from which messages are compressed.
func (e *Env) CompressAbove() int { return e.cfg.CompressAbove }

// ProtoCodec is the name of the codec of Protocol Buffers.
const ProtoCodec = "protobuf"

// MessageChecker is an optional interface of a codec that knows the types of methods'
// messages. The codec of Protocol Buffers knows services whose generated code is in the program.
type MessageChecker interface {
	// CheckMessages returns an error if a method is known, and takes other messages
	// than those sent or returns others than those received; nil types are not checked.
	CheckMessages(method string, sent, received reflect.Type) error
}

// clock counts from when an Env was made. Each session has a copy, which is more likely
// than the Env's to be in the processor's cache.
type clock struct{ start time.Time }

// now returns monotonic time in nanoseconds, which steps of the wall clock do not change.
func (c *clock) now() int64 { return int64(time.Since(c.start)) }

// instant converts a deadline to the clock's nanoseconds; 0 for none.
func (c *clock) instant(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return max(1, int64(t.Sub(c.start)))
}

// Now returns the current time in ns by the sessions' clock, which the gate uses too.
func (e *Env) Now() int64 { return e.now() }

// Instant converts a deadline to ns of the sessions' clock; 0 for none.
func (e *Env) Instant(t time.Time) int64 { return e.instant(t) }

// At converts ns of the sessions' clock to a time.
func (e *Env) At(instant int64) time.Time { return e.at(instant) }

func (c *clock) at(instant int64) time.Time { return c.start.Add(time.Duration(instant)) }
