package registrytest

import (
	"context"
	"fmt"
	"time"

	"go.uber.org/goleak"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/registry"
)

// Checks returns the rules of the suite.
func Checks() []Check {
	return []Check{
		{Name: "an instance registered is seen", run: seen},
		{Name: "metadata arrives as it was", run: metadata},
		{Name: "an update is seen", run: updated},
		{Name: "an update of another id is refused", run: updatedOther},
		{Name: "close takes the instance off", run: closed},
		{Name: "a second close does nothing", run: closedTwice},
		{Name: "an update after close is refused", run: updatedClosed},
		{Name: "an invalid instance is refused", run: invalid},
		{Name: "the caller's instance stays the caller's", run: borrowed},
		{Name: "the later incarnation counts", run: superseded},
		{Name: "several watchers see the same", run: watchers},
		{Name: "a watch begun later sees the same", run: lateWatcher},
		{Name: "revisions never go back", run: revisions},
		{Name: "a watch that ends releases everything", run: released},
		{Name: "many instances", run: many},
		{Name: "odd ids", run: odd},
		{Name: "the document of a list is beside it", run: beside, documents: true},
		{Name: "the directory has the list", run: inDirectory, directory: true},
		{Name: "a lost registration heals", run: heals, lose: true},
		{Name: "an updated registration heals as updated", run: healsUpdated, lose: true},
		{Name: "a closed registration does not heal", run: staysClosed, lose: true},
		{Name: "an outage is an error, never an empty list", run: outage, outage: true},
		{Name: "a watch begun in an outage recovers", run: watchInOutage, outage: true},
		{Name: "close in an outage returns", run: closeInOutage, outage: true},
	}
}

func seen(s *session) {
	w := s.watch()
	w.sees()
	s.register(instance("a"))
	w.sees("a")
	s.register(instance("b"))
	w.sees("a", "b")
}

func metadata(s *session) {
	w := s.watch()
	s.register(full("a"))
	w.shows(full("a"))
}

func updated(s *session) {
	w := s.watch()
	entry := s.register(instance("a"))
	w.shows(instance("a"))
	for _, in := range []tandem.Instance{full("a"), instance("a"), full("a")} {
		s.update(entry, in)
		w.shows(in)
	}
	w.sees("a")
}

func updatedOther(s *session) {
	w := s.watch()
	entry := s.register(instance("a"))
	s.refused("an update of a to b", func(ctx context.Context) error { return entry.Update(ctx, instance("b")) })
	s.register(instance("c"))
	w.sees("a", "c")
}

func closed(s *session) {
	w := s.watch()
	a, b := s.register(instance("a")), s.register(instance("b"))
	w.sees("a", "b")
	s.close(a)
	w.sees("b")
	s.close(b)
	w.sees()
	s.register(instance("a"))
	w.sees("a")
}

func closedTwice(s *session) {
	w := s.watch()
	first := s.register(instance("a"))
	s.close(first)
	s.close(first)
	s.register(instance("a"))
	w.sees("a")
	s.close(first) // must not close the second registration
	s.register(instance("b"))
	w.sees("a", "b")
}

func updatedClosed(s *session) {
	w := s.watch()
	entry := s.register(instance("a"))
	s.close(entry)
	s.refused("an update after close", func(ctx context.Context) error { return entry.Update(ctx, instance("a")) })
	s.register(instance("b"))
	w.sees("b")
}

func invalid(s *session) {
	w := s.watch()
	entry := s.register(instance("a"))
	for _, bad := range []tandem.Instance{{}, {ID: "a"}, {ID: "a", Weight: -1, Endpoints: instance("a").Endpoints}} {
		s.refused(fmt.Sprintf("registering %+v", bad), func(ctx context.Context) error {
			_, err := s.h.Registrar.Register(ctx, bad)
			return err
		})
		s.refused(fmt.Sprintf("updating to %+v", bad), func(ctx context.Context) error { return entry.Update(ctx, bad) })
	}
	w.sees("a")
	w.shows(instance("a"))
}

func borrowed(s *session) {
	in := full("a")
	entry := s.register(in)
	scribble(in)
	w := s.watch()
	w.shows(full("a"))
	in = full("a")
	in.Weight = 8
	s.update(entry, in)
	scribble(in)
	w.await("the update", func(snap registry.Snapshot) bool {
		return len(snap.Instances) == 1 && snap.Instances[0].Weight == 8
	})
	want := full("a")
	want.Weight = 8
	w.shows(want)
}

// superseded registers a restarted server under the same ID while the old one is
// still listed. A registry may refuse that; if it does not, the later start is
// listed, and closing the old registration does not remove it.
func superseded(s *session) {
	w := s.watch()
	older, newer := full("a"), full("a")
	newer.Started, newer.Incarnation, newer.Weight = older.Started.Add(time.Minute), "later", 8
	old := s.register(older)
	w.shows(older)
	if s.err != nil {
		return
	}
	var entry registry.Registration
	if s.try(func(ctx context.Context) (err error) { entry, err = s.h.Registrar.Register(ctx, newer); return err }) != nil {
		w.shows(older)
		return
	}
	s.entries = append(s.entries, entry)
	w.shows(newer)
	s.close(old)
	s.register(instance("b"))
	w.sees("a", "b")
	w.shows(newer)
}

func watchers(s *session) {
	ws := []*watcher{s.watch(), s.watch(), s.watch()}
	a := s.register(full("a"))
	s.register(instance("b"))
	for _, w := range ws {
		w.sees("a", "b")
		w.shows(full("a"))
	}
	ws[0].stop()
	s.close(a)
	for _, w := range ws[1:] {
		w.sees("b")
	}
}

func lateWatcher(s *session) {
	early := s.watch()
	early.sees()
	s.register(full("a"))
	s.close(s.register(instance("gone")))
	s.register(instance("b"))
	early.sees("a", "b")
	late := s.watch()
	late.sees("a", "b")
	for _, w := range []*watcher{early, late} {
		w.shows(full("a"))
		w.shows(instance("b"))
	}
}

// revisions changes the list quickly; the watcher checks the revision of each snapshot.
func revisions(s *session) {
	w := s.watch()
	w.sees()
	a := s.register(instance("a"))
	for i := range 5 {
		b := s.register(instance("b"))
		in := instance("a")
		in.Weight = 1 + i
		s.update(a, in)
		w.shows(in)
		s.close(b)
	}
	w.sees("a")
	lists := w.lists()
	if s.err == nil && lists[len(lists)-1].Revision <= lists[0].Revision {
		s.failf("after many changes the revision is still %d", lists[0].Revision)
	}
}

// released fails when watches leave goroutines behind in every round. The registry's client
// starts some goroutines only once, and what a registration has begun when its Register
// returned, such as keeping a lease, may start others in the first round, also in a server in
// this process.
func released(s *session) {
	const rounds, watches = 3, 5
	s.register(instance("a"))
	var err error
	for range rounds {
		before := goleak.IgnoreCurrent()
		for range watches {
			w := s.watch()
			w.sees("a")
			w.stop()
		}
		if s.err != nil {
			return
		}
		if err = leftBehind(before); err == nil {
			return
		}
	}
	s.failf("%w", err)
}

// leftBehind returns an error that names goroutines which do not end within 3 s. goleak
// alone does not wait long enough on a busy machine for the goroutines of a server in
// this process, which end when its connection is closed.
func leftBehind(before goleak.Option) (err error) {
	for end := time.Now().Add(3 * time.Second); ; {
		if err = goleak.Find(before); err == nil || time.Now().After(end) {
			return err
		}
	}
}

func many(s *session) {
	const n = 200
	w := s.watch()
	ids := make([]string, n)
	entries := make([]registry.Registration, n)
	for i := range n {
		ids[i] = fmt.Sprintf("tcp://10.0.%d.%d:8972", i/100, i%100)
		entries[i] = s.register(instance(ids[i]))
	}
	w.sees(ids...)
	for _, entry := range entries[:n/2] {
		s.close(entry)
	}
	w.sees(ids[n/2:]...)
	s.watch().sees(ids[n/2:]...)
}

func odd(s *session) {
	w := s.watch()
	ids := oddIDs()
	entries := make([]registry.Registration, len(ids))
	for i, id := range ids {
		entries[i] = s.register(instance(id))
	}
	w.sees(ids...)
	for _, id := range ids {
		w.shows(instance(id))
	}
	for _, entry := range entries[1:] {
		s.close(entry)
	}
	w.sees(ids[0])
}

// heals can't wait until a watch sees the loss, because a fast registrar may restore
// the entry before that. A watch that begins after the loss has not seen the entry
// before it, and a watch that sees an instance registered after the loss has passed it.
func heals(s *session) {
	w := s.watch()
	s.register(full("a"))
	s.register(instance("b"))
	w.sees("a", "b")
	for range 2 {
		s.lose("a")
		late := s.watch()
		c := s.register(instance("c"))
		late.sees("a", "b", "c")
		w.sees("a", "b", "c")
		s.close(c)
		w.sees("a", "b")
	}
	w.shows(full("a"))
}

func healsUpdated(s *session) {
	w := s.watch()
	entry := s.register(instance("a"))
	s.update(entry, full("a"))
	w.shows(full("a"))
	s.lose("a")
	late := s.watch()
	s.register(instance("b"))
	late.sees("a", "b")
	late.shows(full("a"))
	in := full("a")
	in.Weight = 9
	s.update(entry, in)
	w.shows(in)
}

func staysClosed(s *session) {
	w := s.watch()
	a := s.register(instance("a"))
	s.register(instance("b"))
	w.sees("a", "b")
	s.lose("a")
	s.close(a)
	for range 2 { // when b is restored, a would have been restored, too
		s.lose("b")
		c := s.register(instance("c"))
		w.sees("b", "c")
		s.close(c)
		w.sees("b")
	}
}

func outage(s *session) {
	w := s.watch()
	s.register(full("a"))
	b := s.register(instance("b"))
	w.sees("a", "b")
	before := len(w.lists())
	s.outage()
	w.fails()
	s.restored()
	w.sees("a", "b")
	w.shows(full("a"))
	for i, snap := range w.lists() {
		if i >= before && len(snap.Instances) == 0 {
			s.failf("an empty list was delivered for the outage")
		}
	}
	s.close(b)
	s.register(instance("c"))
	w.sees("a", "c")
}

func watchInOutage(s *session) {
	s.register(instance("a"))
	s.outage()
	w := s.watch()
	w.fails()
	if lists := w.lists(); s.err == nil && len(lists) > 0 {
		s.failf("during the outage a list was delivered: %s", describe(lists[0], true))
	}
	s.restored()
	w.sees("a")
}

// closeInOutage checks that Close returns, with or without an error, and that the
// instance is not listed after the outage.
func closeInOutage(s *session) {
	w := s.watch()
	a := s.register(instance("a"))
	s.register(instance("b"))
	w.sees("a", "b")
	s.outage()
	w.fails()
	s.attempt("closing in an outage", func(context.Context) error {
		_ = a.Close()
		return nil
	})
	s.restored()
	w.sees("b")
}
