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
	"github.com/tandem-rpc/tandem/internal/points"
	"github.com/tandem-rpc/tandem/plugin"
)

// The plugin interfaces of an rpcx client. They are called in each attempt of a call,
// possibly concurrently. An error of a plugin ends the call and is returned to its caller.
type (
	// PreWriteRequestPlugin runs before a request is written.
	PreWriteRequestPlugin interface {
		PreWriteRequest(r *rpc.Request, args any) error
	}
	// PostReadResponseHeaderPlugin runs when the outcome of an attempt is known.
	PostReadResponseHeaderPlugin interface {
		PostReadResponseHeader(r *rpc.Response) error
	}
	// PostReadResponseBodyPlugin runs after the reply was decoded.
	PostReadResponseBodyPlugin interface {
		PostReadResponseBody(body any) error
	}
)

// ClientPluginContainer holds the plugins of a [Client], in the order in which they
// were added. It is safe for concurrent use. A plugin is a value with one or more of
//
//   - rpcx's interfaces: [PreWriteRequestPlugin] to [PostReadResponseBodyPlugin],
//   - the interfaces of [client.WithPlugins], which are called for tandem's protocol only.
//     Clients that share a selector use those of the first one that calls.
type ClientPluginContainer struct {
	mu      sync.Mutex
	plugins []any
}

// Add adds a plugin. It fails for a value that is not a plugin.
func (c *ClientPluginContainer) Add(p any) error {
	switch p.(type) {
	case PreWriteRequestPlugin, PostReadResponseHeaderPlugin, PostReadResponseBodyPlugin:
	default:
		if !points.IsOfClient(p) {
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

// option returns the option that makes a tandem client call the plugins.
func (c *ClientPluginContainer) option() client.Option {
	all := []any{attempts{}}
	for _, p := range c.GetAll() {
		if points.IsOfClient(p) {
			all = append(all, p)
		}
	}
	return client.WithPlugins(all...)
}

// pluginCall is one call with the plugins to run for it. It is in the call's context, as the tandem
// client belongs to a selector, and the plugins to one of the selector's clients.
type pluginCall struct {
	plugins []any
	method  string
	args    any
}

type pluginCallKey struct{}

// refused is an error of a plugin, which ends the call unchanged.
type refused struct{ error }

func (r refused) Unwrap() error { return r.error }

// ended converts the error of a call to the one that its caller gets.
func ended(err error) error {
	if r, ok := errors.AsType[refused](err); ok {
		return r.error
	}
	return serverError(err)
}

func (t *pluginCall) before() error {
	for _, p := range t.plugins {
		if q, ok := p.(PreWriteRequestPlugin); ok {
			if err := q.PreWriteRequest(&rpc.Request{ServiceMethod: t.method}, t.args); err != nil {
				return refused{err}
			}
		}
	}
	return nil
}

func (t *pluginCall) header(err error) error {
	r := &rpc.Response{ServiceMethod: t.method}
	if err != nil {
		r.Error = serverError(err).Error()
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

func (t *pluginCall) body(reply any, err error) error {
	for _, p := range t.plugins {
		if q, ok := p.(PostReadResponseBodyPlugin); ok && err == nil {
			if err = q.PostReadResponseBody(reply); err != nil {
				return refused{err}
			}
		}
	}
	return err
}

// attempts is a plugin of the tandem client that calls the plugins of the call's client.
type attempts struct{}

var (
	_ plugin.BeforeRequest       = attempts{}
	_ plugin.AfterResponseHeader = attempts{}
	_ plugin.AfterResponseBody   = attempts{}
	_ plugin.KeepsNothing        = attempts{}
)

func (attempts) KeepsNothing() {}

func pluginCallOf(ctx context.Context) *pluginCall {
	if t, ok := ctx.Value(pluginCallKey{}).(*pluginCall); ok {
		return t
	}
	return new(pluginCall)
}

func (attempts) BeforeRequest(ctx context.Context, _ *tandem.Call) error {
	return pluginCallOf(ctx).before()
}

func (attempts) AfterResponseHeader(ctx context.Context, _ *tandem.Call, err error) error {
	return pluginCallOf(ctx).header(err)
}

func (attempts) AfterResponseBody(ctx context.Context, _ *tandem.Call, reply any, err error) error {
	return pluginCallOf(ctx).body(reply, err)
}
