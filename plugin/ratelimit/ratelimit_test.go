package ratelimit_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/plugin"
	"github.com/tandem-rpc/tandem/plugin/ratelimit"
	"github.com/tandem-rpc/tandem/server"
	"github.com/tandem-rpc/tandem/transport"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func at(ip string, port int) *tandem.Peer {
	return &tandem.Peer{Addr: &net.TCPAddr{IP: net.ParseIP(ip), Port: port}}
}

// chain returns a function that makes calls of a method through the limits.
func chain(p *ratelimit.Plugin, method string, f tandem.Func) tandem.Func {
	points := p.ForMethod(plugin.Method{Name: method})
	if points == nil {
		return f
	}
	return points.(plugin.Intercepts).Intercept(f)
}

func nothing(context.Context, *tandem.Call) error { return nil }

// Each key has its own bucket, which is refilled over time.
func TestRates(t *testing.T) {
	limit := ratelimit.Limit{Rate: 10, Burst: 2}
	calls := func(list ...*tandem.Call) []*tandem.Call { return list }
	for name, c := range map[string]struct {
		option      ratelimit.Option
		same, other []*tandem.Call // as the first call, and with a limit of their own
	}{
		"server": {ratelimit.PerServer(limit), calls(&tandem.Call{Method: "A.B", Peer: at("2.2.2.2", 2), Identity: "you"}), nil},
		"method": {ratelimit.PerMethod(limit), calls(&tandem.Call{Method: "A.A", Peer: at("2.2.2.2", 2)}), calls(&tandem.Call{Method: "A.B", Peer: at("1.1.1.1", 1)})},
		"pattern": {ratelimit.Method("A.*", limit), calls(&tandem.Call{Method: "A.A", Peer: at("2.2.2.2", 2)}),
			calls(&tandem.Call{Method: "B.A"}, &tandem.Call{Method: "A.B"})},
		"caller": {ratelimit.PerCaller(limit), calls(&tandem.Call{Method: "A.B", Peer: at("2.2.2.2", 2), Identity: "me"}),
			calls(&tandem.Call{Method: "A.A", Peer: at("1.1.1.1", 1), Identity: "you"}, &tandem.Call{Method: "A.A", Peer: at("1.1.1.1", 1)}, &tandem.Call{Method: "A.A", Identity: 7})},
		"address": {ratelimit.PerAddress(limit), calls(&tandem.Call{Method: "A.A", Peer: at("::ffff:1.1.1.1", 2)}),
			calls(&tandem.Call{Method: "A.A", Peer: at("2.2.2.2", 1)})},
	} {
		t.Run(name, func(t *testing.T) { synctest.Test(t, func(t *testing.T) { testRate(t, c.option, c.same, c.other) }) })
	}
}

func testRate(t *testing.T, option ratelimit.Option, same, other []*tandem.Call) {
	p := ratelimit.New(option)
	methods := map[string]tandem.Func{}
	for _, m := range []string{"A.A", "A.B", "B.A"} {
		methods[m] = chain(p, m, nothing)
	}
	call := func(c *tandem.Call) error { return methods[c.Method](t.Context(), c) }
	first := &tandem.Call{Method: "A.A", Peer: at("1.1.1.1", 1), Identity: "me"}
	if err := errors.Join(call(first), call(same[0])); err != nil {
		t.Fatalf("the burst: %v", err)
	}
	for _, c := range append(same, first) {
		e := tandem.AsError(call(c))
		if e == nil || e.Code != tandem.ResourceExhausted || !e.NotExecuted || e.RetryAfter != 100*time.Millisecond {
			t.Errorf("beyond the limit: %v, retry after %v", e, e.RetryAfter)
		}
	}
	for _, c := range other {
		if err := call(c); err != nil {
			t.Errorf("another: %v", err)
		}
	}
	time.Sleep(100 * time.Millisecond)
	if err := call(first); err != nil {
		t.Errorf("a tenth of a second later: %v", err)
	}
	if err := call(first); err == nil {
		t.Error("a second one at that time")
	}
}

func TestAtOnce(t *testing.T) {
	p := ratelimit.New(ratelimit.PerServer(ratelimit.Limit{AtOnce: 1}))
	var inner error
	var f tandem.Func
	f = chain(p, "A.A", func(ctx context.Context, call *tandem.Call) error {
		if call.Attempt == 0 {
			inner = f(ctx, &tandem.Call{Attempt: 1})
		}
		return nil
	})
	for range 2 {
		if err := f(t.Context(), &tandem.Call{}); err != nil {
			t.Error(err)
		}
		if tandem.CodeOf(inner) != tandem.ResourceExhausted || !strings.Contains(inner.Error(), "1 calls in flight") {
			t.Errorf("the second at a time: %v", inner)
		}
	}
}

// Calls from many addresses take no more memory than the maximum of keys.
func TestKeysAreBounded(t *testing.T) {
	p := ratelimit.New(ratelimit.WithMaxKeys(2), ratelimit.PerAddress(ratelimit.Limit{Rate: 1, Burst: 1, AtOnce: 1}))
	release, entered := make(chan struct{}), make(chan struct{})
	f := chain(p, "A.A", func(_ context.Context, call *tandem.Call) error {
		if call.Attempt > 0 {
			entered <- struct{}{}
			<-release
		}
		return nil
	})
	from := func(n, attempt int) error {
		return f(t.Context(), &tandem.Call{Peer: at("1.1.1."+strconv.Itoa(n), 1), Attempt: attempt})
	}
	ended := make(chan error, 2)
	for n := range 2 {
		go func() { ended <- from(n, 1) }()
		<-entered
	}
	// No key can be evicted: the others share one bucket.
	if first, second := from(2, 0), from(3, 0); first != nil || second == nil {
		t.Errorf("while all are busy: %v, %v", first, second)
	}
	close(release)
	if err := errors.Join(<-ended, <-ended); err != nil {
		t.Error(err)
	}
	for n := 10; n < 20; n++ { // each is new, as the ones before it were evicted
		if err := from(n, 0); err != nil {
			t.Errorf("address %d: %v", n, err)
		}
	}
	if err := from(19, 0); err == nil {
		t.Error("the last was forgotten too")
	}
}

// Keys with long calls do not keep idle keys from being evicted.
func TestKeysWithLongCallsDoNotPreventEviction(t *testing.T) {
	const long, keys = 8, 20
	p := ratelimit.New(ratelimit.WithMaxKeys(keys), ratelimit.PerAddress(ratelimit.Limit{Rate: 0.001, Burst: 1}))
	release, entered := make(chan struct{}), make(chan struct{})
	f := chain(p, "A.A", func(_ context.Context, call *tandem.Call) error {
		if call.Attempt > 0 {
			entered <- struct{}{}
			<-release
		}
		return nil
	})
	from := func(n, attempt int) error {
		return f(t.Context(), &tandem.Call{Peer: at("1.1.1."+strconv.Itoa(n), 1), Attempt: attempt})
	}
	ended := make(chan error, long)
	for n := range long {
		go func() { ended <- from(n, 1) }()
		<-entered
	}
	for n := long; n < 3*keys; n++ {
		if err := from(n, 0); err != nil {
			t.Errorf("address %d: %v", n, err)
		}
	}
	close(release)
	for range long {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

// Calls of one caller that are refused use up no limit that others share, in whatever order the
// limits are given.
func TestRefusedCallsTakeNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := ratelimit.New(ratelimit.PerServer(ratelimit.Limit{Rate: 1, Burst: 5}), ratelimit.Method("A.*", ratelimit.Limit{Rate: 1, Burst: 4}),
			ratelimit.PerCaller(ratelimit.Limit{Rate: 1, Burst: 1}))
		f := chain(p, "A.A", nothing)
		for n := range 9 {
			if err := f(t.Context(), &tandem.Call{Identity: "greedy"}); (err == nil) != (n == 0) {
				t.Errorf("call %d of who calls too often: %v", n, err)
			}
		}
		for n := range 3 {
			if err := f(t.Context(), &tandem.Call{Identity: n}); err != nil {
				t.Errorf("another: %v", err)
			}
		}
		err := f(t.Context(), &tandem.Call{Identity: "late"})
		if err == nil || !strings.HasPrefix(err.Error(), "resource exhausted: the method") {
			t.Errorf("beyond the method's limit: %v", err)
		}
	})
}

// However many calls come at the same time, no more pass than the rate allows.
func TestRateUnderContention(t *testing.T) {
	const burst, perSecond = 1, 1000
	f := chain(ratelimit.New(ratelimit.PerServer(ratelimit.Limit{Rate: perSecond, Burst: burst})), "A.A", nothing)
	began := time.Now()
	var passed atomic.Int64
	var wg sync.WaitGroup
	for range 64 {
		wg.Go(func() {
			for time.Since(began) < 100*time.Millisecond {
				if f(t.Context(), &tandem.Call{}) == nil {
					passed.Add(1)
				}
			}
		})
	}
	wg.Wait()
	if most := burst + perSecond*time.Since(began).Seconds(); float64(passed.Load()) > most+1 {
		t.Errorf("%d calls passed, allowed were %.0f", passed.Load(), most)
	}
}

// Identities whose type does not tell whether two are the same.
type (
	account struct {
		Name string
		Org  *struct{ Name string }
	}
	user struct {
		Name  string
		Roles []string
	}
)

// A key identifies a caller, whatever the address.
func TestKeys(t *testing.T) {
	for want, call := range map[string]*tandem.Call{
		"":           {},
		"1.2.3.4":    {Peer: at("1.2.3.4", 5)},
		"::1":        {Peer: at("::1", 5)},
		"/x":         {Peer: &tandem.Peer{Addr: &net.UnixAddr{Name: "/x"}}},
		"10.0.0.1":   {Peer: &tandem.Peer{Addr: &net.UDPAddr{IP: net.IPv4(10, 0, 0, 1), Port: 3}}},
		"id ada":     {Identity: "ada"},
		"id 7":       {Identity: 7},
		"id 1.2.3.4": {Identity: net.IPv4(1, 2, 3, 4)},

		"id eve":   {Identity: new("eve"), Peer: at("1.2.3.5", 5)},
		"id 8":     {Identity: new(8)},
		"id <nil>": {Identity: (*string)(nil)},

		"id {ada [a b]}": {Identity: user{"ada", []string{"a", "b"}}, Peer: at("1.2.3.6", 5)},
		"id &{ada []}":   {Identity: &user{Name: "ada"}},
		"1.2.3.7":        {Identity: &account{Name: "ada", Org: new(struct{ Name string })}, Peer: at("1.2.3.7", 5)},
		"1.2.3.8":        {Identity: map[string]any{"sub": "ada"}, Peer: at("1.2.3.8", 5)},
	} {
		if got := ratelimit.Caller(call); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	for range 2 { // an authenticator may make a new pointer for each call
		if got := ratelimit.Caller(&tandem.Call{Identity: new("ada")}); got != "id ada" {
			t.Errorf("a pointer to a string: %q", got)
		}
	}
}

func Example() {
	srv := server.New(server.WithPlugins(ratelimit.New(ratelimit.PerMethod(ratelimit.Limit{Rate: 0.001, Burst: 2}))))
	_ = srv.RegisterFunc("Door.Knock", func() string { return "come in" })
	network := transport.NewMemory()
	ln, _ := network.Listen(context.Background(), "door")
	served := make(chan error, 1)
	go func() { served <- srv.ServeListener(ln) }()
	c, _ := client.Dial("mem://door", client.WithTransport("mem", network))
	for range 3 {
		var answer string
		err := c.Call(context.Background(), "Door.Knock", tandem.Args{}, &answer)
		fmt.Println(answer, tandem.CodeOf(err))
	}
	_ = c.Close()
	_ = srv.Close()
	<-served
	// Output:
	// come in ok
	// come in ok
	//  resource exhausted
}
