package overload_test

import (
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/tandem-rpc/tandem/internal/overload"
)

const (
	ms     = int64(time.Millisecond)
	second = int64(time.Second)
)

// busy is a sample while goroutines wait for a processor.
var busy = overload.Load{Runnable: 100, Wait: 500 * time.Millisecond, Timeout: time.Second}

// guard returns a gate that has two slots, both taken by calls of m.
func guard(t *testing.T, change func(*overload.Config)) (*overload.Gate, *overload.Method) {
	t.Helper()
	cfg := overload.Default()
	cfg.Processors = 2
	if change != nil {
		change(&cfg)
	}
	g := overload.New(cfg)
	m := g.Method(0)
	for range 2 {
		if v, _ := g.Ask(&overload.Request{Method: m}, 1); v != overload.Run {
			t.Fatal("a request waits without overload")
		}
	}
	for range 20 {
		g.Sample(busy, 1)
	}
	if s := g.State(); s.Slots != 2 || !g.Guarding() {
		t.Fatalf("%+v", s)
	}
	return g, m
}

// ask makes a request wait, and fails if it does not.
func ask(t *testing.T, g *overload.Gate, r *overload.Request, now int64) *overload.Request {
	t.Helper()
	if v, _ := g.Ask(r, now); v != overload.Wait {
		t.Fatalf("verdict %d, want that it waits", v)
	}
	return r
}

// owners ends handlers one after the other and returns the owners of the requests that began.
func owners(g *overload.Gate, m *overload.Method, n int, now int64) (order []any) {
	for range n {
		for _, r := range g.Done(handled(m, now, 0), now+ms).Run {
			order = append(order, r.Owner)
			m = r.Method
		}
	}
	return order
}

func wantOrder(t *testing.T, got []any, want ...any) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("began: %v, want %v", got, want)
	}
	for i := range got {
		if got[i] != want[i] {
			t.Fatalf("began: %v, want %v", got, want)
		}
	}
}

func TestGateAdmitsWithoutOverload(t *testing.T) {
	g := overload.New(overload.Default())
	m := g.Method(0)
	for i := range int64(100) {
		if v, _ := g.Ask(&overload.Request{Method: m, Deadline: 1}, i); v != overload.Run {
			t.Fatalf("request %d: verdict %d", i, v)
		}
	}
	g.Sample(overload.Load{Runnable: 100, Wait: 50 * time.Millisecond, Timeout: time.Second}, second)
	if g.Guarding() {
		t.Error("guards though goroutines wait for a twentieth of the timeout")
	}
}

func TestCallersAreServedInTurns(t *testing.T) {
	g, m := guard(t, nil)
	for i := range 4 {
		ask(t, g, &overload.Request{Method: m, Caller: 1, Class: overload.Normal, Owner: 10 + i}, 2)
	}
	ask(t, g, &overload.Request{Method: m, Caller: 2, Class: overload.Normal, Owner: 20}, 2)
	ask(t, g, &overload.Request{Method: m, Caller: 3, Class: overload.Normal, Owner: 30}, 2)
	wantOrder(t, owners(g, m, 6, 3), 10, 20, 30, 11, 12, 13)
}

// A method whose handlers take ten times as long gets a tenth of the starts.
func TestMethodsAreServedByTheirTime(t *testing.T) {
	g, slow := guard(t, nil)
	fast := g.Method(0)
	for range 2 {
		g.Done(handled(slow, 0, 0), 10*ms)
	}
	begin := func(m *overload.Method) {
		if v, _ := g.Ask(&overload.Request{Method: m}, second); v != overload.Run {
			t.Fatal("a request waits though a slot is free")
		}
	}
	for range 200 { // the gate learns how long they take
		begin(slow)
		g.Done(handled(slow, second, 0), second+10*ms)
		begin(fast)
		g.Done(handled(fast, second, 0), second+ms)
	}
	begin(slow)
	begin(slow)
	for range 10 {
		ask(t, g, &overload.Request{Method: slow, Owner: "slow"}, second)
		ask(t, g, &overload.Request{Method: fast, Owner: "fast"}, second)
	}
	m, quick := slow, 0
	for range 10 {
		next := g.Done(handled(m, second, 0), second+ms).Run
		if len(next) != 1 {
			t.Fatalf("%d requests begin when a handler ends", len(next))
		}
		if m = next[0].Method; m == fast {
			quick++
		}
	}
	if quick < 8 {
		t.Errorf("%d of 10 requests that began are of the quick method, want 9", quick)
	}
}

func TestClassesComeFirst(t *testing.T) {
	g, m := guard(t, nil)
	for class := range overload.CriticalPlus + 1 {
		ask(t, g, &overload.Request{Method: m, Class: class, Owner: class}, 2)
	}
	wantOrder(t, owners(g, m, 4, 3), overload.CriticalPlus, overload.Critical, overload.Normal, overload.Sheddable)
}

func TestRequestsThatCannotFinishAreRefused(t *testing.T) {
	g, m := guard(t, nil)
	g.Done(handled(m, 0, 0), 100*ms) // handlers take 100 ms
	g.Ask(&overload.Request{Method: m}, 0)
	if v, after := g.Ask(&overload.Request{Method: m, Deadline: 90 * ms}, 0); v != overload.Refuse || after <= 0 {
		t.Errorf("verdict %d, wait %v", v, after)
	}
	ask(t, g, &overload.Request{Method: m, Deadline: second, Owner: 1}, 0)
	ask(t, g, &overload.Request{Method: m, Owner: 2}, 0)
	next := g.Done(handled(m, 0, 0), 950*ms)
	if len(next.Refuse) != 1 || next.Refuse[0].Owner != 1 || len(next.Run) != 1 || next.Run[0].Owner != 2 {
		t.Errorf("%+v", next)
	}
	if c := g.State().Counts; c.Late != 1 || c.Expired != 1 || c.Queued != 2 {
		t.Errorf("%+v", c)
	}
}

func TestQueueIsBounded(t *testing.T) {
	g, m := guard(t, func(c *overload.Config) { c.Calls, c.Bytes = 3, 100 })
	ask(t, g, &overload.Request{Method: m, Bytes: 60}, 2)
	if v, _ := g.Ask(&overload.Request{Method: m, Bytes: 60}, 2); v != overload.Refuse {
		t.Errorf("120 bytes wait where 100 may: verdict %d", v)
	}
	kept := ask(t, g, &overload.Request{Method: m, Bytes: 1}, 2)
	ask(t, g, &overload.Request{Method: m, Bytes: 1}, 2)
	if v, _ := g.Ask(&overload.Request{Method: m, Bytes: 1}, 2); v != overload.Refuse {
		t.Errorf("a fourth request waits: verdict %d", v)
	}
	if !g.Leave(kept) || g.Leave(kept) {
		t.Error("a request leaves not once")
	}
	ask(t, g, &overload.Request{Method: m, Bytes: 1}, 2)
	if c := g.State().Counts; c.Full != 2 {
		t.Errorf("%+v", c)
	}
}

func TestSlotsComeBack(t *testing.T) {
	g, m := guard(t, nil)
	ask(t, g, &overload.Request{Method: m}, 2)
	next := g.Sample(overload.Load{Runnable: 0}, 3)
	if len(next.Run) != 1 {
		t.Errorf("idle processors, and %d requests begin", len(next.Run))
	}
	for range 3 {
		g.Done(handled(m, 3, 0), 4)
	}
	for range 200 {
		g.Sample(overload.Load{}, 5)
	}
	if g.Guarding() || g.State().Slots != 0 {
		t.Errorf("%+v after two seconds of calm", g.State())
	}
}

// run begins n handlers at one time and ends them at another, as far as they are admitted.
func run(g *overload.Gate, m *overload.Method, n int, began, ends, deadline int64) (admitted int) {
	for range n {
		r := &overload.Request{Method: m, Deadline: deadline}
		switch v, _ := g.Ask(r, began); v {
		case overload.Run:
			admitted++
		case overload.Wait:
			g.Leave(r)
		case overload.Refuse:
		}
	}
	for range admitted {
		g.Done(handled(m, began, deadline), ends)
	}
	return admitted
}

func TestLimitFollowsHandlersThatAreLate(t *testing.T) {
	g := overload.New(overload.Config{FirstLimit: 128})
	now := second
	m := g.Method(now)
	step := func(n int, took int64) int {
		got := run(g, m, n, now, now+took, now+800*ms)
		now += second
		g.Sample(overload.Load{}, now)
		return got
	}
	if got := step(1000, 100*ms); got != 128 {
		t.Errorf("%d handlers begin at first, want 128", got)
	}
	if got := step(1000, 100*ms); got < 150 || got > 256 {
		t.Errorf("%d after 128 in time, want half as many more", got)
	}
	before := step(1000, 100*ms)
	if got := step(1000, 900*ms); got < before {
		t.Errorf("%d, want %d", got, before)
	}
	cut := step(1000, 100*ms)
	if cut > before*8/10 || cut < before*3/10 {
		t.Errorf("%d begin after all were late, before %d", cut, before)
	}
	for range 8 {
		step(1000, 100*ms)
	}
	if got := step(1000, 100*ms); got <= cut || got > cut+cut/4 {
		t.Errorf("%d begin after eight times %d in time, want a little more", got, cut)
	}
}

// A method has no limit until too many of its handlers are slow, and none again ten seconds
// after more than half of its limit was last used.
func TestNoLimitWithoutOverload(t *testing.T) {
	g := overload.New(overload.Default())
	m := g.Method(second)
	const many = 100_000
	run(g, m, 10, second, 2*second, 3*second)
	if got := run(g, m, many, 2*second, 4*second, 3*second); got != many { // all late
		t.Errorf("%d of %d handlers begin at once", got, many)
	}
	if got := run(g, m, many, 4*second, 5*second, 6*second); got == many {
		t.Error("all begin after all were late")
	}
	for now := 5 * second; now < 16*second; now += second / 4 {
		run(g, m, 1, now, now+ms, now+second)
		g.Sample(overload.Load{}, now)
	}
	if got := run(g, m, many, 16*second, 17*second, 18*second); got != many {
		t.Errorf("%d of %d handlers begin long after", got, many)
	}
}

// A method whose calls wait for an event, most or all of them until their deadline of 30 s, is
// limited only for a short time: after three minutes it is clear that no limit helps.
func TestPollsAreNotKeptBack(t *testing.T) {
	for name, c := range map[string]struct {
		event int // one in this many calls ends in time; 0 for none
		most  int // calls that do not begin at once, of 20,000 in ten minutes
	}{"few events": {100, 6000}, "no events": {0, 6000}} {
		if kept := poll(t, c.event); kept > c.most {
			t.Errorf("%s: %d calls were kept back, want at most %d", name, kept, c.most)
		}
	}
}

// poll plays ten minutes of a method of which a thousand calls wait for an event, for 30 s at
// most, and returns how many did not begin at once.
func poll(t *testing.T, event int) (kept int) {
	t.Helper()
	const lasts, step = 30 * second, 30 * ms
	g := overload.New(overload.Default())
	m := g.Method(second)
	var began []int64
	for i := range 20_000 {
		now := second + int64(i)*step
		for len(began) > 0 && began[0]+lasts <= now {
			for range g.Done(handled(m, began[0], began[0]+lasts), now).Run {
				began = append(began, now)
			}
			began = began[1:]
		}
		r := &overload.Request{Method: m, Deadline: now + lasts}
		switch v, _ := g.Ask(r, now); {
		case v != overload.Run:
			kept++
			g.Leave(r)
		case event > 0 && i%event == 0:
			g.Done(handled(m, now-second, now+lasts), now) // it took a second
		default:
			began = append(began, now)
		}
		if i%10 == 0 {
			g.Sample(overload.Load{}, now)
		}
	}
	return kept
}

// Handlers that are always late, because their callers' deadlines are too short, do not keep
// other callers out.
func TestHopelessDeadlinesDoNotStarveOthers(t *testing.T) {
	g := overload.New(overload.Default())
	m := g.Method(second)
	for now := second; now < 100*second; now += 100 * ms {
		if got := run(g, m, 50, now, now+50*ms, now+second); got != 50 {
			t.Fatalf("%d of 50 calls begin after %d s", got, now/second)
		}
		run(g, m, 20, now+60*ms, now+90*ms, now+61*ms)
		g.Sample(overload.Load{}, now+99*ms)
	}
}

// In random sequences of operations each request leaves the queue once, and nothing is left at
// the end.
func TestRandomPlay(t *testing.T) {
	for seed := range uint64(200) {
		play(t, rand.New(rand.NewPCG(seed, 1)))
	}
}

func play(t *testing.T, random *rand.Rand) {
	t.Helper()
	g := overload.New(overload.Config{
		Calls: 20, Bytes: 1000, Processors: 2, Busy: 4, Idle: 1, Engage: 0.1, Slack: 0.5, FirstLimit: 8, Cut: 0.7, LeastLimit: 1, UsualTimeout: time.Second,
	})
	methods := []*overload.Method{g.Method(0), g.Method(0), g.Method(0)}
	var running, waiting []*overload.Request
	now, over := int64(1), 0
	begin := func(n overload.Next) {
		over += len(n.Refuse)
		running = append(running, n.Run...)
	}
	asked := 0
	for range 2000 {
		now += random.Int64N(20 * ms)
		switch random.IntN(6) {
		case 0, 1:
			r := &overload.Request{Method: methods[random.IntN(3)], Caller: random.Uint64N(4), Class: overload.Class(random.IntN(4)), Bytes: random.Int64N(100)}
			if random.IntN(4) > 0 {
				r.Deadline = now + random.Int64N(second)
			}
			asked++
			switch v, _ := g.Ask(r, now); v {
			case overload.Run:
				running = append(running, r)
			case overload.Wait:
				waiting = append(waiting, r)
			case overload.Refuse:
				over++
			}
		case 2, 3:
			if len(running) > 0 {
				i := random.IntN(len(running))
				r := running[i]
				running = append(running[:i], running[i+1:]...)
				over++
				h := handled(r.Method, now-random.Int64N(second), r.Deadline)
				h.Failed = random.IntN(5) == 0
				begin(g.Done(h, now))
			}
		case 4:
			if len(waiting) > 0 && g.Leave(waiting[random.IntN(len(waiting))]) {
				over++
			}
		case 5:
			begin(g.Sample(overload.Load{Runnable: 10 * random.Float64(), Wait: time.Duration(random.Int64N(second)), Timeout: time.Second}, now))
		}
		if s := g.State(); s.Waiting > 20 || s.Running != int64(len(running)) || s.Waiting+len(running)+over != asked {
			t.Fatalf("%+v, %d run, %d over, %d asked", s, len(running), over, asked)
		}
	}
	for len(running) > 0 {
		r := running[0]
		running = running[1:]
		over++
		begin(g.Done(handled(r.Method, now, 0), now))
	}
	if s := g.State(); s.Running != 0 || s.Waiting != 0 || over != asked {
		t.Fatalf("at the end: %+v, %d of %d over", s, over, asked)
	}
}

func TestConcurrentUse(t *testing.T) {
	g, m := guard(t, nil)
	g.Done(handled(m, 0, 0), 1)
	g.Done(handled(m, 0, 0), 1)
	var mu sync.Mutex
	var wg sync.WaitGroup
	over := 0
	var end func(r *overload.Request)
	end = func(r *overload.Request) {
		next := g.Done(handled(r.Method, 1, r.Deadline), 2)
		mu.Lock()
		over += 1 + len(next.Refuse)
		mu.Unlock()
		for _, r := range next.Run {
			end(r)
		}
	}
	for worker := range uint64(4) {
		wg.Go(func() {
			for range 500 {
				r := &overload.Request{Method: m, Caller: worker}
				switch v, _ := g.Ask(r, 1); v {
				case overload.Run:
					end(r)
				case overload.Refuse:
					mu.Lock()
					over++
					mu.Unlock()
				case overload.Wait:
				}
			}
		})
	}
	wg.Wait()
	if s := g.State(); over != 2000 || s.Running != 0 || s.Waiting != 0 {
		t.Errorf("%d of 2000 over, %+v", over, s)
	}
}

// A request without a deadline waits for half of the usual timeout at most, and runs for as
// long as it takes.
func TestWithoutDeadline(t *testing.T) {
	g, m := guard(t, func(c *overload.Config) { c.UsualTimeout = 2 * time.Second })
	g.Done(handled(m, 1, 0), 60*second) // the method takes a minute
	g.Ask(&overload.Request{Method: m}, 60*second)
	ask(t, g, &overload.Request{Method: m, Owner: "a"}, 60*second+1)
	if v, _ := g.Ask(&overload.Request{Method: m}, 60*second+1); v != overload.Refuse {
		t.Errorf("a request behind it: %d, want that it is refused", v)
	}
	n := g.Done(handled(m, 60*second, 0), 63*second)
	if len(n.Run) != 0 || len(n.Refuse) != 1 {
		t.Errorf("after 3 s: %+v, want that it is refused", n)
	}
}

// One-way requests, whose callers do not wait, may fill only a part of the queue.
func TestOneWayRequestsLeaveRoom(t *testing.T) {
	g, m := guard(t, func(c *overload.Config) { c.Calls, c.OneWay = 10, 3 })
	oneWay := func() overload.Verdict {
		v, _ := g.Ask(&overload.Request{Method: m, OneWay: true}, 1)
		return v
	}
	for range 3 {
		if v := oneWay(); v != overload.Wait {
			t.Fatalf("verdict %d", v)
		}
	}
	if v := oneWay(); v != overload.Refuse {
		t.Errorf("a fourth one: verdict %d", v)
	}
	ask(t, g, &overload.Request{Method: m}, 1)
	g.Done(handled(m, 1, 0), 2)
	if v := oneWay(); v != overload.Wait {
		t.Errorf("after one has begun: verdict %d", v)
	}
}

// The limit of streams is the number that runs when the gate begins to guard. It becomes lower
// while goroutines wait for a processor although few handlers of calls run, and higher when
// they do not.
func TestStreamsAreBounded(t *testing.T) {
	g := overload.New(overload.Config{Processors: 2, Streams: 2})
	m := g.Method(0)
	for range 100 {
		if !g.BeginStream() {
			t.Fatal("a stream is refused without overload")
		}
	}
	if v, _ := g.Ask(&overload.Request{Method: m}, 1); v != overload.Run {
		t.Fatalf("verdict %d", v)
	}
	g.Sample(busy, 1)
	if g.BeginStream() {
		t.Error("one more begins")
	}
	g.EndStream()
	if !g.BeginStream() {
		t.Error("none begins when one has ended")
	}
	for range 30 {
		g.Sample(busy, 1) // the slots are down to two
	}
	for range 98 {
		g.EndStream()
	}
	if g.BeginStream() {
		t.Error("a third one begins")
	}
	for range 10 {
		g.Sample(overload.Load{Timeout: time.Second}, 1)
		g.BeginStream()
	}
	if s := g.State(); s.Streams < 5 {
		t.Errorf("%d run after ten samples in which nothing waits", s.Streams)
	}
	if c := g.State().Counts; c.Streams < 2 {
		t.Errorf("%d were refused", c.Streams)
	}
}

// A pause of the process, or time in which handlers let readers run, does not count as the rate
// at which requests will start: waiting requests are not refused because of it.
func TestPausesDoNotCountInForecast(t *testing.T) {
	for name, yields := range map[string]bool{"stopped": false, "yields": true} {
		g, m := guard(t, nil)
		now := second
		for range 300 {
			ask(t, g, &overload.Request{Method: m, Deadline: now + 10*second}, now)
		}
		for i := range 100 { // one starts every millisecond, except in the pauses
			now += ms
			switch {
			case yields && i >= 50:
				g.Paused()
				now += 20 * ms
			case i == 50:
				now += 3 * second
			}
			g.Done(handled(m, now-ms/10, 0), now)
		}
		ask(t, g, &overload.Request{Method: m, Deadline: now + second}, now) // 200 wait, so 200 ms
		if v, _ := g.Ask(&overload.Request{Method: m, Deadline: now + 300*ms}, now); v != overload.Refuse {
			t.Errorf("%s: verdict %d for a request that would have to wait for two thirds of its time", name, v)
		}
	}
}

// handled returns the Handled of a request that did not wait.
func handled(m *overload.Method, began, deadline int64) *overload.Handled {
	h := m.Begin(nil, began, deadline)
	return &h
}
