package rpcx

import (
	"errors"
	"fmt"
	"net/rpc"
	"slices"
	"sync"
)

// rpcx's points of a client. Those before a request may refuse it; an error of one
// that sees the answer takes its place.
type (
	// PreWriteRequestPlugin runs before a request is written.
	PreWriteRequestPlugin interface {
		PreWriteRequest(r *rpc.Request, args any) error
	}
	// PostReadResponseHeaderPlugin runs when it is known how a call has ended.
	PostReadResponseHeaderPlugin interface {
		PostReadResponseHeader(r *rpc.Response) error
	}
	// PostReadResponseBodyPlugin runs when the reply is decoded.
	PostReadResponseBodyPlugin interface {
		PostReadResponseBody(body any) error
	}
)

// ClientPluginContainer holds the plugins of a [Client], in the order in which they
// were added. It is safe for concurrent use.
type ClientPluginContainer struct {
	mu      sync.Mutex
	plugins []any
}

// Add adds a plugin. It fails for a value that has none of the points.
func (c *ClientPluginContainer) Add(p any) error {
	switch p.(type) {
	case PreWriteRequestPlugin, PostReadResponseHeaderPlugin, PostReadResponseBodyPlugin:
	default:
		return fmt.Errorf("%w: %T", errNoPlugin, p)
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

func (c *ClientPluginContainer) before(method string, args any) error {
	for _, p := range c.GetAll() {
		if q, ok := p.(PreWriteRequestPlugin); ok {
			if err := q.PreWriteRequest(&rpc.Request{ServiceMethod: method}, args); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c *ClientPluginContainer) after(method string, reply any, err error) error {
	r := &rpc.Response{ServiceMethod: method}
	if err != nil {
		r.Error = err.Error()
	}
	for _, p := range c.GetAll() {
		if q, ok := p.(PostReadResponseHeaderPlugin); ok {
			if failed := q.PostReadResponseHeader(r); failed != nil {
				err = errors.Join(failed, err)
			}
		}
		if q, ok := p.(PostReadResponseBodyPlugin); ok && err == nil {
			err = q.PostReadResponseBody(reply)
		}
	}
	return err
}
