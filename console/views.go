package console

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/admin"
	"github.com/tandem-rpc/tandem/override"
)

func serviceOf(method string) string {
	if ext := path.Ext(method); ext != "" { // the last dot and what follows
		return method[:len(method)-len(ext)]
	}
	return method
}

// serviceRows returns a row for each service of each list. They share the rows of instances.
func (c *Console) serviceRows() (rows []ServiceRow) {
	for _, l := range c.lists() {
		instances := l.rows()
		of := map[string][]InstanceRow{}
		for i := range instances {
			services := slices.DeleteFunc(slices.Clone(instances[i].Services), isOwn)
			if len(services) == 0 {
				services = []string{path.Base(l.target.Path)} // the registry does not say
			}
			for _, s := range services {
				of[s] = append(of[s], instances[i])
			}
		}
		l.mu.Lock()
		set := len(l.set.Set)
		l.mu.Unlock()
		for service, in := range of {
			row := c.serviceRow(l, service, in)
			row.Overrides = set
			rows = append(rows, row)
		}
	}
	slices.SortFunc(rows, func(a, b ServiceRow) int {
		return cmp.Or(strings.Compare(a.Service, b.Service), strings.Compare(a.List, b.List))
	})
	return rows
}

// isOwn reports whether a service is tandem's, and not the user's.
func isOwn(service string) bool { return service == admin.Service }

func (c *Console) serviceRow(l *list, service string, in []InstanceRow) ServiceRow {
	c.addFigures(in, service)
	row := ServiceRow{Source: l.source.target.Redacted(), List: l.name, Service: service, Instances: map[string]int{}}
	versions, zones, protocols := map[string]bool{}, map[string]bool{}, map[string]bool{}
	var series [][]admin.Second
	for i := range in {
		r := &in[i]
		row.Instances[string(r.State)]++
		row.Rate += r.Rate
		row.ErrorRate += r.Errors
		row.P99 = max(row.P99, r.P99)
		note(versions, r.Version)
		note(zones, r.Zone)
		for _, e := range r.Endpoints {
			note(protocols, cmp.Or(e.Protocol, "tandem"))
		}
		if s := c.figures.get(figureKey{r.List, r.ID}); s != nil {
			series = append(series, admin.Sum(ofService(s.methods, service)...).PerSecond)
		}
	}
	row.Versions, row.Zones, row.Protocols = sorted(versions), sorted(zones), sorted(protocols)
	for _, s := range sumSeries(series) {
		row.PerSecond = append(row.PerSecond, s.Calls)
	}
	return row
}

func note(set map[string]bool, s string) {
	if s != "" {
		set[s] = true
	}
}

func sorted(set map[string]bool) []string {
	return append([]string{}, slices.Sorted(maps.Keys(set))...)
}

func sumSeries(all [][]admin.Second) []admin.Second {
	var figures []admin.MethodFigure
	for _, s := range all {
		figures = append(figures, admin.MethodFigure{PerSecond: s})
	}
	return admin.Sum(figures...).PerSecond
}

func (c *Console) services(_ context.Context, _ User, req *ServicesRequest) (*Services, error) {
	words := strings.Fields(strings.ToLower(req.Filter))
	out := &Services{Services: []ServiceRow{}, At: time.Now()}
	for _, row := range c.serviceRows() {
		if row.matches(words) {
			out.Services = append(out.Services, row)
		}
	}
	return out, nil
}

// matches reports whether all words are somewhere in the row.
func (r *ServiceRow) matches(words []string) bool {
	if len(words) == 0 {
		return true
	}
	text := strings.ToLower(strings.Join(slices.Concat([]string{r.Service, r.List}, r.Versions, r.Zones, r.Protocols), "\n"))
	for _, w := range words {
		if state, ok := strings.CutPrefix(w, "state:"); ok {
			if r.Instances[state] == 0 {
				return false
			}
		} else if !strings.Contains(text, w) {
			return false
		}
	}
	return true
}

const (
	topServices = 10
	newChanges  = 20
)

func (c *Console) overview(_ context.Context, _ User, _ *OverviewRequest) (*Overview, error) {
	out := &Overview{
		Instances: map[string]int{}, Versions: map[string]int{}, Sources: c.states(), Top: []ServiceRow{}, Rollouts: []Rollout{}, Changes: []ChangeRow{},
	}
	rows := c.serviceRows()
	out.Services = len(rows)
	var series [][]admin.Second
	for _, l := range c.lists() {
		instances := l.rows()
		c.addFigures(instances, "")
		for i := range instances {
			r := &instances[i]
			out.Instances[string(r.State)]++
			out.Rate += r.Rate
			out.ErrorRate += r.Errors
			switch s := c.figures.get(figureKey{r.List, r.ID}); {
			case s == nil || s.err != nil:
				out.Silent++
			default:
				out.Answering++
				out.Versions[cmp.Or(s.info.Tandem, "unknown")]++
				series = append(series, admin.Sum(ofService(s.methods, "")...).PerSecond)
			}
		}
		out.Changes = append(out.Changes, l.lastChange()...)
	}
	out.PerSecond = sumSeries(series)
	slices.SortStableFunc(rows, func(a, b ServiceRow) int { return cmp.Compare(b.impact(), a.impact()) })
	out.Top = append(out.Top, rows[:min(len(rows), topServices)]...)
	slices.SortFunc(out.Changes, func(a, b ChangeRow) int { return b.At.Compare(a.At) })
	out.Changes = out.Changes[:min(len(out.Changes), newChanges)]
	return out, nil
}

// impact says how much the callers of a service wait for it: its rate times how long calls take.
func (r *ServiceRow) impact() float64 { return r.Rate * max(r.P99.Seconds(), 1e-6) }

// lastChange returns the change that made the overrides what they are.
func (l *list) lastChange() []ChangeRow {
	l.mu.Lock()
	defer l.mu.Unlock()
	ch := l.set.Change
	if ch.At.IsZero() {
		return nil
	}
	return []ChangeRow{changeRow(l.name, kindOverrides, ch, describeSet(l.set.Set))}
}

func describeSet(set []override.Override) string {
	var text []string
	for i := range set {
		of := cmp.Or(set[i].Instance, "labels")
		text = append(text, of+": "+set[i].String())
	}
	return strings.Join(text, "; ")
}

func (c *Console) service(ctx context.Context, _ User, req *ServiceRequest) (*Service, error) {
	l, err := c.list(req.List)
	if err != nil {
		return nil, err
	}
	rows := slices.DeleteFunc(l.rows(), func(r InstanceRow) bool {
		return len(r.Services) > 0 && !slices.Contains(r.Services, req.Service)
	})
	if len(rows) == 0 {
		return nil, tandem.Errorf(tandem.NotFound, "no instance of %q in %s", req.Service, req.List)
	}
	c.refresh(ctx, rows[:min(len(rows), lookAll)])
	row := c.serviceRow(l, req.Service, rows)
	out := &Service{ServiceRow: row, Rows: rows, Consumers: c.consumers(l), Set: []override.Override{}}
	var methods [][]admin.MethodFigure
	for i := range rows {
		if s := c.figures.get(figureKey{l.name, rows[i].ID}); s != nil {
			methods = append(methods, ofService(s.methods, req.Service))
		}
	}
	out.Methods = together(methods...)
	l.mu.Lock()
	out.Set = append(out.Set, l.set.Set...)
	out.Overrides = len(l.set.Set)
	l.mu.Unlock()
	return out, nil
}

// consumers returns the clients of a list, as far as their processes have the admin API.
func (c *Console) consumers(of *list) []Consumer {
	out := []Consumer{}
	c.figures.mu.Lock()
	defer c.figures.mu.Unlock()
	for k, s := range c.figures.all {
		for name, methods := range s.clients {
			if isTarget(name, of) {
				out = append(out, consumerOf(k, name, methods))
			}
		}
	}
	slices.SortFunc(out, func(a, b Consumer) int {
		return cmp.Or(strings.Compare(a.List, b.List), strings.Compare(a.Instance, b.Instance), strings.Compare(a.Client, b.Client))
	})
	return out
}

// isTarget reports whether a client's name is that of a list: the same path of the same registry,
// whatever the options.
func isTarget(name string, l *list) bool {
	name, _, _ = strings.Cut(name, "?")
	name, _, _ = strings.Cut(name, "#")
	own, _, _ := strings.Cut(l.name, "?")
	return name == own
}

func consumerOf(k figureKey, name string, methods []admin.MethodFigure) Consumer {
	sum := admin.Sum(methods...)
	return Consumer{
		List: k.list, Instance: k.id, Client: name, Rate: sum.Rate, ErrorRate: sum.ErrorRate, P99: sum.P99, Methods: together(methods),
	}
}

func (c *Console) instance(ctx context.Context, _ User, req *InstanceRequest) (*Instance, error) {
	l, row, err := c.instanceRow(req.List, req.Instance)
	if err != nil {
		return nil, err
	}
	rows := []InstanceRow{*row}
	c.refresh(ctx, rows)
	c.addFigures(rows, "")
	out := &Instance{InstanceRow: rows[0], Clients: []Consumer{}}
	s := c.figures.get(figureKey{l.name, row.ID})
	if s == nil || s.err != nil {
		return out, nil //nolint:nilerr // the row has the error
	}
	out.Info = s.info
	c.inspect(ctx, out, &row.Instance)
	out.Methods = together(ofService(s.methods, ""))
	clients, err := ask[admin.Clients](ctx, c.asker, &row.Instance, "Clients", admin.ClientsRequest{})
	if err != nil {
		out.Error = short(err)
		return out, nil
	}
	for i := range clients.Clients {
		known := &clients.Clients[i]
		consumer := consumerOf(figureKey{l.name, row.ID}, known.Name, s.clients[known.Name])
		consumer.State, consumer.Explanation = &known.State, known.Explanation
		out.Clients = append(out.Clients, consumer)
	}
	return out, nil
}

// inspect fills in what an instance says of its inside, as far as it answers.
func (c *Console) inspect(ctx context.Context, out *Instance, in *tandem.Instance) {
	var errs [4]error
	out.Connections, errs[0] = ask[admin.Connections](ctx, c.asker, in, "Connections", admin.ConnectionsRequest{})
	out.Calls, errs[1] = ask[admin.Running](ctx, c.asker, in, "Running", admin.RunningRequest{})
	out.Limits, errs[2] = ask[admin.Limits](ctx, c.asker, in, "Limits", admin.LimitsRequest{})
	var settings *admin.Settings
	if settings, errs[3] = ask[admin.Settings](ctx, c.asker, in, "Settings", admin.SettingsRequest{}); settings != nil {
		out.Settings = settings.Server
	}
	if err := errors.Join(errs[:]...); err != nil {
		out.Error = short(err)
	}
}

// instanceRow returns an instance that is listed.
func (c *Console) instanceRow(name, id string) (*list, *InstanceRow, error) {
	l, err := c.list(name)
	if err != nil {
		return nil, nil, err
	}
	rows := l.rows()
	for i := range rows {
		if rows[i].ID == id {
			return l, &rows[i], nil
		}
	}
	return nil, nil, tandem.Errorf(tandem.NotFound, "no instance %q in %s", id, name)
}
