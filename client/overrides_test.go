package client_test

import (
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
	"github.com/tandem-rpc/tandem/override"
	"github.com/tandem-rpc/tandem/policy"
	"github.com/tandem-rpc/tandem/registry"
	"github.com/tandem-rpc/tandem/server"
	"github.com/tandem-rpc/tandem/transport"
)

// shop is three servers in a registry, which count their calls, and a client.
type shop struct {
	t      *testing.T
	calls  [3]atomic.Int64
	client *client.Client
	editor *override.Editor
}

func newShop(t *testing.T, opts ...client.Option) *shop {
	t.Helper()
	s := &shop{t: t}
	net, r := transport.NewMemory(), registry.NewMemory()
	for i := range s.calls {
		served := server.New()
		err := served.RegisterFunc("Shop.Buy", func(wait time.Duration) {
			s.calls[i].Add(1)
			time.Sleep(wait) // in a synctest bubble
		})
		if err != nil {
			t.Fatal(err)
		}
		address := fmt.Sprint("s", i)
		l, err := net.Listen(t.Context(), address)
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 1)
		go func() { done <- served.ServeListener(l) }()
		listed, err := r.Register(t.Context(), tandem.Instance{ID: address, Endpoints: []tandem.Endpoint{{Transport: "memory", Address: address}}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := errors.Join(listed.Close(), served.Close()); err != nil {
				t.Error(err)
			}
			<-done
		})
	}
	target, err := registry.ParseTarget("shops://shop")
	if err != nil {
		t.Fatal(err)
	}
	if s.editor, err = override.NewEditor(r, target); err != nil {
		t.Fatal(err)
	}
	opts = append([]client.Option{client.WithTransport("memory", net), client.WithResolver("shops", r)}, opts...)
	if s.client, err = client.Dial("shops://shop", opts...); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.client.Close(); err != nil {
			t.Error(err)
		}
	})
	synctest.Wait() // until it is connected to all: calls before that go to those that are
	return s
}

// want makes calls, and compares how many each server got, but for one: a round may have begun.
func (s *shop) want(want ...int64) {
	s.t.Helper()
	var n int64
	for _, w := range want {
		n += w
	}
	var before, got [3]int64
	for i := range before {
		before[i] = s.calls[i].Load()
	}
	for range n {
		if err := s.client.Call(s.t.Context(), "Shop.Buy", time.Duration(0), nil); err != nil {
			s.t.Fatal(err)
		}
	}
	for i := range got {
		got[i] = s.calls[i].Load() - before[i]
	}
	for i := range got {
		if off := got[i] - want[i]; off > 1 || off < -1 || want[i] == 0 && off != 0 {
			s.t.Errorf("the servers got %v of %d calls, want %v", got, n, want)
			return
		}
	}
}

func (s *shop) set(o ...override.Override) {
	s.t.Helper()
	if _, err := s.editor.Set(s.t.Context(), override.Request{By: "ann", Why: "a test", AllowEmpty: true}, o...); err != nil {
		s.t.Fatal(err)
	}
	synctest.Wait()
}

func TestOverrides(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShop(t, client.WithBalancer(balance.RoundRobin()))
		s.want(10, 10, 10)
		inFlight := make(chan error, 1)
		go func() {
			inFlight <- s.client.Call(t.Context(), "Shop.Buy", time.Minute, nil, client.Instance("s1"), client.Timeout(2*time.Minute))
		}()
		synctest.Wait()
		s.set(override.Override{Instance: "s1", State: override.Draining})
		s.want(15, 0, 15)
		err := s.client.Call(t.Context(), "Shop.Buy", time.Duration(0), nil, client.Instance("s1"))
		if tandem.CodeOf(err) != tandem.Unavailable || !strings.Contains(err.Error(), "draining by ann: a test") {
			t.Errorf("a call to a draining instance: %v", err)
		}
		if d := s.client.Describe("Shop.Buy").String(); !strings.Contains(d, "(draining by ann: a test)") {
			t.Errorf("the description does not tell: %s", d)
		}
		if err := <-inFlight; err != nil {
			t.Errorf("the call in flight: %v", err)
		}
		s.set(override.Override{Instance: "s1", State: override.Enabled}, override.Override{Instance: "s0", Weight: 200}, override.Override{Instance: "s2", Weight: 100})
		s.want(20, 10, 10)
		s.set(override.Override{Instance: "s0", Weight: 100, Ramp: policy.Duration(10 * time.Second)})
		s.want(20, 10, 10)
		time.Sleep(11 * time.Second)
		s.want(10, 10, 10)
		s.set(override.Override{Instance: "s2", State: override.Disabled, Until: time.Now().Add(time.Minute)})
		s.want(15, 15, 0)
		time.Sleep(time.Minute + time.Second)
		s.want(10, 10, 10)
	})
}

// With all instances disabled, calls fail at once and say why; they go on when one is enabled.
func TestAllDisabled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShop(t)
		for _, id := range []string{"s0", "s1", "s2"} {
			s.set(override.Override{Instance: id, State: override.Disabled})
		}
		began := time.Now()
		err := s.client.Call(t.Context(), "Shop.Buy", time.Duration(0), nil)
		if tandem.CodeOf(err) != tandem.Unavailable || tandem.MayHaveExecuted(err) || !strings.Contains(err.Error(), "all 3 instances") || time.Since(began) > time.Second {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		s.set(override.Override{Instance: "s1", State: override.Enabled})
		s.want(0, 3, 0)
	})
}

// A client reports which overrides it has applied.
func TestOverridesAreReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShop(t)
		s.set(override.Override{Instance: "s1", State: override.Disabled})
		time.Sleep(time.Second)
		o, err := s.editor.Rollout(t.Context())
		if err != nil || o.String() != "1 is applied by 1 of 1 clients" {
			t.Errorf("%v, %v", o, err)
		}
	})
}
