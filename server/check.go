package server

import (
	"errors"
	"fmt"

	"github.com/tandem-rpc/tandem/internal/sniff"
	"github.com/tandem-rpc/tandem/transport"
)

// checkOptions returns an error for options that can't work. New has no error, so everything that is
// called after it returns this one.
func (s *Server) checkOptions() error {
	if s.optionsErr != nil {
		return fmt.Errorf("server: %w", s.optionsErr)
	}
	return nil
}

// want notes that the option was given, and records an error if ok is false, as it can't have the
// given value. It returns ok.
func (o *options) want(ok bool, option string, given any, want string) bool {
	o.given.Add(option)
	if !ok {
		o.wrong = append(o.wrong, fmt.Errorf("%s: got %v: want %s", option, given, want))
	}
	return ok
}

// check returns an error for options that can't work, whatever the server serves, and
// completes those that depend on others.
func (o *options) check() error {
	if err := errors.Join(o.wrong...); err != nil || !o.secured {
		return err
	}
	if err := transport.CheckServerTLS(o.tls); err != nil {
		return fmt.Errorf("WithTLS: %w", err)
	}
	o.tls = offered(o.tls, o.protocols)
	return nil
}

// clash returns an error for two protocols that take the same connections: the first would
// have them all, and the other none.
func clash(protocols []Protocol) error {
	names := make([]string, 0, 1+len(protocols))
	names = append(names, ownProtocol)
	for _, p := range protocols {
		names = append(names, p.Name())
	}
	all := matchers(protocols)
	if sniff.TakesAll(all[len(all)-1]) {
		all = all[:len(all)-1] // the last may have what the others leave
	}
	if a, b, first := sniff.Clash(all); first != nil {
		return fmt.Errorf("protocols %q and %q both take connections that begin with %q: give WithProtocols one of them", names[a], names[b], first)
	}
	asked := map[string]string{}
	for _, p := range protocols {
		a, ok := p.(ALPN)
		if !ok {
			continue
		}
		for _, name := range a.NextProtos() {
			if other, taken := asked[name]; taken {
				return fmt.Errorf("protocols %q and %q both take TLS connections that ask for %q: give WithProtocols one of them", other, p.Name(), name)
			}
			asked[name] = p.Name()
		}
	}
	return nil
}
