package console

import (
	"cmp"
	"context"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/tandem-rpc/tandem"
)

const (
	maxNodes = 200
	maxHops  = 3
)

// topology returns who calls whom, within some hops of one service. Services are nodes; so are
// lists whose processes serve nothing else.
func (c *Console) topology(_ context.Context, _ User, req *TopologyRequest) (*Topology, error) {
	if req.Hops < 0 || req.Hops > maxHops {
		return nil, tandem.Errorf(tandem.InvalidArgument, "a topology has 1 to %d hops", maxHops)
	}
	g := c.graph()
	if g.nodes[req.Center] == nil {
		return nil, tandem.Errorf(tandem.NotFound, "no service %q", req.Center)
	}
	near, cut := g.near(req.Center, max(1, req.Hops))
	out := &Topology{Nodes: []Node{}, Edges: []Edge{}, Cut: cut}
	for _, id := range slices.Sorted(maps.Keys(near)) {
		out.Nodes = append(out.Nodes, *g.nodes[id])
	}
	for k, e := range g.edges {
		if near[k.from] && near[k.to] {
			out.Edges = append(out.Edges, *e)
		}
	}
	slices.SortFunc(out.Edges, func(a, b Edge) int { return cmp.Or(strings.Compare(a.From, b.From), strings.Compare(a.To, b.To)) })
	return out, nil
}

type edgeKey struct{ from, to string }

// graph is who calls whom, by the names of services.
type graph struct {
	nodes map[string]*Node
	edges map[edgeKey]*Edge
}

func (c *Console) graph() *graph {
	g := &graph{map[string]*Node{}, map[edgeKey]*Edge{}}
	of := map[string][]string{} // services of a list
	for _, row := range c.serviceRows() {
		n := g.node(row.Service)
		n.Rate += row.Rate
		n.ErrorRate += row.ErrorRate
		for _, count := range row.Instances {
			n.Instances += count
		}
		of[row.List] = append(of[row.List], row.Service)
	}
	for _, l := range c.lists() {
		protocols := protocolsOf(l)
		for _, consumer := range c.consumers(l) {
			for _, f := range consumer.Methods {
				to := serviceOf(f.Method)
				if g.nodes[to] == nil {
					to = first(of[l.name], path.Base(l.target.Path))
				}
				e := g.edge(first(of[consumer.List], consumer.List), to)
				e.Rate += f.Rate
				e.ErrorRate += f.ErrorRate
				e.P99 = max(e.P99, f.P99)
				e.Protocols = protocols
			}
		}
	}
	return g
}

// first returns the first of names, or another.
func first(names []string, other string) string {
	if len(names) > 0 {
		return names[0]
	}
	return other
}

func protocolsOf(l *list) []string {
	set := map[string]bool{}
	for _, r := range l.rows() {
		for _, e := range r.Endpoints {
			set[cmp.Or(e.Protocol, "tandem")] = true
		}
	}
	return sorted(set)
}

func (g *graph) node(id string) *Node {
	if g.nodes[id] == nil {
		g.nodes[id] = &Node{ID: id, Name: id}
	}
	return g.nodes[id]
}

func (g *graph) edge(from, to string) *Edge {
	g.node(from)
	g.node(to)
	k := edgeKey{from, to}
	if g.edges[k] == nil {
		g.edges[k] = &Edge{From: from, To: to}
	}
	return g.edges[k]
}

// near returns the nodes within so many hops of a center, and how many more there are than it may
// return.
func (g *graph) near(center string, hops int) (near map[string]bool, cut int) {
	near = map[string]bool{center: true}
	for range hops {
		next := map[string]bool{}
		for k := range g.edges {
			if near[k.from] != near[k.to] {
				next[k.from], next[k.to] = true, true
			}
		}
		for _, id := range slices.Sorted(maps.Keys(next)) {
			switch {
			case near[id]:
			case len(near) == maxNodes:
				cut++
			default:
				near[id] = true
			}
		}
	}
	return near, cut
}
