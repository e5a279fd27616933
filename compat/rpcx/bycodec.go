package rpcx

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/rpc"
)

// serverChooser is a selector of this module. It chooses and connects in two steps, so that
// connections can be reused.
type serverChooser interface {
	ChooseServer() (network, address string, err error)
	DialServer(network, address string, f ClientCodecFunc) (*rpc.Client, error)
}

// callByCodec makes a call with a net/rpc client: for a program's own selector, or with its
// own codec.
func (c *Client) callByCodec(ctx context.Context, t *pluginCall, reply any) error {
	attempts := 1 + max(0, c.Retries)
	switch c.FailMode {
	case Failfast:
		attempts = 1
	case Failover, Failtry:
	default:
		return fmt.Errorf("rpcx: fail mode %d needs a selector of this module and no codec", c.FailMode)
	}
	var err error
	var at destination
	for range attempts {
		if at.client == nil || c.FailMode == Failover {
			at, err = within(ctx, c.choose)
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if err != nil {
				continue
			}
		}
		err = c.once(ctx, at, t, reply)
		if err == nil || errors.As(err, new(rpc.ServerError)) || errors.As(err, new(refused)) || ctx.Err() != nil {
			return err
		}
		c.drop(at)
		at.client = nil
		if c.FailMode == Failtry {
			at, err = c.again(ctx, at, err)
		}
	}
	return err
}

// destination is the server of an attempt, and the connection to it.
type destination struct {
	client           *rpc.Client
	network, address string // "" for a program's own selector
}

// once makes one attempt, and calls the plugins before and after it.
func (c *Client) once(ctx context.Context, at destination, t *pluginCall, reply any) error {
	if err := t.before(); err != nil {
		return err
	}
	return t.body(reply, t.header(c.exchange(ctx, at, t, reply)))
}

// exchange sends a request and waits for its response.
func (c *Client) exchange(ctx context.Context, at destination, t *pluginCall, reply any) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	// If the request is not written when ctx ends, the connection can't take later requests
	// either. Closing it ends the write, so nothing reads the arguments after that.
	stop := context.AfterFunc(ctx, func() { c.drop(at) })
	call := at.client.Go(t.method, t.args, reply, make(chan *rpc.Call, 1))
	if !stop() {
		return context.Cause(ctx)
	}
	select {
	case <-call.Done:
		return call.Error
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// within runs f and waits for it until ctx ends. f is not cancelled: it may go on after that,
// and must keep or close what it makes. within panics with the value that f panics with.
func within[T any](ctx context.Context, f func() (T, error)) (T, error) {
	type result struct {
		value    T
		err      error
		panicked any
	}
	done := make(chan result, 1)
	go func() {
		r := result{err: errSelectorExited}
		defer func() {
			r.panicked = recover()
			done <- r
		}()
		r.value, r.err = f()
	}()
	select {
	case r := <-done:
		if r.panicked != nil {
			panic(r.panicked)
		}
		return r.value, r.err
	case <-ctx.Done():
		var none T
		return none, context.Cause(ctx)
	}
}

var errSelectorExited = errors.New("rpcx: the selector has ended its goroutine")

// choose asks the selector for the server of the next attempt, and connects to it.
func (c *Client) choose() (destination, error) {
	s, ok := c.ClientSelector.(serverChooser)
	if !ok {
		return c.selectConn()
	}
	network, address, err := s.ChooseServer()
	if err != nil {
		return destination{}, err
	}
	return c.connect(destination{network: network, address: address})
}

// connect returns the open connection to a server, or opens one.
func (c *Client) connect(at destination) (destination, error) {
	key := at.network + "://" + at.address
	c.mu.Lock()
	at.client = c.open[key]
	f := c.codecLocked()
	c.mu.Unlock()
	if at.client != nil {
		return at, nil
	}
	fresh, err := c.ClientSelector.(serverChooser).DialServer(at.network, at.address, f) //nolint:forcetypeassert // at came from a serverChooser
	if err != nil {
		return at, err
	}
	c.mu.Lock()
	closed := c.closed
	at.client = c.open[key]
	if !closed && at.client == nil {
		c.open[key], at.client = fresh, fresh
	}
	c.mu.Unlock()
	if at.client != fresh { // another call was faster
		_ = fresh.Close()
	}
	if closed {
		return at, ErrShutdown
	}
	return at, nil
}

// selectConn gets a connection from a program's own selector.
func (c *Client) selectConn() (destination, error) {
	c.mu.Lock()
	f := c.codecLocked()
	c.mu.Unlock()
	r, err := c.ClientSelector.Select(f)
	if err != nil {
		return destination{}, err
	}
	c.mu.Lock()
	closed := c.closed // while the selector was choosing
	if !closed {
		c.borrowed[r] = true
	}
	c.mu.Unlock()
	if closed {
		_ = r.Close()
		return destination{}, ErrShutdown
	}
	return destination{client: r}, nil
}

// codecLocked returns the function for codecs, which send the client's credentials. It is
// never nil, as a program's own selector calls it. c.mu is held.
func (c *Client) codecLocked() ClientCodecFunc {
	if c.ClientCodecFunc == nil {
		return gobCodec(c.who)
	}
	return signed(c.ClientCodecFunc, c.who)
}

// again connects to the same server once more. It returns err if it can't.
func (c *Client) again(ctx context.Context, at destination, err error) (destination, error) {
	if at.address == "" {
		return destination{}, err
	}
	fresh, dialErr := within(ctx, func() (destination, error) { return c.connect(at) })
	if dialErr != nil {
		return destination{}, errors.Join(err, dialErr)
	}
	return fresh, err
}

// drop closes a connection that has failed.
func (c *Client) drop(at destination) {
	c.mu.Lock()
	delete(c.borrowed, at.client)
	maps.DeleteFunc(c.open, func(_ string, r *rpc.Client) bool { return r == at.client })
	c.mu.Unlock()
	_ = at.client.Close() // it has failed anyway
}
