package rpcx

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/rpc"
	"slices"
	"sync"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/internal/points"
	"github.com/tandem-rpc/tandem/plugin"
	"github.com/tandem-rpc/tandem/server"
)

// PluginContainer holds the plugins of a [Server], in the order in which they were
// added. It is safe for concurrent use. A plugin is a value with one or more of
//
//   - the interfaces of [server.WithPlugins],
//   - rpcx's interfaces: [RegisterPlugin] to [PostWriteResponsePlugin],
//   - [OptionsPlugin], which can set any option of the tandem server.
type PluginContainer struct {
	mu      sync.Mutex
	plugins []any
}

// Add adds a plugin. It fails for a value that is not a plugin.
func (c *PluginContainer) Add(p any) error {
	if _, err := optionsOf(p); errors.Is(err, errNoPlugin) {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.plugins = append(c.plugins, p)
	return nil
}

// Remove removes a plugin. Its type must be comparable, as pointers are.
func (c *PluginContainer) Remove(p any) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := slices.Index(c.plugins, p)
	if i < 0 {
		return fmt.Errorf("rpcx: there is no such plugin: %T", p)
	}
	c.plugins = slices.Delete(c.plugins, i, i+1)
	return nil
}

// GetAll returns the plugins.
func (c *PluginContainer) GetAll() []any {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.plugins)
}

// registered calls the RegisterPlugins for a service.
func (c *PluginContainer) registered(r registration) error {
	var err error
	for _, p := range c.GetAll() {
		if rp, ok := p.(RegisterPlugin); ok {
			err = errors.Join(err, rp.Register(r.name, r.rcvr, r.metadata...))
		}
	}
	return err
}

// OptionsPlugin is a plugin that returns options for the tandem server. It is called when
// that server is made.
type OptionsPlugin interface {
	ServerOptions() ([]server.Option, error)
}

// The plugin interfaces of an rpcx server. An error refuses the call, and its text is sent to
// the caller.
type (
	// RegisterPlugin runs when a service is registered.
	RegisterPlugin interface {
		Register(name string, rcvr any, metadata ...string) error
	}
	// PostConnAcceptPlugin runs when a connection is accepted; false closes it.
	PostConnAcceptPlugin interface {
		HandleConnAccept(conn net.Conn) bool
	}
	// PreReadRequestHeaderPlugin runs first in each call.
	PreReadRequestHeaderPlugin interface {
		PreReadRequestHeader(r *rpc.Request) error
	}
	// PostReadRequestHeaderPlugin runs when the caller and the method are known.
	PostReadRequestHeaderPlugin interface {
		PostReadRequestHeader(r *rpc.Request) error
	}
	// PreReadRequestBodyPlugin runs before the arguments are decoded. body is nil.
	PreReadRequestBodyPlugin interface {
		PreReadRequestBody(body any) error
	}
	// PostReadRequestBodyPlugin runs after the arguments were decoded.
	PostReadRequestBodyPlugin interface {
		PostReadRequestBody(body any) error
	}
	// PreWriteResponsePlugin runs before the response is encoded.
	PreWriteResponsePlugin interface {
		PreWriteResponse(r *rpc.Response, body any) error
	}
	// PostWriteResponsePlugin runs when the call has ended; body is nil. Its error is
	// ignored.
	PostWriteResponsePlugin interface {
		PostWriteResponse(r *rpc.Response, body any) error
	}
)

var errNoPlugin = errors.New("rpcx: the value has no method of a plugin")

// optionsOf returns the options that add a plugin to the tandem server.
func optionsOf(p any) ([]server.Option, error) {
	var opts []server.Option
	if points.IsOfServer(p) {
		opts = append(opts, server.WithPlugins(p))
	}
	_, known := p.(RegisterPlugin)
	switch p.(type) {
	case PostConnAcceptPlugin, PreReadRequestHeaderPlugin, PostReadRequestHeaderPlugin, PreReadRequestBodyPlugin,
		PostReadRequestBodyPlugin, PreWriteResponsePlugin, PostWriteResponsePlugin:
		opts = append(opts, server.WithPlugins(adapted{p}))
	}
	if o, ok := p.(OptionsPlugin); ok {
		more, err := o.ServerOptions()
		return append(opts, more...), err
	}
	if len(opts) == 0 && !known {
		return nil, fmt.Errorf("%w: %T", errNoPlugin, p)
	}
	return opts, nil
}

// adapted is a plugin of the tandem server that calls an rpcx plugin.
type adapted struct{ plugin any }

var (
	_ plugin.ConnAccepted        = adapted{}
	_ plugin.BeforeRequestHeader = adapted{}
	_ plugin.AfterRequestHeader  = adapted{}
	_ plugin.BeforeRequestBody   = adapted{}
	_ plugin.AfterRequestBody    = adapted{}
	_ plugin.BeforeResponse      = adapted{}
	_ plugin.AfterResponse       = adapted{}
)

var errConnRefused = errors.New("a plugin has refused the connection")

func (p adapted) ConnAccepted(c net.Conn) (net.Conn, error) {
	if q, ok := p.plugin.(PostConnAcceptPlugin); ok && !q.HandleConnAccept(c) {
		return nil, errConnRefused
	}
	return c, nil
}

func (p adapted) BeforeRequestHeader(_ context.Context, call *tandem.Call) error {
	if q, ok := p.plugin.(PreReadRequestHeaderPlugin); ok {
		return q.PreReadRequestHeader(&rpc.Request{ServiceMethod: call.Method})
	}
	return nil
}

func (p adapted) AfterRequestHeader(_ context.Context, call *tandem.Call) error {
	if q, ok := p.plugin.(PostReadRequestHeaderPlugin); ok {
		return q.PostReadRequestHeader(&rpc.Request{ServiceMethod: call.Method})
	}
	return nil
}

func (p adapted) BeforeRequestBody(context.Context, *tandem.Call) error {
	if q, ok := p.plugin.(PreReadRequestBodyPlugin); ok {
		return q.PreReadRequestBody(nil)
	}
	return nil
}

func (p adapted) AfterRequestBody(_ context.Context, _ *tandem.Call, args any) error {
	if q, ok := p.plugin.(PostReadRequestBodyPlugin); ok {
		return q.PostReadRequestBody(args)
	}
	return nil
}

func (p adapted) BeforeResponse(_ context.Context, call *tandem.Call, reply any, err error) error {
	if q, ok := p.plugin.(PreWriteResponsePlugin); ok {
		return q.PreWriteResponse(responseOf(call, err), reply)
	}
	return nil
}

func (p adapted) AfterResponse(_ context.Context, call *tandem.Call, end tandem.Outcome) {
	if q, ok := p.plugin.(PostWriteResponsePlugin); ok {
		_ = q.PostWriteResponse(responseOf(call, end.Err), nil)
	}
}

func responseOf(call *tandem.Call, err error) *rpc.Response {
	r := &rpc.Response{ServiceMethod: call.Method}
	if err != nil {
		r.Error = err.Error()
	}
	return r
}
