package client

import (
	"context"
	"fmt"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/codec"
	"github.com/tandem-rpc/tandem/internal/call"
	"github.com/tandem-rpc/tandem/internal/session"
)

// WithID announces id to the server on every connection, so that the server can call the
// methods of [WithService] and [WithFunc] at any time: see the server's WithClients. An
// announcement is a call of [tandem.AnnounceMethod]; it passes the client's plugins and the
// interceptors of both chains, which may add credentials. If a server refuses it, or does not
// know the method, the connection is closed and tried again later.
func WithID(id string) Option {
	return func(o *options) {
		o.given.Add("WithID")
		o.id = id
	}
}

// announce sends the client's ID to the server, before any other call. It does nothing without
// [WithID].
func (c *Client) announce(ctx context.Context, s *session.Session) error {
	if c.opts.id == "" {
		return nil
	}
	invoke := func(ctx context.Context, attempt *tandem.Call) error { return call.Invoke(ctx, s, attempt, nil) }
	f := tandem.Chain(invoke, c.opts.attemptInterceptors...)
	f = c.points.Intercept(tandem.Chain(f, c.opts.interceptors...))
	o := call.NewOutgoing(c.env, c.intercepted)
	defer o.Release()
	o.Call.Body, o.Call.Method, o.Call.Codec, o.Call.Peer = o, tandem.AnnounceMethod, codec.Raw().Name(), s.Peer()
	o.Points = c.points.Attempts()
	o.SetDeadline(ctx, c.opts.connectTimeout)
	err := c.points.Call(ctx, &o.Call, func() error { return c.caller.Run(ctx, o, f, []byte(c.opts.id), nil) })
	switch {
	case err == nil:
		return nil
	case tandem.CodeOf(err) == tandem.Unimplemented:
		return fmt.Errorf("announcing %q (WithID): the server calls no methods of clients: give it WithClients: %w", c.opts.id, err)
	}
	return fmt.Errorf("announcing %q: %w", c.opts.id, err)
}
