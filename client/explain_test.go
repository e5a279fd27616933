package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/balance"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/resilience"
)

func TestExplainedCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var first atomic.Pointer[string] // the instance that is called first, which fails
		cl := newCluster(t, 3, func(_ context.Context, at string) (string, error) {
			if first.CompareAndSwap(nil, &at); *first.Load() == at {
				return "", tandem.Errorf(tandem.Unavailable, "ill")
			}
			return at, nil
		})
		c := cl.client(t, client.WithFailMode(client.Failover), client.WithBalancer(balance.SlowStart(time.Second, balance.P2C())))
		var e client.Explanation
		var who string
		if err := c.Call(t.Context(), "Test.Do", "", &who, client.Idempotent(), client.Explain(&e)); err != nil {
			t.Fatal(err)
		}
		if len(e.Attempts) != 2 || e.Method != "Test.Do" || e.Policy != c.Describe("Test.Do").Policy || e.Budget < 98 || e.Budget > 99.2 {
			t.Fatalf("explained as %+v", &e)
		}
		one, two := e.Attempts[0], e.Attempts[1]
		failed := one.Chosen
		if !strings.Contains(one.Chosen, *first.Load()) || !strings.Contains(one.Error, "ill") || one.Number != 0 {
			t.Errorf("the first attempt: %+v", one)
		}
		if !strings.HasSuffix(two.Chosen, who) || two.Error != "" || two.Number != 1 {
			t.Errorf("the second attempt: %+v", two)
		}
		for _, in := range two.Instances {
			if (in.Unusable == "tried already") != (in.ID == failed) || in.Breaker != "closed" || in.Weight != 100 {
				t.Errorf("the second attempt knows %+v", in)
			}
		}
		policies := ""
		for _, s := range two.Steps {
			policies += s.Policy + " "
		}
		if !strings.Contains(policies, "slow_start") || !strings.Contains(policies, "p2c") || two.Steps[len(two.Steps)-1].Dropped[failed] == "" {
			t.Errorf("the second attempt's steps %+v", two.Steps)
		}
		if text, err := json.Marshal(&e); err != nil || !strings.Contains(string(text), "tried already") {
			t.Errorf("as JSON: %s, %v", text, err)
		}
	})
}

func TestExplainSaysWhyNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cl := newCluster(t, 3, func(_ context.Context, at string) (string, error) {
			if at == "a" {
				return "", tandem.Errorf(tandem.Internal, "ill")
			}
			return at, nil
		})
		c := cl.client(t, client.WithBreaker(resilience.BreakerConfig{Consecutive: 2}))
		for range 60 { // a gets two of them, but for one run in 1e9
			_ = c.Call(t.Context(), "Test.Do", "", nil) // one in three fails
		}
		cl.servers[1].Close()
		synctest.Wait()
		reasons := map[string]string{}
		for _, in := range c.Describe("Test.Do").Attempts[0].Instances {
			reasons[strings.TrimPrefix(in.ID, "mem://")] = in.Unusable + "/" + in.Breaker + "/" + in.Method
		}
		want := map[string]string{"a": "the method's circuit breaker is open/closed/open", "b": "not connected/closed/closed", "c": "/closed/closed"}
		if fmt.Sprint(reasons) != fmt.Sprint(want) {
			t.Errorf("described as %q, want %q", reasons, want)
		}
		if in := c.Describe("Test.Do", client.Instance("mem://c")).Attempts[0].Instances[0]; in.Unusable != "the call names another instance" {
			t.Errorf("pinned elsewhere: %+v", in)
		}
	})
}

func TestExplainTo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cl := newCluster(t, 1, func(_ context.Context, at string) (string, error) { return at, errors.New("no") })
		var told []string
		c := cl.client(t, client.WithInterceptors(client.ExplainTo(func(e *client.Explanation) { told = append(told, e.Method+": "+e.Attempts[0].Error) })))
		_ = c.Call(t.Context(), "Test.Do", "", nil) // it fails, as it is meant to
		var e client.Explanation
		_ = c.Call(t.Context(), "Test.Do", "", nil, client.Explain(&e)) // the call's own Explain gets it instead
		if fmt.Sprint(told) != "[Test.Do: unknown: no]" || len(e.Attempts) != 1 {
			t.Errorf("told %q, and %+v", told, e.Attempts)
		}
	})
}
