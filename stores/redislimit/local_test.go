package redislimit_test

import (
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/plugin"
	"github.com/tandem-rpc/tandem/stores/redislimit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// ask passes the plugin as a server would.
func ask(t testing.TB, p *redislimit.Limits, method, caller string) error {
	t.Helper()
	g, ok := p.ForMethod(plugin.Method{Name: method}).(plugin.BeforeRequestHeader)
	if !ok {
		return nil
	}
	return g.BeforeRequestHeader(t.Context(), &tandem.Call{Method: method, Identity: caller, Peer: &tandem.Peer{}})
}

// unreachable returns a client of an address where nothing listens.
func unreachable(t testing.TB) *redis.Client {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = ln.Close()
	c := redis.NewClient(&redis.Options{Addr: ln.Addr().String(), MaxRetries: -1})
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// Without Redis each instance counts by itself, with its share of the limit, says so, and does not
// ask at every call.
func TestWithoutRedisEachInstanceCounts(t *testing.T) {
	for share, want := range map[float64]int{1: 10, 0.5: 5, 0: 0} {
		p, err := redislimit.New(unreachable(t), "shop", redislimit.PerCaller(redislimit.Limit{Rate: 0.001, Burst: 10}), redislimit.WithFallback(share))
		if err != nil {
			t.Fatal(err)
		}
		allowed := 0
		for range 20 {
			err := ask(t, p, "A.B", "ada")
			if err == nil {
				allowed++
			} else if e := tandem.AsError(err); e.Code != tandem.ResourceExhausted || !e.NotExecuted || e.RetryAfter <= 0 {
				t.Errorf("refused with %+v", e)
			}
		}
		if s := p.Status(); allowed != want || s.Local != 20 || s.Shared != 0 || s.Refused != uint64(20-want) || s.Failures != 1 || !s.Away || s.Error == "" {
			t.Errorf("share %v: %d of 20 calls allowed, want %d; %+v", share, allowed, want, s)
		}
		if err := ask(t, p, "A.B", "bob"); (err == nil) != (share > 0) {
			t.Errorf("another caller: %v", err)
		}
	}
}

// A Redis that accepts connections and is silent delays one call by the timeout, and no other.
func TestSilentRedisDelaysOneCall(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	c := redis.NewClient(&redis.Options{Addr: ln.Addr().String(), MaxRetries: -1, ContextTimeoutEnabled: true})
	defer c.Close()
	p, err := redislimit.New(c, "shop", redislimit.PerCaller(redislimit.Limit{Rate: 1000, Burst: 1000}), redislimit.WithTimeout(100*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	for range 100 {
		if err := ask(t, p, "A.B", "ada"); err != nil {
			t.Fatal(err)
		}
	}
	if took := time.Since(began); took < 100*time.Millisecond || took > time.Second {
		t.Errorf("100 calls took %v", took)
	}
	if s := p.Status(); s.Failures != 1 || s.Local != 100 {
		t.Errorf("%+v", s)
	}
}

// Limits that can't be meant are errors.
func TestLimitsThatCantBeRight(t *testing.T) {
	c := unreachable(t)
	per := redislimit.PerCaller(redislimit.Limit{Rate: 1})
	for want, f := range map[string]func() (*redislimit.Limits, error){
		"no limit": func() (*redislimit.Limits, error) { return redislimit.New(c, "shop") },
		"want a rate": func() (*redislimit.Limits, error) {
			return redislimit.New(c, "shop", redislimit.Method("*", redislimit.Limit{}))
		},
		"name of the":   func() (*redislimit.Limits, error) { return redislimit.New(c, "", per) },
		"timeout":       func() (*redislimit.Limits, error) { return redislimit.New(c, "shop", per, redislimit.WithTimeout(0)) },
		"fallback 2":    func() (*redislimit.Limits, error) { return redislimit.New(c, "shop", per, redislimit.WithFallback(2)) },
		"want a client": func() (*redislimit.Limits, error) { return redislimit.New(nil, "shop", per) },
	} {
		if _, err := f(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// A limit of methods leaves others alone.
func TestMethodPatterns(t *testing.T) {
	p, err := redislimit.New(unreachable(t), "shop", redislimit.Method("A.*", redislimit.Limit{Rate: 0.001}))
	if err != nil {
		t.Fatal(err)
	}
	for i, method := range []string{"A.B", "A.C", "B.A", "B.A"} {
		if err := ask(t, p, method, fmt.Sprint(i)); err != nil {
			t.Errorf("%s: %v", method, err)
		}
	}
	if err := ask(t, p, "A.B", "x"); tandem.CodeOf(err) != tandem.ResourceExhausted {
		t.Errorf("the second call of A.B: %v", err)
	}
}
