package server

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	"github.com/tandem-rpc/tandem/internal/dispatch"
	"github.com/tandem-rpc/tandem/internal/points"
	"github.com/tandem-rpc/tandem/plugin"
)

// errRefused is the reason when a plugin has refused a connection.
var errRefused = errors.New("refused by a plugin")

// acceptedConn is a connection from its accept to its end, as plugins see it.
type acceptedConn struct {
	conn  net.Conn
	given []net.Conn  // the connection that each plugin saw; nil without plugins
	age   *time.Timer // ends the connection when it is old; nil without [WithMaxConnectionAge]
	id    uint64      // see [Connection]
	since time.Time
}

func (v acceptedConn) stopAging() {
	if v.age != nil {
		v.age.Stop()
	}
}

// admit shows a new connection to the plugins, which may wrap it or refuse it.
func (s *Server) admit(c net.Conn) (v acceptedConn, err error) {
	v.conn, v.id, v.since = c, lastConnection.Add(1), time.Now()
	if len(s.opts.plugins) == 0 {
		return v, nil
	}
	v.given = make([]net.Conn, 0, len(s.opts.plugins))
	for _, p := range s.opts.plugins {
		shown := v.conn
		if a, ok := p.(plugin.ConnAccepted); ok {
			if v.conn, err = points.Pass(s.onPanic, p, "ConnAccepted", shown, a.ConnAccepted); err != nil {
				v.conn = shown
				return v, fmt.Errorf("%w: %w", errRefused, err)
			}
		}
		v.given = append(v.given, shown)
	}
	v.conn = points.Over(v.conn, c)
	return v, nil
}

// dismiss closes a connection that is not going to be served.
func (s *Server) dismiss(c *net.Conn, v acceptedConn, err error) {
	s.adopt(c, nil, acceptedConn{})
	if errors.Is(err, errRefused) {
		s.log().Info("connection closed", "peer", v.conn.RemoteAddr(), "error", err)
	}
	_ = v.conn.Close() // the other error says why
	s.depart(v, err)
}

// depart notifies the plugins that a connection has ended, the last plugin first.
func (s *Server) depart(v acceptedConn, reason error) {
	for i, c := range slices.Backward(v.given) {
		if p, ok := s.opts.plugins[i].(plugin.ConnClosed); ok {
			_ = points.Try(s.onPanic, p, "ConnClosed", func() error { // the connection is gone
				p.ConnClosed(c, reason)
				return nil
			})
		}
	}
}

// onRegister returns the function that checks a registration: it fails if the server's options
// can't work or a plugin refuses, and else returns the aliases that plugins have added.
func (s *Server) onRegister() func(dispatch.Registration) (map[string]string, error) {
	var asked []plugin.ServiceRegistered
	for _, p := range s.opts.plugins {
		if a, ok := p.(plugin.ServiceRegistered); ok {
			asked = append(asked, a)
		}
	}
	return func(r dispatch.Registration) (map[string]string, error) {
		if err := s.checkOptions(); err != nil || asked == nil {
			return nil, err
		}
		shown := &plugin.Registration{Service: r.Service, Receiver: r.Receiver}
		for _, m := range r.Methods {
			shown.Methods = append(shown.Methods, s.describe(m))
		}
		for _, p := range asked {
			if err := points.Try(s.onPanic, p, "ServiceRegistered", func() error { return p.ServiceRegistered(shown) }); err != nil {
				return nil, fmt.Errorf("server: registration of %s: %w", r.Methods[0].Name, err)
			}
		}
		return shown.Aliases, nil
	}
}
