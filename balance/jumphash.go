package balance

import "github.com/tandem-rpc/tandem"

// JumpHash returns the policy that sends calls with equal keys to the same instance by J.
// Lamping's and E. Veach's "A Fast, Minimal Memory, Consistent Hash Algorithm" (2014): keys are
// spread evenly without a table. Instances are numbered in the order of their IDs. When the
// last of them comes or goes, no other key moves; when another does, about half of all keys
// move. So it suits shards with fixed numbers. Weights are ignored. Bounded loads, the key, and
// calls without a key are as with [RingHash].
func JumpHash() Policy { return jumpHash{} }

type jumpHash struct{}

func (jumpHash) Name() string { return "jump_hash" }
func (jumpHash) Needs() Needs { return Needs{} }

func (jumpHash) Build(nodes []*Node) Picker { return &jumpPicker{newHashed(nodes)} }

type jumpPicker struct{ *hashed }

func (p *jumpPicker) Pick(call *tandem.Call, usable func(*Node) bool) *Node {
	return p.pickByKey(call, usable, p.place)
}

func (p *jumpPicker) Explain(call *tandem.Call, usable func(*Node) bool, e *Explanation) {
	p.explain(jumpHash{}.Name(), call, usable, e, p.place)
}

func (p *jumpPicker) place(key uint64, try int) *Node {
	return p.nodes[jump(key+uint64(try)*0x9e3779b97f4a7c15, len(p.nodes))] //nolint:gosec // small
}

// jump returns the bucket of a key, from 0 to buckets-1. The constants are those
// of the paper's linear congruential generator.
func jump(key uint64, buckets int) int {
	b, j := int64(-1), int64(0)
	for j < int64(buckets) {
		b = j
		key = key*2862933555777941757 + 1
		j = int64(float64(b+1) * (float64(int64(1)<<31) / float64(key>>33+1)))
	}
	return int(b)
}
