package adapter

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/registry"
)

// DefaultGrace is the Grace of a [Keeper] whose Grace is 0.
const DefaultGrace = 30 * time.Second

// maxRefused is the largest number of dropped instances that are logged for one list.
const maxRefused = 100

// View is a list as a [Keeper] delivers it. The receiver may keep it, and must
// not change it.
type View struct {
	Instances []tandem.Instance // valid, sorted by ID, no ID twice; includes the suspects
	// Suspect holds the IDs of instances that vanished from the registry in a
	// collapse and are kept for now. Only a suspect that is known to answer
	// should get calls.
	Suspect map[string]bool
	// Withheld holds the instances that are listed but get no calls, as operators have set: by
	// ID, what is set. They are not among Instances. A Keeper sets none.
	Withheld map[string]string
	// Stale is the error of the registry while it fails; the list may then be
	// out of date. Before the first list it comes with no instances.
	Stale error
}

// Poller is implemented by a [registry.Resolver] that asks for the list at intervals, because
// it is not notified of changes.
type Poller interface {
	registry.Resolver
	// Poll is Watch, but asks sooner when now receives, which means that the
	// client can reach no instance of the list. If now receives again and again,
	// the time between requests grows up to the usual interval.
	Poll(ctx context.Context, target registry.Target, now <-chan struct{}, update func(registry.Snapshot)) error
}

// Keeper stands between a [registry.Resolver] and its user and keeps the last good
// list:
//
//   - While the registry fails, the list stays, however long it takes.
//   - Instances that are not valid, repeat an ID, or go beyond [registry.MaxInstances]
//     are dropped, each with a line in the log.
//   - When a few instances vanish, they are dropped. When more instances have
//     vanished within Grace than are left (an empty list is the extreme), the
//     registry itself may be at fault: it may have been wiped, or have lost all
//     leases at once. Then all of these instances stay, as suspects, for another
//     Grace. At its end, suspects for which Alive returns true stay for one more
//     Grace, and so on; the others are dropped. So a service that was really shut
//     down does disappear, a little later.
//
// If the first list is empty, the view is empty.
//
// With Dir, the last good list is also saved in a file there. A Watch that begins
// while the registry does not answer starts with that list.
//
// Set the fields before use; the zero value works. A Keeper serves one list.
// Use either Watch, or Apply, Expire and Next, which are its pure core: no
// clock, no goroutine, not safe for concurrent use.
type Keeper struct {
	// Grace is the time after which a suspect is checked, and dropped unless it
	// is alive; [DefaultGrace] when it is 0.
	Grace time.Duration
	// Alive reports whether a suspect has lately answered. It must not
	// block. When nil, no suspect is alive, and all are dropped after one Grace.
	Alive func(id string) bool
	// Unreachable receives when no listed instance can be reached, so that a
	// [Poller] asks for the list without waiting. It may be nil.
	Unreachable <-chan struct{}
	// Dir is the directory for files with the last good lists, one per target;
	// no list is saved when it is "". Watch creates it.
	Dir string
	// Log gets a line for every dropped instance, for every collapse of the list,
	// and when the registry fails or answers again; nil means no log.
	Log *slog.Logger

	listed  []tandem.Instance // the last good list, by ID
	gone    map[string]departed
	refused map[string]bool // IDs and reasons of dropped instances of the last list, as logged
	stale   error
}

// departed is an instance that the registry no longer lists.
type departed struct {
	instance tandem.Instance
	suspect  bool      // the instance is still in the view
	until    time.Time // when a suspect is checked, or an instance that is no suspect is forgotten
}

// coldStart is how long a Watch waits for the registry before it starts with the
// saved list.
const coldStart = 500 * time.Millisecond

// Watch watches the target and delivers every new view to update, one call at
// a time. It returns when r's Watch does, with its error; that is when ctx
// ends, or when the target can never work.
func (k *Keeper) Watch(ctx context.Context, r registry.Resolver, target registry.Target, update func(View)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // ends the goroutine also if update panics
	snapshots := make(chan registry.Snapshot)
	ended := make(chan error, 1)
	go func() {
		ended <- k.follow(ctx, r, target, func(s registry.Snapshot) {
			select {
			case snapshots <- s:
			case <-ctx.Done():
			}
		})
	}()
	cold := time.After(coldStart)
	for {
		var view View
		var changed bool
		select {
		case s := <-snapshots:
			if s.Err != nil && cold != nil {
				k.loadSaved(target)
			}
			cold = nil
			if view, changed = k.Apply(s, time.Now()); changed {
				k.saveView(target, view)
			}
		case <-cold:
			cold = nil
			if changed = k.loadSaved(target); changed {
				view, _ = k.fail(errors.New("the registry has not answered yet"))
			}
		case <-k.due():
			view, changed = k.Expire(time.Now())
		case err := <-ended:
			return err
		}
		if changed {
			update(view)
		}
	}
}

// follow polls the target if the resolver is a Poller and Unreachable is set;
// otherwise it watches the target.
func (k *Keeper) follow(ctx context.Context, r registry.Resolver, target registry.Target, update func(registry.Snapshot)) error {
	if p, ok := r.(Poller); ok && k.Unreachable != nil {
		return p.Poll(ctx, target, k.Unreachable, update)
	}
	return r.Watch(ctx, target, update)
}

// loadSaved loads the saved list, if there is one, and reports whether it has instances.
func (k *Keeper) loadSaved(target registry.Target) bool {
	if k.Dir == "" {
		return false
	}
	list, saved, err := savedLists{k.Dir}.load(target)
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			k.log().Warn("registry: the saved list can't be used", "target", target, "error", err)
		}
		return false
	}
	k.listed = k.accepted(list)
	k.log().Warn("registry: starting with the saved list", "target", target, "saved", saved, "instances", len(k.listed))
	return len(k.listed) > 0
}

// saveView saves the view's instances, suspects included, for a start while the
// registry does not answer.
func (k *Keeper) saveView(target registry.Target, v View) {
	if k.Dir == "" || v.Stale != nil || len(v.Instances) == 0 {
		return
	}
	if err := (savedLists{k.Dir}).save(target, v.Instances, time.Now()); err != nil {
		k.log().Warn("registry: the list can't be saved", "target", target, "error", err)
	}
}

// due returns a channel that receives at the time of Next, or nil if there is none.
func (k *Keeper) due() <-chan time.Time {
	next := k.Next()
	if next.IsZero() {
		return nil
	}
	return time.After(time.Until(next))
}

// Apply applies a snapshot, and returns the resulting view and whether the view
// is to be delivered: not for a failure with the text of the last one.
func (k *Keeper) Apply(s registry.Snapshot, now time.Time) (View, bool) {
	if s.Err != nil {
		return k.fail(s.Err)
	}
	if k.stale != nil {
		k.log().Info("registry: answers again")
		k.stale = nil
	}
	list := k.accepted(s.Instances)
	k.forget(now)
	k.moveGone(list, now)
	k.listed = list
	if len(k.gone) > len(k.listed) {
		k.suspectGone(now)
	}
	return k.view(), true
}

// Expire drops the suspects whose Grace is over and that are not alive. It returns
// the resulting view and whether the view has changed.
func (k *Keeper) Expire(now time.Time) (View, bool) {
	changed := false
	for id, d := range k.gone {
		switch {
		case !d.suspect || now.Before(d.until):
		case k.Alive != nil && k.Alive(id):
			d.until = now.Add(k.grace())
			k.gone[id] = d
		default:
			k.log().Info("registry: suspect does not answer and is dropped", "instance", id)
			delete(k.gone, id)
			changed = true
		}
	}
	return k.view(), changed
}

// Next returns when Expire has something to do, or the zero time.
func (k *Keeper) Next() time.Time {
	var next time.Time
	for _, d := range k.gone {
		if d.suspect && (next.IsZero() || d.until.Before(next)) {
			next = d.until
		}
	}
	return next
}

// fail records err as the reason why the list may be out of date, and reports
// whether its text differs from the last failure's. The list stays as it is.
func (k *Keeper) fail(err error) (View, bool) {
	if k.stale == nil {
		k.log().Warn("registry: can't be read; the last list stays in use", "error", err, "instances", len(k.listed))
	}
	known := k.stale != nil && k.stale.Error() == err.Error()
	k.stale = err
	return k.view(), !known
}

// accepted returns the valid instances of the list, at most MaxInstances, sorted by ID. It logs
// the others.
func (k *Keeper) accepted(list []tandem.Instance) []tandem.Instance {
	good := make([]tandem.Instance, 0, min(len(list), registry.MaxInstances))
	seen := make(map[string]bool, cap(good))
	refused := make(map[string]bool)
	for i := range list {
		in := &list[i]
		if reason := rejection(in, seen); reason != "" {
			k.refuse(in.ID, reason, refused)
			continue
		}
		seen[in.ID] = true
		good = append(good, *in)
	}
	k.refused = refused
	slices.SortFunc(good, byID)
	return good
}

// rejection returns why in is dropped when the IDs of seen are accepted already, or "".
func rejection(in *tandem.Instance, seen map[string]bool) string {
	if err := in.Validate(); err != nil {
		return err.Error()
	}
	if seen[in.ID] {
		return "its id is listed twice"
	}
	if len(seen) >= registry.MaxInstances {
		return "the list is too long"
	}
	return ""
}

// refuse logs that an instance is dropped, unless it was dropped from the last list
// for the same reason, or maxRefused instances of this list are dropped already.
func (k *Keeper) refuse(id, reason string, refused map[string]bool) {
	id = id[:min(len(id), 128)]
	key := id + "\x00" + reason
	if len(refused) >= maxRefused || refused[key] {
		return
	}
	refused[key] = true
	if !k.refused[key] {
		k.log().Warn("registry: instance dropped", "instance", id, "reason", reason)
	}
}

// moveGone adds the instances that have left the list to gone, up to MaxInstances, and
// removes those that are listed again.
func (k *Keeper) moveGone(list []tandem.Instance, now time.Time) {
	here := make(map[string]bool, len(list))
	for i := range list {
		here[list[i].ID] = true
		delete(k.gone, list[i].ID)
	}
	for _, in := range k.listed {
		if here[in.ID] || len(k.gone) >= registry.MaxInstances {
			continue
		}
		if k.gone == nil {
			k.gone = make(map[string]departed)
		}
		k.gone[in.ID] = departed{instance: in, until: now.Add(k.grace())}
	}
}

// forget removes from gone the instances that left more than Grace ago and are no
// suspects.
func (k *Keeper) forget(now time.Time) {
	maps.DeleteFunc(k.gone, func(_ string, d departed) bool {
		return !d.suspect && !now.Before(d.until)
	})
}

// suspectGone makes every instance in gone a suspect.
func (k *Keeper) suspectGone(now time.Time) {
	fresh := 0
	for id, d := range k.gone {
		if !d.suspect {
			k.gone[id] = departed{instance: d.instance, suspect: true, until: now.Add(k.grace())}
			fresh++
		}
	}
	if fresh > 0 {
		k.log().Warn("registry: the list collapsed; instances that vanished stay in use while they answer",
			"vanished", len(k.gone), "left", len(k.listed))
	}
}

// view returns the current view.
func (k *Keeper) view() View {
	v := View{Instances: slices.Clone(k.listed), Stale: k.stale}
	for id, d := range k.gone {
		if !d.suspect {
			continue
		}
		if v.Suspect == nil {
			v.Suspect = make(map[string]bool)
		}
		v.Suspect[id] = true
		v.Instances = append(v.Instances, d.instance)
	}
	if v.Suspect != nil {
		slices.SortFunc(v.Instances, byID)
	}
	return v
}

func (k *Keeper) grace() time.Duration {
	if k.Grace <= 0 {
		return DefaultGrace
	}
	return k.Grace
}

func (k *Keeper) log() *slog.Logger {
	if k.Log == nil {
		return slog.New(slog.DiscardHandler)
	}
	return k.Log
}
