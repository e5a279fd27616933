package demo

import (
	"reflect"
	"slices"
	"testing"
	"time"
)

func config() Config {
	return Config{Duration: 10 * time.Second, Rate: 100, Servers: 3, Failover: true, Seed: 7}
}

func TestConfigCheck(t *testing.T) {
	for name, change := range map[string]func(*Config){
		"too short":        func(c *Config) { c.Duration = time.Second },
		"too long":         func(c *Config) { c.Duration = 2 * time.Hour },
		"too slow":         func(c *Config) { c.Rate = 9 },
		"too fast":         func(c *Config) { c.Rate = 50_001 },
		"too few servers":  func(c *Config) { c.Servers = 1 },
		"too many servers": func(c *Config) { c.Servers = 17 },
	} {
		c := config()
		if err := c.Check(); err != nil {
			t.Fatal(err)
		}
		if change(&c); c.Check() == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestPlanIsDecidedByTheSeed(t *testing.T) {
	cfg := config()
	a, b := newPlan(&cfg), newPlan(&cfg)
	if !reflect.DeepEqual(a, b) || a.job(3) != b.job(3) {
		t.Error("two plans of one seed differ")
	}
	victims := map[string]bool{}
	for cfg.Seed = range 20 {
		p := newPlan(&cfg)
		victims[p.faults[0].server] = true
	}
	if len(victims) != cfg.Servers {
		t.Errorf("of %d servers, 20 seeds kill only %v", cfg.Servers, victims)
	}
}

func TestPlanFaults(t *testing.T) {
	for servers := 2; servers <= 16; servers++ {
		for seed := range uint64(10) {
			cfg := Config{Duration: 3 * time.Second, Rate: 10, Servers: servers, Seed: seed}
			p := newPlan(&cfg)
			kinds := []faultKind{}
			for _, f := range p.faults {
				kinds = append(kinds, f.kind)
			}
			if !slices.Equal(kinds, []faultKind{kill, restart, drain, join}) {
				t.Fatalf("faults %v", kinds)
			}
			killed, restarted, drained, added := p.faults[0], p.faults[1], p.faults[2], p.faults[3]
			if killed.server != restarted.server || killed.server == drained.server || slices.Contains(p.initial, added.server) {
				t.Errorf("faults %v", p.faults)
			}
			if killed.at < volleyLead || drained.at-restarted.at < volleyLead || added.at >= cfg.Duration {
				t.Errorf("times %v", p.faults)
			}
		}
	}
}

func TestPlanSchedule(t *testing.T) {
	cfg := config()
	p := newPlan(&cfg)
	if p.steady != 1000 || p.calls() != 1000+2*2*volleySize*3 {
		t.Errorf("%d calls on schedule, %d in all", p.steady, p.calls())
	}
	for _, p.rate = range []int{10, 77, 300, 49_999} {
		for i := 1; i < p.steady; i++ {
			if at := p.at(i); p.due(at) != i+1 || p.due(at-1) != i {
				t.Fatalf("at %d calls/s, call %d is due at %v, when %d are", p.rate, i, at, p.due(at))
			}
		}
	}
	if due := p.due(time.Hour); due != p.steady {
		t.Errorf("%d calls due in the end", due)
	}
}

func TestPlanJobs(t *testing.T) {
	cfg := config()
	p := newPlan(&cfg)
	kinds := map[kind]int{}
	ids := map[int]bool{}
	for i := range p.steady {
		j := p.job(i)
		kinds[j.kind]++
		ids[j.id] = true
	}
	for n := range 2 {
		for _, j := range p.volleyJobs(n) {
			ids[j.id] = true
			if j.hold != volleyHold {
				t.Errorf("job %+v of a volley is not held", j)
			}
		}
	}
	for id := range p.calls() {
		if !ids[id] {
			t.Errorf("no job has the id %d", id)
		}
	}
	if kinds[mul] < 300 || kinds[say] < 300 || kinds[appendEntry] < 100 {
		t.Errorf("kinds %v", kinds)
	}
}
