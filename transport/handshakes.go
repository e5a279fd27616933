package transport

import (
	"container/heap"
	"iter"
	"maps"
	"net"
	"net/netip"
	"time"
)

// Handshakes holds the connections of a listener that are still in their handshake. It selects
// the one to close when there are too many: the oldest of the network that holds most, so that
// silent connections make room for others. Each operation takes at most O(log n) time. The zero
// value is empty. It is not safe for concurrent use.
type Handshakes[C comparable] struct {
	conns    map[C]*handshake[C]
	networks map[netip.Prefix]*network[C]
	order    networks[C]
	added    uint64
}

// handshake is one connection, in the list of its network.
type handshake[C comparable] struct {
	conn       C
	since      time.Time
	number     uint64      // position in the order of Add
	network    *network[C] // nil after Keep
	prev, next *handshake[C]
}

// network holds the connections of one network, the oldest first.
type network[C comparable] struct {
	key         netip.Prefix // not valid for a network of one connection
	size        int
	first, last *handshake[C]
	index       int // position in the heap
}

// Add adds a connection that was accepted at that time. An invalid network means that none is
// known, or that many clients share it, as behind a proxy: the connection then counts as a
// network of its own. Each connection is added once.
func (h *Handshakes[C]) Add(c C, from netip.Prefix, now time.Time) {
	if h.conns == nil {
		h.conns, h.networks = map[C]*handshake[C]{}, map[netip.Prefix]*network[C]{}
	}
	h.added++
	n := h.networks[from]
	fresh := n == nil
	if fresh {
		n = &network[C]{key: from}
		if from.IsValid() {
			h.networks[from] = n
		}
	}
	e := &handshake[C]{conn: c, since: now, number: h.added, network: n}
	h.conns[c] = e
	n.append(e)
	if fresh {
		heap.Push(&h.order, n)
	} else {
		heap.Fix(&h.order, n.index)
	}
}

// Remove removes a connection. It reports whether the connection was there.
func (h *Handshakes[C]) Remove(c C) bool {
	e := h.conns[c]
	if e == nil {
		return false
	}
	delete(h.conns, c)
	h.leaveNetwork(e)
	return true
}

// Keep excludes a connection from Next, because its handshake is nearly done. It reports whether
// the connection was there.
func (h *Handshakes[C]) Keep(c C) bool {
	e := h.conns[c]
	if e == nil {
		return false
	}
	h.leaveNetwork(e)
	return true
}

func (h *Handshakes[C]) leaveNetwork(e *handshake[C]) {
	n := e.network
	if n == nil {
		return
	}
	e.network = nil
	if n.remove(e); n.size > 0 {
		heap.Fix(&h.order, n.index)
		return
	}
	heap.Remove(&h.order, n.index)
	if n.key.IsValid() {
		delete(h.networks, n.key)
	}
}

// Len returns the number of connections.
func (h *Handshakes[C]) Len() int { return len(h.conns) }

// All returns the connections in no particular order.
func (h *Handshakes[C]) All() iter.Seq[C] { return maps.Keys(h.conns) }

// Next returns the connection to close next, and when it was added; ok is false if there
// is none. Of several networks of the same size it is the one with the oldest connection.
func (h *Handshakes[C]) Next() (c C, since time.Time, ok bool) {
	if len(h.order) == 0 {
		return c, since, false
	}
	e := h.order[0].first
	return e.conn, e.since, true
}

func (n *network[C]) append(e *handshake[C]) {
	if e.prev = n.last; e.prev == nil {
		n.first = e
	} else {
		e.prev.next = e
	}
	n.last = e
	n.size++
}

func (n *network[C]) remove(e *handshake[C]) {
	if e.prev == nil {
		n.first = e.next
	} else {
		e.prev.next = e.next
	}
	if e.next == nil {
		n.last = e.prev
	} else {
		e.next.prev = e.prev
	}
	n.size--
}

// networks is a heap with the largest network first.
type networks[C comparable] []*network[C]

// Len is for [heap.Interface], as are the methods below.
func (l networks[C]) Len() int { return len(l) }

// Less puts the largest network first.
func (l networks[C]) Less(i, j int) bool {
	if l[i].size != l[j].size {
		return l[i].size > l[j].size
	}
	return l[i].first.number < l[j].first.number
}

// Swap swaps two networks.
func (l networks[C]) Swap(i, j int) {
	l[i], l[j] = l[j], l[i]
	l[i].index, l[j].index = i, j
}

// Push appends a network.
func (l *networks[C]) Push(v any) {
	n := v.(*network[C]) //nolint:forcetypeassert // nothing else is pushed
	n.index = len(*l)
	*l = append(*l, n)
}

// Pop removes the last network.
func (l *networks[C]) Pop() any {
	last := len(*l) - 1
	n := (*l)[last]
	(*l)[last] = nil
	*l = (*l)[:last]
	return n
}

// customerBits is the length of the IPv6 prefix that a provider gives to one customer.
const customerBits = 64

// NetworkOf returns the network that an address counts for: an IPv4 address itself, the /64 of
// an IPv6 address. It is not valid for an invalid address.
func NetworkOf(ip netip.Addr) netip.Prefix {
	bits := ip.BitLen()
	if ip.Is6() {
		bits = customerBits
	}
	p, _ := ip.WithZone("").Prefix(bits) // fails for an invalid ip only
	return p
}

// IP returns the IP address of a network address. It is not valid for addresses without one,
// such as those of unix sockets.
func IP(a net.Addr) netip.Addr {
	switch a := a.(type) {
	case nil:
		return netip.Addr{}
	case *net.TCPAddr:
		return a.AddrPort().Addr().Unmap()
	case *net.UDPAddr:
		return a.AddrPort().Addr().Unmap()
	}
	ap, err := netip.ParseAddrPort(a.String())
	if err != nil {
		return netip.Addr{}
	}
	return ap.Addr().Unmap()
}
