package console

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/admin"
	"github.com/tandem-rpc/tandem/override"
)

const (
	figuresFor = 1500 * time.Millisecond // how long the figures of an instance are good
	lookAll    = 300                     // instances that are asked all the time; beyond it only those that somebody looks at
	lookPause  = 2 * time.Second
	viewTime   = 1500 * time.Millisecond // how long a screen waits for instances
)

// sample is what an instance has said of itself.
type sample struct {
	at      time.Time
	methods []admin.MethodFigure
	clients map[string][]admin.MethodFigure // what it calls, by client
	info    *admin.Info
	err     error
	failed  int // times in a row that it did not answer
}

// isSilent reports whether the instance does not answer. It may be late once; and one that refuses
// the console does answer.
func (s *sample) isSilent() bool {
	code := tandem.CodeOf(s.err)
	return s.failed > 1 && (code == tandem.Unavailable || code == tandem.DeadlineExceeded)
}

// figures are the latest samples, by list and instance.
type figures struct {
	mu  sync.Mutex
	all map[figureKey]*sample
}

type figureKey struct{ list, id string }

func (f *figures) get(k figureKey) *sample {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.all[k]
}

func (f *figures) put(k figureKey, s *sample) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.all == nil {
		f.all = map[figureKey]*sample{}
	}
	f.all[k] = s
}

// forget drops samples of instances that nobody has asked for long.
func (f *figures) forget() {
	f.mu.Lock()
	defer f.mu.Unlock()
	maps.DeleteFunc(f.all, func(_ figureKey, s *sample) bool { return time.Since(s.at) > time.Minute })
}

// look keeps the figures of small clusters fresh, and closes what is idle.
func (c *Console) look() {
	for {
		select {
		case <-time.After(lookPause):
		case <-c.ctx.Done():
			return
		}
		var rows []InstanceRow
		for _, l := range c.lists() {
			for _, r := range l.rows() {
				if answers(&r.Instance) {
					rows = append(rows, r)
				}
			}
			if len(rows) > lookAll {
				rows = nil
				break
			}
		}
		c.refresh(c.ctx, rows)
		c.figures.forget()
		c.inner.forget()
		c.trails.forget()
		c.reads.forget()
		c.asker.closeIdle()
	}
}

// refresh asks the instances whose figures are old.
func (c *Console) refresh(ctx context.Context, rows []InstanceRow) {
	ctx, cancel := context.WithTimeout(ctx, viewTime)
	defer cancel()
	var wg sync.WaitGroup
	for i := range rows {
		r := &rows[i]
		if !answers(&r.Instance) {
			continue
		}
		k := figureKey{r.List, r.ID}
		if s := c.figures.get(k); s != nil {
			good := figuresFor
			if s.failed > 1 {
				good = retryAfter
			}
			if time.Since(s.at) < good {
				continue
			}
		}
		wg.Go(func() {
			next := c.sampleOf(ctx, &r.Instance)
			if before := c.figures.get(k); before != nil && next.err != nil {
				next.failed += before.failed
			}
			c.figures.put(k, next)
		})
	}
	wg.Wait()
}

// sampleOf asks an instance for its figures.
func (c *Console) sampleOf(ctx context.Context, in *tandem.Instance) *sample {
	s := &sample{at: time.Now(), clients: map[string][]admin.MethodFigure{}}
	if s.info, s.err = ask[admin.Info](ctx, c.asker, in, "Info", admin.InfoRequest{}); s.err != nil {
		s.failed = 1
		return s
	}
	req := admin.MethodsRequest{Series: true, Times: true}
	m, err := ask[admin.Methods](ctx, c.asker, in, "Methods", req)
	if err != nil {
		s.err, s.failed = err, 1
		return s
	}
	s.methods = m.Methods
	for _, name := range s.info.Clients[:min(len(s.info.Clients), maxClients)] {
		req.Client = name
		if m, err := ask[admin.Methods](ctx, c.asker, in, "Methods", req); err == nil {
			s.clients[name] = m.Methods
		}
	}
	return s
}

// maxClients is how many clients of a process are asked for.
const maxClients = 50

// addFigures fills in what the instances of rows have said, of the methods of one service, or of
// all for "".
func (c *Console) addFigures(rows []InstanceRow, service string) {
	for i := range rows {
		r := &rows[i]
		s := c.figures.get(figureKey{r.List, r.ID})
		switch {
		case s == nil:
			r.addLoad()
		case s.err != nil:
			r.Error = short(s.err)
			if s.isSilent() && r.State == State(override.Enabled) {
				r.State = stateSilent
			}
			r.addLoad()
		default:
			r.Admin = true
			sum := admin.Sum(ofService(s.methods, service)...)
			r.Running, r.Rate, r.Errors, r.P99, r.mean = sum.Running, sum.Rate, sum.ErrorRate, sum.P99, sum.Mean
		}
	}
}

// addLoad fills in what the registry knows of an instance's load.
func (r *InstanceRow) addLoad() {
	if l := r.Load; l != nil {
		r.Rate = l.Rate
		r.Running = uint64(max(0, l.InFlight))
	}
}

// ofService returns the figures of a service's methods, without those of the admin API.
func ofService(all []admin.MethodFigure, service string) (list []admin.MethodFigure) {
	for i := range all {
		of := serviceOf(all[i].Method)
		if !isOwn(of) && (service == "" || of == service) {
			list = append(list, all[i])
		}
	}
	return list
}

// together adds up the figures of several instances, method by method, sorted.
func together(lists ...[]admin.MethodFigure) []admin.MethodFigure {
	by := map[string][]admin.MethodFigure{}
	for _, l := range lists {
		for _, f := range l {
			by[f.Method] = append(by[f.Method], f)
		}
	}
	out := []admin.MethodFigure{}
	for _, name := range slices.Sorted(maps.Keys(by)) {
		f := admin.Sum(by[name]...)
		f.Times = nil // the page has no use for it
		out = append(out, f)
	}
	return out
}
