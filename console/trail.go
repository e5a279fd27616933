package console

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/admin"
	"github.com/tandem-rpc/tandem/override"
	"github.com/tandem-rpc/tandem/policy"
	"github.com/tandem-rpc/tandem/registry/history"
)

// AuditRequest is the request of Audit. All that is set must match.
type AuditRequest struct {
	List   string    `json:"list,omitempty"`
	Who    string    `json:"who,omitempty"`  // a part of the name
	Kind   string    `json:"kind,omitempty"` // overrides, policy, process or console
	Text   string    `json:"text,omitempty"` // words that must all be in the row
	From   time.Time `json:"from,omitzero"`
	To     time.Time `json:"to,omitzero"`
	Offset int       `json:"offset,omitempty"`
	Max    int       `json:"max,omitempty"` // rows; 0 for 100, at most 500
}

// Audit is what was changed, the latest first.
type Audit struct {
	Rows    []AuditRow `json:"rows"`
	Total   int        `json:"total"`   // rows that match
	Who     []string   `json:"who"`     // who occurs, for a choice
	Unread  []string   `json:"unread"`  // lists and processes that could not be read, and why; at most 20
	Skipped int        `json:"skipped"` // lists and processes beyond what is read at once: choose a list
	Own     bool       `json:"own"`     // with the console's own log, which needs the role operator
}

// AuditRow is a change, or an attempt at one.
type AuditRow struct {
	ChangeRef

	Key    string    `json:"key"` // unique among the rows
	At     time.Time `json:"at"`
	By     string    `json:"by"`
	What   string    `json:"what"`
	Why    string    `json:"why,omitempty"`
	Before string    `json:"before,omitempty"` // of a change in a process
	After  string    `json:"after,omitempty"`
	From   string    `json:"from,omitempty"`  // address, for the console's own log
	Error  string    `json:"error,omitempty"` // why it was refused, or failed
	Count  int       `json:"count,omitempty"` // how often the same was refused
	Undo   bool      `json:"undo,omitempty"`  // it can be undone
	Undone bool      `json:"undone,omitempty"`
}

// kindProcess and kindConsole are further kinds of changes.
const (
	kindProcess = "process"
	kindConsole = "console"
)

// Bounds of what one look at the audit reads.
const (
	trailFor   = 4 * time.Second // how long what was read is good
	maxTrails  = 200             // lists
	trailTime  = 5 * time.Second
	trailLanes = 16 // lists that are read at a time
	usualRows  = 100
	mostRows   = 500
	maxUnread  = 20
)

// trail is what a list, or a process, says of its changes.
type trail struct {
	rows []AuditRow
	err  error
}

func (c *Console) auditTrail(ctx context.Context, u User, req *AuditRequest) (*Audit, error) {
	if req.Offset < 0 || req.Max < 0 || req.Max > mostRows {
		return nil, tandem.Errorf(tandem.InvalidArgument, "offset %d, max %d: want a page of 1 to %d rows", req.Offset, req.Max, mostRows)
	}
	lists := c.lists()
	if req.List != "" {
		l, err := c.list(req.List)
		if err != nil {
			return nil, err
		}
		lists = []*list{l}
	}
	out := &Audit{Rows: []AuditRow{}, Who: []string{}, Unread: []string{}, Own: u.Role >= admin.Operator || c.cfg.Authorizer == nil}
	rows := c.gather(ctx, lists, req.Kind, out)
	if out.Own {
		rows = append(rows, c.ownRows(rows, req.List)...)
	}
	by := map[string]bool{}
	for i := range rows {
		note(by, rows[i].By)
	}
	out.Who = append(out.Who, slices.Sorted(maps.Keys(by))[:min(len(by), 100)]...)
	rows = slices.DeleteFunc(rows, func(r AuditRow) bool { return !req.matches(&r) })
	slices.SortStableFunc(rows, func(a, b AuditRow) int { return cmp.Or(b.At.Compare(a.At), strings.Compare(a.Key, b.Key)) })
	out.Total = len(rows)
	from := min(req.Offset, len(rows))
	out.Rows = append(out.Rows, rows[from:min(len(rows), from+cmp.Or(req.Max, usualRows))]...)
	return out, nil
}

func (req *AuditRequest) matches(r *AuditRow) bool {
	switch {
	case req.List != "" && r.List != req.List,
		req.Kind != "" && r.Kind != req.Kind,
		!req.From.IsZero() && r.At.Before(req.From),
		!req.To.IsZero() && r.At.After(req.To),
		!strings.Contains(strings.ToLower(r.By), strings.ToLower(req.Who)):
		return false
	}
	text := strings.ToLower(strings.Join([]string{r.List, r.Instance, r.By, r.What, r.Why, r.Before, r.After, r.Error, r.From}, "\n"))
	for w := range strings.FieldsSeq(strings.ToLower(req.Text)) {
		if !strings.Contains(text, w) {
			return false
		}
	}
	return true
}

// gather reads what lists and their processes say of changes.
func (c *Console) gather(ctx context.Context, lists []*list, kind string, out *Audit) []AuditRow {
	ctx, cancel := context.WithTimeout(ctx, trailTime)
	defer cancel()
	var jobs []func() *trail
	if kind != kindProcess && kind != kindConsole {
		out.Skipped += max(0, len(lists)-maxTrails)
		for _, l := range lists[:min(len(lists), maxTrails)] {
			jobs = append(jobs, func() *trail { return c.trailOfList(ctx, l) })
		}
	}
	asked := 0
	for _, l := range lists {
		if kind != kindProcess && kind != "" {
			break
		}
		for _, r := range l.rows() {
			if !answers(&r.Instance) {
				continue
			}
			if asked++; asked > lookAll {
				out.Skipped++
				continue
			}
			jobs = append(jobs, func() *trail { return c.trailOfProcess(ctx, &r) })
		}
	}
	trails := inLanes(jobs, trailLanes)
	var rows []AuditRow
	for _, t := range trails {
		rows = append(rows, t.rows...)
		if t.err != nil && len(out.Unread) < maxUnread {
			out.Unread = append(out.Unread, short(t.err))
		}
	}
	slices.Sort(out.Unread)
	return rows
}

// inLanes runs jobs, some at a time, and returns their results in order.
func inLanes[V any](jobs []func() V, lanes int) []V {
	out, next := make([]V, len(jobs)), make(chan int)
	var wg sync.WaitGroup
	for range min(lanes, len(jobs)) {
		wg.Go(func() {
			for i := range next {
				out[i] = jobs[i]()
			}
		})
	}
	for i := range jobs {
		next <- i
	}
	close(next)
	wg.Wait()
	return out
}

// trailOfList returns the history of a list's documents.
func (c *Console) trailOfList(ctx context.Context, l *list) *trail {
	key := figureKey{list: l.name}
	if t, ok := c.trails.get(key, trailFor); ok {
		return t
	}
	t := new(trail)
	for _, kind := range []string{kindOverrides, kindPolicy} {
		s, err := c.storeOf(l, kind)
		if err != nil {
			break // the registry keeps no documents, which the registry screen says
		}
		versions, err := s.Versions(ctx)
		if err != nil {
			t.err = fmt.Errorf("%s: %w", l.name, err)
			break
		}
		for i, v := range versions {
			t.rows = append(t.rows, AuditRow{
				ChangeRef: ChangeRef{List: l.name, Kind: kind, Revision: strconv.Itoa(v.Revision)}, Key: l.name + kind + strconv.Itoa(v.Revision),
				At: v.At, By: v.By, Why: v.Why, What: whatOf(kind, v.Text), Undo: i == len(versions)-1 && (i == 0 || versions[i-1].Omitted == ""),
			})
		}
	}
	c.trails.put(key, t)
	return t
}

// storeOf returns the document of a list's overrides, or of the policy at the usual key.
func (c *Console) storeOf(l *list, kind string) (history.Store, error) {
	switch kind {
	case kindOverrides:
		e, err := l.editor()
		if err != nil {
			return history.Store{}, err
		}
		return e.Store, nil
	case kindPolicy:
		_, s, err := c.policyStore(l.name, "")
		return s, err
	}
	return history.Store{}, tandem.Errorf(tandem.InvalidArgument, "kind %q: want %s or %s", kind, kindOverrides, kindPolicy)
}

// whatOf says in a line what a version sets.
func whatOf(kind, text string) string {
	if text == "" {
		return "deleted"
	}
	if kind == kindPolicy {
		p, err := policy.Parse([]byte(text))
		if err != nil {
			return "not a valid policy: " + short(err)
		}
		return fmt.Sprintf("policy of %d methods", len(p.Methods))
	}
	o, err := override.Parse([]byte(text))
	switch {
	case err != nil:
		return "not valid: " + short(err)
	case len(o.Set) == 0:
		return "nothing is set any more"
	}
	return cut(describeSet(o.Set))
}

// trailOfProcess returns what operators have changed in a process.
func (c *Console) trailOfProcess(ctx context.Context, row *InstanceRow) *trail {
	key := figureKey{row.List, row.ID}
	if t, ok := c.trails.get(key, trailFor); ok {
		return t
	}
	t := new(trail)
	changes, err := ask[admin.Changes](ctx, c.asker, &row.Instance, "Changes", admin.ChangesRequest{Max: 1000})
	if err != nil {
		t.err = fmt.Errorf("%s: %w", row.ID, err)
	} else {
		undo := map[string]bool{} // IDs of changes that undo others: they can't be undone
		for i := range changes.Changes {
			note(undo, changes.Changes[i].UndoneBy)
		}
		for i := range changes.Changes {
			ch := &changes.Changes[i]
			t.rows = append(t.rows, AuditRow{
				ChangeRef: ChangeRef{List: row.List, Kind: kindProcess, Instance: row.ID, ID: ch.ID}, Key: row.List + row.ID + "#" + ch.ID,
				At: ch.At, By: ch.By, What: ch.What, Why: ch.Why, Before: ch.Before, After: ch.After, Undone: ch.UndoneBy != "", Undo: ch.UndoneBy == "" && !undo[ch.ID],
			})
		}
	}
	c.trails.put(key, t)
	return t
}

// ownRows returns the console's own records, but those of changes that are among rows. In these it
// fills in who made them, as processes know the console only.
func (c *Console) ownRows(rows []AuditRow, name string) (own []AuditRow) {
	at := make(map[ChangeRef]int, len(rows))
	for i := range rows {
		at[rows[i].ChangeRef] = i
	}
	for n, r := range c.audit.records() {
		known := false
		for _, ref := range r.Changes {
			i, ok := at[ref]
			if !ok {
				continue
			}
			known = true
			if rows[i].Kind == kindProcess {
				rows[i].By, rows[i].From = cmp.Or(r.Who, rows[i].By), r.From
				rows[i].Why = strings.TrimPrefix(rows[i].Why, r.Who+": ")
			}
		}
		if known && r.Error == "" || name != "" && r.List != name {
			continue
		}
		own = append(own, AuditRow{
			ChangeRef: ChangeRef{List: r.List, Kind: kindConsole}, Key: "own" + strconv.Itoa(n) + r.At.String(),
			At: r.At, By: r.Who, What: r.What, Why: r.Why, From: r.From, Error: r.Error, Count: r.Count,
		})
	}
	return own
}

// DetailRequest is the request of Detail.
type DetailRequest struct {
	ChangeRef
}

// Detail is a document before and after a change.
type Detail struct {
	Before string `json:"before"`
	After  string `json:"after"`
	Base   string `json:"base"` // the revision before; "" if there was none
}

// detail returns what a revision has changed.
func (c *Console) detail(ctx context.Context, _ User, req *DetailRequest) (*Detail, error) {
	l, err := c.list(req.List)
	if err != nil {
		return nil, err
	}
	s, err := c.storeOf(l, req.Kind)
	if err != nil {
		return nil, err
	}
	versions, err := s.Versions(ctx)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(versions, func(v history.Version) bool { return strconv.Itoa(v.Revision) == req.Revision })
	if i < 0 {
		return nil, tandem.Errorf(tandem.NotFound, "revision %s of %s is not kept any more", req.Revision, s.Key)
	}
	out := &Detail{After: plain(req.Kind, versions[i])}
	if i > 0 {
		out.Before, out.Base = plain(req.Kind, versions[i-1]), strconv.Itoa(versions[i-1].Revision)
	}
	return out, nil
}

// plain returns the text of a version without the change that it holds.
func plain(kind string, v history.Version) string {
	var of any
	switch {
	case v.Omitted != "":
		return "too large to be kept; its SHA-256 is " + v.Omitted
	case v.Text == "":
		return ""
	case kind == kindPolicy:
		p, err := policy.Parse([]byte(v.Text))
		if err != nil {
			return v.Text
		}
		p.Change = nil
		of = p
	default:
		o, err := override.Parse([]byte(v.Text))
		if err != nil {
			return v.Text
		}
		of = o.Set
	}
	text, err := json.MarshalIndent(of, "", "  ")
	if err != nil {
		return v.Text
	}
	return string(text)
}

// UndoRequest is the request of Undo.
type UndoRequest struct {
	Changes []ChangeRef `json:"changes"`
	Why     string      `json:"why"`
}

// list returns the list of the changes, "" if there are several.
func (req *UndoRequest) list() string {
	if len(req.Changes) == 0 || slices.ContainsFunc(req.Changes, func(r ChangeRef) bool { return r.List != req.Changes[0].List }) {
		return ""
	}
	return req.Changes[0].List
}

// String names what is undone.
func (req *UndoRequest) String() string {
	var texts []string
	for i, r := range req.Changes {
		if i == 5 {
			return strings.Join(texts, ", ") + fmt.Sprintf(" and %d more", len(req.Changes)-i)
		}
		if r.Kind == kindProcess {
			texts = append(texts, "change "+r.ID+" at "+r.Instance)
		} else {
			texts = append(texts, "revision "+r.Revision+" of the "+r.Kind)
		}
	}
	return strings.Join(texts, ", ")
}

// Undone says what an UndoRequest has done.
type Undone struct {
	Changes  []ChangeRef `json:"changes"` // that the undo has made
	Failures []string    `json:"failures"`
}

// undo undoes changes: a document becomes what it was before, unless it has been changed since.
func (c *Console) undo(ctx context.Context, u User, req *UndoRequest) (*Undone, error) {
	if n := len(req.Changes); n == 0 || n > maxForce {
		return nil, tandem.Errorf(tandem.InvalidArgument, "%d changes: want 1 to %d", n, maxForce)
	}
	out := &Undone{Changes: []ChangeRef{}, Failures: []string{}}
	var last error
	for i := range req.Changes {
		ref := &req.Changes[i]
		var made *ChangeRef
		var err error
		if ref.Kind == kindProcess {
			made, err = c.undoProcess(ctx, u, ref, req.Why)
		} else {
			made, err = c.undoDocument(ctx, u, ref, req.Why)
		}
		if err != nil {
			last = err
			out.Failures = append(out.Failures, fmt.Sprintf("%s: %s", cmp.Or(ref.Instance, ref.Kind+" "+ref.Revision), short(err)))
			continue
		}
		out.Changes = append(out.Changes, *made)
	}
	if len(out.Changes) == 0 {
		return nil, last
	}
	return out, nil
}

// undoDocument makes the revision before the one in force again.
func (c *Console) undoDocument(ctx context.Context, u User, ref *ChangeRef, why string) (*ChangeRef, error) {
	l, err := c.list(ref.List)
	if err != nil {
		return nil, err
	}
	s, err := c.storeOf(l, ref.Kind)
	if err != nil {
		return nil, err
	}
	versions, err := s.Versions(ctx)
	if err != nil {
		return nil, err
	}
	n := len(versions)
	if n == 0 || strconv.Itoa(versions[n-1].Revision) != ref.Revision {
		return nil, tandem.Errorf(tandem.Aborted, "%v", errAlready)
	}
	before := history.Version{}
	if n > 1 {
		before = versions[n-2]
	}
	change := policy.Change{By: u.Name, Why: why}
	var revision int
	switch {
	case before.Omitted != "":
		return nil, tandem.Errorf(tandem.FailedPrecondition, "revision %d was too large to be kept", before.Revision)
	case ref.Kind == kindOverrides:
		revision, err = c.undoOverrides(ctx, l, change, before)
	default:
		revision, err = undoPolicy(ctx, s, change, before, versions[n-1].Revision)
	}
	if err != nil {
		return nil, err
	}
	return &ChangeRef{List: l.name, Kind: ref.Kind, Revision: strconv.Itoa(revision)}, nil
}

// undoOverrides restores overrides, or ends all of them if there were none before.
func (*Console) undoOverrides(ctx context.Context, l *list, change policy.Change, before history.Version) (int, error) {
	e, err := l.editor()
	if err != nil {
		return 0, err
	}
	r := override.Request{By: change.By, Why: change.Why}
	var made *override.Overrides
	if before.Revision > 0 {
		made, err = e.Restore(ctx, r, before.Revision)
	} else {
		now, readErr := e.Read(ctx)
		if readErr != nil {
			return 0, readErr
		}
		made, err = e.Clear(ctx, r, now.Set...)
	}
	if err != nil {
		return 0, err
	}
	return made.Change.Revision, nil
}

// undoPolicy restores a policy, or deletes the document if there was none before. The revision is
// the one that must be in force.
func undoPolicy(ctx context.Context, s history.Store, change policy.Change, before history.Version, revision int) (int, error) {
	made, err := s.Edit(ctx, change, func(now history.Version, ch policy.Change) ([]byte, error) {
		if now.Revision != revision {
			return nil, errAlready
		}
		if before.Text == "" {
			return nil, nil
		}
		p, err := policy.Parse([]byte(before.Text))
		if err != nil {
			return nil, fmt.Errorf("revision %d is not a valid policy: %w", before.Revision, err)
		}
		p.Change = &ch
		return json.MarshalIndent(p, "", "  ")
	})
	if errors.Is(err, errAlready) {
		return 0, tandem.Errorf(tandem.Aborted, "%v", errAlready)
	}
	return made.Revision, err
}
