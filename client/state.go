package client

import (
	"time"

	"github.com/tandem-rpc/tandem/internal/steer"
	"github.com/tandem-rpc/tandem/policy"
)

// State is what a client knows of its target, as counts: for monitoring. [Client.Describe] names
// the instances.
type State struct {
	Target      string         `json:"target"`      // without secrets
	Connections int            `json:"connections"` // open connections that take calls
	Instances   InstanceCounts `json:"instances"`   // the listed instances, by their state
	// Panicking says that more instances are ejected or suspect than the MaxShare of [Ejection]
	// allows, so that ejected ones get calls all the same.
	Panicking bool             `json:"panicking"`
	Ejections uint64           `json:"ejections"` // times that an instance was ejected, since Dial
	Breakers  []MethodBreakers `json:"breakers"`  // of methods with circuit breakers, sorted by method

	RetryBudget     float64        `json:"retryBudget"`              // retries that the budget allows now
	RetriesRefused  uint64         `json:"retriesRefused"`           // retries that were not made because the budget was spent, since Dial
	Listed          time.Time      `json:"listed,omitzero"`          // when the registry last delivered the list; zero before the first
	RegistryFailing time.Time      `json:"registryFailing,omitzero"` // since when the registry has failed; zero while it answers
	RegistryError   string         `json:"registryError"`            // why it fails; the last list stays in use
	Policy          policy.Applied `json:"policy"`                   // what was done with the last policy
	BaggageDropped  uint64         `json:"baggageDropped"`           // calls whose baggage did not fit beside their other metadata, since Dial
	Degraded        DegradeCounts  `json:"degraded"`                 // calls that failed and were answered all the same, since Dial
}

// InstanceCounts counts the instances of a list; each is in one state.
type InstanceCounts struct {
	Ready       int `json:"ready"`       // connected, and gets calls
	Ejected     int `json:"ejected"`     // its calls fail or take too long
	Suspect     int `json:"suspect"`     // does not answer pings, or the registry has lost it
	Unconnected int `json:"unconnected"` // there is no connection yet, or no more
	Unused      int `json:"unused"`      // not in the client's subset
	Withheld    int `json:"withheld"`    // operators have disabled it
}

// MethodBreakers counts the circuit breakers of one method, of which each instance has one once
// the method has been called there.
type MethodBreakers struct {
	Method   string `json:"method"`
	Closed   int    `json:"closed"`
	HalfOpen int    `json:"halfOpen"`
	Open     int    `json:"open"`
}

// State returns the state of the client. It takes time in proportion to the number of instances,
// and is meant for intervals of a second or more.
func (c *Client) State() State {
	p := c.pool.State()
	s := State{
		Target: c.target, Connections: p.Connections, Instances: InstanceCounts(p.Instances), Panicking: p.Panicking, Ejections: p.Ejections,
		RetryBudget: c.budget.Left(time.Now()), RetriesRefused: c.budget.Refused(),
		Listed: p.Listed, RegistryFailing: p.Failing, Policy: c.Policy(), Degraded: c.degraded.counts(), BaggageDropped: c.baggageDropped.Load(),
	}
	if p.Stale != nil {
		s.RegistryError = steer.Shortened(p.Stale)
	}
	for _, b := range p.Breakers {
		s.Breakers = append(s.Breakers, MethodBreakers(b))
	}
	return s
}
