package client

import (
	"errors"
	"fmt"
	"maps"

	"github.com/tandem-rpc/tandem/registry"
	"github.com/tandem-rpc/tandem/transport"
)

// resolve returns the parts of a target and its resolver, which has nothing against it.
func (o *options) resolve(target string) (t registry.Target, r registry.Resolver, err error) {
	if t, err = registry.ParseTarget(target); err != nil {
		return t, nil, err
	}
	r = o.resolvers[t.Scheme]
	switch ch, ok := r.(registry.Checker); {
	case r == nil && t.Scheme == "tls":
		return t, nil, fmt.Errorf("target %q: there is no scheme %q: use tcp:// with WithTLS, or give transport.TLS to WithTransport", target, t.Scheme)
	case r == nil:
		return t, nil, fmt.Errorf("target %q: no resolver for %q: give it to WithResolver, or a protocol of that name to WithProtocols", target, t.Scheme)
	case ok:
		err = ch.Check(t)
	}
	return t, r, err
}

// secure puts TLS on all transports, if the options want it. scheme is the target's.
func (o *options) secure(scheme string) error {
	if !o.secured {
		return nil
	}
	if err := transport.CheckClientTLS(o.tls); err != nil {
		return fmt.Errorf("WithTLS: %w", err)
	}
	if scheme == "unix" && (o.tls == nil || o.tls.ServerName == "" && !o.tls.InsecureSkipVerify) {
		return errors.New("WithTLS: the target is a unix socket, whose address has no host to verify: set ServerName in the configuration")
	}
	transports := maps.Clone(o.transports)
	for name, t := range transports {
		secured, err := transport.Secured(t, o.tls)
		if err != nil {
			return fmt.Errorf("WithTLS on transport %q: %w", name, err)
		}
		transports[name] = secured
	}
	o.transports = transports
	return nil
}
