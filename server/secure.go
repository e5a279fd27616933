package server

import (
	"errors"
	"fmt"
	"net"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/transport"
)

// transport returns the transport of that name, with the TLS that the server asks for.
func (s *Server) transport(name string) (tandem.Transport, error) {
	t := s.opts.transports[name]
	switch {
	case t == nil && name == "tls":
		return nil, errors.New(`server: no transport "tls": use "tcp" with WithTLS, or give transport.TLS to WithTransport`)
	case t == nil:
		return nil, fmt.Errorf("server: no transport %q: give it to WithTransport", name)
	case !s.opts.secured:
		return t, nil
	}
	t, err := transport.Secured(t, s.opts.tls)
	if err != nil {
		return nil, fmt.Errorf("server: WithTLS on transport %q: %w", name, err)
	}
	return t, nil
}

// secure returns a listener that the user has opened, with the TLS that the server asks
// for.
func (s *Server) secure(ln net.Listener) (net.Listener, error) {
	if err := s.checkOptions(); err != nil || !s.opts.secured {
		return ln, err
	}
	secured, err := transport.SecuredListener(ln, s.opts.tls)
	if err != nil {
		return nil, fmt.Errorf("server: WithTLS on the listener at %v: %w", ln.Addr(), err)
	}
	return secured, nil
}

// secureConn does the same for a connection that no listener has accepted. It closes one
// that it refuses.
func (s *Server) secureConn(c net.Conn) (net.Conn, error) {
	err := s.checkOptions()
	if err == nil && !s.opts.secured {
		return c, nil
	}
	if err == nil {
		var secured net.Conn
		if secured, err = transport.SecuredConn(c, s.opts.tls); err == nil {
			return secured, nil
		}
		err = fmt.Errorf("server: WithTLS on the connection from %v: %w", c.RemoteAddr(), err)
	}
	return nil, errors.Join(err, c.Close())
}
