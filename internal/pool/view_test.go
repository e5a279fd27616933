package pool

import (
	"fmt"
	"slices"
	"testing"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/balance"
)

// A view with few instances is searched, one with many has maps; both find all of their
// instances and no others.
func TestViewFinds(t *testing.T) {
	for _, n := range []int{0, 1, maxScan, maxScan + 1, 100} {
		v := new(view)
		for i := range n {
			v.nodes = append(v.nodes, &balance.Node{Instance: tandem.Instance{ID: fmt.Sprint(i)}})
			v.members = append(v.members, new(member))
		}
		v.index()
		for i, node := range v.nodes {
			if v.member(node) != v.members[i] || v.named(node.Instance.ID) != node || v.memberOf(node.Instance.ID) != v.members[i] {
				t.Errorf("%d of %d is not found", i, n)
			}
		}
		if other := new(balance.Node); v.member(other) != nil || v.named("") != nil || v.memberOf("other") != nil {
			t.Errorf("something is found that is not among %d", n)
		}
		if got := len(slices.Collect(v.all())); got != n {
			t.Errorf("%d of %d", got, n)
		}
	}
}
