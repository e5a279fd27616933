package balance

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/tandem-rpc/tandem"
)

// What faded while an instance was not called comes back when it refuses calls, or fails
// them at once: nothing else would bring it back, and the instance would draw calls that
// it does not serve.
func TestRefusalsBringBackWhatFaded(t *testing.T) {
	const usual = 10 * time.Millisecond
	for name, refuse := range map[string]func(s *Stats, now time.Duration){
		"refused":           func(s *Stats, now time.Duration) { s.RefusedAt(now) },
		"failed":            func(s *Stats, now time.Duration) { s.DoneAt(now-time.Microsecond, now, true) },
		"refused, then not": func(s *Stats, now time.Duration) { s.RefusedAt(now); s.DoneAt(now-usual, now, false) },
	} {
		for _, pause := range []time.Duration{time.Second, 6 * time.Second, time.Minute, time.Hour} {
			s, now := new(Stats), time.Second
			for range 20 {
				s.Begin()
				now += usual
				s.DoneAt(now-usual, now, false)
			}
			for range 3 { // in steps or at once
				now += pause / 3
				s.age(now)
			}
			if s.Peak() >= usual || s.Latency() >= usual {
				t.Errorf("after %v nothing has faded: %v, %v", pause, s.Peak(), s.Latency())
			}
			s.Begin()
			refuse(s, now)
			if p, l := s.Peak(), s.Latency(); p < usual*99/100 || p > usual || l < usual*99/100 || l > usual {
				t.Errorf("%s after %v: a peak of %v and a latency of %v, want %v", name, pause, p, l, usual)
			}
		}
	}
}

// A bad time that is over does not come back.
func TestBadTimesDoNotComeBack(t *testing.T) {
	s, now := new(Stats), time.Second
	for range 200 {
		s.Begin()
		now += 10 * time.Millisecond
		s.DoneAt(now-10*time.Millisecond, now, false)
	}
	s.Begin()
	now += time.Second
	s.DoneAt(now-time.Second, now, false)
	for range 100 { // the average is 134 ms
		now += time.Second
		s.age(now)
	}
	s.RefusedAt(now)
	if p := s.Peak(); p < 130*time.Millisecond || p > 140*time.Millisecond {
		t.Errorf("a peak of %v", p)
	}
}

// An instance that refuses at once, with pauses between, gets no more than its share.
func TestRefusalsAfterAPause(t *testing.T) {
	now, random := time.Hour, rand.New(rand.NewPCG(1, 2)) // the same in every run
	table := NewTableIn(&World{Now: func() time.Duration { return now }, Random: random.Uint64}, P2C())
	table.Update(instances("a", "b", "c", "d", "e"))
	refused := 0
	for i := range 11_000 {
		if i > 1000 && i%100 == 0 {
			now += 10 * time.Minute // a pick looks at the clock now and then only, so not each lets all fade
		}
		n := table.Pick(new(tandem.Call), all)
		n.Stats.Begin()
		if i > 1000 && n.Instance.ID == "a" {
			n.Stats.RefusedAt(now)
			refused++
			continue
		}
		now += 10 * time.Millisecond
		n.Stats.DoneAt(now-10*time.Millisecond, now, false)
	}
	if refused > 2200 {
		t.Errorf("one of five that refuses all gets %d of 10000 calls", refused)
	}
}
