package demo

import (
	"fmt"
	"math/rand/v2"
	"time"
)

// kind is what a call calls.
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
	hold time.Duration // how long the server keeps the answer
	a, b int           // factors
}

// faultKind is something that happens to a server.
type faultKind string

const (
	kill    faultKind = "kill"
	restart faultKind = "restart"
	drain   faultKind = "drain"
	join    faultKind = "add"
)

// fault is a fault to come.
type fault struct {
	kind   faultKind
	server string
	at     time.Duration // since the start
}

// The shape of a volley: how many calls of each kind for each server, how long
// they are held, and how long before the fault they are sent. They must have
// arrived by then, and not be done.
const (
	volleySize = 4
	volleyHold = 800 * time.Millisecond
	volleyLead = 250 * time.Millisecond
)

// plan is all that is going to happen. It depends on nothing but the
// configuration.
type plan struct {
	rate    int
	steady  int // calls on schedule, without the volleys
	volley  int // calls of one volley
	seed    uint64
	initial []string // names of the servers at the start
	faults  []fault  // in order
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

// calls is how many calls there will be: those on schedule, and a volley for
// each server that is taken away.
func (p *plan) calls() int { return p.steady + 2*p.volley }

// due is how many calls are due by that time since the start.
func (p *plan) due(elapsed time.Duration) int {
	return min(p.steady, 1+int(int64(elapsed)*int64(p.rate)/int64(time.Second)))
}

// at is when call i is due: the first nanosecond at which due says so.
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
