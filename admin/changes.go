package admin

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"github.com/tandem-rpc/tandem"
)

// maxChanges is how many changes are kept, and can be undone.
const maxChanges = 1000

const (
	usualChanges = 100
	maxWhy       = 500
)

// Audit returns the writes of operators that are kept, the latest first.
func (a *Admin) Audit() []Change {
	return a.writes.last(maxChanges, func(*Change) bool { return true })
}

func (a *Admin) listChanges(_ context.Context, req *ChangesRequest) (*Changes, error) {
	if req.Max < 0 {
		return nil, tandem.Errorf(tandem.InvalidArgument, "a negative number of changes")
	}
	list := a.writes.last(within(req.Max, usualChanges, maxChanges), func(*Change) bool { return true })
	return &Changes{append([]Change{}, list...)}, nil
}

// by says who calls: the identity, if there is one, and the address.
func by(ctx context.Context) string {
	call := tandem.FromContext(ctx)
	if call == nil || call.Peer == nil {
		return "unknown"
	}
	who := ""
	if call.Identity != nil {
		who = fmt.Sprint(call.Identity) + " "
	} else if t := call.Peer.TLS; t != nil && len(t.VerifiedChains) > 0 {
		who = t.PeerCertificates[0].Subject.String() + " "
	}
	return cut(who, maxError) + "at " + call.Peer.Addr.String()
}

// record keeps and logs a change. undo puts back what was before; it fails if what was changed is
// not as the change has left it.
func (a *Admin) record(ctx context.Context, c Change, undo func() error) *Change {
	c.At, c.By, c.Why = time.Now(), by(ctx), cut(c.Why, maxWhy)
	a.mu.Lock()
	a.changes++
	c.ID = strconv.Itoa(a.changes)
	a.undo[c.ID] = undo
	delete(a.undo, strconv.Itoa(a.changes-maxChanges))
	a.mu.Unlock()
	a.writes.add(c)
	if a.log != nil {
		a.log.InfoContext(ctx, "changed by an operator", "id", c.ID, "by", c.By, "what", c.What, "before", c.Before, "after", c.After, "why", c.Why)
	}
	return &c
}

func (a *Admin) undoChange(ctx context.Context, req *UndoRequest) (*Change, error) {
	a.mu.Lock()
	undo := a.undo[req.ID]
	delete(a.undo, req.ID) // at most once
	a.mu.Unlock()
	if undo == nil {
		return nil, a.notUndone(req.ID)
	}
	if err := undo(); err != nil {
		a.mu.Lock()
		a.undo[req.ID] = undo
		a.mu.Unlock()
		return nil, err
	}
	of := a.writes.last(1, func(c *Change) bool { return c.ID == req.ID })[0]
	made := a.record(ctx, Change{What: of.What, Before: of.After, After: of.Before, Why: req.Why}, nil)
	a.writes.update(func(c *Change) {
		if c.ID == req.ID {
			c.UndoneBy = made.ID
		}
	})
	return made, nil
}

// notUndone returns why a change can't be undone.
func (a *Admin) notUndone(id string) error {
	kept := a.writes.last(1, func(c *Change) bool { return c.ID == id })
	switch {
	case len(kept) == 0:
		return tandem.Errorf(tandem.NotFound, "no change %q is kept: Changes lists those that are", id)
	case kept[0].UndoneBy != "":
		return tandem.Errorf(tandem.FailedPrecondition, "change %q is undone already, by change %q", id, kept[0].UndoneBy)
	}
	return tandem.Errorf(tandem.FailedPrecondition, "change %q can't be undone: it is an undo itself, or is being undone", id)
}

func (a *Admin) setLogLevel(ctx context.Context, req *LogLevelRequest) (*Change, error) {
	if a.level == nil {
		return nil, tandem.Errorf(tandem.FailedPrecondition, "this process has no level of the log to change: see admin.WithLogLevel")
	}
	var next slog.Level
	if err := next.UnmarshalText([]byte(req.Level)); err != nil {
		return nil, tandem.Errorf(tandem.InvalidArgument, "%q is no level: debug, info, warn, error", req.Level)
	}
	a.mu.Lock()
	before := a.level.Level()
	a.level.Set(next)
	a.mu.Unlock()
	return a.record(ctx, Change{What: "level of the log", Before: before.String(), After: next.String(), Why: req.Why}, func() error {
		a.mu.Lock()
		defer a.mu.Unlock()
		if now := a.level.Level(); now != next {
			return tandem.Errorf(tandem.FailedPrecondition, "the level is %v now, not %v", now, next)
		}
		a.level.Set(before)
		return nil
	}), nil
}
