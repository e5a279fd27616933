// Package metrics (stable) counts calls: how many, with which errors, how long they took, and
// how many are running, for each method. One value serves a server or a client, or both.
//
//	m := metrics.New()
//	srv := server.New(server.WithPlugins(m))
//	…
//	for _, s := range m.Snapshot() { fmt.Println(s.Method, s.Calls(), s.Latency.Quantile(0.99)) }
//
// Counting a call allocates nothing and takes no lock. Package telemetry/prom exports the
// counts.
package metrics

import (
	"cmp"
	"context"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"unicode/utf8"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/plugin"
)

// Side is the side on which calls are counted.
type Side uint8

// The sides.
const (
	Server Side = iota
	Client
)

// String returns "server" or "client".
func (s Side) String() string {
	if s == Client {
		return "client"
	}
	return "server"
}

// Other stands for methods that are not counted by name: at a client those beyond
// [WithMaxMethods] and names that are not UTF-8, at a server methods that do not exist.
const Other = "_OTHER"

const defaultMaxMethods = 1024

// Option changes what [New] returns.
type Option func(*Metrics)

// WithMaxMethods bounds the methods that a client counts by name, as the names may come from
// anywhere; 1,024 by default. A server counts those that are registered, and all others as
// [Other].
func WithMaxMethods(n int) Option { return func(m *Metrics) { m.most = max(1, n) } }

// Metrics is a plugin for servers and clients. It is safe for concurrent use.
type Metrics struct {
	most   int
	shards uint32

	all atomic.Pointer[map[key]*counters] // copied to be changed
	mu  sync.Mutex                        // serialises changes
	// called is the number of methods of a client; guarded by mu
	called int
}

type key struct {
	side   Side
	method string
}

// New returns a plugin that has counted nothing.
func New(opts ...Option) *Metrics {
	m := &Metrics{most: defaultMaxMethods, shards: 1}
	for m.shards < uint32(min(runtime.GOMAXPROCS(0), 16)) { //nolint:gosec // positive and small
		m.shards *= 2
	}
	m.all.Store(&map[key]*counters{})
	for _, o := range opts {
		o(m)
	}
	return m
}

// KeepsNothing implements [plugin.KeepsNothing].
func (*Metrics) KeepsNothing() {}

// ForMethod returns the plugin that counts a server's calls of a method.
func (m *Metrics) ForMethod(of plugin.Method) any {
	return (*served)(m.counters(key{Server, cmp.Or(of.Name, Other)}))
}

// served counts a server's calls of one method.
type served counters

// Intercept counts the calls that are running.
func (s *served) Intercept(next tandem.Func) tandem.Func {
	c := (*counters)(s)
	return func(ctx context.Context, call *tandem.Call) error {
		c.running.Add(1)
		defer c.running.Add(-1)
		return next(ctx, call)
	}
}

// AfterResponse counts a call.
func (s *served) AfterResponse(_ context.Context, call *tandem.Call, end tandem.Outcome) {
	c := (*counters)(s)
	c.count(end)
	c.exemplify(call, end)
}

// Intercept counts a client's calls that are running.
func (m *Metrics) Intercept(next tandem.Func) tandem.Func {
	return func(ctx context.Context, call *tandem.Call) error {
		c := m.counters(key{Client, call.Method})
		c.running.Add(1)
		defer c.running.Add(-1)
		return next(ctx, call)
	}
}

// AfterCall counts a client's call.
func (m *Metrics) AfterCall(_ context.Context, call *tandem.Call, end tandem.Outcome) {
	c := m.counters(key{Client, call.Method})
	s := c.count(end)
	if end.Attempts != 1 { // rare, so most calls don't write it
		s.further.Add(int64(end.Attempts) - 1)
	}
	c.exemplify(call, end)
}

// counters returns the counters of a method.
func (m *Metrics) counters(k key) *counters {
	if c := (*m.all.Load())[k]; c != nil {
		return c
	}
	return m.newCounters(k)
}

func (m *Metrics) newCounters(k key) *counters {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := *m.all.Load()
	if all[k] == nil && k.side == Client {
		if m.called == m.most || !utf8.ValidString(k.method) { // metrics systems refuse such names
			k.method = Other
		} else {
			m.called++
		}
	}
	if c := all[k]; c != nil {
		return c
	}
	c := &counters{shards: make([]shard, m.shards)}
	all = maps.Clone(all)
	all[k] = c
	m.all.Store(&all)
	return c
}

// counters are the counters of one method.
type counters struct {
	running   atomic.Int64
	shards    []shard
	exemplars exemplars
}

// shard holds the counts of some of the goroutines, so that processors do not wait for each
// other's caches.
type shard struct {
	latency [Buckets]atomic.Uint64
	sum     atomic.Int64 // nanoseconds
	errors  [codes]atomic.Uint64
	further atomic.Int64 // attempts beyond one a call; less than 0 if more calls had none
	_       [64]byte
}

const codes = int(tandem.Unauthenticated) + 1

// count counts a call, and returns the shard that it chose.
func (c *counters) count(end tandem.Outcome) *shard {
	s := &c.shards[rand.Uint32()&uint32(len(c.shards)-1)] //nolint:gosec // the length is a power of two; any shard will do
	s.latency[bucketOf(end.Took)].Add(1)
	s.sum.Add(int64(end.Took))
	if end.Err != nil {
		code := end.Code()
		if !code.Valid() {
			code = tandem.Unknown
		}
		s.errors[code].Add(1)
	}
	return s
}

// Snapshot holds the counts of a method.
type Snapshot struct {
	Side    Side
	Method  string
	Running int64                  // calls in flight; a stream counts until it is over, on a client until it is open
	Errors  map[tandem.Code]uint64 // calls that failed
	Latency Histogram              // latency of all calls; of streams the time that they were open

	// Attempts is how many attempts a client made at the calls that have ended: more than the calls
	// if it retried, less if calls found no instance. On a server it is 0.
	Attempts uint64
	// Exemplars are calls of sampled traces, one for each bucket of Latency that has one, at most
	// about a second older than the last such call.
	Exemplars []Exemplar
}

// Calls returns how many calls have ended.
func (s *Snapshot) Calls() uint64 { return s.Latency.Count() }

// Snapshot returns all counts, sorted by side and method. A call that ends meanwhile may be
// counted in one figure and not yet in another.
func (m *Metrics) Snapshot() []Snapshot {
	var list []Snapshot
	for k, c := range *m.all.Load() {
		list = append(list, c.read(k.side, k.method))
	}
	slices.SortFunc(list, func(a, b Snapshot) int {
		return cmp.Or(cmp.Compare(a.Side, b.Side), cmp.Compare(a.Method, b.Method))
	})
	return list
}

func (c *counters) read(side Side, method string) Snapshot {
	s := Snapshot{Side: side, Method: method, Running: c.running.Load(), Errors: map[tandem.Code]uint64{}}
	further := int64(0)
	for i := range c.shards {
		shard := &c.shards[i]
		for b := range shard.latency {
			s.Latency.Counts[b] += shard.latency[b].Load()
		}
		s.Latency.Sum += shard.sumOf()
		further += shard.further.Load()
		for code := range shard.errors {
			if n := shard.errors[code].Load(); n > 0 {
				s.Errors[tandem.Code(code)] += n
			}
		}
	}
	if side == Client {
		s.Attempts = uint64(max(0, int64(s.Calls())+further)) //nolint:gosec // counts of calls
	}
	s.Exemplars = c.exemplars.list()
	return s
}
