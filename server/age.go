package server

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/tandem-rpc/tandem/internal/session"
)

// defaultAgeGrace is what [WithMaxConnectionAge] gives running calls that is told no time.
const defaultAgeGrace = 30 * time.Second

// WithMaxConnectionAge ends connections in good order when they are so old, give or take a
// tenth, drawn for each: clients are told to connect again, as by [Server.Shutdown], lose
// no call, and a balancer of connections between them and the servers can spread them
// anew. Calls that are still running grace later fail; 0 means 30 s. By default, or
// with an age of 0, connections have no age. QUIC's and HTTP's count, too.
func WithMaxConnectionAge(age, grace time.Duration) Option {
	return func(o *options) {
		o.want(age >= 0 && grace >= 0, "WithMaxConnectionAge", [2]time.Duration{age, grace}, "0 or more")
		o.maxAge, o.ageGrace = max(0, age), grace
		if grace <= 0 {
			o.ageGrace = defaultAgeGrace
		}
	}
}

// WithLameDuck sets how long [Server.Shutdown] goes on to accept connections and calls
// after it has left the registries and has told the clients that are connected to go
// elsewhere: the time that balancers and clients with old lists take to notice. None by
// default.
func WithLameDuck(d time.Duration) Option {
	return func(o *options) {
		o.want(d >= 0, "WithLameDuck", d, "0 or more")
		o.lameDuck = max(0, d)
	}
}

// ages returns a timer that calls retire when a connection has reached its age; nil if it
// may become any age. The context has the time that is left to running calls.
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

// farewell tells connections to go elsewhere, and waits for their ends.
type farewell struct {
	ctx context.Context //nolint:containedctx // Shutdown's: when it ends they are closed
	wg  sync.WaitGroup
	mu  sync.Mutex
	err error // the first
}

// bid begins to drain connections; those that are drained already are waited for.
func (f *farewell) bid(sessions []*session.Session, conns []*Conn) {
	for _, ses := range sessions {
		f.wg.Go(func() { f.note(ses.Drain(f.ctx, "shutting down")) })
	}
	for _, c := range conns {
		f.wg.Go(func() { f.note(c.await(f.ctx)) })
	}
}

func (f *farewell) note(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err == nil {
		f.err = err
	}
}

// wait returns when all connections have ended, with the first error.
func (f *farewell) wait() error {
	f.wg.Wait()
	return f.err
}
