package main

import (
	"crypto/tls"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/plugin/auth"
	"github.com/tandem-rpc/tandem/protocol/all"
	"github.com/tandem-rpc/tandem/registry"
	"github.com/tandem-rpc/tandem/registry/dns"
)

// place is what a target on the command line stands for.
type place struct {
	target string
	tls    *tls.Config // nil for no TLS
	token  string      // bearer token; "" for none
}

// list returns the resolver for the place's instances, and the target that it takes.
func (p *place) list() (registry.Resolver, registry.Target, error) {
	t, err := registry.ParseTarget(p.target)
	if err != nil {
		return nil, t, usagef("%v", err)
	}
	if kind, known := registryKinds()[t.Scheme]; known {
		r, err := kind.resolverOf(t)
		return r, t, err
	}
	switch t.Scheme {
	case "static":
		return registry.Static(), t, nil
	case "dns":
		return dns.Resolver(), t, nil
	case "tcp", "unix":
		return registry.Single(t.Scheme), t, nil
	}
	if slices.Contains(protocolNames(), t.Scheme) {
		query := url.Values{"protocol": {t.Scheme}}
		maps.Copy(query, t.Query)
		t.Scheme, t.Query = "static", query
		return registry.Static(), t, nil
	}
	return nil, t, usagef("%q: want a target such as tcp://host:port, %s", p.target, strings.Join(registryExamples(), ", "))
}

// dial returns a client of the place.
func (p *place) dial(opts ...client.Option) (*client.Client, error) {
	own, err := p.options()
	if err != nil {
		return nil, err
	}
	return client.Dial(p.target, append(own, opts...)...)
}

// options returns the options of a client that calls the place.
func (p *place) options() ([]client.Option, error) {
	opts, err := withRegistries(p.target)
	scheme, _, _ := strings.Cut(p.target, "://")
	return slices.Concat(opts, []client.Option{client.WithProtocols(all.Clients()...)}, p.secure(scheme), p.identify()), err
}

// secure returns the option for TLS with servers of a protocol, if the place has TLS.
func (p *place) secure(protocol string) []client.Option {
	if p.tls == nil {
		return nil
	}
	config := p.tls.Clone()
	switch protocol {
	case "grpc":
		config.NextProtos = []string{"h2"}
	case "connect":
		config.NextProtos = []string{"h2", "http/1.1"}
	}
	return []client.Option{client.WithTLS(config)}
}

// identify returns the option that sends the token, if the place has one.
func (p *place) identify() []client.Option {
	if p.token == "" {
		return nil
	}
	return []client.Option{client.WithPlugins(auth.Token("Bearer", p.token))}
}

// protocolNames returns the protocols of targets, besides tandem's own.
func protocolNames() []string {
	var names []string
	for _, p := range all.Clients() {
		names = append(names, p.Name())
	}
	return names
}
