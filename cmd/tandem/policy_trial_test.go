package main

import (
	"testing"

	"github.com/tandem-rpc/tandem/balance"
	"github.com/tandem-rpc/tandem/client"
)

// TestCandidates: the last steps count together, as those of several zones do, and what can't be
// called is left out.
func TestCandidates(t *testing.T) {
	e := &client.Explanation{Attempts: []client.Attempt{{
		Instances: []client.InstanceState{{ID: "a", Weight: 1}, {ID: "b", Weight: 2}, {ID: "c"}, {ID: "d", Unusable: "not connected"}},
		Steps: []balance.Step{
			{Policy: "p2c", Kept: []string{"c"}}, {Policy: "zone", Kept: []string{"a", "b", "d"}},
			{Policy: "p2c", Kept: []string{"a"}}, {Policy: "p2c", Kept: []string{"b", "d"}},
		},
	}}}
	got := candidates(e)
	if len(got) != 2 || got[0] != (candidate{"a", 1}) || got[1] != (candidate{"b", 2}) {
		t.Errorf("got %v", got)
	}
	if got := candidates(new(client.Explanation)); len(got) != 0 || got == nil {
		t.Errorf("got %v of nothing", got)
	}
}
