package server

import (
	"context"
	"crypto/rand"
	"errors"
	"math"
	mathrand "math/rand/v2"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/registry"
)

// membership is a registry that the server is listed in, and the instance that it lists.
type membership struct {
	registrar registry.Registrar
	instance  tandem.Instance
}

// listing keeps one listener's instance listed in one registry: a goroutine registers it until
// that succeeds, then reports new services and the load to the registry, until the listing is
// closed.
type listing struct {
	server    *Server
	registrar registry.Registrar
	in        tandem.Instance
	entry     registry.Registration // nil before the instance is listed
	news      chan struct{}         // has a token when a service was registered
	ctx       context.Context
	cancel    context.CancelFunc
	done      chan struct{}
	err       error // error of leaving the registry; valid when done is closed

	taken  atomic.Bool   // the registry has taken the instance
	failed atomic.Uint64 // attempts to register or to update that failed

	calls uint64    // number of calls at the last report
	last  time.Time // time of the last report
}

// registerTimeout bounds an attempt to register.
const registerTimeout = 10 * time.Second

// defaultReportEvery is the time between two reports of the load to a registry.
const defaultReportEvery = time.Minute

// list puts the server into its registries for one listener. A registry that fails does not
// keep the server from serving: the listing tries again until it takes the instance. list fails
// for an instance that is not valid, and for an ID that another server has.
func (s *Server) list(ln net.Listener, network string) (listed []*listing, err error) {
	for _, m := range s.opts.memberships {
		if len(m.instance.Endpoints) == 0 && placeless(ln.Addr()) {
			s.log().Warn("not listed: the listener does not know its address; give the instance Endpoints", "instance", m.instance.ID)
			continue
		}
		l := s.newListing(m.registrar, s.instance(m.instance, ln, network))
		if err = l.in.Validate(); err == nil && !s.keep(l) {
			err = ErrServerClosed
		}
		if err == nil {
			l.in.Services = s.services(l.in) // later registrations are sent as updates
			if err = l.register(); !errors.Is(err, registry.ErrTaken) {
				err = nil
			}
		}
		go l.run()
		listed = append(listed, l)
		if err != nil {
			s.unlist(listed)
			return nil, err
		}
	}
	return listed, nil
}

func (s *Server) newListing(r registry.Registrar, in tandem.Instance) *listing {
	l := &listing{
		server: s, registrar: r, in: in, calls: s.calls(), last: time.Now(),
		news: make(chan struct{}, 1), done: make(chan struct{}),
	}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	return l
}

// keep adds a listing to those of the server. It returns false if the server is ending already.
func (s *Server) keep(l *listing) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ending {
		return false
	}
	s.listed = append(s.listed, l)
	return true
}

// unlist closes the listings of a listener that is no longer served.
func (s *Server) unlist(listed []*listing) {
	s.mu.Lock()
	s.listed = slices.DeleteFunc(s.listed, func(l *listing) bool { return slices.Contains(listed, l) })
	s.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), closeWait)
	defer cancel()
	s.leaveAtLast(ctx, listed)
}

// relist makes the listings report newly registered services to their registries.
func (s *Server) relist() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.listed {
		select {
		case l.news <- struct{}{}:
		default:
		}
	}
}

// register makes one attempt to be listed.
func (l *listing) register() error {
	ctx, cancel := context.WithTimeout(l.ctx, registerTimeout)
	defer cancel()
	entry, err := l.registrar.Register(ctx, l.in)
	if err != nil {
		l.failed.Add(1)
		l.server.log().Warn("not listed yet", "instance", l.in.ID, "error", err)
		return err
	}
	l.entry = entry
	l.taken.Store(true)
	return nil
}

func (l *listing) run() {
	defer close(l.done)
	defer l.cancel()
	for failures := 0; l.entry == nil; failures++ {
		if !l.pause(mathrand.N(min(10*time.Second, 500*time.Millisecond<<min(failures, 8)))) {
			return
		}
		_ = l.register() // it has logged why
	}
	report := time.NewTimer(l.untilReport())
	defer report.Stop()
	for {
		select {
		case <-report.C:
			l.in.Load = l.load()
			report.Reset(l.untilReport())
		case <-l.news:
			l.in.Services = l.server.services(l.in)
		case <-l.ctx.Done():
			l.err = l.entry.Close()
			return
		}
		l.update()
	}
}

// pause waits for d. It returns false if the listing is closed meanwhile.
func (l *listing) pause(d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-l.ctx.Done():
		return false
	}
}

// untilReport returns the time to the next report. It is random, so that servers that were
// started together do not report together.
func (l *listing) untilReport() time.Duration {
	every := l.server.opts.reportEvery
	if every <= 0 {
		return math.MaxInt64
	}
	return every - mathrand.N(every/8+1)
}

// update reports changes to the registry. If that fails, the next report includes them.
func (l *listing) update() {
	ctx, cancel := context.WithTimeout(l.ctx, registerTimeout)
	defer cancel()
	if err := l.entry.Update(ctx, l.in); err != nil && l.ctx.Err() == nil {
		l.failed.Add(1)
		l.server.log().Warn("the registry was not told of a change", "instance", l.in.ID, "error", err)
	}
}

// load returns the load since the last report.
func (l *listing) load() *tandem.Load {
	now, calls := time.Now(), l.server.calls()
	report := l.server.load.report(l.server.env.Running() + l.server.foreign.running.Load())
	load := &tandem.Load{At: now.UTC(), InFlight: int(report.InFlight), Queued: int(report.Queued)}
	if past := now.Sub(l.last).Seconds(); past > 0 {
		load.Rate = float64(calls-l.calls) / past
	}
	l.last, l.calls = now, calls
	return load
}

// leave removes instances from their registries, all at the same time. It returns those whose
// registries had not answered when ctx ended.
func (s *Server) leave(ctx context.Context, listed []*listing) (late []*listing) {
	for _, l := range listed {
		l.cancel()
	}
	for _, l := range listed {
		select {
		case <-l.done:
		case <-ctx.Done():
		}
		select {
		case <-l.done:
			if l.err != nil {
				s.log().Warn("not taken off the registry", "instance", l.in.ID, "error", l.err)
			}
		default:
			late = append(late, l)
		}
	}
	return late
}

// leaveAtLast is leave for the last time: registries that have not answered when ctx ends are
// logged and not waited for.
func (s *Server) leaveAtLast(ctx context.Context, listed []*listing) {
	for _, l := range s.leave(ctx, listed) {
		s.log().Warn("not taken off the registry", "instance", l.in.ID, "error", "the registry does not answer")
	}
}

// calls returns how many calls the server has received so far.
func (s *Server) calls() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.past + s.foreign.calls.Load()
	for ses := range s.sessions {
		n += ses.Accepted()
	}
	return n
}

// instance completes a configured instance for a listener.
func (s *Server) instance(in tandem.Instance, ln net.Listener, network string) tandem.Instance {
	if len(in.Endpoints) == 0 {
		in.Endpoints = []tandem.Endpoint{{Transport: network, Address: reachable(ln.Addr())}}
	}
	if in.ID == "" {
		in.ID = in.Endpoints[0].String()
	}
	if in.Started.IsZero() {
		in.Started = time.Now()
	}
	if in.Incarnation == "" {
		in.Incarnation = rand.Text()
	}
	in.Services = s.services(in)
	return in
}

// services returns the services that in names and those that are registered, sorted.
func (s *Server) services(in tandem.Instance) []string {
	all := slices.Concat(in.Services, s.table.Services())
	all = slices.DeleteFunc(all, func(name string) bool { return name == ownProtocol }) // its methods are not the user's
	slices.Sort(all)
	return slices.Compact(all)
}

// reachable returns the address under which others reach a listener: for one on all interfaces
// with the host's name. It parses the address's text, since each transport has an address type
// of its own. Addresses in memory are any strings, not hosts.
func reachable(a net.Addr) string {
	at, path := cutPath(a.String())
	host, port, err := net.SplitHostPort(at)
	if err != nil || !everywhere(host) || a.Network() == "mem" {
		return a.String()
	}
	name, err := os.Hostname()
	if err != nil {
		name = "localhost"
	}
	return net.JoinHostPort(name, port) + path
}

// placeless reports whether a listener does not know where others reach it: a WebSocket
// handler that is mounted on the user's HTTP server. Transports of the user's own may
// have addresses without ports.
func placeless(a net.Addr) bool {
	at, _ := cutPath(a.String())
	_, _, err := net.SplitHostPort(at)
	return err != nil && a.Network() == "websocket"
}

// cutPath cuts off the path of an address that has one, such as a WebSocket's.
func cutPath(address string) (at, path string) {
	if i := strings.IndexByte(address, '/'); i >= 0 {
		return address[:i], address[i:]
	}
	return address, ""
}

// everywhere reports whether a host stands for all interfaces.
func everywhere(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "" || err == nil && ip.Unmap().WithZone("").IsUnspecified()
}
