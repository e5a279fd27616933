package override

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/policy"
	"github.com/tandem-rpc/tandem/registry"
	"github.com/tandem-rpc/tandem/registry/history"
)

// ErrEmpty is the error of a change after which no listed instance would get calls.
var ErrEmpty = errors.New("no instance of the service would be left to call")

// ErrUnchanged is the error of a change that changes nothing.
var ErrUnchanged = errors.New("this changes nothing")

// Editor changes the overrides of one list of instances. Each change is checked and written in
// one step, so that of two operators who disable the last two instances at once, the second is
// refused. It is safe for concurrent use.
type Editor struct {
	Store history.Store
	// Instances returns the registry's list now.
	Instances func(ctx context.Context) ([]tandem.Instance, error)
}

// Request is who changes overrides, and why.
type Request struct {
	By  string // must be set
	Why string
	// AllowEmpty lets the change leave no instance that gets calls.
	AllowEmpty bool
}

// NewEditor returns the editor for the list of instances that a target names. It fails if the
// resolver's registry does not keep documents.
func NewEditor(r registry.Resolver, target registry.Target) (*Editor, error) {
	store, err := storeOf(r, target)
	if err != nil {
		return nil, err
	}
	return &Editor{Store: store, Instances: func(ctx context.Context) ([]tandem.Instance, error) { return registry.List(ctx, r, target) }}, nil
}

// storeOf returns the document of the overrides of a list.
func storeOf(r registry.Resolver, target registry.Target) (history.Store, error) {
	of, ok := r.(registry.DocumentFinder)
	if !ok {
		return history.Store{}, fmt.Errorf("overrides: the registry of %s keeps no documents", registry.Redact(target.String()))
	}
	documents, key, err := of.DocumentsOf(target)
	if err != nil {
		return history.Store{}, err
	}
	writer, ok := documents.(registry.DocumentWriter)
	if !ok {
		return history.Store{}, fmt.Errorf("overrides: documents of the registry of %s can't be written", registry.Redact(target.String()))
	}
	return history.Store{Documents: writer, Key: key}, nil
}

// Read returns the overrides in force. Those that have ended are not among them.
func (e *Editor) Read(ctx context.Context) (*Overrides, error) {
	v, err := e.Store.Read(ctx)
	if err != nil {
		return nil, err
	}
	o, err := Parse([]byte(v.Text))
	if err != nil {
		return nil, err
	}
	o.Change = v.Change
	o.forget(time.Now())
	return o, nil
}

// Set adds overrides, each in place of an earlier one of the same kind for the same instance or
// labels. What would change nothing is not written: the state [Enabled] where nothing else
// withholds the instance, and tags of an instance that it has without it. It returns the overrides
// then in force.
func (e *Editor) Set(ctx context.Context, r Request, set ...Override) (*Overrides, error) {
	return e.edit(ctx, r, false, func(o *Overrides, list []tandem.Instance, c policy.Change) error {
		for i := range set {
			s := set[i]
			s.By, s.Why, s.At = c.By, c.Why, c.At
			if err := s.Validate(); err != nil {
				return err
			}
			if !s.Until.IsZero() && !s.Until.After(c.At) {
				return fmt.Errorf("until %s: that is over", s.Until.Format(time.RFC3339))
			}
			o.put(s, list, c.At)
		}
		return nil
	})
}

// Clear removes what is set for instances and labels: states, weights and tags. Only Instance and
// Labels of match count.
func (e *Editor) Clear(ctx context.Context, r Request, match ...Override) (*Overrides, error) {
	return e.edit(ctx, r, false, func(o *Overrides, _ []tandem.Instance, _ policy.Change) error {
		o.Set = slices.DeleteFunc(o.Set, func(s Override) bool {
			return slices.ContainsFunc(match, func(m Override) bool { return s.sameMatch(&m) })
		})
		return nil
	})
}

// Restore makes the overrides of an earlier revision the ones in force, as a change of its own,
// also in place of a document that is not valid. What has ended since is not restored.
func (e *Editor) Restore(ctx context.Context, r Request, revision int) (*Overrides, error) {
	v, err := e.Store.Version(ctx, revision)
	if err != nil {
		return nil, err
	}
	old, err := Parse([]byte(v.Text))
	if err != nil {
		return nil, err
	}
	return e.edit(ctx, r, true, func(o *Overrides, _ []tandem.Instance, _ policy.Change) error {
		o.Set = slices.Clone(old.Set)
		return nil
	})
}

// edit changes the overrides and checks the result against the registry's list. replaces says that
// the change does not depend on what is in force, which may then be invalid.
func (e *Editor) edit(ctx context.Context, r Request, replaces bool, change func(*Overrides, []tandem.Instance, policy.Change) error) (*Overrides, error) {
	var made *Overrides
	_, err := e.Store.Edit(ctx, policy.Change{By: r.By, Why: r.Why}, func(now history.Version, c policy.Change) ([]byte, error) {
		list, err := e.Instances(ctx)
		if err != nil {
			return nil, fmt.Errorf("overrides: the list of instances is needed to check the change: %w", err)
		}
		before, invalid := Parse([]byte(now.Text))
		switch {
		case invalid != nil && replaces:
			before = new(Overrides) // clients did not take it either
		case invalid != nil:
			return nil, fmt.Errorf("%w; restore an earlier revision", invalid)
		}
		before.forget(c.At)
		made = &Overrides{Change: c, Set: slices.Clone(before.Set)}
		if err := change(made, list, c); err != nil {
			return nil, err
		}
		made.forget(c.At)
		err = check(before, made, list, r.AllowEmpty)
		if err != nil && (invalid == nil || !errors.Is(err, ErrUnchanged)) {
			return nil, err
		}
		return json.MarshalIndent(made, "", "  ")
	})
	return made, err
}

// check refuses a change that leaves nothing to call, or changes nothing.
func check(before, after *Overrides, list []tandem.Instance, allowEmpty bool) error {
	if err := after.Validate(); err != nil {
		return err
	}
	if same, err := equal(before.Set, after.Set); err != nil || same {
		return cmp.Or(err, ErrUnchanged)
	}
	at := after.Change.At
	if had := len(before.Apply(list, at).Enabled); !allowEmpty && had > 0 && len(after.Apply(list, at).Enabled) == 0 {
		return fmt.Errorf("%d of %d instances get calls now: %w", had, len(list), ErrEmpty)
	}
	return nil
}

func equal(a, b []Override) (bool, error) {
	x, err := json.Marshal(a)
	if err != nil {
		return false, err
	}
	y, err := json.Marshal(b)
	return string(x) == string(y), err
}

// put adds an override in place of the one that it replaces.
func (o *Overrides) put(s Override, list []tandem.Instance, now time.Time) {
	if s.Ramp > 0 && s.From == 0 && len(s.FromEach) == 0 {
		if s.Instance != "" {
			s.From = o.weightNow(s.Instance, list, now)
		} else {
			s.From, s.FromEach = o.weightsNow(&s, list, now)
		}
	}
	o.Set = slices.DeleteFunc(o.Set, func(old Override) bool { return s.replaces(&old) })
	if s.State == Enabled && s.Until.IsZero() && !o.withholds(&s, list, now) {
		return
	}
	if len(s.Tags) > 0 {
		if s.Tags = o.needed(&s, list, now); len(s.Tags) == 0 {
			return
		}
	}
	o.Set = append(o.Set, s)
}

// needed returns those of an override's tags that its instance does not have without it.
func (o *Overrides) needed(s *Override, list []tandem.Instance, now time.Time) map[string]string {
	i := slices.IndexFunc(list, func(in tandem.Instance) bool { return in.ID == s.Instance })
	if i < 0 {
		return s.Tags
	}
	has, needed := list[i].Tags, map[string]string{}
	if tags, set := o.Apply(list[i:i+1], now).Tags[s.Instance]; set {
		has = tags
	}
	for name, value := range s.Tags {
		if had, is := has[name]; had != value || is != (value != "") {
			needed[name] = value
		}
	}
	return needed
}

// withholds reports whether an instance that match is for gets no calls.
func (o *Overrides) withholds(match *Override, list []tandem.Instance, now time.Time) bool {
	withheld := o.Apply(list, now).Withheld
	return slices.ContainsFunc(list, func(in tandem.Instance) bool {
		_, out := withheld[in.ID]
		return out && match.Matches(&in)
	})
}

// weightNow returns the weight of an instance under the overrides, 0 if it is not listed or gets
// no calls.
func (o *Overrides) weightNow(id string, list []tandem.Instance, now time.Time) int {
	for _, in := range o.Apply(list, now).Enabled {
		if in.ID == id {
			return cmp.Or(in.Weight, tandem.DefaultWeight)
		}
	}
	return 0
}

// weightsNow returns where a ramp by labels begins: at the one weight of all instances that it is
// for, or at the weight of each that is not the registered one. An instance that has a weight by
// its ID does not follow the ramp, so it does not count.
func (o *Overrides) weightsNow(ramp *Override, list []tandem.Instance, now time.Time) (from int, each map[string]int) {
	live := o.live(now)
	set := make(map[string]int) // weights that overrides set
	same := true
	for i := range list {
		in := &list[i]
		if !ramp.Matches(in) {
			continue
		}
		_, by := live.find(in)
		if by != nil && by.Instance != "" {
			continue
		}
		w := cmp.Or(in.Weight, tandem.DefaultWeight)
		if by != nil {
			w, _ = by.weight(in, now)
			set[in.ID] = w
		}
		same = same && (from == 0 || from == w)
		from = w
	}
	switch {
	case len(set) == 0:
		return 0, nil
	case same:
		return from, nil
	}
	return 0, set
}

// forget removes the overrides that have ended.
func (o *Overrides) forget(now time.Time) {
	o.Set = slices.DeleteFunc(o.Set, func(s Override) bool { return s.over(now) })
}

// Rollout returns how far clients have taken up the overrides in force. Its version is the
// revision.
func (e *Editor) Rollout(ctx context.Context) (policy.Rollout, error) {
	documents, ok := e.Store.Documents.(registry.Documents)
	if !ok {
		return policy.Rollout{}, errors.New("overrides: this registry takes no reports")
	}
	v, err := e.Store.Read(ctx)
	if err != nil {
		return policy.Rollout{}, err
	}
	reports, err := policy.FromRegistry(documents, e.Store.Key).(policy.Reports).Applied(ctx)
	r := policy.RolloutOf(VersionOf([]byte(v.Text)), reports)
	r.Version = strconv.Itoa(v.Revision)
	return r, err
}
