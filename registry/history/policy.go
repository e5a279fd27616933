package history

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/tandem-rpc/tandem/policy"
	"github.com/tandem-rpc/tandem/registry"
)

// PutPolicy makes a policy the document of s, as a change of its own. The policy's Change is
// replaced. It fails for a policy that is not valid.
func PutPolicy(ctx context.Context, s Store, c policy.Change, p *policy.Policy) (Version, error) {
	return s.Edit(ctx, c, func(_ Version, c policy.Change) ([]byte, error) { return policyText(p, c) })
}

// PutPolicyOver is [PutPolicy] for a policy that was made from a revision: it fails with
// [registry.ErrChanged] if that is not the one in force, 0 if there is no document.
func PutPolicyOver(ctx context.Context, s Store, c policy.Change, p *policy.Policy, revision int) (Version, error) {
	return s.Edit(ctx, c, func(now Version, c policy.Change) ([]byte, error) {
		if now.Revision != revision {
			return nil, fmt.Errorf("revision %d of %s is in force, and not %d: %w", now.Revision, s.Key, revision, registry.ErrChanged)
		}
		return policyText(p, c)
	})
}

// RestorePolicy makes the policy of an earlier revision the document of s again, as a change of
// its own.
func RestorePolicy(ctx context.Context, s Store, c policy.Change, revision int) (Version, error) {
	return s.Restore(ctx, revision, c, func(text string, c policy.Change) ([]byte, error) {
		p, err := policy.Parse([]byte(text))
		if err != nil {
			return nil, fmt.Errorf("revision %d is no policy that this version of tandem takes: %w", revision, err)
		}
		return policyText(p, c)
	})
}

// policyText returns the text of a policy with its Change.
func policyText(p *policy.Policy, c policy.Change) ([]byte, error) {
	made := *p
	made.Change = &c
	if err := made.Validate(); err != nil {
		return nil, err
	}
	return json.MarshalIndent(&made, "", "  ")
}
