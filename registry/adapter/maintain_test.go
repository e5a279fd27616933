package adapter

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/registry"
)

// fakeEntry is an Entry that a test can break.
type fakeEntry struct {
	mu     sync.Mutex
	down   error            // what every method returns, when not nil
	hang   bool             // every method waits for its context
	listed *tandem.Instance // as written by the last Put; nil when not listed
	other  bool             // an instance that started later is listed
	puts   int
	checks int
}

func (p *fakeEntry) enter(ctx context.Context) error {
	if p.hang {
		p.mu.Unlock()
		<-ctx.Done()
		p.mu.Lock()
		return ctx.Err()
	}
	return p.down
}

func (p *fakeEntry) Put(ctx context.Context, in tandem.Instance) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.puts++
	if err := p.enter(ctx); err != nil {
		return err
	}
	if p.other {
		return registry.ErrSuperseded
	}
	p.listed = &in
	return nil
}

func (p *fakeEntry) Check(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.checks++
	if err := p.enter(ctx); err != nil {
		return err
	}
	switch {
	case p.other:
		return registry.ErrSuperseded
	case p.listed == nil:
		return errors.New("not there")
	}
	return nil
}

func (p *fakeEntry) Delete(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.enter(ctx); err != nil {
		return err
	}
	p.listed = nil
	return nil
}

// set changes the entry and returns the number of Puts so far.
func (p *fakeEntry) set(change func()) (puts int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	puts = p.puts
	change()
	return puts
}

func (p *fakeEntry) weight() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.listed == nil {
		return -1
	}
	return p.listed.Weight
}

// maintain registers an instance of weight 1, with a check every 5 s.
func maintain(t *testing.T, p *fakeEntry, lost <-chan struct{}) (r registry.Registration, in tandem.Instance) {
	t.Helper()
	in = members("a")[0]
	in.Weight = 1
	r, err := Maintain(t.Context(), p, in, Upkeep{Name: "test registry", Every: 5 * time.Second, Lost: lost})
	if err != nil {
		t.Fatal(err)
	}
	return r, in
}

func end(t *testing.T, r registry.Registration) {
	t.Helper()
	if err := r.Close(); err != nil {
		t.Error(err)
	}
}

// Servers that are started together do not check at the same time: in any second of
// the first interval, about a fifth of them do.
func TestMaintainSpreadsChecks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 1000
		entries := make([]fakeEntry, n)
		for i := range entries {
			r, _ := maintain(t, &entries[i], nil)
			defer end(t, r)
		}
		checked := func() (checks int) {
			for i := range entries {
				entries[i].set(func() { checks += entries[i].checks })
			}
			return checks
		}
		before := 0
		for range 4 { // then the first are checked again
			time.Sleep(time.Second)
			synctest.Wait()
			now := checked()
			if in := now - before; in < n/10 || in > n*3/10 {
				t.Errorf("%d of %d were checked within a second", in, n)
			}
			before = now
		}
	})
}

func TestMaintainRestoresALostEntry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p fakeEntry
		lost := make(chan struct{}, 1)
		r, in := maintain(t, &p, lost)
		in.Weight = 2
		if err := r.Update(t.Context(), in); err != nil {
			t.Fatal(err)
		}
		p.set(func() { p.listed = nil })
		time.Sleep(5 * time.Second)
		if w := p.weight(); w != 2 {
			t.Errorf("after a check an instance of weight %d is listed, want 2", w)
		}
		p.set(func() { p.listed = nil })
		lost <- struct{}{}
		synctest.Wait()
		if w := p.weight(); w != 2 {
			t.Errorf("after Lost received an instance of weight %d is listed, want 2", w)
		}
		end(t, r)
		if w := p.weight(); w != -1 {
			t.Errorf("after Close an instance of weight %d is listed", w)
		}
	})
}

// A loss and its end are logged, also when the first attempt restores the entry.
func TestMaintainLogsLossAndRestoration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p fakeEntry
		var log bytes.Buffer
		lost := make(chan struct{})
		r, err := Maintain(t.Context(), &p, members("a")[0], Upkeep{
			Name: "test registry", Every: time.Hour, Lost: lost, Log: slog.New(slog.NewTextHandler(&log, nil)),
		})
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			p.set(func() { p.listed = nil })
			lost <- struct{}{}
			synctest.Wait()
		}
		lost <- struct{}{} // the entry is listed
		synctest.Wait()
		end(t, r)
		for _, text := range []string{"registration lost", "registration restored"} {
			if n := strings.Count(log.String(), text); n != 2 {
				t.Errorf("%q is logged %d times for 2 losses:\n%s", text, n, &log)
			}
		}
	})
}

// The registry is down for an hour: attempts must be few, and the instance listed soon
// after the outage.
func TestMaintainNeverGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p fakeEntry
		r, in := maintain(t, &p, nil)
		before := p.set(func() { p.down, p.listed = errors.New("down"), nil })
		time.Sleep(time.Hour)
		tries := p.set(func() { p.down = nil }) - before
		if tries < 360 || tries > 1440 {
			t.Errorf("%d attempts in an hour, want one in about 5 s", tries)
		}
		time.Sleep(mostPause + time.Millisecond)
		if w := p.weight(); w != 1 {
			t.Errorf("10 s after the registry came back an instance of weight %d is listed, want 1", w)
		}
		p.set(func() { p.down = errors.New("down") })
		in.Weight = 3
		if err := r.Update(t.Context(), in); err == nil {
			t.Error("an update was not refused while the registry is down")
		}
		p.set(func() { p.down, p.listed = nil, nil })
		time.Sleep(mostPause)
		if w := p.weight(); w != 1 {
			t.Errorf("after an update that failed an instance of weight %d is listed, want 1", w)
		}
		end(t, r)
	})
}

func TestMaintainDoesNotOverwriteALaterIncarnation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p fakeEntry
		r, _ := maintain(t, &p, nil)
		time.Sleep(time.Minute)
		before := p.set(func() { p.other = true })
		time.Sleep(time.Minute)
		if puts := p.set(func() { p.other, p.listed = false, nil }); puts != before {
			t.Errorf("%d writes to the entry of a later incarnation", puts-before)
		}
		time.Sleep(5 * time.Second)
		if w := p.weight(); w != 1 {
			t.Errorf("when the other has gone an instance of weight %d is listed, want 1", w)
		}
		end(t, r)
	})
}

func TestMaintainEndsWhileTheRegistryHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p fakeEntry
		r, in := maintain(t, &p, nil)
		p.set(func() { p.hang = true })
		time.Sleep(time.Minute)
		began := time.Now()
		if err := r.Update(t.Context(), in); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("an update returned %v", err)
		}
		if err := r.Close(); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Close returned %v", err)
		}
		if took := time.Since(began); took > 6*time.Second {
			t.Errorf("update and Close took %v, want 3 s each at most", took)
		}
		if err := r.Close(); err != nil {
			t.Errorf("a second Close returned %v", err)
		}
		if err := r.Update(t.Context(), in); !errors.Is(err, errClosed) {
			t.Errorf("an update after Close returned %v", err)
		}
	})
}

func TestMaintainReturnsTheFirstError(t *testing.T) {
	p := fakeEntry{down: errors.New("down")}
	keep := Upkeep{Name: "test registry", Every: time.Second}
	if _, err := Maintain(t.Context(), &p, members("a")[0], keep); !errors.Is(err, p.down) {
		t.Errorf("with the registry down: %v", err)
	}
	if _, err := Maintain(t.Context(), &p, tandem.Instance{}, keep); err == nil || p.puts != 1 {
		t.Errorf("an invalid instance: %v after %d writes", err, p.puts)
	}
}

func TestSupersedes(t *testing.T) {
	began := time.Unix(100, 0)
	mine := tandem.Instance{Started: began, Incarnation: "1"}
	for _, c := range []struct {
		what   string
		listed tandem.Instance
		want   bool
	}{
		{"an earlier start", tandem.Instance{Started: began.Add(-1), Incarnation: "0"}, false},
		{"a later start", tandem.Instance{Started: began.Add(1), Incarnation: "2"}, true},
		{"the same incarnation after a clock step", tandem.Instance{Started: began.Add(1), Incarnation: "1"}, false},
		{"an instance without a start time", tandem.Instance{}, false},
	} {
		if got := Supersedes(&c.listed, &mine); got != c.want {
			t.Errorf("%s: %v", c.what, got)
		}
	}
}
