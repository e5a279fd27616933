package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// The variants of calls. The name of a fail mode is a variant, too.
const (
	variantDefault = "default" // with the system's defaults
	variantSafe    = "+safe"   // suffix of a fail mode: the call is idempotent
	variantUpload  = "upload"
	variantFresh   = "fresh"  // by a new client, which is closed after the call
	variantStream  = "stream" // a stream of 2 s; rpcx makes a unary call instead
	variantCancel  = "cancel" // cancelled by its caller after 1 ms
	variantQuick   = "quick"  // to a second method, which is not overloaded
	variantKeyed   = "keyed"  // with a key, and Failover
	variantGreedy  = "greedy" // all made by the first of several clients; the others make the other calls
)

// plan says what a client process does. The lab sends it as JSON to the process's standard
// input.
type plan struct {
	System  string
	Addrs   []string
	Journal string

	Registry  string // registry target that lists the servers; the servers are Addrs if it is empty
	Snapshots string // directory of the client's snapshots of the registry's list; none if empty
	FirstID   uint64 // ID of the first call, minus 1
	Usage     bool   // report goroutines and heap before and after the load
	Unwarmed  bool   // make no calls before the start
	Clients   int    // number of clients, which take turns and have their own connections; 0 means 1
	Sources   bool   // each client dials from its own address, see sourceAddr
	Client    int    // index of this client
	Retries   int    // most retries of a call, with a budget for one of each call; 0 for the system's defaults
	Stalls    int    // streams that the client opens at the start and does not read from

	Overload float64 // load as a multiple of the server's capacity, see load.overload; if 0, Rate applies
	Calm     bool    // offer half of the capacity instead
	Beside   beside  // calls made in parallel with the overload

	Rate     float64       // small calls a second, on a fixed schedule that does not wait for responses
	Duration time.Duration // time during which small calls begin
	Deadline time.Duration // of each small call, from its due time
	Work     time.Duration // how long the handler takes
	Size     int           // bytes of a small request
	Variants []string      // of the small calls, used in turn; "default" only if empty

	// Uploads begin together, on one connection. With uploads, small calls begin until the
	// last upload has ended; Duration does not apply.
	Uploads        int
	UploadSize     int
	UploadDeadline time.Duration
}

// beside describes calls that are made while other calls overload the server. Its rate is the
// sum of Rate and Share.
type beside struct {
	Variant string
	Rate    float64 // calls a second
	Share   float64 // share of the server's capacity
}

func (b beside) rate(capacity float64) float64 { return b.Rate + b.Share*capacity }

// target returns tandem's target for the plan's servers.
func (p plan) target() string {
	if p.Registry != "" {
		return p.Registry
	}
	if len(p.Addrs) == 1 {
		return "tcp://" + p.Addrs[0]
	}
	return "static://" + strings.Join(p.Addrs, ",")
}

// loadRole runs a client process. It reads a plan, connects, writes "ready" and waits for a
// line. Then it makes the plan's calls and writes a line of counts each second. It returns
// when all calls have ended and the journal is written.
func loadRole(in io.Reader, out io.Writer) error {
	r := bufio.NewReader(in)
	line, err := r.ReadBytes('\n')
	if err != nil {
		return fmt.Errorf("%s: no plan: %w", roleLoad, err)
	}
	var p plan
	if err := json.Unmarshal(line, &p); err != nil {
		return fmt.Errorf("%s: %w", roleLoad, err)
	}
	c, err := dialHerd(p)
	if err != nil {
		return err
	}
	defer c.close()
	followClock(p.Journal)
	if !p.Unwarmed {
		if err := warm(c, p); err != nil {
			return err
		}
	}
	fmt.Fprintln(out, "ready")
	if _, err := r.ReadString('\n'); err != nil {
		return fmt.Errorf("%s: no start: %w", roleLoad, err)
	}
	var before usage
	if p.Usage {
		before = ownUsage()
	}
	unstall, err := stallStreams(c, p, out)
	if err != nil {
		return err
	}
	l := &load{plan: p, caller: c, start: time.Now()}
	l.ids.Store(p.FirstID)
	stop := l.report(out)
	if p.Overload > 0 {
		l.overload(out)
	} else {
		l.run()
	}
	stop()
	unstall()
	err = writeEntries(p.Journal, l.entries)
	if l.entries = nil; p.Usage { // the entries are part of the lab, not a leak of the client
		after := ownUsage()
		fmt.Fprintf(out, "stats "+statsFormat+"\n", before.goroutines, after.goroutines, before.heap, after.heap)
	}
	return err
}

// herd is a caller that distributes calls over several clients of one system, in turn. The
// first client makes all greedy calls, and then no others.
type herd struct {
	caller // the first of all
	all    []caller
	greedy bool
	next   *atomic.Uint64
}

// dialHerd returns a caller with plan.Clients clients.
func dialHerd(p plan) (caller, error) {
	first, err := dialSystem(p)
	if err != nil || p.Clients < 2 {
		return first, err
	}
	h := herd{caller: first, all: []caller{first}, greedy: slices.Contains(p.Variants, variantGreedy), next: &atomic.Uint64{}}
	for i := range p.Clients - 1 {
		p.Client = i + 1
		c, err := dialSystem(p)
		if err != nil {
			return nil, err
		}
		h.all = append(h.all, c)
	}
	return h, nil
}

func (h herd) call(ctx context.Context, variant string, request []byte) ([]byte, error) {
	all := h.all
	switch {
	case variant == variantGreedy:
		return h.caller.call(ctx, variantDefault, request)
	case h.greedy:
		all = all[1:]
	}
	return all[h.next.Add(1)%uint64(len(all))].call(ctx, variant, request)
}

func (h herd) close() {
	for _, c := range h.all {
		c.close()
	}
}

// staller is a caller that can open streams.
type staller interface {
	// stall opens a stream on which the server sends until the stream ends. It reads nothing
	// from the stream.
	stall(ctx context.Context) error
}

// stallStreams opens p.Stalls streams and returns a function that ends them.
func stallStreams(c caller, p plan, out io.Writer) (end func(), err error) {
	if p.Stalls == 0 {
		return func() {}, nil
	}
	s, ok := c.(staller)
	if !ok {
		return nil, fmt.Errorf("%s: the system has no streams", p.System)
	}
	ctx, cancel := context.WithCancel(context.Background())
	for n := range p.Stalls {
		if err := s.stall(ctx); err != nil {
			cancel()
			return nil, fmt.Errorf("stream %d of %d: %w", n, p.Stalls, err)
		}
	}
	fmt.Fprintf(out, "proof %d streams opened and not read\n", p.Stalls)
	return cancel, nil
}

// warm makes calls until two for each address, or one for each client if that is more, have
// succeeded in a row.
func warm(c caller, p plan) error {
	const limit = 45 * time.Second
	var last error
	began := time.Now()
	for good := 0; good < max(2*len(p.Addrs), p.Clients); {
		if time.Since(began) > limit {
			return fmt.Errorf("%s: no call succeeded within %v before the load: %w", p.System, limit, last)
		}
		ctx, cancel := context.WithTimeout(context.Background(), 15*time.Second)
		_, err := c.call(ctx, variantDefault, appendRequest(0, 0, 0))
		cancel()
		if good++; err != nil {
			good, last = 0, err
			time.Sleep(100 * time.Millisecond)
		}
	}
	return nil
}

// load makes the calls of a plan and records them.
type load struct {
	plan   plan
	caller caller
	start  time.Time
	ids    atomic.Uint64
	calls  sync.WaitGroup

	mu         sync.Mutex
	entries    []entry
	ok, failed int
}

func (l *load) run() {
	var uploads sync.WaitGroup
	for range l.plan.Uploads {
		uploads.Go(func() {
			l.call(time.Now(), variantUpload, l.plan.UploadSize, l.plan.UploadDeadline)
		})
	}
	end := make(chan struct{})
	go func() {
		defer close(end)
		if l.plan.Uploads > 0 {
			uploads.Wait()
		} else {
			time.Sleep(l.plan.Duration)
		}
	}()
	l.openLoop(end)
	uploads.Wait()
	l.calls.Wait()
}

// openLoop begins calls at the plan's rate, without waiting for responses, until end is
// closed.
func (l *load) openLoop(end <-chan struct{}) {
	if l.plan.Rate <= 0 {
		<-end
		return
	}
	variants := l.plan.Variants
	if len(variants) == 0 {
		variants = []string{variantDefault}
	}
	for i := 0; ; i++ {
		due := l.start.Add(time.Duration(float64(i) / l.plan.Rate * float64(time.Second)))
		select {
		case <-end:
			return
		case <-time.After(time.Until(due)):
		}
		l.calls.Go(func() { l.call(due, variants[i%len(variants)], l.plan.Size, l.plan.Deadline) })
	}
}

// call makes one call and records it. Its duration and its deadline count from due, so a late
// start makes a call slower.
func (l *load) call(due time.Time, variant string, size int, deadline time.Duration) {
	id := l.ids.Add(1)
	ctx, cancel := context.WithDeadline(context.Background(), due.Add(deadline))
	defer cancel()
	how := variant
	switch variant {
	case variantUpload:
		how = variantDefault
	case variantCancel:
		how = variantDefault
		timer := time.AfterFunc(time.Millisecond, cancel)
		defer timer.Stop()
	}
	answer, err := l.caller.call(ctx, how, appendRequest(id, l.plan.Work, size))
	e := entry{ID: id, Variant: variant, At: due.UnixNano(), Took: int64(time.Since(due)), Code: codeOK}
	switch {
	case err != nil:
		e.Code, e.NotExecuted = l.caller.verdict(err)
		e.Message = err.Error()
	case len(answer) == 0:
		e.Code = "no answer" // Failsafe returns no error when a call fails
	case len(answer) < answerSize || binary.BigEndian.Uint64(answer) != id:
		e.Code, e.Message = "wrong answer", fmt.Sprintf("%x", answer)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.entries = append(l.entries, e)
	if e.ok() {
		l.ok++
	} else {
		l.failed++
	}
}

// report writes the numbers of calls made, succeeded and failed each second until stop is
// called.
func (l *load) report(out io.Writer) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			l.mu.Lock()
			fmt.Fprintf(out, "%d %d %d\n", l.ids.Load(), l.ok, l.failed)
			l.mu.Unlock()
		}
	}()
	return func() { cancel(); <-done }
}
