package console

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/admin"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/server"
)

// ResilienceRequest is the request of Resilience.
type ResilienceRequest struct {
	List string `json:"list,omitempty"` // "" for an overview of all lists
}

// Resilience is the state of breakers, ejections, budgets and limiters: of all lists in figures, or
// of one list in detail.
type Resilience struct {
	At        time.Time         `json:"at"`
	Processes int               `json:"processes"` // with an admin API that might know something of it
	Asked     int               `json:"asked"`     // of these, how many were asked
	Silent    int               `json:"silent"`    // of those asked, how many did not answer
	Lists     []ResilienceRow   `json:"lists"`     // without a List in the request; those in trouble first
	Circuits  []Circuit         `json:"circuits"`  // what each client knows of each instance; those in trouble first
	Cut       int               `json:"cut"`       // further circuits
	Clients   []ResilientClient `json:"clients"`   // of the list
	Limiters  []Limiter         `json:"limiters"`  // of the list's servers
}

// ResilienceRow is a list in the overview.
type ResilienceRow struct {
	List           string  `json:"list"`
	Clients        int     `json:"clients"`
	Instances      int     `json:"instances"`
	Open           int     `json:"open"`     // breakers of instances that are open, all clients together
	HalfOpen       int     `json:"halfOpen"` // the same, half open
	Forced         int     `json:"forced"`   // breakers that operators keep open or closed
	Methods        int     `json:"methods"`  // breakers of methods that are open or half open
	Suspect        int     `json:"suspect"`
	Panicking      int     `json:"panicking"` // clients
	Spent          int     `json:"spent"`     // clients whose retry budget is below one retry
	RetriesRefused uint64  `json:"retriesRefused"`
	Guarding       int     `json:"guarding"` // servers whose overload control is at work
	Refused        uint64  `json:"refused"`  // requests that the servers have refused
	Trouble        float64 `json:"trouble"`  // more is worse; 0 for none
}

// Circuit is what a client in some process knows of an instance that it may call.
type Circuit struct {
	client.InstanceState

	List     string  `json:"list"`    // where the client's process is listed
	Process  string  `json:"process"` // ID of the process
	Client   string  `json:"client"`  // name of the client in its process
	Share    float64 `json:"share"`   // of the client's calls so far that went to the instance, 0 to 1
	ForcedBy string  `json:"forcedBy,omitempty"`
	Reason   string  `json:"reason,omitempty"` // given by the operator who forced it
}

// ResilientClient is a client of a list.
type ResilientClient struct {
	List      string       `json:"list"`
	Process   string       `json:"process"`
	Client    string       `json:"client"`
	Rate      float64      `json:"rate"`
	ErrorRate float64      `json:"errorRate"`
	State     client.State `json:"state"`
}

// Limiter is one limit of a server: of running calls, of a method, or of overload control.
type Limiter struct {
	Instance string                   `json:"instance"`
	Kind     string                   `json:"kind"`             // concurrency, method or overload
	Method   string                   `json:"method,omitempty"` // for the kind method
	Guarding bool                     `json:"guarding,omitempty"`
	Running  int64                    `json:"running"`
	Limit    int64                    `json:"limit"` // 0 while there is none
	Waiting  int                      `json:"waiting"`
	Queue    int                      `json:"queue,omitempty"` // how many may wait; 0 if that depends
	Refused  uint64                   `json:"refused"`
	Reasons  *server.OverloadRefusals `json:"reasons,omitempty"` // of Refused, for the kind overload
}

const (
	maxCircuits       = 2000
	maxResilienceRows = 1000
)

// instancesOf returns what a client knows of its instances.
func instancesOf(c *admin.Client) []client.InstanceState {
	if c.Explanation == nil || len(c.Explanation.Attempts) == 0 {
		return nil
	}
	return c.Explanation.Attempts[0].Instances
}

func (c *Console) resilience(ctx context.Context, _ User, req *ResilienceRequest) (*Resilience, error) {
	out := &Resilience{At: time.Now(), Lists: []ResilienceRow{}, Circuits: []Circuit{}, Clients: []ResilientClient{}, Limiters: []Limiter{}}
	var of *list
	if req.List != "" {
		l, err := c.list(req.List)
		if err != nil {
			return nil, err
		}
		of = l
	}
	rows, _ := c.processes(of)
	all := len(rows)
	rows = rows[:min(all, lookAll)]
	out.Processes, out.Asked = all, len(rows)
	known := c.insides(ctx, rows)
	for _, in := range known {
		if in.err != nil {
			out.Silent++
		}
	}
	if of == nil {
		out.Lists = c.resilienceRows(known)
		return out, nil
	}
	for _, in := range known {
		if in.row.List == of.name {
			out.Limiters = append(out.Limiters, limitersOf(in)...)
		}
		for i := range in.clients {
			if isTarget(in.clients[i].Name, of) {
				out.Circuits = append(out.Circuits, in.circuits(&in.clients[i])...)
				out.Clients = append(out.Clients, c.resilientClient(in, &in.clients[i]))
			}
		}
	}
	slices.SortStableFunc(out.Circuits, func(a, b Circuit) int {
		return cmp.Or(cmp.Compare(b.trouble(), a.trouble()), strings.Compare(a.ID, b.ID), strings.Compare(a.Process, b.Process))
	})
	out.Cut = max(0, len(out.Circuits)-maxCircuits)
	out.Circuits = out.Circuits[:min(len(out.Circuits), maxCircuits)]
	return out, nil
}

// circuits returns what a client of the process knows of each instance.
func (in *inside) circuits(of *admin.Client) []Circuit {
	states := instancesOf(of)
	var all uint64
	for i := range states {
		all += states[i].Calls
	}
	out := make([]Circuit, 0, len(states))
	for i := range states {
		ci := Circuit{InstanceState: states[i], List: in.row.List, Process: in.row.ID, Client: of.Name}
		if all > 0 {
			ci.Share = float64(ci.Calls) / float64(all)
		}
		if !ci.Forced.IsZero() {
			if change := in.forceOf(of.Name, ci.ID); change != nil {
				ci.ForcedBy, ci.Reason = change.By, change.Why
			}
		}
		out = append(out, ci)
	}
	return out
}

// trouble says how much a circuit needs a look: the larger, the sooner.
func (ci *Circuit) trouble() int {
	switch {
	case !ci.Forced.IsZero():
		return 6
	case ci.Breaker == "open":
		return 5
	case ci.Breaker == "half-open":
		return 4
	case ci.Suspect != "":
		return 3
	case ci.Throttle > 0:
		return 2
	case ci.Unusable != "":
		return 1
	}
	return 0
}

func (c *Console) resilientClient(in *inside, of *admin.Client) ResilientClient {
	out := ResilientClient{List: in.row.List, Process: in.row.ID, Client: of.Name, State: of.State}
	if s := c.figures.get(figureKey{in.row.List, in.row.ID}); s != nil {
		sum := admin.Sum(s.clients[of.Name]...)
		out.Rate, out.ErrorRate = sum.Rate, sum.ErrorRate
	}
	return out
}

// limitersOf returns the limits of the servers of a process.
func limitersOf(in *inside) (out []Limiter) {
	if in.limits == nil {
		return nil
	}
	for _, l := range in.limits.Limits {
		kind := "concurrency"
		if l.Method != "" {
			kind = "method"
		}
		out = append(out, Limiter{
			Instance: in.row.ID, Kind: kind, Method: l.Method, Running: int64(l.Running), Limit: int64(l.Limit), Waiting: l.Queued, Queue: l.Queue, Refused: l.Refused,
		})
	}
	for i := range in.limits.Overload {
		o := &in.limits.Overload[i]
		if !o.Guarding && o.Slots == 0 && o.Running == 0 && refusals(o) == 0 && len(o.Methods) == 0 {
			continue // the server has no overload control, or had no request yet
		}
		reasons := o.Refused
		out = append(out, Limiter{
			Instance: in.row.ID, Kind: "overload", Guarding: o.Guarding, Running: o.Running, Limit: o.Slots, Waiting: o.Waiting, Refused: refusals(o), Reasons: &reasons,
		})
	}
	return out
}

func refusals(o *server.OverloadState) uint64 {
	return o.Refused.Late + o.Refused.Expired + o.Refused.Full + o.Refused.Streams
}

// resilienceRows adds up what processes know, by list.
func (c *Console) resilienceRows(known []*inside) []ResilienceRow {
	byTarget, rows := c.listsByTarget(), map[*list]*ResilienceRow{}
	byName := map[string]*list{}
	for _, l := range byTarget {
		byName[l.name] = l
		l.mu.Lock()
		rows[l] = &ResilienceRow{List: l.name, Instances: len(l.instances)}
		l.mu.Unlock()
	}
	for _, in := range known {
		if l := byName[in.row.List]; l != nil {
			rows[l].addServer(limitersOf(in))
		}
		for i := range in.clients {
			if l := byTarget[bare(in.clients[i].Name)]; l != nil {
				rows[l].addClient(&in.clients[i])
			}
		}
	}
	out := make([]ResilienceRow, 0, len(rows))
	for _, r := range rows {
		r.Trouble = float64(4*r.Panicking+3*(r.Open+r.Forced)+2*(r.HalfOpen+r.Methods+r.Guarding)+r.Suspect+r.Spent) + min(0.5, float64(r.Refused))
		out = append(out, *r)
	}
	slices.SortFunc(out, func(a, b ResilienceRow) int {
		return cmp.Or(cmp.Compare(b.Trouble, a.Trouble), strings.Compare(a.List, b.List))
	})
	return out[:min(len(out), maxResilienceRows)]
}

func (r *ResilienceRow) addServer(limiters []Limiter) {
	for i := range limiters {
		r.Refused += limiters[i].Refused
		if limiters[i].Guarding {
			r.Guarding++
		}
	}
}

func (r *ResilienceRow) addClient(c *admin.Client) {
	r.Clients++
	for _, s := range instancesOf(c) {
		switch {
		case !s.Forced.IsZero():
			r.Forced++
		case s.Breaker == "open":
			r.Open++
		case s.Breaker == "half-open":
			r.HalfOpen++
		}
		if s.Suspect != "" {
			r.Suspect++
		}
	}
	for _, b := range c.State.Breakers {
		r.Methods += b.Open + b.HalfOpen
	}
	if c.State.Panicking {
		r.Panicking++
	}
	if c.State.RetryBudget < 1 {
		r.Spent++
	}
	r.RetriesRefused += c.State.RetriesRefused
}

// errNoBreaker is the error for a breaker that a process does not have.
func errNoBreaker(b BreakerOf) error {
	return tandem.Errorf(tandem.NotFound, "the client %q of %s knows no instance %q", b.Client, b.Process, b.Instance)
}
