package session

import (
	"math"
	"time"

	"github.com/tandem-rpc/tandem"
)

// Running is a call of the peer whose handler runs, or that waits before or while it runs.
type Running struct {
	Method   string
	Kind     tandem.Kind
	Peer     *tandem.Peer
	Arrived  time.Time // when the request, or its first block, arrived at this host, as far as is known
	Deadline time.Time // zero for none
	Awaits   Awaits
}

// Awaits is what a running call waits for.
type Awaits uint8

// What a call may wait for.
const (
	AwaitsNothing Awaits = iota // its handler runs
	AwaitsSlot                  // a place among the running calls, in the gate's queue or a limiter's
	AwaitsMemory                // memory for its message
	AwaitsMessage               // the rest of its request
)

// EachRunning calls f for every call of the peer that arrives, waits or runs. It holds the
// session's mutex meanwhile, so f must be quick and must not use the session. It reads only what
// the mutex guards: what the handler's goroutine may change, such as the [tandem.Call], and an
// Inbound that was answered, are not touched.
func (s *Session) EachRunning(f func(Running)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, in := range s.inbounds {
		if in != nil {
			f(s.describeLocked(in))
		}
	}
	for _, in := range s.oneWays {
		f(s.describeLocked(in))
	}
}

func (s *Session) describeLocked(in *Inbound) Running {
	r := Running{Method: in.Name, Peer: s.peer, Arrived: s.at(in.Arrived), Awaits: s.awaitsLocked(in)}
	if t := in.method.target; t.Name != "" { // else it stands for methods that do not exist
		r.Method = t.Name
	}
	switch {
	case in.OneWay:
		r.Kind = tandem.OneWay
	case in.stream != nil:
		r.Kind = tandem.Streaming
	}
	if in.Expires != 0 {
		r.Deadline = s.at(in.Expires)
	}
	return r
}

func (s *Session) awaitsLocked(in *Inbound) Awaits {
	switch {
	case in.IsArriving() && in.AwaitsGrant():
		return AwaitsMemory
	case in.IsArriving():
		return AwaitsMessage
	case in.waits != nil && s.env.cfg.Gate.Holds(in.waits):
		return AwaitsSlot
	}
	return in.awaits
}

// Waiter is a running call whose goroutine can say that it waits. The contexts of handlers have
// it under [WaiterKey].
type Waiter interface {
	// AwaitSlot says that the call waits for a place among the running calls, or does not wait any
	// more.
	AwaitSlot(waits bool)
}

type waiterKey struct{}

// WaiterKey is the key under which a handler's context has its [Waiter].
func WaiterKey() any { return waiterKey{} }

// AwaitSlot notes whether the call waits in a limiter's queue.
func (in *Inbound) AwaitSlot(waits bool) {
	if waits {
		in.s.await(in, AwaitsSlot)
	} else {
		in.s.await(in, AwaitsNothing)
	}
}

// await notes what a call waits for. Only calls that wait pay for it.
func (s *Session) await(in *Inbound, a Awaits) {
	s.mu.Lock()
	in.awaits = a
	s.mu.Unlock()
}

// keptOneWays is for how many one-way calls an idle session keeps memory.
const keptOneWays = 64

// addOneWayLocked adds a one-way call to the list of those that run. A place has 16 bits, so that an
// Inbound does not grow; further calls are not listed.
func (s *Session) addOneWayLocked(in *Inbound) {
	if n := len(s.oneWays); n <= math.MaxUint16 {
		in.place = uint16(n)
		s.oneWays = append(s.oneWays, in)
	}
}

func (s *Session) removeOneWayLocked(in *Inbound) {
	i, last := int(in.place), len(s.oneWays)-1
	if i > last || s.oneWays[i] != in {
		return
	}
	s.oneWays[i] = s.oneWays[last]
	s.oneWays[i].place = in.place
	s.oneWays[last] = nil
	if s.oneWays = s.oneWays[:last]; last == 0 && cap(s.oneWays) > keptOneWays {
		s.oneWays = nil
	}
}

// Load is what a session serves now.
type Load struct {
	Running  int    // calls of the peer that run, as [Session.Outstanding] returns them
	Accepted uint64 // as [Session.Accepted] returns it
	Draining bool   // this side accepts no more calls
}

// Load returns what the session serves now.
func (s *Session) Load() Load {
	s.mu.Lock()
	defer s.mu.Unlock()
	return Load{Running: s.m.Running(), Accepted: s.m.Accepted(), Draining: s.m.IsDraining()}
}
