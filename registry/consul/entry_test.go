package consul

import (
	"errors"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/tandem-rpc/tandem/registry"
)

// A registration restores a service that was removed or changed.
func TestRegistrationIsRestored(t *testing.T) {
	t.Parallel() // it waits
	agent := newStandIn(t)
	r := open(t, agent.target("?ttl=1s"))
	list(t, r, "a")
	e := look(t, r, "")
	e.sees("a")
	id := r.own.serviceID("a")
	for what, harm := range map[string]func(*standInService){
		"deregistered":                func(*standInService) { delete(agent.services, id) },
		"critical":                    func(s *standInService) { s.status = api.HealthCritical },
		"something else under its ID": func(s *standInService) { s.Meta = map[string]string{pathKey: r.own.path} },
		"no check":                    func(s *standInService) { s.check, s.status = "", api.HealthCritical },
	} {
		agent.mu.Lock()
		harm(agent.services[id])
		agent.changedLocked()
		agent.mu.Unlock()
		if !agent.await(5*time.Second, func() bool { return agent.wellLocked(id) }) {
			t.Errorf("%s: not restored after 5 s", what)
		}
	}
	agent.forget()
	if !agent.await(5*time.Second, func() bool { return agent.wellLocked(id) }) {
		t.Error("not restored 5 s after the agent has lost its state")
	}
	look(t, r, "").sees("a")
}

// wellLocked reports whether the service exists, passes its check, and has an instance.
func (s *standIn) wellLocked(id string) bool {
	entry := s.services[id]
	return entry != nil && entry.check != "" && entry.status == api.HealthPassing && entry.Meta[partKey+"0"] != ""
}

// await waits until ok, which it calls with the lock held, returns true.
func (s *standIn) await(within time.Duration, ok func() bool) bool {
	over := time.After(within)
	s.mu.Lock()
	defer s.mu.Unlock()
	for !ok() {
		changed := s.changed
		s.mu.Unlock()
		ended := false
		select {
		case <-changed:
		case <-over:
			ended = true
		}
		s.mu.Lock()
		if ended {
			return false
		}
	}
	return true
}

// An instance whose check is not renewed leaves the list.
func TestExpires(t *testing.T) {
	t.Parallel() // it waits
	agent := newStandIn(t)
	r := open(t, agent.target("?ttl=1s"))
	reg := must(r.own.registration(instance("dead")))
	if err := r.agents.hosts[0].Agent().ServiceRegister(reg); err != nil {
		t.Fatal(err)
	}
	e := look(t, r, "")
	e.sees("dead")
	e.sees()
}

// A server is restarted while its old process still runs. The times to live are so long
// that no check restores a service during the test.
func TestSuperseded(t *testing.T) {
	agent := newStandIn(t)
	old, anew := open(t, agent.target("")), open(t, agent.target(""))
	first, second := instance("a"), instance("a")
	first.Started, first.Incarnation = time.Unix(1, 0), "first"
	second.Started, second.Incarnation = time.Unix(2, 0), "second"
	before := must(old.Register(t.Context(), first))
	after := must(anew.Register(t.Context(), second))
	if _, err := old.Register(t.Context(), first); !errors.Is(err, registry.ErrSuperseded) {
		t.Errorf("the first is registered again: %v", err)
	}
	if err := before.Update(t.Context(), first); !errors.Is(err, registry.ErrSuperseded) {
		t.Errorf("the first updates the second: %v", err)
	}
	if err := before.Close(); err != nil {
		t.Error(err)
	}
	look(t, anew, "").until("the second", 3*time.Second, func(s registry.Snapshot) bool {
		return len(s.Instances) == 1 && s.Instances[0].Incarnation == "second"
	})
	if err := after.Close(); err != nil {
		t.Error(err)
	}
	look(t, anew, "").sees()
}

// A running server does not overwrite a later incarnation that is registered under its ID.
func TestLaterIncarnationIsNotOverwritten(t *testing.T) {
	t.Parallel() // it waits
	agent := newStandIn(t)
	r := open(t, agent.target("?ttl=1s"))
	first, second := instance("a"), instance("a")
	first.Incarnation, second.Incarnation, second.Started = "first", "second", time.Unix(2, 0)
	entry := must(r.Register(t.Context(), first))
	defer entry.Close()
	if err := r.agents.hosts[0].Agent().ServiceRegister(must(r.own.registration(second))); err != nil {
		t.Fatal(err)
	}
	e := look(t, r, "")
	e.sees("a")
	if e.sees(); e.last.Err != nil {
		t.Fatal(e.last.Err)
	}
	// The second's time to live has run out, so it was neither renewed nor replaced by the first.
}

// A restarted server replaces the service of its old process, which was killed.
func TestServiceOfAKilledProcessIsReplaced(t *testing.T) {
	agent := newStandIn(t)
	r := open(t, agent.target(""))
	agent.mu.Lock()
	dead := must(r.own.registration(instance("a")))
	agent.addLocked(api.AgentService{ID: dead.ID, Service: dead.Name, Meta: dead.Meta}, dead.Check, api.HealthCritical)
	agent.mu.Unlock()
	list(t, r, "a")
	if took := look(t, r, "").sees("a"); took > 3*time.Second {
		t.Errorf("listed after %v", took)
	}
}
