package server

import (
	"log/slog"
	"time"

	"github.com/tandem-rpc/tandem/internal/dispatch"
	"github.com/tandem-rpc/tandem/internal/points"
	"github.com/tandem-rpc/tandem/plugin"
)

// Method describes a method to a [Protocol], a plugin or a listing.
type Method = plugin.Method

// Describe describes all methods, sorted by name, without aliases.
func (s *Server) Describe() []*Method {
	var list []*Method
	for _, m := range s.table.Methods() {
		d := s.describe(m)
		list = append(list, &d)
	}
	return list
}

func (s *Server) describe(m *dispatch.Method) Method { return points.Describe(m, s.opts.maxMessage) }

// Draining returns a channel that is closed when Shutdown or Close begins: handlers of streams
// should return then, as Shutdown waits for them.
func (s *Server) Draining() <-chan struct{} { return s.leaving }

// Method returns the description of the method with that name or alias; nil if there is none. It
// must not be changed.
func (c *Conn) Method(name string) *Method {
	m := c.server.table.Lookup(name)
	if m == nil {
		return nil
	}
	return &c.server.methods.of(m).description
}

// Describe describes all methods of the server.
func (c *Conn) Describe() []*Method { return c.server.Describe() }

// Draining returns a channel that is closed when the server begins to end.
func (c *Conn) Draining() <-chan struct{} { return c.server.leaving }

// Logger returns the server's log. Without [WithLogger] it discards everything.
func (c *Conn) Logger() *slog.Logger { return c.server.log() }

// MaxMessage returns the server's limit of a message in bytes.
func (c *Conn) MaxMessage() int { return c.server.opts.maxMessage }

// MaxOpenCalls returns how many calls the connection may have open.
func (c *Conn) MaxOpenCalls() int { return c.server.opts.maxOpen }

// StallTimeout returns the time that [WithStallTimeout] sets.
func (c *Conn) StallTimeout() time.Duration { return c.server.opts.stall }
