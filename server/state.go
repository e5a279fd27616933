package server

// State is the state of a server, for monitoring.
type State struct {
	Connections map[string]int // open connections, by the name of their protocol
	Greeting    int            // connections whose protocol is not known yet, or in their handshake
	Draining    bool           // the server has begun to end

	Unrecognized  uint64         // connections that were closed as they spoke no protocol, or did not speak in time
	Memory        int64          // bytes that requests hold, within the limit of [WithMemory]
	MemoryRefused uint64         // requests that were refused because there was no memory
	Listings      []ListingState // one for each registry and listener; none once the server leaves its registries
	Overload      OverloadState
}

// ListingState is the state of a server in one registry.
type ListingState struct {
	Instance string // ID of the instance
	Listed   bool   // the registry has taken the instance; it may have lost it since
	Failed   uint64 // attempts to register or to update that failed
}

// State returns the state of the server. It is meant for intervals of a second or more.
func (s *Server) State() State {
	o := State{Connections: map[string]int{}, Unrecognized: s.Unrecognized(), Overload: s.Overload()}
	o.Memory, o.MemoryRefused = s.memory.Used()
	s.mu.Lock()
	defer s.mu.Unlock()
	o.Greeting, o.Draining = s.greeting.Len(), s.ending || s.state != serving
	for _, l := range s.listed {
		o.Listings = append(o.Listings, ListingState{l.in.ID, l.taken.Load(), l.failed.Load()})
	}
	if n := len(s.sessions); n > 0 {
		o.Connections[ownProtocol] = n
	}
	for c := range s.conns {
		o.Connections[c.peer.Protocol]++
	}
	return o
}
