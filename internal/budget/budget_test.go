package budget_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/internal/budget"
)

func TestShare(t *testing.T) {
	b := budget.New(100)
	greedy, other := b.Account(), b.Account()
	for greedy.Hold().Try(10) {
	}
	// 50 by its share, and 10 because no other hold exceeds the budget.
	if used, _ := b.Used(); used < 50 || used > 60 {
		t.Fatalf("one connection holds %d of 100", used)
	}
	if h := other.Hold(); !h.Try(20) {
		t.Fatal("no room for another connection beside a greedy one")
	}
}

// A thousand clients may each send the first block of a large request at the same time, and one
// connection gets no more than half of the room for such blocks.
func TestFirstBlocksHaveRoom(t *testing.T) {
	const limit, block = 128 << 20, 64 << 10
	b := budget.New(limit)
	for i := range 1000 {
		if !b.Account().Hold().Begin(block) {
			t.Fatalf("no room for the first block of connection %d", i+1)
		}
	}
	greedy, n := budget.New(limit).Account(), 0
	for greedy.Hold().Begin(block) {
		n++
	}
	if n != limit/4/block {
		t.Errorf("one connection has %d first blocks", n)
	}
}

func TestNilHasNoLimit(t *testing.T) {
	var b *budget.Budget
	h := b.Account().Hold()
	if !h.Try(1<<60) || !h.Ask(1<<60, nil) || h.Grow(t.Context(), 1<<60, 0) != nil {
		t.Fatal("a nil budget refuses")
	}
	h.Shrink(1)
	h.Release()
	if used, refusals := b.Used(); used+int64(refusals) != 0 {
		t.Fatal(used, refusals)
	}
}

// asked is the outcome of a hold's wait: none yet, granted or refused.
type asked struct{ granted, refused bool }

func (a *asked) done(granted bool) { a.granted, a.refused = granted, !granted }

func TestYoungestIsRefusedFirst(t *testing.T) {
	b := budget.New(100)
	var h [4]*budget.Hold
	for i := range h {
		h[i] = b.Account().Hold()
	}
	var results [4]asked
	ask := func(i int, n int64) bool { return h[i].Ask(n, results[i].done) }
	if !h[3].Try(40) || !h[2].Try(25) || !ask(3, 60) { // the last one exceeds the budget
		t.Fatal("no room")
	}
	if ask(2, 60) || ask(1, 1) || ask(0, 20) || h[0].Press() || results != [4]asked{} {
		t.Fatalf("%+v: 45 bytes are short, and none but 25 can be had", results)
	}
	h[0].Release()
	h[3].Shrink(20)
	if ask(0, 20) || results != [4]asked{} || !h[0].Press() || results != [4]asked{2: {refused: true}} {
		t.Fatalf("%+v: 25 bytes are short, which the youngest that waits has", results)
	}
	h[2].Release()
	h[3].Release()
	if results != [4]asked{{granted: true}, {granted: true}, {refused: true}} {
		t.Fatalf("%+v: there is room", results)
	}
}

func TestOneAlwaysProgresses(t *testing.T) {
	b := budget.New(10)
	stuck := b.Account().Hold()
	if !stuck.Ask(1000, nil) {
		t.Fatal("a message larger than the budget has no way")
	}
	var next asked
	h := b.Account().Hold()
	if h.Ask(1000, next.done) || h.Try(1) {
		t.Fatal("two exceed the budget")
	}
	stuck.Release()
	if !next.granted {
		t.Fatal("the next does not follow")
	}
	h.Release()
	if used, _ := b.Used(); used != 0 {
		t.Fatalf("%d bytes are held by nothing", used)
	}
}

func TestGrowWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := budget.New(10)
		h := b.Account().Hold()
		h.Try(1000)
		began := time.Now()
		late := b.Account().Hold()
		err := late.Grow(t.Context(), 5, time.Second)
		if tandem.CodeOf(err) != tandem.ResourceExhausted || tandem.MayHaveExecuted(err) || time.Since(began) != time.Second {
			t.Fatalf("%v after %v", err, time.Since(began))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if err := late.Grow(ctx, 5, time.Second); tandem.CodeOf(err) != tandem.DeadlineExceeded || tandem.MayHaveExecuted(err) {
			t.Fatal(err)
		}
		go func() {
			time.Sleep(time.Second)
			h.Release()
		}()
		if err := late.Grow(t.Context(), 5, time.Minute); err != nil {
			t.Fatal(err)
		}
	})
}

// A request waits until its deadline, however far that is; one without a deadline waits while
// others are served.
func TestGrowIsPatient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const patience = time.Second
		b := budget.New(10)
		var older [10]*budget.Hold
		for i := range older {
			older[i] = b.Account().Hold()
		}
		older[0].Try(1000)
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		timed, patient := make(chan error, 1), make(chan error, 1)
		go func() { timed <- b.Account().Hold().Grow(ctx, 1000, patience) }()
		go func() { patient <- b.Account().Hold().Grow(t.Context(), 1000, patience) }()
		for i, h := range older[1:] {
			h.Ask(1000, func(bool) {})
			time.Sleep(patience * 2 / 3)
			older[i].Release()
		}
		synctest.Wait()
		if len(timed)+len(patient) > 0 {
			t.Fatal("one gives up while older requests are served")
		}
		time.Sleep(2 * patience)
		synctest.Wait()
		if len(timed) > 0 || len(patient) == 0 {
			t.Fatalf("nothing was served for %v: the one without a deadline gives up, and no other", 2*patience)
		}
		if err := <-patient; tandem.CodeOf(err) != tandem.ResourceExhausted || tandem.MayHaveExecuted(err) {
			t.Fatal(err)
		}
		older[len(older)-1].Release()
		if err := <-timed; err != nil {
			t.Fatal("a request with a deadline: ", err)
		}
	})
}

// TestRandomPlay makes random requests and checks after each step that the rules hold, and at
// the end that all that wait are served.
func TestRandomPlay(t *testing.T) {
	for seed := range uint64(300) {
		play(t, rand.New(rand.NewPCG(seed, 19)))
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

const playLimit = 1000

// player is one request of TestRandomPlay.
type player struct {
	account int
	hold    *budget.Hold
	n, ask  int64 // held; waited for
	result  asked
}

func play(t *testing.T, r *rand.Rand) {
	b := budget.New(playLimit)
	accounts := make([]*budget.Account, 1+r.IntN(4))
	for i := range accounts {
		accounts[i] = b.Account()
	}
	var players []*player
	for range 400 {
		if k := r.IntN(10); len(players) == 0 || k < 3 {
			i := r.IntN(len(accounts))
			players = append(players, &player{account: i, hold: accounts[i].Hold()})
			continue
		}
		i := r.IntN(len(players))
		p := players[i]
		switch r.IntN(4) {
		case 0:
			p.hold.Release()
			players = slices.Delete(players, i, i+1)
		case 1:
			if p.ask > 0 {
				p.hold.Press()
				break
			}
			n := r.Int64N(p.n + 1)
			p.hold.Shrink(n)
			p.n -= n
		default:
			p.step(r)
		}
		players = collect(players)
		check(t, b, players)
	}
	for len(players) > 0 { // the oldest first: each must have been served by then
		p := players[0]
		if p.ask > 0 && b.Excess() == nil {
			t.Error("the oldest waits although nothing exceeds the budget")
		}
		i := slices.IndexFunc(players, func(p *player) bool { return p.ask == 0 })
		if i < 0 {
			t.Error("all wait for each other")
			return
		}
		players[i].hold.Release()
		players = collect(slices.Delete(players, i, i+1))
		check(t, b, players)
	}
	if used, _ := b.Used(); used != 0 || b.Waiting() != 0 {
		t.Errorf("%d bytes and %d waits are left", used, b.Waiting())
	}
}

// step makes a request ask for more, unless it waits.
func (p *player) step(r *rand.Rand) {
	n := 1 + r.Int64N(playLimit/4)
	if p.ask > 0 {
		return
	}
	if r.IntN(3) == 0 {
		if p.hold.Try(n) {
			p.n += n
		}
		return
	}
	p.result = asked{}
	if p.hold.Ask(n, p.result.done) {
		p.n += n
		return
	}
	p.ask = n
}

// collect records what was granted, and releases what was refused.
func collect(players []*player) []*player {
	for again := true; again; {
		again = false
		for i, p := range players {
			switch {
			case p.result.granted:
				p.n, p.ask, p.result = p.n+p.ask, 0, asked{}
			case p.result.refused:
				p.hold.Release()
				players = slices.Delete(players, i, i+1)
				again = true
			}
			if again {
				break
			}
		}
	}
	return players
}

// check compares the budget with the sums of the requests.
func check(t *testing.T, b *budget.Budget, players []*player) {
	var sum, over int64
	waiting, oldest := 0, (*player)(nil)
	for _, p := range players {
		sum += p.n
		if p.hold == b.Excess() {
			over = p.n
		}
		if p.ask > 0 {
			waiting++
			if oldest == nil {
				oldest = p
			}
		}
	}
	used, _ := b.Used()
	switch {
	case used != sum:
		t.Errorf("%d bytes are held, the requests have %d", used, sum)
	case used-over > playLimit:
		t.Errorf("%d bytes are held beside the one that may exceed the budget", used-over)
	case waiting != b.Waiting():
		t.Errorf("%d requests wait, the budget has %d", waiting, b.Waiting())
	case oldest != nil && b.Excess() == nil:
		t.Error("a request waits although none exceeds the budget")
	}
}

func TestDecompressReservesInSteps(t *testing.T) {
	r := &ledger{}
	c := fake{size: 1 << 20}
	out, err := budget.Decompress(r, c, nil, make([]byte, 100), 4<<20)
	if err != nil || len(out) != c.size {
		t.Fatal(len(out), err)
	}
	if r.held != int64(c.size) || r.peak > 2<<20 {
		t.Errorf("%d bytes are held at the end, %d at most", r.held, r.peak)
	}
	r = &ledger{}
	if _, err := budget.Decompress(r, fake{size: 8 << 20}, nil, nil, 4<<20); err == nil || r.held != 0 {
		t.Error(r.held, err)
	}
	r = &ledger{}
	if _, err := budget.Decompress(r, fake{size: 10 << 10}, nil, nil, 4<<20); err != nil || r.peak != 0 {
		t.Error("a small message reserves", r.peak, err)
	}
	r = &ledger{limit: 1 << 20}
	if _, err := budget.Decompress(r, fake{size: 4 << 20}, nil, nil, 4<<20); !errors.Is(err, errNoRoom) {
		t.Error(err)
	}
}

var errNoRoom = errors.New("no room")

// ledger is a Reserver that counts bytes.
type ledger struct{ held, peak, limit int64 }

func (l *ledger) Reserve(n int64) error {
	if l.held += n; l.limit > 0 && l.held > l.limit {
		return errNoRoom
	}
	l.peak = max(l.peak, l.held)
	return nil
}

func (l *ledger) Return(n int64) { l.held -= n }

// fake is a compressor whose decompressed messages all have that size.
type fake struct{ size int }

func (fake) Name() string                           { return "fake" }
func (fake) Compress(dst, _ []byte) ([]byte, error) { return dst, nil }

func (f fake) Decompress(dst, _ []byte, limit int) ([]byte, error) {
	if f.size > limit {
		return dst, errors.New("too large")
	}
	return append(dst, make([]byte, f.size)...), nil
}
