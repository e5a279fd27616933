package history

import (
	"strings"
	"testing"

	"github.com/tandem-rpc/tandem/policy"
)

func TestPolicies(t *testing.T) {
	d, s := store()
	ann := policy.Change{By: "ann", Why: "slow disks"}
	for _, mode := range []string{"failover", "failtry"} {
		if _, err := PutPolicy(t.Context(), s, ann, &policy.Policy{Default: policy.Method{FailMode: mode}}); err != nil {
			t.Fatal(err)
		}
	}
	if v := policy.VersionOf([]byte(d.texts[s.Key])); v != "r2" {
		t.Errorf("the version is %s", v)
	}
	if _, err := RestorePolicy(t.Context(), s, policy.Change{By: "bob"}, 1); err != nil {
		t.Fatal(err)
	}
	p, err := policy.Parse([]byte(d.texts[s.Key]))
	if err != nil || p.Default.FailMode != "failover" || p.Change.By != "bob" || p.Change.Revision != 3 {
		t.Errorf("restored is %+v, %v", p, err)
	}
	if _, err := PutPolicy(t.Context(), s, ann, &policy.Policy{Default: policy.Method{FailMode: "hope"}}); err == nil || !strings.Contains(err.Error(), "hope") {
		t.Errorf("a bad policy: %v", err)
	}
	d.texts[s.Key] = "[]"
	if _, err := RestorePolicy(t.Context(), s, ann, 4); err == nil || !strings.Contains(err.Error(), "takes") {
		t.Errorf("a text that is no policy: %v", err)
	}
}
