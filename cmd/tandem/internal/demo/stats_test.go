package demo

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/tandem-rpc/tandem"
)

var (
	errDoubt   = &tandem.Error{Code: tandem.Unavailable, Message: "lost"}
	errRefused = &tandem.Error{Code: tandem.Unavailable, Message: "refused", NotExecuted: true}
)

func TestObserve(t *testing.T) {
	for _, c := range []struct {
		name string
		kind kind
		err  error
		want totals
		fate fate
	}{
		{"answered", mul, nil, totals{made: 1, ok: 1}, fateNone},
		{"failed in doubt, but may be repeated", mul, errDoubt, totals{made: 1, failed: 1}, fateNone},
		{"did not run", say, errRefused, totals{made: 1, failed: 1}, fateNone},
		{"wrong", say, wrongAnswerError{"x"}, totals{made: 1, wrong: 1}, fateNone},
		{"answered, once", appendEntry, nil, totals{made: 1, ok: 1}, fateAnswered},
		{"in doubt", appendEntry, errDoubt, totals{made: 1, unknown: 1}, fateUnknown},
		{"an error of another kind", appendEntry, errors.New("odd"), totals{made: 1, unknown: 1}, fateUnknown},
		{"certainly did not run", appendEntry, errRefused, totals{made: 1, failed: 1}, fateNotExecuted},
		{"a wrong receipt", appendEntry, wrongAnswerError{"x"}, totals{made: 1, wrong: 1}, fateAnswered},
	} {
		s := newStats(1)
		s.observe(outcome{job: job{kind: c.kind}, server: "s1", err: c.err, took: time.Millisecond})
		if got := s.totals(); got != c.want || s.fates[0] != c.fate {
			t.Errorf("%s: totals %+v, fate %d; want %+v, %d", c.name, got, s.fates[0], c.want, c.fate)
		}
		if failed := c.err != nil; failed != (len(s.samples()) == 1) || failed == (s.answered()["s1"] == 1) {
			t.Errorf("%s: samples %q, answered %v", c.name, s.samples(), s.answered())
		}
	}
}

func TestSamplesAreFew(t *testing.T) {
	s := newStats(1)
	for range 100 {
		s.observe(outcome{err: errDoubt})
	}
	if n := len(s.samples()); n != maxSamples {
		t.Errorf("%d samples", n)
	}
}

func TestHeldCallsDoNotCountAsSlow(t *testing.T) {
	s := newStats(1)
	s.observe(outcome{job: job{hold: time.Second}, server: "s1", took: time.Second})
	s.read("s1", func(l *latencies) {
		if f := l.total(time.Second); f.p99 != 0 || l.answered != 1 {
			t.Errorf("figures %+v, answered %d", f, l.answered)
		}
	})
}

func TestIntercept(t *testing.T) {
	for _, c := range []struct {
		name           string
		call           tandem.Call
		err            error
		retried, moved int
		doubts         int
	}{
		{"first attempt", tandem.Call{}, nil, 0, 0, 0},
		{"first attempt, in doubt", tandem.Call{}, errDoubt, 0, 0, 1},
		{"refused", tandem.Call{}, errRefused, 0, 0, 0},
		{"second attempt", tandem.Call{Attempt: 1, Exclude: []string{"a"}}, nil, 1, 0, 0},
		{"moved by a draining server", tandem.Call{Exclude: []string{"a"}}, nil, 0, 1, 0},
		{"moved at the second attempt", tandem.Call{Attempt: 1, Exclude: []string{"a", "b"}}, nil, 0, 1, 0},
	} {
		s := newStats(1)
		f := s.intercept(func(_ context.Context, call *tandem.Call) error {
			call.Peer = &tandem.Peer{Instance: "s1"}
			return c.err
		})
		if err := f(t.Context(), &c.call); err != c.err { //nolint:errorlint // the very same
			t.Errorf("%s: error %v", c.name, err)
		}
		if sum := s.totals(); sum.retried != c.retried || sum.moved != c.moved || s.doubtsAt("s1") != c.doubts {
			t.Errorf("%s: totals %+v, doubts %d", c.name, sum, s.doubtsAt("s1"))
		}
	}
}

func TestLatenciesOfTheLastSecond(t *testing.T) {
	l := newLatencies()
	for range 80 {
		l.add(2 * time.Millisecond)
	}
	l.rotate()
	if f := l.lastSecond(); f.rate != 100 || f.p50 < 1900*time.Microsecond || f.p50 > 2100*time.Microsecond {
		t.Errorf("figures %+v", f)
	}
	for range slots {
		l.rotate()
	}
	if f := l.lastSecond(); f.rate != 0 || f.p50 != 0 {
		t.Errorf("figures %+v a second later", f)
	}
	if f := l.total(10 * time.Second); f.rate != 8 {
		t.Errorf("figures %+v of the whole run", f)
	}
}

func TestLatenciesOutOfBounds(t *testing.T) {
	l := newLatencies()
	l.add(-time.Second)
	l.add(time.Hour)
	if n := l.whole.TotalCount(); n != 2 {
		t.Errorf("%d recorded", n)
	}
}
