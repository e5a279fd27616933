package client_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/policy"
	"github.com/tandem-rpc/tandem/registry"
	"github.com/tandem-rpc/tandem/resilience"
	"github.com/tandem-rpc/tandem/server"
	"github.com/tandem-rpc/tandem/transport"
)

// attempts records how many attempts the last call had.
type attempts struct{ last int }

func (a *attempts) AfterCall(_ context.Context, _ *tandem.Call, end tandem.Outcome) {
	a.last = end.Attempts
}

// A client's state counts instances, connections, breakers and what its budget refused, and says
// since when the registry has failed.
func TestState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		list, network, seen := registry.NewMemory(), transport.NewMemory(), &attempts{}
		stop := serveFailing(t, network, "a")
		defer stop()
		defer serveFailing(t, network, "b")()
		leave := map[string]registry.Registration{}
		for _, id := range []string{"a", "b"} {
			entry, err := list.Register(t.Context(), tandem.Instance{ID: id, Endpoints: []tandem.Endpoint{{Transport: "mem", Address: id}}})
			if err != nil {
				t.Fatal(err)
			}
			leave[id] = entry
		}
		began := time.Now()
		c, err := client.Dial("memory:///x", client.WithResolver("memory", list), client.WithTransport("mem", network),
			client.WithFailMode(client.Failover), client.WithRetries(1), client.WithPlugins(seen), client.WithEjection(nil),
			client.WithAttempts(client.Attempts{Budget: &policy.Budget{}}), // no retries at all
			client.WithBreaker(resilience.BreakerConfig{Consecutive: 2, Pause: time.Minute}))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		synctest.Wait()
		s := c.State()
		if s.Target != "memory:///x" || s.Connections != 2 || s.Instances != (client.InstanceCounts{Ready: 2}) || len(s.Breakers) != 0 ||
			s.RegistryError != "" || s.Listed.Before(began) {
			t.Errorf("at first %+v", s)
		}
		for range 4 {
			_ = c.Call(t.Context(), "A.Fail", tandem.Args{}, nil, client.Idempotent())
			if seen.last != 1 {
				t.Errorf("%d attempts without a budget", seen.last)
			}
		}
		s = c.State()
		if len(s.Breakers) != 1 || s.Breakers[0].Method != "A.Fail" || s.Breakers[0].Open < 1 || s.RetriesRefused == 0 {
			t.Errorf("after failures %+v", s)
		}
		list.Fail(errors.New("away"))
		time.Sleep(time.Second)
		stop()
		synctest.Wait()
		s = c.State()
		if s.RegistryError != "away" || time.Since(s.RegistryFailing) != time.Second || s.Connections != 1 || s.Instances.Unconnected+s.Instances.Suspect != 1 {
			t.Errorf("in an outage %+v", s)
		}
		list.Fail(nil)
		_ = leave["a"].Close()
		synctest.Wait()
		if s = c.State(); s.RegistryError != "" || !s.RegistryFailing.IsZero() || s.Instances != (client.InstanceCounts{Ready: 1}) {
			t.Errorf("after it %+v", s)
		}
	})
}

// serveFailing serves a method that always fails.
func serveFailing(t *testing.T, network *transport.Memory, address string) (stop func()) {
	t.Helper()
	srv := server.New()
	if err := srv.RegisterFunc("A.Fail", func() error { return tandem.Errorf(tandem.Unavailable, "no") }); err != nil {
		t.Fatal(err)
	}
	ln, err := network.Listen(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- srv.ServeListener(ln) }()
	return func() {
		_ = srv.Close()
		if served != nil {
			<-served
			served = nil
		}
	}
}

// An outcome has the attempts of a call: retries too, and none if there was no instance.
func TestOutcomeHasAttempts(t *testing.T) {
	network, seen := transport.NewMemory(), &attempts{}
	defer serveFailing(t, network, "a")()
	c, err := client.Dial("mem://a", client.WithTransport("mem", network), client.WithFailMode(client.Failover),
		client.WithRetries(2), client.WithPlugins(seen))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for _, want := range []int{3, 3} { // memory of calls is used again
		_ = c.Call(t.Context(), "A.Fail", tandem.Args{}, nil, client.Idempotent())
		if seen.last != want {
			t.Errorf("%d attempts, want %d", seen.last, want)
		}
	}
	_ = c.Call(t.Context(), "A.Fail", tandem.Args{}, nil, client.Instance("another"))
	if seen.last != 0 {
		t.Errorf("%d attempts without an instance", seen.last)
	}
}

// A client's state is counts for monitoring; telemetry/prom exports them.
func ExampleClient_State() {
	c, err := client.Dial("static://127.0.0.1:1,127.0.0.1:2") // no server is there
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	show := func(s client.State) {
		fmt.Println(s.Target, "without a connection:", s.Instances == client.InstanceCounts{Unconnected: 2})
		open := func(b client.MethodBreakers) bool { return b.Open > 0 }
		fmt.Println("open breakers:", slices.ContainsFunc(s.Breakers, open))
	}
	show(c.State())
	// Output:
	// static://127.0.0.1:1,127.0.0.1:2 without a connection: true
	// open breakers: false
}
