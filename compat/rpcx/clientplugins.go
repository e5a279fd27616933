package rpcx

import (
	"context"
	"errors"
	"fmt"
	"net/rpc"
	"slices"
	"sync"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
)

// rpcx's points of a client, which each attempt at a call passes, maybe several at a
// time. Whatever error one returns ends the call, and its caller gets it.
type (
	// PreWriteRequestPlugin runs before a request is written.
	PreWriteRequestPlugin interface {
		PreWriteRequest(r *rpc.Request, args any) error
	}
	// PostReadResponseHeaderPlugin runs when it is known how an attempt has ended.
	PostReadResponseHeaderPlugin interface {
		PostReadResponseHeader(r *rpc.Response) error
	}
	// PostReadResponseBodyPlugin runs when the reply is decoded.
	PostReadResponseBodyPlugin interface {
		PostReadResponseBody(body any) error
	}
)

// ClientPluginContainer holds the plugins of a [Client], in the order in which they
// were added. It is safe for concurrent use. A plugin is a value with one or more of
//
//   - rpcx's points: [PreWriteRequestPlugin] to [PostReadResponseBodyPlugin],
//   - the points of [client.WithPlugins], which count for calls by tandem's protocol: of
//     clients that share a selector, those of the first that calls.
type ClientPluginContainer struct {
	mu      sync.Mutex
	plugins []any
}

// Add adds a plugin. It fails for a value that is none.
func (c *ClientPluginContainer) Add(p any) error {
	switch p.(type) {
	case PreWriteRequestPlugin, PostReadResponseHeaderPlugin, PostReadResponseBodyPlugin:
	default:
		if !isTandems(p) {
			return fmt.Errorf("%w: %T", errNoPlugin, p)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.plugins = append(c.plugins, p)
	return nil
}

// GetAll returns the plugins.
func (c *ClientPluginContainer) GetAll() []any {
	if c == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.plugins)
}

// isTandems reports whether a plugin has a point of [client.WithPlugins].
func isTandems(p any) bool {
	switch p.(type) {
	case client.Connected, client.BeforeCall, client.Intercepts, client.BeforeSelect, client.BeforeRequest, client.AfterRequest,
		client.BeforeResponseHeader, client.AfterResponseHeader, client.BeforeResponseBody, client.AfterResponseBody, client.AfterCall:
		return true
	}
	return false
}

// option is what makes a tandem client pass the plugins.
func (c *ClientPluginContainer) option() client.Option {
	all := []any{attempts{}}
	for _, p := range c.GetAll() {
		if isTandems(p) {
			all = append(all, p)
		}
	}
	return client.WithPlugins(all...)
}

// trip is what rpcx's plugins see of one call. The tandem client belongs to a selector
// and the plugins to one of its clients, so a call's context carries them.
type trip struct {
	plugins []any
	method  string
	args    any
}

type tripKey struct{}

// refused is what a plugin has returned: it ends the call as it is.
type refused struct{ error }

func (r refused) Unwrap() error { return r.error }

// ended returns the error of a call as its caller gets it.
func ended(err error) error {
	if r, ok := errors.AsType[refused](err); ok {
		return r.error
	}
	return said(err)
}

func (t *trip) before() error {
	for _, p := range t.plugins {
		if q, ok := p.(PreWriteRequestPlugin); ok {
			if err := q.PreWriteRequest(&rpc.Request{ServiceMethod: t.method}, t.args); err != nil {
				return refused{err}
			}
		}
	}
	return nil
}

func (t *trip) header(err error) error {
	r := &rpc.Response{ServiceMethod: t.method}
	if err != nil {
		r.Error = said(err).Error()
	}
	for _, p := range t.plugins {
		if q, ok := p.(PostReadResponseHeaderPlugin); ok {
			if failed := q.PostReadResponseHeader(r); failed != nil {
				return refused{errors.Join(failed, err)}
			}
		}
	}
	return err
}

func (t *trip) body(reply any, err error) error {
	for _, p := range t.plugins {
		if q, ok := p.(PostReadResponseBodyPlugin); ok && err == nil {
			if err = q.PostReadResponseBody(reply); err != nil {
				return refused{err}
			}
		}
	}
	return err
}

// attempts takes tandem's points to the plugins of the call's client.
type attempts struct{}

var (
	_ client.BeforeRequest       = attempts{}
	_ client.AfterResponseHeader = attempts{}
	_ client.AfterResponseBody   = attempts{}
	_ client.KeepsNothing        = attempts{}
)

func (attempts) KeepsNothing() {}

func tripOf(ctx context.Context) *trip {
	if t, ok := ctx.Value(tripKey{}).(*trip); ok {
		return t
	}
	return new(trip)
}

func (attempts) BeforeRequest(ctx context.Context, _ *tandem.Call) error {
	return tripOf(ctx).before()
}

func (attempts) AfterResponseHeader(ctx context.Context, _ *tandem.Call, err error) error {
	return tripOf(ctx).header(err)
}

func (attempts) AfterResponseBody(ctx context.Context, _ *tandem.Call, reply any, err error) error {
	return tripOf(ctx).body(reply, err)
}
