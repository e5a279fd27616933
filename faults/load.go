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

// The variants of small calls. A fail mode's name is a variant too.
const (
	variantDefault = "default" // as the system calls by itself
	variantSafe    = "+safe"   // behind a fail mode: the call is idempotent
	variantUpload  = "upload"
	variantFresh   = "fresh"  // with a client of its own
	variantStream  = "stream" // a stream of two seconds; a plain call of rpcx
	variantCancel  = "cancel" // given up by its caller after a millisecond
	variantQuick   = "quick"  // of a second method, which is not overloaded
	variantGreedy  = "greedy" // all of the first client of several; the others make the rest
)

// plan is what a client process does. The lab gives it as JSON.
type plan struct {
	System  string
	Addrs   []string
	Journal string

	Registry  string // target of the servers' list; they are Addrs if it is empty
	Snapshots string // folder of the client's snapshots of the list; none if empty
	FirstID   uint64 // the first call's ID, less one
	Usage     bool   // write a line of goroutines and heap before and after
	Unwarmed  bool   // make no calls before the start
	Clients   int    // with connections of their own, which take turns; 1 if it is 0
	Sources   bool   // each of them has an address of its own, see sourceAddr
	Client    int    // which of them this is
	Stalls    int    // streams whose answers the client does not read, from the start to the end

	Overload float64 // times what the server can do, see load.overload; Rate holds if it is 0
	Calm     bool    // half of it instead
	Beside   beside  // calls that go on beside the overload

	Rate     float64       // small calls a second, on a fixed schedule whatever becomes of them
	Duration time.Duration // for which they begin
	Deadline time.Duration // of each
	Work     time.Duration // of the handler
	Size     int           // bytes of a small request
	Variants []string      // taken in turn; one of them by default: "default"

	// Uploads begin together, on one connection. The small calls then end with the last.
	Uploads        int
	UploadSize     int
	UploadDeadline time.Duration
}

// beside is calls that one part of the callers makes while another overloads the server.
type beside struct {
	Variant string
	Rate    float64 // calls a second
	Share   float64 // or this part of what the server can do
}

func (b beside) rate(capacity float64) float64 { return b.Rate + b.Share*capacity }

// target is the plan's servers as tandem names them.
func (p plan) target() string {
	if p.Registry != "" {
		return p.Registry
	}
	if len(p.Addrs) == 1 {
		return "tcp://" + p.Addrs[0]
	}
	return "static://" + strings.Join(p.Addrs, ",")
}

// loadRole is a client process. It reads a plan, connects, writes "ready", waits for a
// line, makes the plan's calls, writes a line of counts each second, and ends when all
// calls have and its journal is written.
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
	if l.entries = nil; p.Usage { // the journal is the lab's, and no leak of the client
		after := ownUsage()
		fmt.Fprintf(out, "stats "+statsFormat+"\n", before.goroutines, after.goroutines, before.heap, after.heap)
	}
	return err
}

// herd is clients of one system that take turns. If there are greedy calls, they are all of
// the first.
type herd struct {
	caller // the first
	all    []caller
	greedy bool
	next   *atomic.Uint64
}

// dialHerd makes as many clients as the plan has.
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
	// stall opens a stream whose server sends without end, and reads nothing of it.
	stall(ctx context.Context) error
}

// stallStreams opens the plan's streams and returns a function that ends them.
func stallStreams(c caller, p plan, out io.Writer) (end func(), err error) {
	if p.Stalls == 0 {
		return func() {}, nil
	}
	s, ok := c.(staller)
	if !ok {
		return nil, fmt.Errorf("%s: it has no streams", p.System)
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

// warm makes calls until several in a row have succeeded.
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

// load is the calls of a plan while they are made.
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

// openLoop begins calls on schedule until end.
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

// call makes one call, which was due at some time, and writes it down.
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
		e.Code = "no answer" // an error that Failsafe has swallowed
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

// report writes the counts each second until stop is called.
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
