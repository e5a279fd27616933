package harness

import (
	"context"
	"errors"
	"fmt"

	"github.com/tandem-rpc/tandem/bench/load"
)

// measure runs the peer at path as a server and as a client in one cell.
func measure(ctx context.Context, path string, s Settings, cell Cell) Sample {
	ctx, cancel := context.WithTimeout(ctx, s.Timeout)
	defer cancel()
	sample := Sample{Cell: cell}
	err := sample.run(ctx, path, s)
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

func (s *Sample) run(ctx context.Context, path string, set Settings) (err error) {
	server, err := startPeer(ctx, path, "server")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.end()) }()
	ready, err := server.expect(load.EventReady)
	if err != nil {
		return err
	}
	client, err := startPeer(ctx, path, set.plan(s.Cell, ready.Addr).Args()...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, client.end()) }()
	return s.steer(client, server)
}

// steer takes the server's marks while the client calls steadily, before and
// after as well as during its own measurement: the server's interval is off by
// the time a line takes through a pipe, but its rate of calls is the same.
func (s *Sample) steer(client, server *process) error {
	if _, err := client.expect(load.EventWarm); err != nil {
		return err
	}
	before, err := server.mark()
	if err != nil {
		return err
	}
	if err := client.tell(load.OpStart); err != nil {
		return err
	}
	if _, err := client.expect(load.EventMeasured); err != nil {
		return err
	}
	after, err := server.mark()
	if err != nil {
		return err
	}
	s.Server = after.Sub(before)
	if err := client.tell(load.OpStop); err != nil {
		return err
	}
	r, err := client.expect(load.EventResult)
	if err == nil && r.Result == nil {
		err = fmt.Errorf("harness: %s reported a result without figures", client.name)
	}
	if err == nil {
		s.Client = *r.Result
	}
	return err
}
