package policy_test

import (
	"testing"

	"github.com/tandem-rpc/tandem/policy"
)

func TestRollout(t *testing.T) {
	r := policy.RolloutOf("r7", []policy.Applied{
		{Client: "a", Version: "r7", InForce: "r7"},
		{Client: "b", Version: "r7", InForce: "r6", Error: "no such codec"},
		{Client: "c", Version: "r6", InForce: "r6"},
		{Client: "d", Version: "r7", InForce: "r7", Error: "the registry is down"}, // it follows r7 all the same
		{Client: "e", InForce: "r6", Error: "no such codec"},
		{Client: "f", Version: "r5", InForce: "r4", Error: "of an older version"},
	})
	if got := r.String(); got != "r7 is applied by 2 of 6 clients, 3 pending, 1 refused: no such codec" {
		t.Error(got)
	}
	if got := policy.RolloutOf("r7", nil).String(); got != "r7 is in force; no client has reported yet" {
		t.Error(got)
	}
}
