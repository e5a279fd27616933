package client

import (
	"time"

	"github.com/tandem-rpc/tandem/policy"
)

// State is what a client knows of its target, as counts: for monitoring. [Client.Describe] names
// the instances.
type State struct {
	Target      string         // without secrets
	Connections int            // open connections that take calls
	Instances   InstanceCounts // the listed instances, by their state
	// Panicking says that more instances are ejected or suspect than the MaxShare of [Ejection]
	// allows, so that ejected ones get calls all the same.
	Panicking bool
	Ejections uint64           // times that an instance was ejected, since Dial
	Breakers  []MethodBreakers // of methods with circuit breakers, sorted by method

	RetryBudget     float64        // retries that the budget allows now
	RetriesRefused  uint64         // retries that were not made because the budget was spent, since Dial
	Listed          time.Time      // when the registry last delivered the list; zero before the first
	RegistryFailing time.Time      // since when the registry has failed; zero while it answers
	RegistryError   string         // why it fails; the last list stays in use
	Policy          policy.Applied // what was done with the last policy
}

// InstanceCounts counts the instances of a list; each is in one state.
type InstanceCounts struct {
	Ready       int // connected, and gets calls
	Ejected     int // its calls fail or take too long
	Suspect     int // does not answer pings, or the registry has lost it
	Unconnected int // there is no connection yet, or no more
	Unused      int // not in the client's subset
	Withheld    int // operators have disabled it
}

// MethodBreakers counts the circuit breakers of one method, of which each instance has one once
// the method has been called there.
type MethodBreakers struct {
	Method                 string
	Closed, HalfOpen, Open int
}

// State returns the state of the client. It takes time in proportion to the number of instances,
// and is meant for intervals of a second or more.
func (c *Client) State() State {
	p := c.pool.State()
	s := State{
		Target: c.target, Connections: p.Connections, Instances: InstanceCounts(p.Instances), Panicking: p.Panicking, Ejections: p.Ejections,
		RetryBudget: c.budget.Left(time.Now()), RetriesRefused: c.budget.Refused(),
		Listed: p.Listed, RegistryFailing: p.Failing, Policy: c.Policy(),
	}
	if p.Stale != nil {
		s.RegistryError = shortened(p.Stale)
	}
	for _, b := range p.Breakers {
		s.Breakers = append(s.Breakers, MethodBreakers(b))
	}
	return s
}
