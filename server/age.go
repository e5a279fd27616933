package server

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/tandem-rpc/tandem/internal/session"
)

// defaultAgeGrace is how long running calls may go on if [WithMaxConnectionAge] has no grace.
const defaultAgeGrace = 30 * time.Second

// WithMaxConnectionAge drains connections at that age, plus or minus a tenth, drawn for each.
// Their clients are told to connect again, as by [Server.Shutdown], and lose no call; so a load
// balancer of connections before the servers can spread them again. Calls that still run after
// grace fail; 0 means 30 s. By default, or with an age of 0, connections have no age limit. It
// applies to all protocols, QUIC and HTTP included.
func WithMaxConnectionAge(age, grace time.Duration) Option {
	return func(o *options) {
		o.want(age >= 0 && grace >= 0, "WithMaxConnectionAge", [2]time.Duration{age, grace}, "0 or more")
		o.maxAge, o.ageGrace = max(0, age), grace
		if grace <= 0 {
			o.ageGrace = defaultAgeGrace
		}
	}
}

// WithLameDuck sets how long [Server.Shutdown] goes on accepting connections and calls after it
// has left the registries and has told the connected clients to go elsewhere: the time that
// balancers and clients with old lists take to notice. None by default.
func WithLameDuck(d time.Duration) Option {
	return func(o *options) {
		o.want(d >= 0, "WithLameDuck", d, "0 or more")
		o.lameDuck = max(0, d)
	}
}

// ages returns a timer that calls retire when a connection has reached its age; nil if there is
// no age limit. The context given to retire ends when the grace for running calls is over.
func (s *Server) ages(retire func(context.Context)) *time.Timer {
	if s.opts.maxAge == 0 {
		return nil
	}
	const tenth = 10
	most := s.opts.maxAge / tenth
	return time.AfterFunc(s.opts.maxAge-most+rand.N(2*most+1), func() { //nolint:mnd // as much more as less
		s.mu.Lock()
		goes := s.state == serving
		if goes {
			s.wg.Add(1)
		}
		s.mu.Unlock()
		if !goes {
			return
		}
		defer s.wg.Done()
		ctx, cancel := context.WithTimeout(s.base, s.opts.ageGrace)
		defer cancel()
		retire(ctx)
	})
}

// drainer drains connections, and waits until they have ended.
type drainer struct {
	ctx context.Context //nolint:containedctx // Shutdown's: when it ends, the connections are closed
	wg  sync.WaitGroup
	mu  sync.Mutex
	err error // the first error
}

// begin begins to drain connections. Those that drain already are only waited for.
func (f *drainer) begin(sessions []*session.Session, conns []*Conn) {
	for _, ses := range sessions {
		f.wg.Go(func() { f.note(ses.Drain(f.ctx, "shutting down")) })
	}
	for _, c := range conns {
		f.wg.Go(func() { f.note(c.await(f.ctx)) })
	}
}

func (f *drainer) note(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err == nil {
		f.err = err
	}
}

// wait returns when all connections have ended, with the first error.
func (f *drainer) wait() error {
	f.wg.Wait()
	return f.err
}
