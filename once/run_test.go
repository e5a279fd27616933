package once_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/once"
	"github.com/tandem-rpc/tandem/plugin"
	"github.com/tandem-rpc/tandem/tandemtest"
)

// A second call with the key waits for the first one at another instance, and gets its answer.
func TestSecondCallWaits(t *testing.T) {
	network, store, s := tandemtest.NewNetwork(t), shared(), &shop{}
	began, end := make(chan bool), make(chan bool)
	s.before = func(int64) error { close(began); <-end; return nil }
	a, b := network.Serve("shop", s.register, keeping(store)), network.Serve("shop", s.register, keeping(store))
	c := network.Dial("shop")
	answers := make(chan int64, 3)
	call := func(at *tandemtest.Server) {
		r, err := place(t, c, "tea", client.Key("k"), client.Instance(at.ID))
		if err != nil {
			t.Error(err)
		}
		answers <- r.Number
	}
	go call(a)
	<-began
	go call(a)
	go call(b)
	select {
	case n := <-answers:
		t.Errorf("answer %d before the method has returned", n)
	case <-time.After(50 * time.Millisecond): // in which the others begin to wait
	}
	close(end)
	for range 3 {
		if n := <-answers; n != 1 {
			t.Errorf("answer %d", n)
		}
	}
	if _, err := place(t, c, "tea", client.Key("k"), client.Timeout(time.Minute)); err != nil || s.runs.Load() != 1 {
		t.Errorf("%v after %d runs", err, s.runs.Load())
	}
}

// A call whose attempt timed out runs on, and the retry gets its answer.
func TestCallerGivesUp(t *testing.T) {
	network, s := tandemtest.NewNetwork(t), &shop{}
	s.before = func(int64) error { time.Sleep(300 * time.Millisecond); return nil } // longer than an attempt
	network.Serve("shop", s.register, keeping(shared()))
	c := network.Dial("shop", client.WithFailMode(client.Failover), client.WithRetries(20), client.WithTimeout(10*time.Second))
	r, err := place(t, c, "tea", client.Key("k"), client.AttemptTimeout(100*time.Millisecond))
	if err != nil || r.Number != 1 || s.runs.Load() != 1 {
		t.Fatalf("%+v, %v after %d runs", r, err, s.runs.Load())
	}
}

// An answer that is too large is not kept, and the call does not run again.
func TestLargeAnswersAreNotKept(t *testing.T) {
	network, s := tandemtest.NewNetwork(t), &shop{}
	network.Serve("shop", s.register, keeping(shared(), once.WithMaxAnswer(10)))
	c := network.Dial("shop")
	if _, err := place(t, c, "tea", client.Key("k")); err != nil {
		t.Fatal(err)
	}
	if _, err := place(t, c, "tea", client.Key("k")); once.ReasonOf(err) != once.Unrepeatable || !tandem.MayHaveExecuted(err) || s.runs.Load() != 1 {
		t.Fatalf("%v after %d runs", err, s.runs.Load())
	}
}

// lease is a store with one record, and its claim.
type lease struct {
	once.Store

	renewed  atomic.Int64
	finished error
	resolved bool // Renew finds the record resolved
}

func (l *lease) Begin(context.Context, once.Request) (once.Claim, once.Record, error) {
	return l, once.Record{}, nil
}
func (*lease) Lease() time.Duration                   { return 3 * time.Second }
func (*lease) Token() uint64                          { return 17 }
func (l *lease) Finish(context.Context, []byte) error { return l.finished }
func (*lease) Release(context.Context) error          { return errors.New("released") }
func (l *lease) Renew(context.Context) error {
	l.renewed.Add(1)
	if l.resolved {
		return once.ErrFenced
	}
	return nil
}

// through makes a call through a plugin.
func through(t *testing.T, p *once.Plugin, f tandem.Func) error {
	t.Helper()
	points := p.ForMethod(plugin.Method{Name: "A.B"})
	call := &tandem.Call{Method: "A.B", Identity: "ann", Metadata: tandem.Metadata{tandem.KeyKey: {"k"}, tandem.FingerprintKey: {"f"}}}
	return points.(plugin.Intercepts).Intercept(f)(t.Context(), call)
}

// While a method runs its lease is renewed, and it has the fencing token.
func TestLeaseIsRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for resolved, want := range map[bool]int64{false: 9, true: 1} {
			l := &lease{resolved: resolved}
			err := through(t, once.New(l), func(ctx context.Context, _ *tandem.Call) error {
				if token, ok := once.Token(ctx); !ok || token != 17 {
					t.Errorf("token %d, %v", token, ok)
				}
				time.Sleep(9500 * time.Millisecond) // in the bubble
				return nil
			})
			if n := l.renewed.Load(); err != nil || n != want {
				t.Errorf("%v after %d renewals, want %d", err, n, want)
			}
		}
	})
	if _, ok := once.Token(t.Context()); ok {
		t.Error("a token without a call")
	}
}

// A caller gets the answer although the store could not keep it, unless the record was resolved.
func TestAnswersThatAreNotKept(t *testing.T) {
	nothing := func(context.Context, *tandem.Call) error { return nil }
	p := once.New(&lease{finished: errBroken})
	if err := through(t, p, nothing); err != nil || p.Stats().Failed != 1 {
		t.Errorf("%v, %+v", err, p.Stats())
	}
	if err := through(t, once.New(&lease{finished: once.ErrFenced}), nothing); tandem.CodeOf(err) != tandem.Aborted || !tandem.MayHaveExecuted(err) {
		t.Error(err)
	}
}

// A method's context ends after the plugin's timeout.
func TestTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		err := through(t, once.New(&lease{}, once.WithTimeout(2*time.Second)), func(ctx context.Context, _ *tandem.Call) error {
			<-ctx.Done()
			return ctx.Err()
		})
		if tandem.CodeOf(err) != tandem.DeadlineExceeded || time.Since(began) != 2*time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
}
