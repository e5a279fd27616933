package etcd

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/registry"
	"github.com/tandem-rpc/tandem/registry/adapter"
)

// Times to live: the default and the bounds.
const (
	defaultTTL = 15 * time.Second
	leastTTL   = 2 * time.Second // etcd extends it if its elections take longer
	mostTTL    = time.Hour
)

// place is a directory of a cluster, as a target names it.
type place struct {
	servers string // host:port,host:port
	dir     string // begins, but does not end, with a slash
	ttl     time.Duration
	layout  layout
}

// layout converts instances to keys and values of a directory, and back.
type layout interface {
	// key returns the name of the instance's key, without the directory.
	key(in *tandem.Instance) (string, error)
	encode(in *tandem.Instance) ([]byte, error)
	// decode returns the instance under a key.
	decode(key string, value []byte) (tandem.Instance, error)
}

// place returns the place that a target names.
func (o *options) place(target registry.Target) (*place, error) {
	values, err := target.Options("ttl", "layout")
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	p := &place{servers: sorted(target.Authority), dir: strings.TrimSuffix(target.Path, "/"), ttl: o.ttl, layout: own{}}
	if o.rpcx {
		p.layout = rpcx{}
	}
	if err := p.apply(values); err != nil {
		return nil, fmt.Errorf("%s: target %.100q: %w", name, target.Redacted(), err)
	}
	return p, nil
}

// apply sets the values of a target's options, and checks the place.
func (p *place) apply(values map[string]string) error {
	if text, given := values["ttl"]; given {
		d, err := time.ParseDuration(text)
		if err != nil {
			return fmt.Errorf("ttl %.20q is no duration such as 15s", text)
		}
		p.ttl = d
	}
	if p.ttl < leastTTL || p.ttl > mostTTL || p.ttl%time.Second != 0 {
		return fmt.Errorf("time to live of %v: want whole seconds, from %v to %v", p.ttl, leastTTL, mostTTL)
	}
	if text, given := values["layout"]; given {
		if text != "rpcx" {
			return fmt.Errorf("unknown layout %.20q; there is rpcx, and tandem's own without the option", text)
		}
		p.layout = rpcx{}
	}
	for server := range strings.SplitSeq(p.servers, ",") {
		if host, port, err := net.SplitHostPort(server); err != nil || host == "" || port == "" {
			return fmt.Errorf("server %.100q: want host:port", server)
		}
	}
	if p.dir == "" {
		return errors.New("it names no directory; want etcd://host:port/base/Service")
	}
	return nil
}

// decode returns the instance under a key, which includes the directory.
func (p *place) decode(key string, value []byte) (tandem.Instance, error) {
	return p.layout.decode(strings.TrimPrefix(key, p.prefix()), value)
}

// prefix returns the prefix of the keys of the directory.
func (p *place) prefix() string { return p.dir + "/" }

// own is tandem's layout.
type own struct{}

func (own) key(in *tandem.Instance) (string, error)    { return url.PathEscape(in.ID), nil }
func (own) encode(in *tandem.Instance) ([]byte, error) { return adapter.Encode(*in) }
func (own) decode(key string, value []byte) (tandem.Instance, error) {
	in, err := adapter.Decode(value)
	if err == nil && url.PathEscape(in.ID) != key {
		err = fmt.Errorf("it is of instance %.100q, whose key is another", in.ID)
	}
	return in, err
}

// sorted returns the servers in one order, so that targets that name the same
// cluster share a connection.
func sorted(servers string) string {
	list := strings.Split(servers, ",")
	slices.Sort(list)
	return strings.Join(slices.Compact(list), ",")
}
