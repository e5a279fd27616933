package harness

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/tandem-rpc/tandem/bench/load"
)

// Built are the peers of some systems, for commands that measure something
// else than Run does.
type Built struct{ peers peers }

// Build compiles the peers of the systems. Remove deletes them.
func Build(ctx context.Context, systems []string) (Built, error) {
	p, err := build(ctx, systems)
	return Built{p}, err
}

// Remove deletes what Build has made.
func (b Built) Remove() { b.peers.remove() }

// Start runs a subcommand of a system's peer; package load says which there
// are. The peer is killed when ctx ends.
func (b Built) Start(ctx context.Context, system string, args ...string) (*Peer, error) {
	p, err := startPeer(ctx, "", b.peers.path(system), args...)
	if err != nil {
		return nil, err
	}
	return &Peer{p}, nil
}

// Measure is one sample of Run's: the system in a cell with those settings, on
// this machine.
func (b Built) Measure(ctx context.Context, system string, s Settings, cell Cell) Sample {
	sample := measure(ctx, b.peers.path(system), local(), s, cell)
	sample.System = system
	return sample
}

// Peer is a running peer. It is for one goroutine.
type Peer struct{ process *process }

// Expect waits until the peer reports the event.
func (p *Peer) Expect(event string) (load.Report, error) { return p.process.expect(event) }

// Ask sends a command and waits for the event that answers it.
func (p *Peer) Ask(c load.Command, event string) (load.Report, error) {
	if err := json.NewEncoder(p.process.in).Encode(c); err != nil {
		return load.Report{}, fmt.Errorf("harness: telling %s to %s: %w", p.process.name, c.Op, err)
	}
	return p.process.expect(event)
}

// End ends the peer and waits for that.
func (p *Peer) End() error { return p.process.end() }
