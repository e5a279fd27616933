//go:build integration

package consul

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/registry"
	"github.com/tandem-rpc/tandem/registry/adapter"
	"github.com/tandem-rpc/tandem/registry/registrytest"
)

func TestConformance(t *testing.T) {
	a := startAgent(t, nil).start()
	lists := 0
	registrytest.Run(t, func(t testing.TB) registrytest.Harness {
		lists++
		relay := newRelay(t, a.addr)
		target := fmt.Sprintf("consul://%s/list%d/Arith?ttl=3s", relay.addr, lists)
		r := open(t, target)
		return registrytest.Harness{
			Registrar: r,
			Resolver:  Resolver(),
			Target:    must(registry.ParseTarget(target)),
			Aliases:   []registry.Target{must(registry.ParseTarget(strings.TrimSuffix(target, "?ttl=3s")))},
			Lose:      func(id string) error { return a.api.Agent().ServiceDeregister(r.own.serviceID(id)) },
			Outage:    func() (func() error, error) { relay.cut(); return relay.restore, nil },
			Within:    15 * time.Second,
		}
	})
}

// TestKilled kills the agent for some seconds.
func TestKilled(t *testing.T) {
	t.Parallel() // it waits
	a := startAgent(t, nil).start()
	r := open(t, a.target("/prod/Arith"))
	list(t, r, "a", "b")
	e := look(t, r, "")
	e.sees("a", "b")
	a.kill()
	t.Logf("a failure after %v", e.fails(5*time.Second))
	time.Sleep(3 * time.Second) // the outage has to last
	began := time.Now()
	a.start()
	ready := time.Since(began)
	e.until("the list", 20*time.Second, func(s registry.Snapshot) bool {
		if s.Err == nil && len(s.Instances) == 0 {
			t.Error("an empty list was delivered after the restart")
		}
		return s.Err == nil && len(s.Instances) == 2
	})
	t.Logf("ready after %v, listed again after %v", ready, time.Since(began))
}

// TestLongLog kills an agent that takes a while after its restart to read its log. In that
// time it answers queries that are not consistent with an empty list.
func TestLongLog(t *testing.T) {
	t.Parallel() // it waits
	a := startAgent(t, map[string]any{"raft_snapshot_threshold": 1_000_000}).start()
	a.fill(200)
	r := open(t, a.target("/prod/Arith"))
	list(t, r, "a")
	eyes := make([]*eye, 30) // whose next queries come at different times
	for i := range eyes {
		eyes[i] = look(t, open(t, a.target("/prod/Arith")), "")
		eyes[i].sees("a")
	}
	a.kill()
	for _, e := range eyes {
		e.fails(5 * time.Second)
	}
	a.start()
	for _, e := range eyes {
		e.until("the list", 20*time.Second, func(s registry.Snapshot) bool {
			if s.Err == nil && len(s.Instances) == 0 {
				t.Error("an empty list was delivered after the restart")
			}
			return s.Err == nil && len(s.Instances) == 1
		})
	}
}

// TestDataLoss restarts the agent without its data, with a hundred registrations.
func TestDataLoss(t *testing.T) {
	t.Parallel() // it waits
	a := startAgent(t, nil).start()
	r := open(t, a.target("/prod/Arith?ttl=6s"))
	ids := make([]string, 100)
	for i := range ids {
		ids[i] = fmt.Sprintf("%03d", i)
	}
	list(t, r, ids...)
	e := look(t, r, "")
	e.sees(ids...)
	a.kill()
	a.wipe()
	e.fails(5 * time.Second)
	a.start()
	began := time.Now()
	e.sees(ids...)
	took := time.Since(began)
	t.Logf("a hundred are listed again after %v", took)
	if took > 11*time.Second {
		t.Errorf("a hundred are listed again after %v, more than the time to live and 5 s", took)
	}
}

// TestPaused stops the agent's process: connections stay open, requests get no response.
func TestPaused(t *testing.T) {
	t.Parallel() // it waits
	a := startAgent(t, nil).start()
	r := open(t, a.target("/prod/Arith"))
	list(t, r, "a")
	e := look(t, r, "")
	e.sees("a")
	resume := a.pause()
	defer resume()
	took := e.fails(20 * time.Second)
	t.Logf("a failure after %v", took)
	if took > longWait+longWait/16+answerIn+2*time.Second {
		t.Error("that is too late")
	}
	resume()
	e.sees("a")
}

// TestRealExpiry lets a time to live end, and has another client fail and remove a check.
func TestRealExpiry(t *testing.T) {
	t.Parallel() // it waits
	a := startAgent(t, nil).start()
	r := open(t, a.target("/prod/Arith?ttl=1s"))
	dead := must(r.own.registration(instance("dead")))
	if err := a.api.Agent().ServiceRegister(dead); err != nil {
		t.Fatal(err)
	}
	list(t, r, "lives")
	e := look(t, r, "")
	e.sees("dead", "lives")
	t.Logf("the instance that does not renew its check is gone after %v", e.sees("lives"))
	id := r.own.serviceID("lives")
	if err := a.api.Agent().UpdateTTL(checkID(id), "", api.HealthCritical); err != nil {
		t.Fatal(err)
	}
	a.await(t, "passing again", func(s *api.ServiceEntry) bool { return s.Checks.AggregatedStatus() == api.HealthPassing })
	if err := a.api.Agent().CheckDeregister(checkID(id)); err != nil {
		t.Fatal(err)
	}
	a.await(t, "having a check again", func(s *api.ServiceEntry) bool { return len(s.Checks) == 2 })
	if err := a.api.Agent().EnableServiceMaintenance(id, "a test"); err != nil {
		t.Fatal(err)
	}
	e.sees() // maintenance mode is intended, so the registration does not end it
	if err := a.api.Agent().DisableServiceMaintenance(id); err != nil {
		t.Fatal(err)
	}
	e.sees("lives")
}

// await waits until ok is true for the service "lives" in Consul.
func (a *agent) await(t testing.TB, what string, ok func(*api.ServiceEntry) bool) {
	t.Helper()
	var index uint64
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); {
		all, meta, err := a.api.Health().Service("Arith", "", false, &api.QueryOptions{WaitIndex: index, WaitTime: time.Second})
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range all {
			if s.Service.ID == "lives@prod=2f=41rith" && ok(s) {
				return
			}
		}
		index = meta.LastIndex
	}
	t.Errorf("waited in vain for %s", what)
}

// TestRealHostileServices is TestHostileServices with a real agent.
func TestRealHostileServices(t *testing.T) {
	t.Parallel() // it waits
	a := startAgent(t, nil).start()
	log := &lines{}
	r := open(t, a.target("/prod/Arith"), WithLogger(log.logger()))
	list(t, r, "good")
	for id, s := range hostile(r.own) {
		if err := a.api.Agent().ServiceRegister(&api.AgentServiceRegistration{ID: id, Name: "Arith", Meta: s.Meta, Tags: s.Tags}); err != nil {
			t.Fatalf("%s: %.100s", id, err)
		}
	}
	e := look(t, r, "")
	e.sees("good")
	list(t, r, "later")
	e.sees("good", "later")
	checkLogged(t, log, r.own)
}

// TestLargest registers nearly the largest possible instance with a real agent.
func TestLargest(t *testing.T) {
	t.Parallel() // it waits
	a := startAgent(t, nil).start()
	r := open(t, a.target("/prod/Arith"))
	in := largest()
	entry, err := r.Register(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	defer entry.Close()
	e := look(t, r, "")
	e.sees(in.ID)
	if got := e.last.Instances[0]; got.Version != in.Version {
		t.Errorf("%d bytes have become %d", len(in.Version), len(got.Version))
	}
}

// largest returns an instance that is nearly as large as MaxEntry.
func largest() tandem.Instance {
	in := instance("a")
	in.Version = strings.Repeat("🚲", (adapter.MaxEntry-200)/4)
	return in
}

// TestManyServices watches 2,000 services and changes each.
func TestManyServices(t *testing.T) {
	const n = 2000
	a := startAgent(t, nil).start()
	resolver := Resolver()
	var eyes [n]*eye
	began := time.Now()
	for i := range eyes {
		eyes[i] = look(t, resolver, a.target(fmt.Sprintf("/prod/S%d", i)))
	}
	for _, e := range eyes {
		e.sees()
	}
	first := time.Since(began) // the time in which this machine, under its current load, answers each of them once
	t.Logf("%d watches have their first list after %v", n, first)
	began = time.Now()
	a.add(t, n)
	registered := time.Now()
	t.Logf("%d services are registered after %v", n, registered.Sub(began))
	for _, e := range eyes {
		e.sees("a")
	}
	t.Logf("all have seen theirs %v later", time.Since(registered))
	if took := time.Since(registered); took > lookEvery+max(5*time.Second, first) {
		t.Errorf("the last change was seen after %v, where %v went for the first lists", took, first)
	}
}

// add registers an instance of each of n services directly in Consul's catalogue, because
// one agent of a cluster would not have them all. Consul accepts 64 operations at a time.
func (a *agent) add(t testing.TB, n int) {
	t.Helper()
	elsewhere := &api.CatalogRegistration{Node: "elsewhere", Address: "127.0.0.1"}
	if _, err := a.api.Catalog().Register(elsewhere, nil); err != nil {
		t.Fatal(err)
	}
	var ops api.TxnOps
	for i := range n {
		reg := must(must(parsePlace(must(registry.ParseTarget(a.target(fmt.Sprintf("/prod/S%d", i)))), time.Minute)).registration(instance("a")))
		ops = append(ops, &api.TxnOp{Service: &api.ServiceTxnOp{
			Verb: api.ServiceSet, Node: elsewhere.Node,
			Service: api.AgentService{ID: reg.ID, Service: reg.Name, Meta: reg.Meta},
		}})
	}
	for some := range slices.Chunk(ops, 64) {
		if ok, answer, _, err := a.api.Txn().Txn(some, nil); err != nil || !ok {
			t.Fatalf("%+v: %v", answer, err)
		}
	}
}
