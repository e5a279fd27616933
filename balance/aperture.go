package balance

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/tandem-rpc/tandem"
)

// Aperture returns the policy that limits a client to a part of the instances, as [Subset]
// does, but so that all instances have equally many clients: Finagle's deterministic aperture.
// clients is how many clients there are, and ordinal which of them this is, from 0 to
// clients-1: the ordinal of a stateful set, for example. A larger ordinal counts as its
// remainder.
//
// Clients and instances lie around two equal rings, instances in the order of their IDs and as
// wide as their weight. A client's aperture begins at its place and is so many clients wide
// that it covers the least number of instances or a little more. An instance that it covers
// partly gets that part of its calls from the client. Every place of the ring has the same
// number of clients: a list or a number of clients that is wrong for a moment only makes the
// load uneven. When an instance comes or goes, the borders of all apertures shift a little:
// among 100 instances, a client makes about two new connections, where [Subset] makes 0.2.
//
// What next picks is drawn again with the probability that the instance is not covered, a few
// times: policies that stay with an instance, by a call's key for example, use it in any case.
// Finagle's least number is 12.
func Aperture(ordinal, clients, least int, next Policy) Policy {
	clients = min(max(1, clients), maxClients)
	return aperture{wrapper{next}, int64(((ordinal % clients) + clients) % clients), int64(clients), int64(min(max(1, least), maxClients))}
}

// maxClients bounds the ring's length to 64 bits.
const maxClients = 1_000_000

type aperture struct {
	wrapper

	ordinal, clients, least int64
}

func (p aperture) Name() string { return p.named("aperture") }

func (p aperture) Needs() Needs {
	next := p.next.Needs()
	own := next
	own.Prefers = true
	own.Narrow = func(instances []tandem.Instance) []tandem.Instance { return next.narrow(p.within(instances)) }
	return own
}

// within returns the instances that the aperture covers, wholly or partly.
func (p aperture) within(instances []tandem.Instance) []tandem.Instance {
	nodes := make([]*Node, len(instances))
	for i := range instances {
		nodes[i] = &Node{Instance: instances[i]}
	}
	covered := p.cover(nodes)
	return only(instances, func(i int) bool { return covered[nodes[i]] > 0 })
}

func (p aperture) Build(nodes []*Node) Picker {
	covered := p.cover(nodes)
	a := &aperturePicker{subsetPicker: subsetPicker{
		newBranch(p.next, only(nodes, func(i int) bool { return covered[nodes[i]] > 0 })),
		only(nodes, func(i int) bool { return covered[nodes[i]] == 0 }),
	}, partly: map[*Node]float64{}}
	for n, part := range covered {
		if part > 0 && part < 1 {
			a.partly[n] = part
		}
	}
	return a
}

// cover returns which part of each node the aperture covers. The length of the ring is the
// number of clients times the weight of all nodes, so that all numbers are whole.
func (p aperture) cover(nodes []*Node) map[*Node]float64 {
	covered := make(map[*Node]float64, len(nodes))
	if len(nodes) == 0 {
		return covered
	}
	sorted := slices.Clone(nodes)
	slices.SortFunc(sorted, func(a, b *Node) int { return strings.Compare(a.Instance.ID, b.Instance.ID) })
	client := int64(0) // the breadth of a client
	for _, n := range nodes {
		client += int64(n.Weight())
	}
	ring := client * p.clients
	// The smallest number of clients whose width covers the least number of nodes.
	breadth := min((p.least*p.clients+int64(len(nodes))-1)/int64(len(nodes)), p.clients)
	from := p.ordinal * client
	to := from + breadth*client
	at := int64(0)
	for _, n := range sorted {
		width := int64(n.Weight()) * p.clients
		part := overlap(at, at+width, from, to) + overlap(at+ring, at+ring+width, from, to)
		covered[n] = float64(part) / float64(width)
		at += width
	}
	return covered
}

// overlap returns how much two intervals have in common.
func overlap(a, b, from, to int64) int64 { return max(0, min(b, to)-max(a, from)) }

type aperturePicker struct {
	subsetPicker

	partly map[*Node]float64 // covered part of each node that is covered partly
}

func (p *aperturePicker) Pick(call *tandem.Call, usable func(*Node) bool) *Node {
	n := thin(p.picker, call, usable, false, func(n *Node) float64 {
		if part, ok := p.partly[n]; ok {
			return part
		}
		return 1
	})
	if n == nil {
		n = anyUsable(p.others, usable)
	}
	return n
}

// Explain's scores are which part of an instance the client covers.
func (p *aperturePicker) Explain(call *tandem.Call, usable func(*Node) bool, e *Explanation) {
	at := len(e.Steps)
	p.subsetPicker.Explain(call, usable, e)
	s := &e.Steps[at]
	s.Policy, s.Scores = "aperture", map[string]float64{}
	for _, n := range p.nodes {
		s.Scores[n.Instance.ID] = 1
	}
	for n, part := range p.partly {
		s.Scores[n.Instance.ID] = part
	}
	for id := range s.Dropped {
		s.Dropped[id] = "not in this client's aperture"
	}
}

// thinTries is how often thin draws.
const thinTries = 8

// thin takes the node that a picker picks with the probability that share returns for it, else
// it picks again; after thinTries it takes the node with the largest share. So nodes get fewer
// calls, and neither the picker nor the call is delayed. If insist, a picker that picks a
// refused node again, as it may prefer it to all others, is made to pick another one; the
// shares are then no longer exact.
func thin(p Picker, call *tandem.Call, usable func(*Node) bool, insist bool, share func(*Node) float64) *Node {
	var best *Node
	var refused [thinTries]*Node
	most, asks := math.Inf(-1), usable
	for try := range thinTries {
		n := p.Pick(call, asks)
		if n == nil {
			return best
		}
		if insist && slices.Contains(refused[:try], n) {
			asks = excluding(refused, usable)
			continue
		}
		s := share(n)
		if s >= 1 || n.world.float() < s {
			return n
		}
		refused[try] = n
		if s > most {
			best, most = n, s
		}
	}
	return best
}

// excluding returns a function that is usable but for the refused nodes. It is separate from thin so
// that only its callers copy the array.
func excluding(refused [thinTries]*Node, usable func(*Node) bool) func(*Node) bool {
	return func(n *Node) bool { return !slices.Contains(refused[:], n) && usable(n) }
}

// drawnID returns a random ID for a client that has none.
func drawnID() string { return fmt.Sprintf("%016x", (*World)(nil).random()) }
