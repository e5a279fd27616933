package console

import (
	"context"
	"encoding/json"
	"errors"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/policy"
	"github.com/tandem-rpc/tandem/policy/yaml"
	"github.com/tandem-rpc/tandem/registry"
	"github.com/tandem-rpc/tandem/registry/history"
)

// policyKey returns the key of the policy of a list's clients, if they follow the usual one:
// /shop/policies/Cart for the list /shop/Cart.
func policyKey(t registry.Target) string {
	return path.Join("/", path.Dir(t.Path), "policies", path.Base(t.Path))
}

// policyStore returns the document with a policy.
func (c *Console) policyStore(name, key string) (*list, history.Store, error) {
	l, err := c.list(name)
	if err != nil {
		return nil, history.Store{}, err
	}
	writer, ok := l.documents.(registry.DocumentWriter)
	if !ok {
		return nil, history.Store{}, tandem.Errorf(tandem.FailedPrecondition, "the registry of %s keeps no documents", l.name)
	}
	if key == "" {
		key = policyKey(l.target)
	}
	if key == l.key || strings.HasPrefix(key, l.key+".") {
		return nil, history.Store{}, tandem.Errorf(tandem.InvalidArgument, "%s are the overrides of the list", key)
	}
	return l, history.Store{Documents: writer, Key: key}, nil
}

func (c *Console) policy(ctx context.Context, _ User, req *PolicyRequest) (*PolicyView, error) {
	l, s, err := c.policyStore(req.List, req.Key)
	if err != nil {
		return nil, err
	}
	now, err := s.Read(ctx)
	if err != nil {
		return nil, err
	}
	out := &PolicyView{Key: s.Key, Text: now.Text, Revision: strconv.Itoa(now.Revision), History: []ChangeRow{}, Schema: policy.Schema()}
	if now.Text != "" {
		if out.Policy, err = policy.Parse([]byte(now.Text)); err != nil {
			out.Error = err.Error()
		}
		out.Rollout = rolloutOf(ctx, l, s.Key, []byte(now.Text))
	}
	versions, err := s.Versions(ctx)
	if err != nil {
		return nil, err
	}
	for _, v := range slices.Backward(versions) {
		what := v.Text
		if v.Text == "" {
			what = "deleted"
		}
		out.History = append(out.History, changeRow(l.name, kindPolicy, v.Change, what))
	}
	return out, nil
}

// rolloutOf returns how far clients have taken up a policy; nil if that can't be read.
func rolloutOf(ctx context.Context, l *list, key string, text []byte) *Rollout {
	reports, ok := policy.FromRegistry(l.documents, key).(policy.Reports)
	if !ok {
		return nil
	}
	applied, err := reports.Applied(ctx)
	if err != nil {
		return nil
	}
	r := policy.RolloutOf(policy.VersionOf(text), applied)
	return &Rollout{
		List: l.name, Kind: kindPolicy, Version: r.Version, Applied: len(r.Applied), Pending: len(r.Pending), Refused: len(r.Refused), Text: r.String(),
	}
}

// putPolicy writes a policy, or only checks it.
func (c *Console) putPolicy(ctx context.Context, u User, req *PutPolicyRequest) (*PolicyView, error) {
	text := []byte(req.Text)
	if len(text) > policy.MaxSize {
		return nil, tandem.Errorf(tandem.InvalidArgument, "a policy has at most %d bytes", policy.MaxSize)
	}
	if !json.Valid(text) {
		var err error
		if text, err = yaml.JSON(text); err != nil {
			return nil, tandem.Errorf(tandem.InvalidArgument, "%v", err)
		}
	}
	p, err := policy.Parse(text)
	if err != nil {
		return nil, tandem.Errorf(tandem.InvalidArgument, "%v", err)
	}
	_, s, err := c.policyStore(req.List, req.Key)
	if err != nil {
		return nil, err
	}
	now, err := s.Read(ctx)
	if err != nil {
		return nil, err
	}
	if now.Text != "" {
		if _, err := policy.Parse([]byte(now.Text)); err != nil {
			return nil, tandem.Errorf(tandem.FailedPrecondition, "the document at %s is no valid policy, so it may be something else: %v", s.Key, err)
		}
	}
	if req.DryRun {
		return &PolicyView{Key: s.Key, Text: string(text), Policy: p, Revision: strconv.Itoa(now.Revision), History: []ChangeRow{}}, nil
	}
	base, err := strconv.Atoi(req.Base)
	if err != nil {
		return nil, tandem.Errorf(tandem.InvalidArgument, "base %q is not the number of a revision", req.Base)
	}
	_, err = history.PutPolicyOver(ctx, s, policy.Change{By: u.Name, Why: req.Why}, p, base)
	if errors.Is(err, registry.ErrChanged) {
		return nil, tandem.Errorf(tandem.Aborted, "%v: look at it first", err)
	}
	if err != nil {
		return nil, err
	}
	return c.policy(ctx, u, &PolicyRequest{List: req.List, Key: s.Key})
}

func (c *Console) restorePolicy(ctx context.Context, u User, req *RestoreRequest, revision int) (*ChangeRow, error) {
	l, s, err := c.policyStore(req.List, req.Key)
	if err != nil {
		return nil, err
	}
	v, err := history.RestorePolicy(ctx, s, policy.Change{By: u.Name, Why: req.Why}, revision)
	if errors.Is(err, history.ErrNoVersion) {
		return nil, tandem.Errorf(tandem.NotFound, "revision %d is not kept", revision)
	}
	if err != nil {
		return nil, err
	}
	row := changeRow(l.name, kindPolicy, v.Change, v.Text)
	return &row, nil
}
