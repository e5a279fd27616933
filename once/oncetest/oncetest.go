// Package oncetest (experimental) checks implementations of [once.Store].
package oncetest

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tandem-rpc/tandem/once"
)

// Harness makes stores for [Run].
type Harness struct {
	// New returns a store whose records are kept for ttl, and whose leases, if it has them, last
	// for lease.
	New func(t *testing.T, lease, ttl time.Duration) once.Store
	// Shared says that the stores that New returns share their records, like instances of a service.
	Shared bool
}

// Run checks a store.
func Run(t *testing.T, h Harness) {
	t.Helper()
	for name, check := range map[string]func(*testing.T, Harness){
		"Answers": answers, "Release": release, "OneClaim": oneClaim, "IDs": ids, "TTL": forgets, "Leases": leases,
		"Renew": renews, "Resolve": resolves, "NothingToResolve": nothingToResolve, "Canceled": canceled,
	} {
		t.Run(name, func(t *testing.T) { check(t, h) })
	}
}

const (
	long  = time.Minute
	short = 300 * time.Millisecond
)

func request() once.Request {
	return once.Request{ID: once.ID{Caller: "ann", Method: "Shop.Place", Key: rand.Text()}, Fingerprint: "f", Alone: true}
}

// begin begins a call that nothing keeps from running.
func begin(t *testing.T, s once.Store, r once.Request) once.Claim {
	t.Helper()
	claim, record, err := s.Begin(t.Context(), r)
	if err != nil || claim == nil {
		t.Fatalf("Begin = %v, %+v, %v, want a claim", claim, record, err)
	}
	return claim
}

// want checks the record of a call.
func want(t *testing.T, s once.Store, r once.Request, state once.State, answer []byte) {
	t.Helper()
	claim, record, err := s.Begin(t.Context(), r)
	if err != nil || claim != nil || record.ID != r.ID || record.State != state || record.Fingerprint != r.Fingerprint || !bytes.Equal(record.Answer, answer) {
		t.Fatalf("Begin = %v, %+.200v, %v, want %v", claim, record, err, state)
	}
}

func finish(t *testing.T, c once.Claim, answer []byte) {
	t.Helper()
	if err := c.Finish(t.Context(), answer); err != nil {
		t.Fatal("Finish:", err)
	}
}

// answers checks that later calls get the answer, and that none runs meanwhile.
func answers(t *testing.T, h Harness) {
	s := h.New(t, long, long)
	for _, answer := range [][]byte{[]byte("an answer"), {0, 1, 2, 255}, bytes.Repeat([]byte("x"), 1<<20)} {
		r := request()
		claim := begin(t, s, r)
		if _, waits := claim.(once.Transaction); waits {
			ctx, cancel := context.WithTimeout(t.Context(), short)
			if other, _, err := s.Begin(ctx, r); err == nil || other != nil {
				t.Fatalf("Begin beside a transaction = %v, %v, want an error", other, err)
			}
			cancel()
		} else {
			want(t, s, r, once.StateRunning, nil)
		}
		finish(t, claim, answer)
		want(t, s, r, once.StateDone, answer)
		r.Fingerprint = "another"
		if _, record, err := s.Begin(t.Context(), r); err != nil || record.Fingerprint != "f" {
			t.Fatalf("%+.200v, %v", record, err)
		}
	}
}

// release checks that a released record is free again.
func release(t *testing.T, h Harness) {
	s, r := h.New(t, long, long), request()
	for range 3 {
		if err := begin(t, s, r).Release(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	finish(t, begin(t, s, r), []byte("a"))
	want(t, s, r, once.StateDone, []byte("a"))
}

// oneClaim checks that one of many callers gets a claim.
func oneClaim(t *testing.T, h Harness) {
	stores, r := []once.Store{h.New(t, long, long)}, request()
	if h.Shared {
		stores = append(stores, h.New(t, long, long))
	}
	var claims, done atomic.Int64
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			for t.Context().Err() == nil {
				claim, record, err := stores[i%len(stores)].Begin(t.Context(), r)
				switch {
				case err != nil:
					t.Error(err)
					return
				case claim != nil:
					claims.Add(1)
					time.Sleep(short / 3) // others try meanwhile
					if err := claim.Finish(t.Context(), []byte("a")); err != nil {
						t.Error(err)
					}
				case record.State == once.StateDone:
					done.Add(1)
					return
				}
				time.Sleep(time.Millisecond) // between two looks at the record
			}
		})
	}
	all.Wait()
	if claims.Load() != 1 || done.Load() != 20 {
		t.Fatalf("%d claims, %d callers with an answer", claims.Load(), done.Load())
	}
}

// ids checks that different IDs have different records, whatever their text.
func ids(t *testing.T, h Harness) {
	s, key := h.New(t, long, long), rand.Text()
	for _, id := range []once.ID{
		{Caller: "", Method: "A.B", Key: key}, {Caller: "a", Method: "A.B", Key: key}, {Caller: "a", Method: "A.C", Key: key},
		{Caller: "aA", Method: ".B", Key: key}, {Caller: "a\x00", Method: "A.B", Key: key}, {Caller: "a\nA.B\n", Method: "", Key: key},
		{Caller: "\xff\xfe", Method: "A.B", Key: key}, {Caller: "'; --", Method: "ä", Key: key}, {Caller: strings.Repeat("c", 10_000), Method: "A.B", Key: key},
	} {
		r := once.Request{ID: id, Fingerprint: "f", Alone: true}
		finish(t, begin(t, s, r), []byte(id.Caller+"|"+id.Method))
		want(t, s, r, once.StateDone, []byte(id.Caller+"|"+id.Method))
	}
}

// forgets checks that records are forgotten, not before their time.
func forgets(t *testing.T, h Harness) {
	s, r := h.New(t, short, 5*short), request()
	finish(t, begin(t, s, r), []byte("a"))
	time.Sleep(2 * short) // less than the time to live, and more than a lease
	want(t, s, r, once.StateDone, []byte("a"))
	time.Sleep(4 * short) // what is left of the time to live, and more
	finish(t, begin(t, s, r), []byte("b"))
	want(t, s, r, once.StateDone, []byte("b"))
}

// leased returns a claim of a store with leases; false for others.
func leased(t *testing.T, s once.Store, r once.Request) (c once.Leased, ok bool) {
	t.Helper()
	claim := begin(t, s, r)
	if c, ok = claim.(once.Leased); !ok {
		if err := claim.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	return c, ok
}

// leases checks that a record whose lease has ended is undecided, until its holder comes back.
func leases(t *testing.T, h Harness) {
	s, r := h.New(t, short, long), request()
	claim, ok := leased(t, s, r)
	if !ok {
		return
	}
	if claim.Lease() != short {
		t.Errorf("a lease of %v, want %v", claim.Lease(), short)
	}
	time.Sleep(2 * short) // until the lease has ended
	want(t, s, r, once.StateUndecided, nil)
	want(t, s, r, once.StateUndecided, nil)
	if !lists(t, s, r.ID) {
		t.Error("an undecided record is not listed")
	}
	finish(t, claim, []byte("late"))
	want(t, s, r, once.StateDone, []byte("late"))
	if lists(t, s, r.ID) {
		t.Error("a record that is done is listed as undecided")
	}
}

func lists(t *testing.T, s once.Store, id once.ID) bool {
	t.Helper()
	records, err := s.Undecided(t.Context(), 10_000)
	if err != nil {
		t.Fatal(err)
	}
	for _, record := range records {
		if record.ID == id {
			if record.State != once.StateUndecided || record.Since.IsZero() || record.Fingerprint != "f" {
				t.Errorf("%+v", record)
			}
			return true
		}
	}
	return false
}

// renews checks that a lease lasts as long as it is renewed.
func renews(t *testing.T, h Harness) {
	s, r := h.New(t, short, long), request()
	claim, ok := leased(t, s, r)
	if !ok {
		return
	}
	for range 8 {
		time.Sleep(short / 4) // less than the lease
		if err := claim.Renew(t.Context()); err != nil {
			t.Fatal(err)
		}
		want(t, s, r, once.StateRunning, nil)
	}
	if lists(t, s, r.ID) {
		t.Error("a record with a lease is listed as undecided")
	}
	finish(t, claim, []byte("a"))
}

// resolves checks both ways to settle an undecided record, and that its old claim has no effect
// afterwards.
func resolves(t *testing.T, h Harness) {
	s := h.New(t, short, long)
	for _, ran := range []bool{true, false} {
		r := request()
		claim, ok := leased(t, s, r)
		if !ok {
			return
		}
		time.Sleep(2 * short) // until the lease has ended
		if err := s.Resolve(t.Context(), r.ID, ran); err != nil {
			t.Fatal(err)
		}
		var next once.Leased
		if ran {
			want(t, s, r, once.StateDone, nil)
		} else if next, _ = leased(t, s, r); next.Token() <= claim.Token() {
			t.Errorf("token %d after %d", next.Token(), claim.Token())
		}
		for what, err := range map[string]error{
			"Renew": claim.Renew(t.Context()), "Finish": claim.Finish(t.Context(), []byte("old")), "Release": claim.Release(t.Context()),
		} {
			if !errors.Is(err, once.ErrFenced) {
				t.Errorf("%s of an old claim: %v, want ErrFenced", what, err)
			}
		}
		if !ran {
			finish(t, next, []byte("new"))
			want(t, s, r, once.StateDone, []byte("new"))
		}
	}
}

// nothingToResolve checks that only undecided records are resolved.
func nothingToResolve(t *testing.T, h Harness) {
	s, r := h.New(t, long, long), request()
	refused := func(what string) {
		t.Helper()
		if err := s.Resolve(t.Context(), r.ID, false); !errors.Is(err, once.ErrNotUndecided) {
			t.Errorf("Resolve of %s record: %v, want ErrNotUndecided", what, err)
		}
	}
	refused("no")
	claim := begin(t, s, r)
	if _, waits := claim.(once.Transaction); !waits {
		refused("a running")
	}
	finish(t, claim, []byte("a"))
	refused("a finished")
	want(t, s, r, once.StateDone, []byte("a"))
}

// canceled checks that a store whose context has ended claims nothing.
func canceled(t *testing.T, h Harness) {
	s, r := h.New(t, long, long), request()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	claim, _, err := s.Begin(ctx, r)
	if err == nil {
		if _, inMemory := s.(*once.Memory); !inMemory {
			t.Error("Begin with a context that has ended succeeds")
		}
		_ = claim.Release(t.Context())
	}
	finish(t, begin(t, s, r), []byte("a"))
}
