package protocoltest

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
)

// always is more connections than any test makes.
const always = 1 << 30

// Journal records which calls a server has run. It is safe for concurrent use.
type Journal struct {
	mu  sync.Mutex
	ran map[string]int
}

// Note records that a call ran, and returns the response that it must have.
func (j *Journal) Note(id string) string {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.ran == nil {
		j.ran = map[string]int{}
	}
	j.ran[id]++
	return "noted " + id
}

// Of returns how many times a call ran.
func (j *Journal) Of(id string) int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.ran[id]
}

// Lossy is a server whose connections are lost.
type Lossy struct {
	Journal *Journal
	Relay   *Relay
	// Dial returns a client of the relay, with these options and those that the protocol
	// needs.
	Dial func(opts ...client.Option) (*client.Client, error)
	// Call calls a method that returns the result of [Journal.Note].
	Call func(ctx context.Context, c *client.Client, id string, opts ...tandem.CallOption) (string, error)
	// Stop stops the server and waits for its handlers.
	Stop func()
	// Own reports whether the protocol is tandem's, whose servers may say that they drain.
	Own bool

	t       *testing.T
	calls   int
	failed  int      // of the calls that were made once
	refused []string // ids of calls whose error says that they were not executed
}

// Everywhere cuts connections with one call, and with three, at all offsets that are step
// bytes apart, by an orderly end and by a reset. Failed calls must be Unavailable with a
// correct NotExecuted, and calls must succeed under Failover.
func (l *Lossy) Everywhere(t *testing.T, step int) {
	t.Helper()
	l.Begin(t)
	defer l.End()
	cuts := l.Cuts(step)
	for i, how := range cuts {
		l.try(how)
		if i%7 == 0 { //nolint:mnd // rarely, since it differs little
			l.together(how, 3)
		}
	}
	t.Logf("%d cuts, %d calls failed, %d of them not executed", len(cuts), l.failed, len(l.refused))
	if l.failed < len(cuts)/2 { // a call may end before the last bytes of the protocol
		t.Errorf("%d calls failed at %d cuts: connections are not cut", l.failed, len(cuts))
	}
}

// Begin must be called before the methods below.
func (l *Lossy) Begin(t *testing.T) { l.t = t }

// End stops the server, and checks that no call ran whose error said that it was not
// executed.
func (l *Lossy) End() {
	l.Stop()
	l.Relay.Close()
	for _, id := range l.refused {
		if n := l.Journal.Of(id); n > 0 {
			l.t.Errorf("%s ran %d times, and is said not to have run", id, n)
		}
	}
}

// Open returns a client with a short timeout and short backoff.
func (l *Lossy) Open(opts ...client.Option) *client.Client {
	l.t.Helper()
	c, err := l.Dial(append(opts, client.WithTimeout(5*time.Second), client.WithConnections(client.Connections{Backoff: time.Millisecond, MaxBackoff: 10 * time.Millisecond}))...)
	if err != nil {
		l.t.Fatal(err)
	}
	return c
}

// Once makes one call with a client of its own.
func (l *Lossy) Once(opts ...client.Option) (id string, err error) {
	l.t.Helper()
	c := l.Open(opts...)
	defer func() { _ = c.Close() }()
	id = l.next()
	return id, l.on(c, id)
}

// Refused records a call whose error says that it was not executed.
func (l *Lossy) Refused(id string) { l.refused = append(l.refused, id) }

func (l *Lossy) next() string {
	l.calls++
	return "call " + strconv.Itoa(l.calls)
}

func (l *Lossy) on(c *client.Client, id string) error {
	said, err := l.Call(context.Background(), c, id, client.Idempotent())
	if err == nil && said != "noted "+id && l.Relay.Exact() {
		l.t.Errorf("%s is answered with %q", id, said)
	}
	return err
}

// Cuts returns all cuts of a connection with one call, step bytes apart.
func (l *Lossy) Cuts(step int) (list []Cut) {
	l.t.Helper()
	if _, err := l.Once(); err != nil { // without a cut
		l.t.Fatal(err)
	}
	requested, answered := l.Relay.Carried()
	for _, reset := range []bool{false, true} {
		for at := int64(0); at < answered; at += int64(step) {
			list = append(list, Cut{Request: -1, Answer: at, Reset: reset})
		}
		for at := int64(0); at < requested; at += int64(step) {
			list = append(list, Cut{Request: at, Answer: -1, Reset: reset})
		}
	}
	return list
}

// try makes a call whose connections are all cut, and one that is retried after one cut.
func (l *Lossy) try(how Cut) {
	l.t.Helper()
	l.Relay.Next(how, always)
	id, err := l.Once(client.WithFailMode(client.Failfast), client.WithWait(0))
	l.check(how, id, err)
	l.Relay.Next(how, 1)
	if id, err := l.Once(client.WithFailMode(client.Failover)); err != nil || l.Journal.Of(id) == 0 {
		l.t.Errorf("%s, under Failover: %v", how, err)
	}
}

// together makes concurrent calls whose connections are all cut.
func (l *Lossy) together(how Cut, n int) {
	l.t.Helper()
	l.Relay.Next(how, always)
	c := l.Open(client.WithFailMode(client.Failfast), client.WithWait(0))
	defer func() { _ = c.Close() }()
	ids, errs := make([]string, n), make([]error, n)
	var wg sync.WaitGroup
	for i := range ids {
		ids[i] = l.next()
		wg.Go(func() { errs[i] = l.on(c, ids[i]) })
	}
	wg.Wait()
	for i, id := range ids {
		l.check(how, id, errs[i])
	}
}

// check checks the error of a call that was made once.
func (l *Lossy) check(how Cut, id string, err error) {
	l.t.Helper()
	if err == nil {
		return
	}
	l.failed++
	e, ours := errors.AsType[*tandem.Error](err)
	switch {
	case !ours || e.Code != tandem.Unavailable:
		l.t.Errorf("%s: %v, want unavailable", how, err)
	case !l.Own && strings.Contains(e.Message, "draining"):
		l.t.Errorf("%s: %v, where nothing drains", how, err)
	case e.Remote:
		l.t.Errorf("%s: %v is said to come from the server", how, err)
	case e.NotExecuted:
		l.Refused(id)
	}
}
