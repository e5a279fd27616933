package balance

// pairs draws two nodes to choose from: evenly, or by weight where the weights
// differ.
type pairs struct {
	nodes    []*Node
	world    *World
	byWeight *weightedPicker // nil for even weights
	mean     float64         // mean of the weights
}

func newPairs(nodes []*Node) pairs {
	p := pairs{nodes: nodes, world: worldOf(nodes)}
	if !evenWeights(nodes) {
		p.byWeight = newWeightedPicker(nodes)
		p.mean = meanWeight(nodes)
	}
	return p
}

func meanWeight(nodes []*Node) float64 {
	total := 0
	for _, n := range nodes {
		total += n.Weight()
	}
	return float64(total) / float64(len(nodes))
}

// indices draws two nodes, different ones unless the weights are uneven.
func (p *pairs) indices(random uint64) (i, j uint64) {
	if w := p.byWeight; w != nil {
		return uint64(w.draw(random)), uint64(w.draw(mix(random)))
	}
	n := uint64(len(p.nodes))
	i, j = random>>32*n>>32, random&(1<<32-1)*(n-1)>>32
	if j >= i {
		j++
	}
	return i, j
}

func (p *pairs) pair(random uint64) (a, b *Node) {
	i, j := p.indices(random)
	return p.nodes[i], p.nodes[j]
}

// perWeight returns a number of calls as it counts for a node: less where the
// weight is higher.
func (p *pairs) perWeight(calls float64, n *Node) float64 {
	if p.byWeight != nil && calls > 0 {
		calls *= p.mean / float64(n.Weight())
	}
	return calls
}
