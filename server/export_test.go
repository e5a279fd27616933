package server

import "github.com/tandem-rpc/tandem/internal/overload"

// Gate returns the server's gate, without the goroutine that samples the processors: only the
// test does. It must be called before Serve.
func (s *Server) Gate() *overload.Gate {
	s.guard.begin.Do(func() {})
	return s.guard.gate
}

// Now is the time by the gate's clock.
func (s *Server) Now() int64 { return s.env.Now() }
