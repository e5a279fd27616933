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

// RestorePolicy makes the policy of an earlier revision, of clients or of servers, the document of s
// again, as a change of its own.
func RestorePolicy(ctx context.Context, s Store, c policy.Change, revision int) (Version, error) {
	return s.Restore(ctx, revision, c, func(text string, c policy.Change) ([]byte, error) {
		made, err := restored([]byte(text), c)
		if err != nil {
			return nil, fmt.Errorf("revision %d is no policy that this version of tandem takes: %w", revision, err)
		}
		return made, nil
	})
}

// restored returns the text of a policy of either kind with another Change.
func restored(text []byte, c policy.Change) ([]byte, error) {
	if policy.IsServer(text) {
		p, err := policy.ParseServer(text)
		if err != nil {
			return nil, err
		}
		return serverText(p, c)
	}
	p, err := policy.Parse(text)
	if err != nil {
		return nil, err
	}
	return policyText(p, c)
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

// PutServer makes the rules of servers the document of s, as [PutPolicy] does.
func PutServer(ctx context.Context, s Store, c policy.Change, p *policy.Server) (Version, error) {
	return s.Edit(ctx, c, func(_ Version, c policy.Change) ([]byte, error) { return serverText(p, c) })
}

func serverText(p *policy.Server, c policy.Change) ([]byte, error) {
	made := *p
	made.Change = &c
	if err := made.Validate(); err != nil {
		return nil, err
	}
	return json.MarshalIndent(&made, "", "  ")
}
