package client

import (
	"context"
	"fmt"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/internal/failmode"
	"github.com/tandem-rpc/tandem/internal/pool"
	"github.com/tandem-rpc/tandem/transport"
)

// poolConfig returns what the pool needs to know of the client.
func (c *Client) poolConfig() pool.Config {
	o := &c.opts
	cfg := pool.Config{
		Target: c.target, Life: c.life, Log: c.log(), Rules: &c.rules, Budget: c.budget,
		Serves: c.serves, Connect: c.connect,
		Connections: o.connections, ConnectTimeout: o.connectTimeout, Wait: o.wait, Backoff: o.backoff,
		HealthCheck: o.healthCheck, Silence: o.silence,
	}
	if t := o.throttle; t != nil {
		cfg.ThrottleSent, cfg.ThrottleAccepted = t.Sent, t.Accepted
		cfg.ThrottleFades, cfg.ThrottleProbe, cfg.ThrottleEnds, cfg.ThrottlePause = t.Fades, t.Probe, t.Ends, t.Pause
	}
	return cfg
}

// modesConfig returns what the fail modes need to know of the client.
func (c *Client) modesConfig() failmode.Config {
	o := &c.opts
	return failmode.Config{
		Pool: &c.pool, Life: c.life, Budget: c.budget, Log: c.log(),
		Backoff: o.backoff, Forks: o.forks, BroadcastShare: o.broadcastShare, BroadcastAtOnce: o.broadcastAtOnce,
		BackupShare: o.backupShare, FailbackQueue: o.failbackQueue, FailbackTries: o.failbackTries, FailbackPause: o.failbackPause,
		FailbackTimeout: defaultTimeout, GiveUp: o.giveUp,
	}
}

// serves reports whether the client has the transport and the protocol of an endpoint.
func (c *Client) serves(ep tandem.Endpoint) bool {
	_, known := c.opts.protocol(ep)
	return known && c.opts.transports[ep.Transport] != nil
}

// connect connects to an instance.
func (c *Client) connect(ctx context.Context, instance string, ep tandem.Endpoint) (*pool.Conn, error) {
	t := c.opts.transports[ep.Transport]
	if t == nil {
		return nil, fmt.Errorf("no transport %q: give it to WithTransport", ep.Transport)
	}
	p, known := c.opts.protocol(ep)
	if !known {
		return nil, fmt.Errorf("no protocol %q: give it to WithProtocols", ep.Protocol)
	}
	if p != nil {
		r := &Remote{Endpoint: ep, MaxMessage: c.opts.maxMessage, StreamWindow: c.opts.streamWindow, transport: t, points: c.points}
		return c.connectForeign(ctx, instance, p, r)
	}
	conn, err := t.Dial(ctx, ep.Address)
	if err != nil {
		return nil, err
	}
	if conn, err = c.points.Connected(conn); err != nil {
		return nil, err
	}
	s, err := c.env.Connect(ctx, conn, instance)
	if err != nil {
		return nil, err
	}
	if err := c.announce(ctx, s); err != nil {
		s.Close()
		return nil, err
	}
	return pool.OwnConn(s), nil
}

// connectForeign connects to an instance by another protocol.
func (c *Client) connectForeign(ctx context.Context, instance string, p Protocol, r *Remote) (*pool.Conn, error) {
	if err := c.opts.fits(p); err != nil {
		return nil, err
	}
	carrier, err := p.Connect(ctx, r)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", p.Name(), err)
	}
	f := &foreign{
		client: c, protocol: p, carrier: carrier, remote: r, made: time.Now(),
		away: make(chan struct{}), closing: make(chan struct{}),
	}
	f.peer = &tandem.Peer{Protocol: p.Name(), Instance: instance}
	r.mu.Lock()
	if first := r.first; first != nil {
		f.peer.Addr, f.peer.LocalAddr, f.peer.TLS = first.RemoteAddr(), first.LocalAddr(), transport.TLSState(first)
	}
	r.mu.Unlock()
	f.noteLife()
	return pool.ForeignConn(f), nil
}
