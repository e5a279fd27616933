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

// parse returns the place's target, or a usage error for one that the commands can't reach.
func (p *place) parse() (registry.Target, error) {
	t, err := registry.ParseTarget(p.target)
	if err != nil {
		return t, usagef("%v", err)
	}
	_, known := registryKinds()[t.Scheme]
	if known || slices.Contains([]string{"static", "dns", "tcp", "unix"}, t.Scheme) || slices.Contains(protocolNames(), t.Scheme) {
		return t, nil
	}
	return t, usagef("%q: want a target such as tcp://host:port, %s", registry.Redact(p.target), strings.Join(registryExamples(), ", "))
}

// list returns the resolver for the place's instances, and the target that it takes.
func (p *place) list() (registry.Resolver, registry.Target, error) {
	t, err := p.parse()
	if err != nil {
		return nil, t, err
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
	query := url.Values{"protocol": {t.Scheme}} // which is a protocol
	maps.Copy(query, t.Query)
	t.Scheme, t.Query = "static", query
	return registry.Static(), t, nil
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
	t, err := p.parse()
	if err != nil {
		return nil, err
	}
	opts, err := withRegistries(t)
	return slices.Concat(opts, []client.Option{client.WithProtocols(all.Clients()...)}, p.secure(t.Scheme), p.identify()), err
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
