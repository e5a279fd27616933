package demo

import (
	"fmt"
	"math/rand/v2"
	"time"
)

// kind is the method of a call.
type kind uint8

const (
	mul kind = iota
	say
	appendEntry // not idempotent
)

// job is one call to be made.
type job struct {
	id   int // counts the calls of a run
	kind kind
	hold time.Duration // how long the server delays the response
	a, b int           // factors
}

// faultKind is the kind of a fault.
type faultKind string

const (
	kill    faultKind = "kill"
	restart faultKind = "restart"
	drain   faultKind = "drain"
	join    faultKind = "add"
)

// fault is a planned fault.
type fault struct {
	kind   faultKind
	server string
	at     time.Duration // time since the start
}

// The shape of a volley: how many calls of each kind for each server, how long their responses
// are held, and how long before the fault they are sent. At the fault, they must have arrived
// and must not be answered.
const (
	volleySize = 4
	volleyHold = 800 * time.Millisecond
	volleyLead = 250 * time.Millisecond
)

// plan has all calls and faults of a run. It depends only on the configuration.
type plan struct {
	rate    int
	steady  int // calls on schedule, without the volleys
	volley  int // calls of one volley
	seed    uint64
	initial []string // names of the servers at the start
	faults  []fault  // faults in the order of their times
}

func newPlan(cfg *Config) plan {
	p := plan{
		rate:   cfg.Rate,
		steady: int(cfg.Duration.Seconds() * float64(cfg.Rate)),
		volley: 2 * volleySize * cfg.Servers,
		seed:   cfg.Seed,
	}
	for i := range cfg.Servers {
		p.initial = append(p.initial, serverName(i))
	}
	hit := rand.New(rand.NewPCG(cfg.Seed, 0)).Perm(cfg.Servers)
	share := func(percent int64) time.Duration { return time.Duration(int64(cfg.Duration) * percent / 100) }
	p.faults = []fault{
		{kill, serverName(hit[0]), share(20)},
		{restart, serverName(hit[0]), share(40)},
		{drain, serverName(hit[1]), share(60)},
		{join, serverName(cfg.Servers), share(75)},
	}
	return p
}

func serverName(i int) string { return fmt.Sprintf("s%d", i+1) }

// calls returns the number of calls: those on schedule, and a volley for each server that is
// killed or drained.
func (p *plan) calls() int { return p.steady + 2*p.volley }

// due returns how many calls are due when that time has elapsed since the start.
func (p *plan) due(elapsed time.Duration) int {
	return min(p.steady, 1+int(int64(elapsed)*int64(p.rate)/int64(time.Second)))
}

// at returns when call i is due: the first nanosecond at which due includes it.
func (p *plan) at(i int) time.Duration {
	rate := int64(p.rate)
	return time.Duration((int64(i)*int64(time.Second) + rate - 1) / rate)
}

// job returns call i of the schedule: four in ten each of Mul and Say, the rest
// Append.
func (p *plan) job(i int) job {
	random := rand.New(rand.NewPCG(p.seed, uint64(i)+1)) //nolint:gosec // counts from 0
	j := job{id: i, a: random.IntN(1 << 15), b: random.IntN(1 << 15)}
	switch share := random.IntN(10); {
	case share < 4:
		j.kind = mul
	case share < 8:
		j.kind = say
	default:
		j.kind = appendEntry
	}
	return j
}

// volleyJobs returns volley n, 0 or 1: first the calls that may be repeated,
// then those that may not, so that round robin gives each server some of both.
func (p *plan) volleyJobs(n int) []job {
	jobs := make([]job, p.volley)
	for i := range jobs {
		jobs[i] = job{id: p.steady + n*p.volley + i, kind: mul, hold: volleyHold, a: i, b: n}
		if i >= p.volley/2 {
			jobs[i].kind = appendEntry
		}
	}
	return jobs
}
