package console

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/admin"
)

// BreakerOf names the breaker that a client in some process has for an instance.
type BreakerOf struct {
	List     string `json:"list"`    // where the process is listed
	Process  string `json:"process"` // its ID
	Client   string `json:"client"`  // the name of its client
	Instance string `json:"instance"`
}

// ForceRequest is the request of ForceBreaker, which keeps breakers open or closed for a time.
type ForceRequest struct {
	List     string        `json:"list"` // that the clients call
	Breakers []BreakerOf   `json:"breakers"`
	State    string        `json:"state"` // open, closed, or auto to let them decide again
	For      time.Duration `json:"for"`   // 0 for auto
	Why      string        `json:"why"`
	Confirm  string        `json:"confirm,omitempty"` // the name of the list, typed: allows to leave a client no instance to call
	DryRun   bool          `json:"dryRun,omitempty"`  // only say what would happen
}

// Force is what a ForceRequest does, or would do.
type Force struct {
	Circuits []Circuit   `json:"circuits"` // as they are: afterwards, or now with DryRun
	Share    float64     `json:"share"`    // of the calls of these clients so far that went there, 0 to 1
	Left     int         `json:"left"`     // instances that the client with the fewest can call afterwards
	Empties  []string    `json:"empties"`  // clients that would have no instance left to call: Confirm is needed
	Changes  []ChangeRef `json:"changes"`  // that were made, for Undo
	Failures []string    `json:"failures"`
}

// maxForce is how many breakers one request may force.
const maxForce = 200

// longestForce is how long processes let a breaker be forced.
const longestForce = 24 * time.Hour

func (req *ForceRequest) isDryRun() bool { return req.DryRun }

// force keeps breakers in a state, or says what that would do.
func (c *Console) force(ctx context.Context, u User, req *ForceRequest) (*Force, error) {
	if err := req.check(); err != nil {
		return nil, err
	}
	l, err := c.list(req.List)
	if err != nil {
		return nil, err
	}
	out, err := c.forceEffect(ctx, l, req)
	if err != nil || req.DryRun {
		return out, err
	}
	if len(out.Empties) > 0 && req.Confirm != l.name {
		return nil, tandem.Errorf(tandem.FailedPrecondition, "%s would have no instance left to call: type the name of the list to confirm", out.Empties[0])
	}
	var last error
	for _, b := range req.Breakers {
		id, err := c.forceOne(ctx, u, b, req)
		if err != nil {
			last = err
			out.Failures = append(out.Failures, fmt.Sprintf("%s, %s: %s", b.Process, b.Instance, short(err)))
			continue
		}
		out.Changes = append(out.Changes, ChangeRef{List: b.List, Kind: kindProcess, Instance: b.Process, ID: id})
	}
	if len(out.Changes) == 0 {
		return nil, last
	}
	after, err := c.forceEffect(ctx, l, req) // the state that is in force now
	if err != nil {
		return out, nil //nolint:nilerr // the change is made; the page asks again anyway
	}
	out.Circuits = after.Circuits
	return out, nil
}

// check returns an error for a request that can't be right.
func (req *ForceRequest) check() error {
	switch n := len(req.Breakers); {
	case n == 0 || n > maxForce:
		return tandem.Errorf(tandem.InvalidArgument, "%d breakers: want 1 to %d", n, maxForce)
	case req.State == "auto" && req.For == 0:
		return nil
	case req.State != "open" && req.State != "closed":
		return tandem.Errorf(tandem.InvalidArgument, "state %q: want open, closed, or auto without a time", req.State)
	case req.For <= 0 || req.For > longestForce:
		return tandem.Errorf(tandem.InvalidArgument, "a breaker is forced for up to %v, and not for %v", longestForce, req.For)
	}
	return nil
}

// forceOne forces one breaker, and returns the ID of the change in its process.
func (c *Console) forceOne(ctx context.Context, u User, b BreakerOf, req *ForceRequest) (string, error) {
	_, row, err := c.instanceRow(b.List, b.Process)
	if err != nil {
		return "", err
	}
	c.inner.drop(figureKey{b.List, b.Process})
	made, err := ask[admin.Change](ctx, c.asker, &row.Instance, "ForceBreaker", admin.BreakerRequest{
		Client: b.Client, Instance: b.Instance, State: req.State, For: req.For, Why: reasonOf(u, req.Why),
	})
	if err != nil {
		return "", err
	}
	return made.ID, nil
}

// reasonOf returns the reason of a change with the name of the user. Processes know the console
// only, not its users.
func reasonOf(u User, why string) string {
	if u.Name == "" {
		return why
	}
	return u.Name + ": " + why
}

// clientKey names a client in a process.
type clientKey struct {
	process figureKey
	client  string
}

// forceEffect returns the breakers that forcing would change, and the effect on their clients. It
// asks the processes again, not the cache.
func (c *Console) forceEffect(ctx context.Context, l *list, req *ForceRequest) (*Force, error) {
	chosen := map[clientKey][]string{} // instances
	var order []clientKey
	for _, b := range req.Breakers {
		k := clientKey{figureKey{b.List, b.Process}, b.Client}
		if !isTarget(b.Client, l) {
			return nil, tandem.Errorf(tandem.InvalidArgument, "the client %q does not call %s", b.Client, l.name)
		}
		if chosen[k] == nil {
			order = append(order, k)
		}
		chosen[k] = append(chosen[k], b.Instance)
	}
	var rows []InstanceRow
	for _, k := range order {
		_, row, err := c.instanceRow(k.process.list, k.process.id)
		if err != nil {
			return nil, err
		}
		c.inner.drop(k.process)
		rows = append(rows, *row)
	}
	out := &Force{Circuits: []Circuit{}, Empties: []string{}, Changes: []ChangeRef{}, Failures: []string{}, Left: -1}
	for i, in := range c.insides(ctx, rows) {
		if in.err != nil {
			return nil, tandem.Errorf(tandem.Unavailable, "%s: %v", in.row.ID, in.err)
		}
		if err := out.add(in, order[i].client, chosen[order[i]], req.State); err != nil {
			return nil, err
		}
	}
	if n := len(order); n > 0 {
		out.Share /= float64(n)
	}
	return out, nil
}

// add adds the effect on one client.
func (f *Force) add(in *inside, name string, ids []string, state string) error {
	i := slices.IndexFunc(in.clients, func(c admin.Client) bool { return c.Name == name })
	if i < 0 {
		return errNoBreaker(BreakerOf{Process: in.row.ID, Client: name, Instance: ids[0]})
	}
	left, found := 0, 0
	for _, ci := range in.circuits(&in.clients[i]) {
		is := slices.Contains(ids, ci.ID)
		if is {
			found++
			f.Circuits = append(f.Circuits, ci)
			f.Share += ci.Share
		}
		if ci.Unusable == "" && (!is || state != "open") {
			left++
		}
	}
	if found < len(ids) {
		return errNoBreaker(BreakerOf{Process: in.row.ID, Client: name, Instance: ids[0]})
	}
	if f.Left < 0 || left < f.Left {
		f.Left = left
	}
	if left == 0 && state == "open" {
		f.Empties = append(f.Empties, in.row.ID)
	}
	return nil
}

// undoProcess undoes a change in a process, and returns the change that this is.
func (c *Console) undoProcess(ctx context.Context, u User, ref *ChangeRef, why string) (*ChangeRef, error) {
	_, row, err := c.instanceRow(ref.List, ref.Instance)
	if err != nil {
		return nil, err
	}
	c.inner.drop(figureKey{ref.List, ref.Instance})
	c.trails.drop(figureKey{ref.List, ref.Instance})
	made, err := ask[admin.Change](ctx, c.asker, &row.Instance, "Undo", admin.UndoRequest{ID: ref.ID, Why: reasonOf(u, why)})
	switch {
	case tandem.CodeOf(err) == tandem.NotFound:
		return nil, tandem.Errorf(tandem.NotFound, "the process has no such change any more, or it has been undone")
	case err != nil:
		return nil, err
	}
	return &ChangeRef{List: ref.List, Kind: kindProcess, Instance: ref.Instance, ID: made.ID}, nil
}
