package registry

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/tandem-rpc/tandem"
)

// Single returns a resolver for targets that name one endpoint themselves, of
// the named transport: tcp://host:port with Single("tcp"), unix:///run/a.sock
// or unix://relative/a.sock with Single("unix"). The address is everything
// between "//" and "?". The one option is protocol, the endpoint's protocol.
//
// The instance's ID is transport://address.
func Single(transport string) Fixed { return single(transport) }

type single string

func (s single) Watch(ctx context.Context, target Target, update func(Snapshot)) error {
	return settle(ctx, s, target, update)
}

func (s single) List(target Target) ([]tandem.Instance, error) {
	in, err := s.instance(target)
	if err != nil {
		return nil, err
	}
	return []tandem.Instance{in}, nil
}

func (s single) Check(target Target) error {
	_, err := s.instance(target)
	return err
}

// instance returns the instance that the target names.
func (s single) instance(target Target) (tandem.Instance, error) {
	options, err := target.Options("protocol")
	if err != nil {
		return tandem.Instance{}, err
	}
	in, err := instanceAt(tandem.Endpoint{Transport: string(s), Address: target.Address(), Protocol: options["protocol"]})
	if err != nil {
		return in, target.errorf("%w", err)
	}
	return in, nil
}

// Static returns the resolver of lists written out in the target:
// static://a:1,b:2. Options are
//
//	weight=3,1      the weights, one for each address, in their order
//	transport=unix  the transport of all addresses; tcp unless given
//	protocol=grpc   the protocol of all endpoints; tandem's own unless given
//
// An instance's ID is transport://address.
func Static() Fixed { return static{} }

type static struct{}

func (s static) Watch(ctx context.Context, target Target, update func(Snapshot)) error {
	return settle(ctx, s, target, update)
}

func (s static) Check(target Target) error {
	_, err := s.List(target)
	return err
}

// List returns the instances that the target names.
func (static) List(target Target) ([]tandem.Instance, error) {
	options, err := target.Options("weight", "transport", "protocol")
	if err != nil {
		return nil, err
	}
	addresses := strings.Split(target.Address(), ",")
	weights, err := staticWeights(options["weight"], len(addresses))
	if err != nil {
		return nil, target.errorf("%w", err)
	}
	ep := tandem.Endpoint{Transport: cmp.Or(options["transport"], "tcp"), Protocol: options["protocol"]}
	list := make([]tandem.Instance, len(addresses))
	seen := make(map[string]bool, len(addresses))
	for i, address := range addresses {
		ep.Address = address
		if list[i], err = instanceAt(ep); err != nil {
			return nil, target.errorf("address %d: %w", i+1, err)
		}
		if seen[address] {
			return nil, target.errorf("address %.100q is named twice", address)
		}
		seen[address] = true
		list[i].Weight = weights[i]
	}
	return list, nil
}

// staticWeights parses a comma-separated list of n weights. For an empty text it
// returns n zeros.
func staticWeights(text string, n int) ([]int, error) {
	weights := make([]int, n)
	if text == "" {
		return weights, nil
	}
	fields := strings.Split(text, ",")
	if len(fields) != n {
		return nil, fmt.Errorf("%d weights for %d addresses; give one for each", len(fields), n)
	}
	for i, field := range fields {
		w, err := strconv.Atoi(field)
		if err != nil || w < 1 || w > tandem.MaxWeight {
			return nil, fmt.Errorf("weight %.20q: want a number from 1 to %d", field, tandem.MaxWeight)
		}
		weights[i] = w
	}
	return weights, nil
}

// instanceAt returns an instance with one endpoint, whose ID is transport://address.
func instanceAt(ep tandem.Endpoint) (tandem.Instance, error) {
	in := tandem.Instance{ID: ep.String(), Endpoints: []tandem.Endpoint{ep}}
	if ep.Address == "" {
		return in, errors.New("the address is empty")
	}
	if ep.Transport == "tcp" {
		if err := checkHostPort(ep.Address); err != nil {
			return in, err
		}
	}
	return in, in.Validate()
}

// checkHostPort fails for an address that can't be dialed on any network.
// An empty host is this machine, as in package net.
func checkHostPort(address string) error {
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("%w; want host:port", err)
	}
	if n, err := net.DefaultResolver.LookupPort(context.Background(), "tcp", port); err != nil || n == 0 {
		return fmt.Errorf("address %.100q: bad port %.20q", address, port)
	}
	return nil
}

// settle delivers the list, which never changes, and waits until ctx ends.
func settle(ctx context.Context, r Fixed, target Target, update func(Snapshot)) error {
	list, err := r.List(target)
	if err != nil {
		return err
	}
	slices.SortFunc(list, byID)
	update(Snapshot{Instances: list, Revision: 1})
	<-ctx.Done()
	return ctx.Err()
}
