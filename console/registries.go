package console

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/admin"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/override"
	"github.com/tandem-rpc/tandem/policy"
	"github.com/tandem-rpc/tandem/registry"
	"github.com/tandem-rpc/tandem/registry/history"
)

// RegistryRequest is the request of Registry.
type RegistryRequest struct {
	List string `json:"list,omitempty"` // "" for the registries alone
}

// Registries are the registries of the console, and one list as its registry holds it.
type Registries struct {
	Sources []RegistryView `json:"sources"`
	List    *ListView      `json:"list,omitempty"`
}

// RegistryView is what a registry is, and what it can do.
type RegistryView struct {
	Source

	Kind      string            `json:"kind"`              // the scheme of its targets
	Address   string            `json:"address"`           // without credentials
	Path      string            `json:"path"`              // whose lists are shown
	Options   map[string]string `json:"options,omitempty"` // of the target, without secrets
	Directory bool              `json:"directory"`         // it says which lists there are
	Inspects  bool              `json:"inspects"`          // it says how entries are kept: keys and leases
	Writable  bool              `json:"writable"`          // documents can be written, and their history is kept
	Instances int               `json:"instances"`
	Failing   int               `json:"failing"` // lists that can't be read now
	Names     []string          `json:"names"`   // of its lists, at most maxNames
}

// ListView is a list as its registry holds it, beside what its clients see.
type ListView struct {
	List      string              `json:"list"`
	Source    string              `json:"source"`
	Kind      string              `json:"kind"`
	At        time.Time           `json:"at"`              // when the registry was read
	Error     string              `json:"error,omitempty"` // why it can't be read; the entries are the last that are known
	Entries   []Entry             `json:"entries"`         // sorted by ID; those that only clients know are among them
	Readers   []Reader            `json:"readers"`         // clients that say what they see
	Asked     int                 `json:"asked"`           // processes that were asked
	Processes int                 `json:"processes"`       // that might read the list
	Silent    int                 `json:"silent"`          // of those asked, how many did not answer
	Documents []DocumentView      `json:"documents"`
	Set       []override.Override `json:"set"` // in force
}

// Entry is an instance in the registry, or one that clients still know.
type Entry struct {
	tandem.Instance // as it is registered

	Listed    bool              `json:"listed"`
	State     State             `json:"state"`
	Why       string            `json:"why,omitempty"`
	Set       int               `json:"set"`                 // the weight in force
	Effective map[string]string `json:"effective,omitempty"` // the tags that clients see, if an operator has set some
	Held      *registry.Held    `json:"held,omitempty"`      // how the registry keeps it, if that can be known
	Seen      map[string]int    `json:"seen"`                // clients that know it, by what they think of it: ready, ejected, suspect, unconnected, unused, withheld
	Unseen    []string          `json:"unseen"`              // processes whose client does not know it, at most maxUnseen
	Missing   int               `json:"missing"`             // how many these are
}

// Reader is a client of the list.
type Reader struct {
	List     string                `json:"list"`
	Process  string                `json:"process"`
	Client   string                `json:"client"`
	Known    int                   `json:"known"`   // instances
	Missing  []string              `json:"missing"` // instances that are listed, and that it does not know; at most maxUnseen
	Extra    []string              `json:"extra"`   // instances that it knows, and that are not listed; at most maxUnseen
	Counts   client.InstanceCounts `json:"counts"`
	Listed   time.Time             `json:"listed,omitzero"` // when the registry last gave it the list
	Error    string                `json:"error,omitempty"` // why the registry fails for it
	Policy   string                `json:"policy,omitempty"`
	Override bool                  `json:"override"` // the same instances are withheld as the console sees
}

// DocumentView is a document beside the list.
type DocumentView struct {
	Kind     string    `json:"kind"` // overrides or policy
	Key      string    `json:"key"`
	Revision int       `json:"revision"` // 0 for none
	At       time.Time `json:"at,omitzero"`
	By       string    `json:"by,omitempty"`
	Why      string    `json:"why,omitempty"`
	Bytes    int       `json:"bytes"`
	Versions int       `json:"versions"` // that are kept
	Text     string    `json:"text"`     // at most maxDocText
	Cut      bool      `json:"cut,omitempty"`
	Error    string    `json:"error,omitempty"`
	Rollout  *Rollout  `json:"rollout,omitempty"`
}

// Bounds of the answer.
const (
	maxNames   = 2000
	maxUnseen  = 20
	maxDocText = 64 << 10
	readFor    = 2 * time.Second // how long what was read of a registry is good
	readTime   = 4 * time.Second
)

// listRead is a list as its registry had it at some time, with its documents.
type listRead struct {
	at        time.Time
	instances []tandem.Instance
	err       error
	held      []registry.Held
	documents []DocumentView
}

func (c *Console) registry(ctx context.Context, _ User, req *RegistryRequest) (*Registries, error) {
	out := &Registries{Sources: []RegistryView{}}
	for _, s := range c.sources {
		out.Sources = append(out.Sources, s.view())
	}
	if req.List == "" {
		return out, nil
	}
	l, err := c.list(req.List)
	if err != nil {
		return nil, err
	}
	out.List = c.listView(ctx, l)
	return out, nil
}

// view returns what the registry is. Its settings are those of the target.
func (s *source) view() RegistryView {
	v := RegistryView{Source: s.state(), Kind: s.target.Scheme, Directory: s.directory != nil, Names: []string{}}
	_, v.Inspects = s.resolver.(registry.Inspector)
	redacted, err := registry.ParseTarget(s.target.Redacted())
	if err != nil { // it was parsed before
		redacted = registry.Target{Scheme: s.target.Scheme}
	}
	v.Address, v.Path = redacted.Authority, redacted.Path
	for name, values := range redacted.Query {
		if v.Options == nil {
			v.Options = map[string]string{}
		}
		v.Options[name] = strings.Join(values, ", ")
	}
	if finder, ok := s.resolver.(registry.DocumentFinder); ok {
		if d, _, err := finder.DocumentsOf(s.target); err == nil {
			_, v.Writable = d.(registry.DocumentWriter)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, l := range s.lists {
		v.Names = append(v.Names, name)
		l.mu.Lock()
		v.Instances += len(l.instances)
		if l.stale != nil {
			v.Failing++
		}
		l.mu.Unlock()
		if _, ok := l.documents.(registry.DocumentWriter); ok {
			v.Writable = true
		}
	}
	slices.Sort(v.Names)
	v.Names = v.Names[:min(len(v.Names), maxNames)]
	return v
}

// listView compares a list with what its clients see.
func (c *Console) listView(ctx context.Context, l *list) *ListView {
	var read *listRead
	var known []*inside
	rows, _ := c.processes(l)
	all := len(rows)
	rows = rows[:min(all, lookAll)]
	var wg sync.WaitGroup
	wg.Go(func() { read = c.readList(ctx, l) })
	wg.Go(func() { known = c.insides(ctx, rows) })
	wg.Wait()

	l.mu.Lock()
	set := l.set
	instances := read.instances
	if read.err != nil {
		instances = l.instances
	}
	l.mu.Unlock()
	out := &ListView{
		List: l.name, Source: l.source.target.Redacted(), Kind: l.target.Scheme, At: read.at, Documents: read.documents,
		Asked: len(rows), Processes: all, Readers: []Reader{}, Entries: []Entry{}, Set: append([]override.Override{}, set.Set...),
	}
	if read.err != nil {
		out.Error = short(read.err)
	}
	entries := entriesOf(rowsOf(l.name, instances, set, read.at), instances, set, read.at)
	for i := range read.held {
		if e := entries[read.held[i].ID]; e != nil {
			e.Held = &read.held[i]
		}
	}
	for _, in := range known {
		if in.err != nil {
			out.Silent++
		}
		for i := range in.clients {
			if isTarget(in.clients[i].Name, l) && in.clients[i].Explanation != nil {
				out.Readers = append(out.Readers, readerOf(in, &in.clients[i], entries))
			}
		}
	}
	for _, id := range slices.Sorted(maps.Keys(entries)) {
		out.Entries = append(out.Entries, *entries[id])
	}
	return out
}

// entriesOf returns the entries of the registry by ID, with what operators have set.
func entriesOf(rows []InstanceRow, registered []tandem.Instance, set *override.Overrides, now time.Time) map[string]*Entry {
	by := make(map[string]*Entry, len(rows))
	for i := range rows {
		r := &rows[i]
		by[r.ID] = &Entry{Listed: true, State: r.State, Why: r.Why, Set: r.Set, Seen: map[string]int{}, Unseen: []string{}}
	}
	effect := set.Apply(registered, now)
	for i := range registered {
		in := &registered[i]
		by[in.ID].Instance, by[in.ID].Effective = *in, effect.Tags[in.ID]
	}
	return by
}

// readerOf compares what a client knows with the entries, and notes in these who knows them.
func readerOf(in *inside, of *admin.Client, entries map[string]*Entry) Reader {
	r := Reader{
		List: in.row.List, Process: in.row.ID, Client: of.Name, Missing: []string{}, Extra: []string{}, Counts: of.State.Instances,
		Listed: of.State.Listed, Error: of.State.RegistryError, Policy: of.State.Policy.InForce, Override: true,
	}
	knows := map[string]bool{}
	for _, s := range instancesOf(of) {
		knows[s.ID] = true
		e := entries[s.ID]
		if e == nil {
			e = &Entry{Instance: tandem.Instance{ID: s.ID}, State: "gone", Seen: map[string]int{}, Unseen: []string{}}
			entries[s.ID] = e
		}
		if !e.Listed && len(r.Extra) < maxUnseen {
			r.Extra = append(r.Extra, s.ID)
		}
		thinks := thinksOf(&s)
		e.Seen[thinks]++
		if e.Listed && (thinks == "withheld") != (e.State != State(override.Enabled)) {
			r.Override = false
		}
	}
	r.Known = len(knows)
	for _, id := range slices.Sorted(maps.Keys(entries)) {
		e := entries[id]
		if knows[id] || !e.Listed {
			continue
		}
		if e.Missing++; len(e.Unseen) < maxUnseen {
			e.Unseen = append(e.Unseen, in.row.ID)
		}
		if len(r.Missing) < maxUnseen {
			r.Missing = append(r.Missing, id)
		}
	}
	return r
}

// thinksOf returns in a word what a client thinks of an instance.
func thinksOf(s *client.InstanceState) string {
	switch {
	case s.Suspect != "" || strings.HasPrefix(s.Unusable, "suspect"):
		return "suspect"
	case s.Breaker == "open":
		return "ejected"
	case s.Unusable == "":
		return "ready"
	case strings.HasPrefix(s.Unusable, "not connected"):
		return "unconnected"
	case strings.HasPrefix(s.Unusable, "not in this client"):
		return "unused"
	}
	return "withheld"
}

// readList reads a list and its documents from the registry, rather than what was followed so far.
func (c *Console) readList(ctx context.Context, l *list) *listRead {
	key := figureKey{list: l.name}
	if r, ok := c.reads.get(key, readFor); ok {
		return r
	}
	ctx, cancel := context.WithTimeout(ctx, readTime)
	defer cancel()
	r := &listRead{at: time.Now(), documents: []DocumentView{}}
	var wg sync.WaitGroup
	wg.Go(func() { r.instances, r.err = registry.List(ctx, l.source.resolver, l.target) })
	if inspector, ok := l.source.resolver.(registry.Inspector); ok {
		wg.Go(func() {
			held, err := inspector.Inspect(ctx, l.target)
			if err != nil {
				c.cfg.Log.Debug("how entries are kept is not known", "list", l.name, "error", err)
			}
			r.held = held
		})
	}
	wg.Go(func() {
		for _, kind := range []string{kindOverrides, kindPolicy} {
			if s, err := c.storeOf(l, kind); err == nil {
				r.documents = append(r.documents, documentView(ctx, l, kind, s))
			}
		}
	})
	wg.Wait()
	c.reads.put(key, r)
	return r
}

// documentView returns a document with its latest change.
func documentView(ctx context.Context, l *list, kind string, s history.Store) DocumentView {
	d := DocumentView{Kind: kind, Key: s.Key}
	versions, err := s.Versions(ctx)
	if err != nil {
		d.Error = short(err)
		return d
	}
	d.Versions = len(versions)
	if len(versions) == 0 {
		return d
	}
	now := versions[len(versions)-1]
	d.Revision, d.At, d.By, d.Why, d.Text, d.Bytes = now.Revision, now.At, now.By, now.Why, now.Text, len(now.Text)
	if len(d.Text) > maxDocText {
		d.Text, d.Cut = strings.ToValidUTF8(d.Text[:maxDocText], ""), true
	}
	if now.Text == "" {
		return d
	}
	if kind == kindPolicy {
		if _, err := policy.Parse([]byte(now.Text)); err != nil {
			d.Error = short(err)
		}
		d.Rollout = rolloutOf(ctx, l, s.Key, []byte(now.Text))
		return d
	}
	if _, err := override.Parse([]byte(now.Text)); err != nil {
		d.Error = short(err)
	}
	d.Rollout, err = overridesRollout(ctx, l)
	if err != nil && d.Error == "" && !errors.Is(err, context.Canceled) {
		d.Error = short(err)
	}
	return d
}

// overridesRollout returns how far clients have taken up the overrides of a list.
func overridesRollout(ctx context.Context, l *list) (*Rollout, error) {
	e, err := l.editor()
	if err != nil {
		return nil, err
	}
	r, err := e.Rollout(ctx)
	if err != nil {
		return nil, err
	}
	v, err := strconv.Atoi(r.Version)
	if err != nil || v == 0 {
		return nil, err
	}
	return &Rollout{
		List: l.name, Kind: kindOverrides, Version: r.Version, Applied: len(r.Applied), Pending: len(r.Pending), Refused: len(r.Refused), Text: r.String(),
	}, nil
}
