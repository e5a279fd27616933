package demo

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/cmd/tandem/internal/services"
)

// fakeCaller answers calls after a time, with the right response unless spoil is set.
type fakeCaller struct {
	takes time.Duration
	err   error
	spoil bool // answer with wrong results

	mu      sync.Mutex
	methods map[string]int
	times   []time.Time
}

func (f *fakeCaller) Call(ctx context.Context, method string, args, reply any, opts ...tandem.CallOption) error {
	f.mu.Lock()
	if f.methods == nil {
		f.methods = map[string]int{}
	}
	f.methods[method]++
	f.times = append(f.times, time.Now())
	f.mu.Unlock()
	call := &tandem.Call{Peer: &tandem.Peer{Instance: "s1"}}
	for _, o := range opts {
		o(call)
	}
	sleepUntil(ctx, time.Now().Add(f.takes))
	if f.err == nil && !f.spoil {
		answer(args, reply)
	}
	call.End(f.err)
	return f.err
}

func answer(args, reply any) {
	switch reply := reply.(type) {
	case *services.Reply:
		args := args.(*services.Args)
		reply.C = args.A * args.B
	case *services.Receipt:
		reply.ID = args.(*services.Entry).ID
	case *services.Greeting:
		*reply = *args.(*services.Greeting)
		reply.Answer = "Hello, " + reply.Name
	}
}

func (*fakeCaller) OpenStream(context.Context, string, ...tandem.CallOption) (tandem.MessageStream, error) {
	return nil, errors.New("no streams")
}

// makeCalls runs the schedule with the caller and returns the statistics.
func makeCalls(t *testing.T, f *fakeCaller, inFlight int) *stats {
	cfg := config()
	p := newPlan(&cfg)
	s := newStats(p.calls())
	l := &load{client: f, plan: p, stats: s, slots: make(chan struct{}, inFlight)}
	l.run(t.Context(), time.Now())
	l.wait()
	return s
}

func TestLoadIsAnOpenLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		f := &fakeCaller{takes: 3 * time.Second} // far longer than the interval between calls
		sum := makeCalls(t, f, maxInFlight).totals()
		if sum.made != 1000 || sum.ok != 1000 || sum.overflow != 0 {
			t.Errorf("totals %+v", sum)
		}
		for i, at := range f.times {
			if late := at.Sub(start) - time.Duration(i)*10*time.Millisecond; late < -time.Millisecond || late > time.Millisecond {
				t.Fatalf("call %d came %v late", i, late)
			}
		}
		for _, method := range []string{services.Mul, services.Say, services.Append} {
			if f.methods[method] == 0 {
				t.Errorf("no call of %s", method)
			}
		}
	})
}

func TestLoadIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeCaller{takes: time.Second} // 100 at a time without the limit
		sum := makeCalls(t, f, 50).totals()
		if sum.made+sum.overflow != 1000 || sum.made < 450 || sum.made > 550 {
			t.Errorf("totals %+v", sum)
		}
	})
}

// TestLatencyCountsFromWhenACallWasDue starts the load with calls that are overdue.
func TestLatencyCountsFromWhenACallWasDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := config()
		p := newPlan(&cfg)
		s := newStats(p.calls())
		l := &load{client: new(fakeCaller), plan: p, stats: s, slots: make(chan struct{}, maxInFlight)}
		l.run(t.Context(), time.Now().Add(-2*time.Second)) // 2 s of calls are overdue
		l.wait()
		var worst figures
		s.read("", func(all *latencies) { worst = all.total(cfg.Duration) })
		if worst.p99 < 1800*time.Millisecond {
			t.Errorf("p99 %v of calls that were up to 2 s late", worst.p99)
		}
	})
}

func TestLoadFindsWrongAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := makeCalls(t, &fakeCaller{spoil: true}, maxInFlight)
		// A product of zero is right by accident.
		if sum := s.totals(); sum.wrong < 990 || sum.ok > 10 {
			t.Errorf("totals %+v", sum)
		}
	})
}

func TestLoadStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		cfg := config()
		p := newPlan(&cfg)
		s := newStats(p.calls())
		l := &load{client: &fakeCaller{takes: time.Hour}, plan: p, stats: s, slots: make(chan struct{}, maxInFlight)}
		start := time.Now()
		l.run(ctx, start)
		l.wait()
		if took := time.Since(start); took > time.Second {
			t.Errorf("stopped after %v", took)
		}
	})
}
