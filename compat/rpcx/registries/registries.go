// Package registries (experimental) has the plugins and selectors of rpcx's first version that need a
// registry: ZooKeeper, etcd and Consul. They use the modules below registry. Servers are
// listed under base path and service in tandem's own layout: every tandem client finds them;
// today's rpcx clients, which use another layout, don't.
package registries

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rcrowley/go-metrics"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/compat/rpcx"
	"github.com/tandem-rpc/tandem/registry"
	"github.com/tandem-rpc/tandem/registry/consul"
	"github.com/tandem-rpc/tandem/registry/etcd"
	"github.com/tandem-rpc/tandem/registry/zookeeper"
	"github.com/tandem-rpc/tandem/server"
)

// EtcdRegisterPlugin lists a server in etcd. Add it to the server's container before the server
// serves; services may be registered before or after that.
type EtcdRegisterPlugin struct {
	ServiceAddress string           // where clients reach the server: "tcp@127.0.0.1:1234"
	EtcdServers    []string         // "http://127.0.0.1:2379"
	BasePath       string           // base path of the services: "/rpcx"
	Metrics        metrics.Registry // may be nil; its counter "calls" counts the server's calls
	Services       []string         // further names to list the server under; empty ones are ignored
	UpdateInterval time.Duration    // how often the server reports its load: a minute if it is 0
}

// ServerOptions makes the plugin known to the server.
func (p *EtcdRegisterPlugin) ServerOptions() ([]server.Option, error) {
	return p.listing().options("etcd", hosts(p.EtcdServers))
}

func (p *EtcdRegisterPlugin) listing() *listing {
	return &listing{
		address: p.ServiceAddress, base: p.BasePath, metrics: p.Metrics, services: p.Services, every: p.UpdateInterval,
		open: func(target string) (registrar, error) { return etcd.New(target) },
	}
}

// ZooKeeperRegisterPlugin lists a server in ZooKeeper. Add it to the server's container before
// the server serves; services may be registered before or after that.
type ZooKeeperRegisterPlugin struct {
	ServiceAddress   string           // where clients reach the server: "tcp@127.0.0.1:1234"
	ZooKeeperServers []string         // "127.0.0.1:2181"
	BasePath         string           // base path of the services: "/rpcx"
	Metrics          metrics.Registry // may be nil; its counter "calls" counts the server's calls
	Services         []string         // further names to list the server under; empty ones are ignored
	UpdateInterval   time.Duration    // how often the server reports its load: a minute if it is 0
}

// ServerOptions makes the plugin known to the server.
func (p *ZooKeeperRegisterPlugin) ServerOptions() ([]server.Option, error) {
	l := &listing{
		address: p.ServiceAddress, base: p.BasePath, metrics: p.Metrics, services: p.Services, every: p.UpdateInterval,
		open: func(target string) (registrar, error) { return zookeeper.New(target) },
	}
	return l.options("zookeeper", hosts(p.ZooKeeperServers))
}

// ConsulRegisterPlugin lists a server in Consul. Add it to the server's container before the
// server serves; services may be registered before or after that.
type ConsulRegisterPlugin struct {
	ServiceAddress string           // where clients reach the server: "tcp@127.0.0.1:1234"
	ConsulAddress  string           // "127.0.0.1:8500"
	BasePath       string           // base path of the services; "/rpcx" if it is empty
	Metrics        metrics.Registry // may be nil; its counter "calls" counts the server's calls
	Services       []string         // further names to list the server under; empty ones are ignored
	UpdateInterval time.Duration    // how often the server reports its load: a minute if it is 0
}

// ServerOptions makes the plugin known to the server.
func (p *ConsulRegisterPlugin) ServerOptions() ([]server.Option, error) {
	l := &listing{
		address: p.ServiceAddress, base: consulBase(p.BasePath), metrics: p.Metrics, services: p.Services, every: p.UpdateInterval,
		open: func(target string) (registrar, error) { return consul.New(target) },
	}
	return l.options("consul", hosts([]string{p.ConsulAddress}))
}

// consulBase returns base, or "/rpcx" if it is empty: Consul's targets must have a base path.
func consulBase(base string) string {
	if strings.Trim(base, "/") == "" {
		return "/rpcx"
	}
	return base
}

// hosts joins the servers of a registry, without the "http://" that rpcx programs write.
func hosts(servers []string) string {
	bare := make([]string, len(servers))
	for i, s := range servers {
		bare[i] = strings.TrimSuffix(strings.TrimPrefix(s, "http://"), "/")
	}
	return strings.Join(bare, ",")
}

// registrar is a registry of one service.
type registrar interface {
	registry.Registrar
	io.Closer
}

// listing lists a server under each of its services, with one registry for each.
type listing struct {
	address  string
	base     string
	metrics  metrics.Registry
	services []string
	every    time.Duration
	open     func(target string) (registrar, error)

	prefix string // prefix of the targets
}

func (l *listing) options(scheme, hosts string) ([]server.Option, error) {
	network, address, ok := strings.Cut(l.address, "@")
	if !ok || network == "" || address == "" {
		return nil, fmt.Errorf("registries: ServiceAddress %q is not network@address, as tcp@127.0.0.1:8972", l.address)
	}
	if hosts == "" {
		return nil, fmt.Errorf("registries: no servers of %s are given", scheme)
	}
	l.prefix = scheme + "://" + hosts + "/" + strings.Trim(l.base, "/") + "/"
	if strings.Trim(l.base, "/") == "" {
		l.prefix = scheme + "://" + hosts + "/"
	}
	every := l.every
	if every == 0 {
		every = time.Minute
	}
	opts := []server.Option{server.WithRegistrar(l, rpcx.InstanceOf(network, address)), server.WithLoadReport(every)}
	if l.metrics != nil {
		opts = append(opts, server.WithPlugins(counting{l.metrics}))
	}
	return opts, nil
}

// counting counts a server's calls.
type counting struct{ registry metrics.Registry }

// AfterResponse counts a call.
func (c counting) AfterResponse(context.Context, *tandem.Call, tandem.Outcome) {
	metrics.GetOrRegisterCounter("calls", c.registry).Inc(1)
}

// Register lists an instance under each of its services.
func (l *listing) Register(ctx context.Context, in tandem.Instance) (registry.Registration, error) {
	r := &registrations{listing: l, of: map[string]registration{}}
	if err := r.Update(ctx, in); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

// registrations are the registrations of one instance, one for each service.
type registrations struct {
	listing *listing

	mu     sync.Mutex
	of     map[string]registration // registrations by service
	closed bool
}

type registration struct {
	registry.Registration

	registry registrar
}

func (r registration) Close() error { return errors.Join(r.Registration.Close(), r.registry.Close()) }

// Update lists the instance under the services that it has now. It removes no service.
func (r *registrations) Update(ctx context.Context, in tandem.Instance) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return errors.New("registries: the registration is closed")
	}
	var failed error
	for _, service := range r.listing.names(in) {
		listed, ok := r.of[service]
		if ok {
			failed = errors.Join(failed, listed.Update(ctx, in))
			continue
		}
		fresh, err := r.listing.register(ctx, service, in)
		if err == nil {
			r.of[service] = fresh
		}
		failed = errors.Join(failed, err)
	}
	return failed
}

// names returns the services that the instance is listed under.
func (l *listing) names(in tandem.Instance) []string {
	names := slices.Concat(in.Services, l.services)
	names = slices.DeleteFunc(names, func(s string) bool { return s == "" })
	slices.Sort(names)
	return slices.Compact(names)
}

func (l *listing) register(ctx context.Context, service string, in tandem.Instance) (registration, error) {
	reg, err := l.open(l.prefix + service)
	if err != nil {
		return registration{}, err
	}
	listed, err := reg.Register(ctx, in)
	if err != nil {
		return registration{}, errors.Join(err, reg.Close())
	}
	return registration{listed, reg}, nil
}

// Close removes the instance from all lists.
func (r *registrations) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	var err error
	for _, listed := range r.of {
		err = errors.Join(err, listed.Close())
	}
	clear(r.of)
	return err
}
