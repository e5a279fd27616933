//go:build integration

package registries

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/tandem-rpc/tandem/client"
)

// rate is how many calls a second a load begins, also while earlier ones are running.
const rate = 300

// load makes calls at a fixed rate, idempotent and with Failover.
type load struct {
	t      *testing.T
	client *client.Client
	stop   context.CancelFunc
	calls  sync.WaitGroup
	done   chan struct{}

	mu     sync.Mutex
	made   int
	failed []string
	byWhom map[string]int
}

// startLoad dials the target, waits for a first call, and begins to make calls.
func startLoad(t *testing.T, target string, opts ...client.Option) *load {
	t.Helper()
	for scheme, r := range resolvers() {
		opts = append(opts, client.WithResolver(scheme, r))
	}
	opts = append(opts, client.WithFailMode(client.Failover))
	c, err := client.Dial(target, opts...)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	l := &load{t: t, client: c, stop: cancel, done: make(chan struct{}), byWhom: map[string]int{}}
	within(t, 5*time.Second, "a first call", func() error { return l.call() })
	l.takeCounts()
	go l.run(ctx)
	t.Cleanup(func() { l.end() })
	return l
}

func (l *load) run(ctx context.Context) {
	defer close(l.done)
	tick := time.NewTicker(time.Second / rate)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			l.calls.Go(func() { _ = l.call() })
		}
	}
}

// call makes one call and counts it.
func (l *load) call() error {
	var who string
	err := l.client.Call(context.Background(), "Test.Who", "", &who, client.Idempotent(), client.Timeout(3*time.Second))
	l.mu.Lock()
	defer l.mu.Unlock()
	l.made++
	if err == nil {
		l.byWhom[who]++
	} else {
		l.failed = append(l.failed, fmt.Sprintf("%s %v", time.Now().Format("05.000"), err))
	}
	return err
}

// takeCounts returns, for the time since it was last called: the number of calls that each
// server has answered, the number of calls, and the errors of failed calls.
func (l *load) takeCounts() (byWhom map[string]int, made int, failed []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	byWhom, made, failed = l.byWhom, l.made, l.failed
	l.byWhom, l.made, l.failed = map[string]int{}, 0, nil
	return byWhom, made, failed
}

// want takes the counts. No call may have failed, and if d is a second or more, at least
// half of the intended calls must have been made, as the test shows nothing otherwise.
func (l *load) want(what string, d time.Duration) map[string]int {
	l.t.Helper()
	byWhom, made, failed := l.takeCounts()
	l.t.Logf("%s, %v: %d calls, %d failed, answered by %v", what, d.Round(time.Millisecond), made, len(failed), byWhom)
	if len(failed) > 0 {
		l.t.Errorf("%s: %d of %d calls failed, first %q", what, len(failed), made, failed[0])
	}
	if floor := int(d.Seconds() * rate / 2); d >= time.Second && made < floor {
		l.t.Errorf("%s: %d calls in %v, want %d at least", what, made, d, floor)
	}
	return byWhom
}

// during waits for d, checks the calls of that time, and returns how many each server
// has answered.
func (l *load) during(what string, d time.Duration) map[string]int {
	l.t.Helper()
	time.Sleep(d) // it is the length of an experiment with real processes
	return l.want(what, d)
}

// duringUntilAll is during for d, or longer until the given number of servers have
// answered: the client gives a server that was slow for a moment few calls for some
// seconds.
func (l *load) duringUntilAll(what string, d time.Duration, servers int) {
	l.t.Helper()
	const most = 20 * time.Second
	start := time.Now()
	time.Sleep(d) // it is the length of an experiment with real processes
	for l.answered() < servers && time.Since(start) < most {
		time.Sleep(100 * time.Millisecond) // until a condition holds, of real processes
	}
	if by := l.want(what, time.Since(start)); len(by) != servers {
		l.t.Errorf("%s: %v answered in %v, want all %d", what, by, time.Since(start), servers)
	}
}

// answered returns how many servers have answered since the counts were taken.
func (l *load) answered() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.byWhom)
}

// end stops the load and waits for its calls.
func (l *load) end() {
	l.stop()
	<-l.done
	l.calls.Wait()
	l.client.Close()
}
