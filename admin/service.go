package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/bits"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"slices"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/registry"
	"github.com/tandem-rpc/tandem/server"
)

// serve registers the methods.
func (a *Admin) serve(srv *server.Server) error {
	return errors.Join(
		read(a, srv, "Info", Viewer, a.info),
		read(a, srv, "Methods", Viewer, a.methods),
		read(a, srv, "Explain", Viewer, a.explain),
		read(a, srv, "Changes", Viewer, a.listChanges),
		read(a, srv, "Connections", Viewer, a.connections),
		read(a, srv, "Limits", Viewer, a.limits),
		read(a, srv, "Settings", Viewer, a.settings),
		read(a, srv, "Clients", Viewer, a.clientStates),
		read(a, srv, "Schema", Viewer, a.schema),
		read(a, srv, "Running", Developer, a.running),
		read(a, srv, "Spans", Developer, a.listSpans),
		read(a, srv, "Profile", Developer, a.profile),
		write(a, srv, "SetLogLevel", a.setLogLevel),
		write(a, srv, "ForceBreaker", a.forceBreaker),
		write(a, srv, "Undo", a.undoChange),
		server.HandleStream(srv, Service+".Tap", func(ctx context.Context, s *tandem.Stream[TapRequest, TapEvent]) error {
			return a.tap(ctx, s, srv.Draining())
		}),
	)
}

// read registers a method that changes nothing.
func read[Req, Resp any](a *Admin, srv *server.Server, name string, need Role, f func(context.Context, *Req) (*Resp, error)) error {
	return server.Handle(srv, Service+"."+name, func(ctx context.Context, req *Req) (*Resp, error) {
		if err := a.allow(ctx, need); err != nil {
			return nil, err
		}
		return f(ctx, req)
	})
}

// write registers a method for operators.
func write[Req, Resp any](a *Admin, srv *server.Server, name string, f func(context.Context, *Req) (*Resp, error)) error {
	return read(a, srv, name, Operator, f)
}

func (a *Admin) info(ctx context.Context, _ *InfoRequest) (*Info, error) {
	role, err := a.roleOf(ctx)
	if err != nil {
		return nil, err
	}
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	in := &Info{
		Host: host, PID: os.Getpid(), Command: filepath.Base(os.Args[0]), Began: a.began, Go: runtime.Version(),
		GOMAXPROCS: runtime.GOMAXPROCS(0), Goroutines: runtime.NumGoroutine(), HeapBytes: heapBytes(),
		Role: role.String(), Payloads: a.payloads,
	}
	if a.level != nil {
		in.LogLevel = a.level.Level().String()
	}
	in.addBuild()
	services := map[string]bool{}
	for _, srv := range a.watched() {
		for _, addr := range srv.Addrs() {
			in.Addresses = append(in.Addresses, addr.Network()+"://"+addr.String())
		}
		for _, m := range srv.Describe() {
			services[serviceOf(m.Name)] = true
		}
	}
	slices.Sort(in.Addresses)
	in.Services = slices.Sorted(maps.Keys(services))
	in.Clients = slices.Sorted(maps.Keys(a.dialed()))
	return in, nil
}

func heapBytes() uint64 {
	s := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}

// addBuild adds what the program was built from.
func (in *Info) addBuild() {
	b, ok := debug.ReadBuildInfo()
	if !ok {
		return
	}
	in.Module, in.Version = b.Main.Path, b.Main.Version
	for _, s := range b.Settings {
		if s.Key == "vcs.revision" {
			in.Revision = s.Value
		}
	}
	const own = "github.com/tandem-rpc/tandem"
	for _, d := range append(b.Deps, &b.Main) {
		if d.Path == own {
			in.Tandem = d.Version
		}
	}
}

func serviceOf(method string) string {
	if ext := path.Ext(method); ext != "" { // the last dot and what follows
		return method[:len(method)-len(ext)]
	}
	return method
}

// watched returns the servers.
func (a *Admin) watched() []*server.Server {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.servers)
}

// dialed returns the clients by their names, and forgets those that are closed.
func (a *Admin) dialed() map[string]*client.Client {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.forgetClosedLocked()
	open := map[string]*client.Client{}
	for name, c := range a.clients {
		if c != nil { // else it is being dialed
			open[name] = c
		}
	}
	return open
}

func (a *Admin) forgetClosedLocked() {
	maps.DeleteFunc(a.clients, func(_ string, c *client.Client) bool {
		if c == nil {
			return false
		}
		select {
		case <-c.Done():
			return true
		default:
			return false
		}
	})
}

// Limits of the windows that figures are of.
const (
	usualWindow = time.Minute
	maxWindow   = windows * windowTicks * tick
)

func (a *Admin) methods(_ context.Context, req *MethodsRequest) (*Methods, error) {
	if req.Window < 0 || req.Window > maxWindow {
		return nil, tandem.Errorf(tandem.InvalidArgument, "a window is at most %v", maxWindow)
	}
	if req.Client != "" && !a.knows(req.Client) {
		return nil, errNoClient
	}
	n := int(cmp.Or(req.Window, usualWindow) / (windowTicks * tick))
	out := &Methods{Methods: []MethodFigure{}}
	figures := map[string]*MethodFigure{}
	if req.Client == "" {
		for _, srv := range a.watched() {
			for _, m := range srv.Describe() {
				figures[m.Name] = &MethodFigure{Method: m.Name, Kind: kindName(m.Kind), Safe: m.Safe}
			}
		}
	}
	for k, m := range *a.all.Load() {
		if k.client != req.Client {
			continue
		}
		f := figures[k.method]
		if f == nil {
			f = &MethodFigure{Method: k.method}
			figures[k.method] = f
		}
		out.Window = max(out.Window, m.fill(f, n, req))
	}
	for _, name := range slices.Sorted(maps.Keys(figures)) {
		out.Methods = append(out.Methods, *figures[name])
	}
	return out, nil
}

// fill fills in the figures of the last n windows, and returns the time that they are of.
func (m *method) fill(f *MethodFigure, n int, req *MethodsRequest) time.Duration {
	begun, ended, _ := m.totals()
	f.Calls, f.Running = ended, begun-ended
	s := new(sums)
	w, span := m.lately(n, s)
	failed := uint64(0)
	for code, errors := range w.errors {
		if errors > 0 {
			if f.Errors == nil {
				f.Errors = map[string]uint64{}
			}
			f.Errors[tandem.Code(code).String()] = errors
			failed += errors
		}
	}
	if seconds := span.Seconds(); seconds > 0 {
		f.Rate, f.ErrorRate = float64(w.ended)/seconds, float64(failed)/seconds
	}
	f.addPercentiles(s)
	if req.Times {
		f.Times = s.counts()
	}
	if req.Series {
		for _, past := range m.history.series() {
			f.PerSecond = append(f.PerSecond, Second{past.ended, past.failed})
		}
		f.HeatWindow = windowTicks * tick
		for _, past := range m.history.heat() {
			f.Heat = append(f.Heat, cells(past))
		}
	}
	return span
}

func (f *MethodFigure) addPercentiles(s *sums) {
	if q := s.quantiles(0.5, 0.9, 0.99, 0.999); q != nil {
		f.P50, f.P90, f.P99, f.P999, f.Mean = q[0], q[1], q[2], q[3], s.mean()
	}
}

// cells puts buckets together, so that each is twice the one before.
func cells(window []count) []HeatCell {
	out := []HeatCell{}
	for _, c := range window {
		took := time.Duration(1) << bits.Len64(uint64(middle(int(c.bucket)))) //nolint:gosec // positive
		if n := len(out); n > 0 && out[n-1].Took == took {
			out[n-1].Calls += uint64(c.n)
			continue
		}
		out = append(out, HeatCell{took, uint64(c.n)})
	}
	return out
}

const (
	usualSpans = 100
	mostSpans  = 1000
)

func (a *Admin) listSpans(_ context.Context, req *SpansRequest) (*Spans, error) {
	if _, err := path.Match(req.Method, ""); err != nil {
		return nil, tandem.Errorf(tandem.InvalidArgument, "method %q is no pattern: %v", req.Method, err)
	}
	if req.Max < 0 {
		return nil, tandem.Errorf(tandem.InvalidArgument, "a negative number of spans")
	}
	found := a.spans.last(within(req.Max, usualSpans, mostSpans), func(s *Span) bool {
		matches := true
		if req.Method != "" {
			matches, _ = path.Match(req.Method, s.Method)
		}
		return matches && (req.Trace == "" || req.Trace == s.Trace) && (!req.Failed || s.Error != "") && s.Took >= req.AtLeast
	})
	return &Spans{append([]Span{}, found...)}, nil
}

// reserve finds a name for a client of the target.
func (a *Admin) reserve(target string) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.forgetClosedLocked()
	shown := registry.Redact(target) // no passwords
	name := shown
	for n := 2; ; n++ {
		if _, taken := a.clients[name]; !taken {
			a.clients[name] = nil
			return name
		}
		name = fmt.Sprintf("%s#%d", shown, n)
	}
}

func (a *Admin) explain(_ context.Context, req *ExplainRequest) (*client.Explanation, error) {
	c := a.dialed()[req.Client]
	if c == nil {
		return nil, errNoClient
	}
	var opts []tandem.CallOption
	for k, v := range req.Metadata {
		opts = append(opts, client.Metadata(k, v))
	}
	if req.HashKey != "" {
		opts = append(opts, client.HashKey(req.HashKey))
	}
	if req.Instance != "" {
		opts = append(opts, client.Instance(req.Instance))
	}
	if req.Version != "" || req.Group != "" || len(req.Tags) > 0 {
		opts = append(opts, client.Route(tandem.Route{Version: req.Version, Group: req.Group, Tags: req.Tags}))
	}
	return c.Describe(req.Method, opts...), nil
}
