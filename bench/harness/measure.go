package harness

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tandem-rpc/tandem/bench/load"
)

// measure runs the system's peer as servers and as a client in one cell.
func (b built) measure(ctx context.Context, system string, net network, s Settings, cell Cell) Sample {
	sample := Sample{System: system, Cell: cell}
	ctx, cancel := context.WithTimeout(ctx, s.Timeout)
	defer cancel()
	err := sample.run(ctx, b.path(system), net, s)
	switch {
	case errors.Is(err, errUnsupported):
		sample.Unsupported = err.Error()
	case err != nil && ctx.Err() != nil:
		sample.Error = fmt.Sprintf("%v (%v)", err, ctx.Err())
	case err != nil:
		sample.Error = err.Error()
	case sample.Client.Calls == 0:
		sample.Error = fmt.Sprintf("no call succeeded; %d failed, the first with: %s",
			sample.Client.Failures, sample.Client.FirstError)
	}
	return sample
}

func (s *Sample) run(ctx context.Context, path string, net network, set Settings) (err error) {
	var addrs []string
	if s.Cell.Deployment == Elsewhere {
		addrs = set.Addrs
	}
	var servers []*peer
	defer func() {
		for _, p := range servers {
			err = errors.Join(err, p.end())
		}
	}()
	for i := range net.servers {
		server, err := startPeer(ctx, inNamespace(net.servers[i]), path, "server", "-listen="+net.addrs[i], fmt.Sprintf("-work=%v", s.Cell.Work))
		if err != nil {
			return err
		}
		servers = append(servers, server)
		ready, err := server.expect(load.EventReady)
		if err != nil {
			return err
		}
		addrs = append(addrs, ready.Addr)
	}
	client, err := startPeer(ctx, inNamespace(net.client), path, set.plan(s.Cell, addrs).Args()...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, client.end()) }()
	return s.steer(client, servers)
}

// steer takes the servers' marks while the client makes calls at a steady rate, which it
// does before and after its own measurement too: a server's interval is off by the time a
// line takes through a pipe, but its rate of calls is the same.
func (s *Sample) steer(client *peer, servers []*peer) error {
	if _, err := client.expect(load.EventWarm); err != nil {
		return err
	}
	before, err := markAll(servers)
	if err != nil {
		return err
	}
	if _, err := client.ask(load.Command{Op: load.OpStart}, load.EventMeasured); err != nil {
		return err
	}
	after, err := markAll(servers)
	if err != nil {
		return err
	}
	s.setServers(before, after)
	r, err := client.ask(load.Command{Op: load.OpStop}, load.EventResult)
	if err != nil {
		return err
	}
	s.Client = *r.Result
	return nil
}

// markAll asks every server for its usage.
func markAll(servers []*peer) ([]load.Usage, error) {
	var all []load.Usage
	for _, p := range servers {
		u, err := p.mark()
		if err != nil {
			return nil, err
		}
		all = append(all, u)
	}
	return all, nil
}

// setServers sets the servers' usage between two marks: the sum of their usage, in an
// interval that is the mean of theirs.
func (s *Sample) setServers(before, after []load.Usage) {
	for i := range after {
		u := after[i].Sub(before[i])
		s.Server.CPU += u.CPU
		s.Server.Mallocs += u.Mallocs
		s.Server.Peak += u.Peak
		s.Server.Reads += u.Reads
		s.Server.Writes += u.Writes
		s.Server.Wall += u.Wall / time.Duration(len(after))
	}
}
