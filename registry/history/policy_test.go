package history

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/tandem-rpc/tandem/policy"
	"github.com/tandem-rpc/tandem/registry"
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

// between is a registry in which another writer comes before the first swap.
type between struct {
	registry.DocumentWriter

	other func()
}

func (b *between) SwapDocument(ctx context.Context, key string, old, text []byte) error {
	if other := b.other; other != nil {
		b.other = nil
		other()
	}
	return b.DocumentWriter.SwapDocument(ctx, key, old, text)
}

// A policy that was made from a revision replaces that one only, also if another writer comes
// while it is written.
func TestPutPolicyOver(t *testing.T) {
	m := registry.NewMemory()
	plain := Store{Documents: m, Key: "/policies/shop"}
	put := func(s Store, revision int) error {
		_, err := PutPolicyOver(t.Context(), s, policy.Change{By: "ann"}, &policy.Policy{}, revision)
		return err
	}
	if err := put(plain, 0); err != nil {
		t.Fatal(err)
	}
	if err := put(plain, 0); !errors.Is(err, registry.ErrChanged) {
		t.Errorf("over an old revision: %v", err)
	}
	raced := Store{Documents: &between{m, func() {
		if err := put(plain, 1); err != nil {
			t.Error(err)
		}
	}}, Key: plain.Key}
	if err := put(raced, 1); !errors.Is(err, registry.ErrChanged) {
		t.Errorf("over a revision that came meanwhile: %v", err)
	}
	if err := put(raced, 2); err != nil {
		t.Error(err)
	}
}
