package main

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/cmd/tandem/internal/contexts"
	"github.com/tandem-rpc/tandem/registry"
	"github.com/tandem-rpc/tandem/registry/consul"
	"github.com/tandem-rpc/tandem/registry/etcd"
	"github.com/tandem-rpc/tandem/registry/file"
	"github.com/tandem-rpc/tandem/registry/mdns"
	"github.com/tandem-rpc/tandem/registry/nacos"
	"github.com/tandem-rpc/tandem/registry/redis"
	"github.com/tandem-rpc/tandem/registry/zookeeper"
)

// registryKind is a kind of registry that the commands know.
type registryKind struct {
	example   string // example of a target
	secrets   secrets
	registrar func(target string, a contexts.Access) (registry.Registrar, func() error, error)
	resolver  func(a contexts.Access) registry.Resolver
}

// secrets says what a registry wants to know of who uses it.
type secrets uint8

const (
	noSecrets secrets = iota
	password          // a user and a password
	token
)

// registryKinds returns the kinds by the schemes of their targets.
func registryKinds() map[string]registryKind {
	return map[string]registryKind{
		"consul":    kindOf("consul://host:8500/dir", token, consul.New, consul.Resolver, consulOptions),
		"etcd":      kindOf("etcd://host:2379/dir", password, etcd.New, etcd.Resolver, etcdOptions),
		"file":      {"file:///dir", noSecrets, openDir, func(contexts.Access) registry.Resolver { return file.Resolver() }},
		"mdns":      kindOf("mdns://interface/dir", noSecrets, mdns.New, mdns.Resolver, func(contexts.Access) []mdns.Option { return nil }),
		"nacos":     kindOf("nacos://host:8848/dir", password, nacos.New, nacos.Resolver, nacosOptions),
		"redis":     kindOf("redis://host:6379/dir", password, redis.New, redis.Resolver, redisOptions),
		"zookeeper": kindOf("zookeeper://host:2181/dir", password, zookeeper.New, zookeeper.Resolver, zookeeperOptions),
	}
}

// closer is a registry that holds a connection.
type closer interface {
	registry.Registrar
	Close() error
}

// kindOf returns the kind of a registry's package.
func kindOf[R closer, O any](example string, s secrets, open func(target string, opts ...O) (R, error), resolver func(opts ...O) registry.Resolver,
	options func(contexts.Access) []O,
) registryKind {
	registrar := func(target string, a contexts.Access) (registry.Registrar, func() error, error) {
		r, err := open(target, options(a)...)
		if err != nil {
			return nil, nil, err
		}
		return r, r.Close, nil
	}
	return registryKind{example, s, registrar, func(a contexts.Access) registry.Resolver { return resolver(options(a)...) }}
}

func consulOptions(a contexts.Access) (opts []consul.Option) {
	if a.Token != "" {
		opts = append(opts, consul.WithToken(a.Token))
	}
	if a.TLS != nil {
		opts = append(opts, consul.WithTLS(a.TLS))
	}
	return opts
}

func etcdOptions(a contexts.Access) (opts []etcd.Option) {
	if a.User != "" || a.Password != "" {
		opts = append(opts, etcd.WithAuth(a.User, a.Password))
	}
	if a.TLS != nil {
		opts = append(opts, etcd.WithTLS(a.TLS))
	}
	return opts
}

func nacosOptions(a contexts.Access) (opts []nacos.Option) {
	if a.User != "" || a.Password != "" {
		opts = append(opts, nacos.WithAuth(a.User, a.Password))
	}
	if a.TLS != nil {
		opts = append(opts, nacos.WithTLS(a.TLS))
	}
	return opts
}

func redisOptions(a contexts.Access) (opts []redis.Option) {
	if a.User != "" || a.Password != "" {
		opts = append(opts, redis.WithAuth(a.User, a.Password))
	}
	if a.TLS != nil {
		opts = append(opts, redis.WithTLS(a.TLS))
	}
	return opts
}

func zookeeperOptions(a contexts.Access) (opts []zookeeper.Option) {
	if a.User != "" || a.Password != "" {
		opts = append(opts, zookeeper.WithAuth(a.User, a.Password))
	}
	if a.TLS != nil {
		opts = append(opts, zookeeper.WithTLS(a.TLS))
	}
	return opts
}

func openDir(target string, _ contexts.Access) (registry.Registrar, func() error, error) {
	t, err := registry.ParseTarget(target)
	if err != nil {
		return nil, nil, err
	}
	return file.New(filepath.FromSlash(t.Address())), func() error { return nil }, nil
}

// accessOf returns how the registry of a target is reached: see tandem registry login.
func accessOf(t registry.Target) (contexts.Access, error) {
	login, err := contexts.LoginOf(t)
	if err != nil {
		return contexts.Access{}, err
	}
	a, err := login.Access()
	if err != nil {
		return a, fmt.Errorf("the login at %s: %w", contexts.RegistryOf(t), err)
	}
	return a, nil
}

// registrarFor returns the registrar that a target names, nil for "", and the
// function that closes it.
func registrarFor(target string) (registry.Registrar, func() error, error) {
	if target == "" {
		return nil, func() error { return nil }, nil
	}
	t, err := registry.ParseTarget(target)
	if err != nil {
		return nil, nil, usagef("--registry: %v", err)
	}
	kind, known := registryKinds()[t.Scheme]
	if !known {
		return nil, nil, usagef("--registry %q: want one of %s", target, strings.Join(registryExamples(), ", "))
	}
	access, err := accessOf(t)
	if err != nil {
		return nil, nil, err
	}
	r, closeIt, err := kind.registrar(target, access)
	if err != nil {
		return nil, nil, usagef("--registry: %v", err)
	}
	return r, closeIt, nil
}

// resolverOf returns the resolver of a registry's kind, with the user's login there.
func (k *registryKind) resolverOf(t registry.Target) (registry.Resolver, error) {
	access, err := accessOf(t)
	if err != nil {
		return nil, err
	}
	return k.resolver(access), nil
}

// registryExamples returns a target for each kind, sorted.
func registryExamples() []string {
	var examples []string
	for _, kind := range registryKinds() {
		examples = append(examples, kind.example)
	}
	slices.Sort(examples)
	return examples
}

// withRegistries returns the options of a client of a target: the resolvers of all kinds, that of the
// target with the user's login there.
func withRegistries(t registry.Target) ([]client.Option, error) {
	access, err := accessOf(t)
	if err != nil {
		return nil, err
	}
	var opts []client.Option
	kinds := registryKinds()
	for _, scheme := range slices.Sorted(maps.Keys(kinds)) {
		a := contexts.Access{}
		if scheme == t.Scheme {
			a = access
		}
		opts = append(opts, client.WithResolver(scheme, kinds[scheme].resolver(a)))
	}
	return opts, nil
}
