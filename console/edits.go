package console

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/override"
	"github.com/tandem-rpc/tandem/policy"
	"github.com/tandem-rpc/tandem/registry"
	"github.com/tandem-rpc/tandem/registry/history"
)

// Kinds of changes.
const (
	kindOverrides = "overrides"
	kindPolicy    = "policy"
)

func changeRow(list, kind string, c policy.Change, what string) ChangeRow {
	return ChangeRow{List: list, Kind: kind, Revision: strconv.Itoa(c.Revision), At: c.At, By: c.By, Why: c.Why, What: what}
}

// editor returns the editor of a list's overrides.
func (l *list) editor() (*override.Editor, error) {
	writer, ok := l.documents.(registry.DocumentWriter)
	if !ok {
		return nil, tandem.Errorf(tandem.FailedPrecondition, "the registry of %s keeps no documents, so nothing can be set there", l.name)
	}
	return &override.Editor{
		Store: history.Store{Documents: writer, Key: l.key},
		Instances: func(ctx context.Context) ([]tandem.Instance, error) {
			return registry.List(ctx, l.source.resolver, l.target)
		},
	}, nil
}

// maxEdit is how many overrides one change may set or clear.
const maxEdit = 500

// edit sets states and weights, or says what that would do.
func (c *Console) edit(ctx context.Context, u User, req *EditRequest) (*Edit, error) {
	if len(req.Set)+len(req.Clear) == 0 || len(req.Set)+len(req.Clear) > maxEdit {
		return nil, tandem.Errorf(tandem.InvalidArgument, "a change is of 1 to %d instances", maxEdit)
	}
	l, err := c.list(req.List)
	if err != nil {
		return nil, err
	}
	e, err := l.editor()
	if err != nil {
		return nil, err
	}
	out, err := c.preview(ctx, l, e, req)
	if err != nil || req.DryRun {
		return out, err
	}
	if out.Empties && req.Confirm != l.name {
		return nil, tandem.Errorf(tandem.FailedPrecondition, "no instance would be left that gets calls: type the name of the list to confirm")
	}
	made, err := c.write(ctx, u, e, req, req.Confirm == l.name)
	if err != nil {
		return nil, err
	}
	out.Revision = strconv.Itoa(made.Change.Revision)
	return out, nil
}

func (*Console) write(ctx context.Context, u User, e *override.Editor, req *EditRequest, confirmed bool) (made *override.Overrides, err error) {
	r := override.Request{By: u.Name, Why: req.Why, AllowEmpty: confirmed}
	if len(req.Clear) > 0 {
		var match []override.Override
		for _, id := range req.Clear {
			match = append(match, override.Override{Instance: id})
		}
		if made, err = e.Clear(ctx, r, match...); err != nil {
			return nil, err
		}
	}
	if len(req.Set) > 0 {
		made, err = e.Set(ctx, r, req.Set...)
	}
	return made, err
}

// preview says what a change would do to the instances that are listed now.
func (c *Console) preview(ctx context.Context, l *list, e *override.Editor, req *EditRequest) (*Edit, error) {
	now, err := e.Read(ctx)
	if err != nil {
		return nil, err
	}
	next := &override.Overrides{Set: slices.DeleteFunc(slices.Clone(now.Set), func(o override.Override) bool {
		return o.Instance != "" && slices.Contains(req.Clear, o.Instance) || slices.ContainsFunc(req.Set, func(s override.Override) bool { return replaces(&s, &o) })
	})}
	at := time.Now()
	for _, o := range req.Set {
		if err := o.Validate(); err != nil {
			return nil, tandem.Errorf(tandem.InvalidArgument, "%v", err)
		}
		o.At = at
		next.Set = append(next.Set, o)
	}
	l.mu.Lock()
	instances := slices.Clone(l.instances)
	l.mu.Unlock()
	before, after := rowsOf(l.name, instances, now, at), rowsOf(l.name, instances, next, at)
	out := &Edit{Rows: []InstanceRow{}, Left: enabled(after)} // silent ones, which addFigures tells apart, get calls too
	had := enabled(before)
	c.addFigures(before, "")
	c.addFigures(after, "")
	registered := byID(instances) // labels match these
	all, touched := 0.0, 0.0
	for i := range before {
		b, a := &before[i], after[i]
		all += b.Rate
		if a.State == b.State && !setsWeight(req.Set, registered[a.ID]) && a.Set == b.Set && maps.Equal(a.Tags, b.Tags) {
			continue
		}
		touched += b.Rate
		a.Rate, a.Errors, a.Running, a.P99 = b.Rate, b.Errors, b.Running, b.P99
		out.Rows = append(out.Rows, a)
	}
	if all > 0 {
		out.Share = touched / all
	}
	out.Empties = out.Left == 0 && had > 0
	return out, nil
}

// enabled returns how many instances are enabled.
func enabled(rows []InstanceRow) (n int) {
	for i := range rows {
		if rows[i].State == State(override.Enabled) {
			n++
		}
	}
	return n
}

// byID returns instances by their IDs.
func byID(list []tandem.Instance) map[string]*tandem.Instance {
	by := make(map[string]*tandem.Instance, len(list))
	for i := range list {
		by[list[i].ID] = &list[i]
	}
	return by
}

// setsWeight reports whether one of the overrides gives the instance a weight, maybe by a ramp.
func setsWeight(set []override.Override, in *tandem.Instance) bool {
	return slices.ContainsFunc(set, func(o override.Override) bool { return o.Weight > 0 && o.Matches(in) })
}

// replaces reports whether an override takes the place of an earlier one.
func replaces(next, old *override.Override) bool {
	return next.Instance == old.Instance && len(next.Labels) == 0 && len(old.Labels) == 0 && (next.Weight > 0) == (old.Weight > 0) && (len(next.Tags) > 0) == (len(old.Tags) > 0)
}

// changes returns the history of a list's overrides, the latest first.
func (c *Console) changes(ctx context.Context, _ User, req *ChangesRequest) (*Changes, error) {
	l, err := c.list(req.List)
	if err != nil {
		return nil, err
	}
	e, err := l.editor()
	if err != nil {
		return nil, err
	}
	versions, err := e.Store.Versions(ctx)
	if err != nil {
		return nil, err
	}
	out := &Changes{Changes: []ChangeRow{}}
	for _, v := range slices.Backward(versions) {
		what := "cleared"
		if set, err := override.Parse([]byte(v.Text)); err == nil && len(set.Set) > 0 {
			what = describeSet(set.Set)
		}
		out.Changes = append(out.Changes, changeRow(l.name, kindOverrides, v.Change, what))
	}
	return out, nil
}

// restore brings back an earlier version.
func (c *Console) restore(ctx context.Context, u User, req *RestoreRequest) (*ChangeRow, error) {
	l, err := c.list(req.List)
	if err != nil {
		return nil, err
	}
	revision, err := strconv.Atoi(req.Revision)
	switch {
	case err != nil:
		return nil, tandem.Errorf(tandem.InvalidArgument, "%q is not the number of a revision", req.Revision)
	case req.Kind == kindPolicy:
		return c.restorePolicy(ctx, u, req, revision)
	case req.Kind != kindOverrides:
		return nil, tandem.Errorf(tandem.InvalidArgument, "kind %q: want %s or %s", req.Kind, kindOverrides, kindPolicy)
	}
	e, err := l.editor()
	if err != nil {
		return nil, err
	}
	made, err := e.Restore(ctx, override.Request{By: u.Name, Why: req.Why}, revision)
	if errors.Is(err, history.ErrNoVersion) {
		return nil, tandem.Errorf(tandem.NotFound, "revision %d is not kept", revision)
	}
	if err != nil {
		return nil, err
	}
	row := changeRow(l.name, kindOverrides, made.Change, describeSet(made.Set))
	return &row, nil
}
