package main

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tandem-rpc/tandem/client"
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
	registrar func(target string) (registry.Registrar, func() error, error)
	resolver  registry.Resolver
}

// registryKinds returns the kinds by the schemes of their targets.
func registryKinds() map[string]registryKind {
	return map[string]registryKind{
		"consul":    {"consul://host:8500/dir", opener(consul.New), consul.Resolver()},
		"etcd":      {"etcd://host:2379/dir", opener(etcd.New), etcd.Resolver()},
		"file":      {"file:///dir", openDir, file.Resolver()},
		"mdns":      {"mdns://interface/dir", opener(mdns.New), mdns.Resolver()},
		"nacos":     {"nacos://host:8848/dir", opener(nacos.New), nacos.Resolver()},
		"redis":     {"redis://host:6379/dir", opener(redis.New), redis.Resolver()},
		"zookeeper": {"zookeeper://host:2181/dir", opener(zookeeper.New), zookeeper.Resolver()},
	}
}

// closer is a registry that holds a connection.
type closer interface {
	registry.Registrar
	Close() error
}

// opener returns a registryKind's registrar function for the New function of a registry's
// package.
func opener[R closer, O any](open func(target string, opts ...O) (R, error)) func(string) (registry.Registrar, func() error, error) {
	return func(target string) (registry.Registrar, func() error, error) {
		r, err := open(target)
		if err != nil {
			return nil, nil, err
		}
		return r, r.Close, nil
	}
}

func openDir(target string) (registry.Registrar, func() error, error) {
	t, err := registry.ParseTarget(target)
	if err != nil {
		return nil, nil, err
	}
	return file.New(filepath.FromSlash(t.Address())), func() error { return nil }, nil
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
	r, closeIt, err := kind.registrar(target)
	if err != nil {
		return nil, nil, usagef("--registry: %v", err)
	}
	return r, closeIt, nil
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

// withRegistries returns the options with the resolvers of all kinds.
func withRegistries() []client.Option {
	var opts []client.Option
	kinds := registryKinds()
	for _, scheme := range slices.Sorted(maps.Keys(kinds)) {
		opts = append(opts, client.WithResolver(scheme, kinds[scheme].resolver))
	}
	return opts
}
