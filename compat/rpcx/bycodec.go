package rpcx

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/rpc"
)

// serverChooser is a selector of ours, which chooses and connects in two steps: then
// connections can be used again.
type serverChooser interface {
	ChooseServer() (network, address string, err error)
	DialServer(network, address string, f ClientCodecFunc) (*rpc.Client, error)
}

// callByCodec makes a call with net/rpc's clients: those of a selector of the
// program's own, or with codecs of its own.
func (c *Client) callByCodec(ctx context.Context, t *trip, reply any) error {
	attempts := 1 + max(0, c.Retries)
	switch c.FailMode {
	case Failfast:
		attempts = 1
	case Failover, Failtry:
	default:
		return fmt.Errorf("rpcx: fail mode %d needs a selector of this module and no codec", c.FailMode)
	}
	var err error
	var at place
	for range attempts {
		if at.client == nil || c.FailMode == Failover {
			if at, err = c.choose(); err != nil {
				continue
			}
		}
		err = c.once(ctx, at.client, t, reply)
		if err == nil || errors.As(err, new(rpc.ServerError)) || errors.As(err, new(refused)) || ctx.Err() != nil {
			return err
		}
		c.drop(at)
		at.client = nil
		if c.FailMode == Failtry {
			at, err = c.again(at, err)
		}
	}
	return err
}

// place is where a call goes.
type place struct {
	client           *rpc.Client
	network, address string // "" for selectors of the program's own
}

// once makes one attempt, between the plugins.
func (c *Client) once(ctx context.Context, at *rpc.Client, t *trip, reply any) error {
	if err := t.before(); err != nil {
		return err
	}
	return t.body(reply, t.header(c.exchange(ctx, at, t, reply)))
}

// exchange sends a request and waits for its answer.
func (c *Client) exchange(ctx context.Context, at *rpc.Client, t *trip, reply any) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	call := at.Go(t.method, t.args, reply, make(chan *rpc.Call, 1))
	select {
	case <-call.Done:
		return call.Error
	case <-ctx.Done():
		if c.ctx.Err() != nil {
			return ErrShutdown
		}
		return ctx.Err()
	}
}

// choose asks the selector where the next attempt goes.
func (c *Client) choose() (place, error) {
	s, ok := c.ClientSelector.(serverChooser)
	if !ok {
		return c.borrow()
	}
	network, address, err := s.ChooseServer()
	if err != nil {
		return place{}, err
	}
	return c.connect(place{network: network, address: address})
}

// connect returns the connection to a server, and makes it if there is none.
func (c *Client) connect(at place) (place, error) {
	key := at.network + "://" + at.address
	c.mu.Lock()
	at.client = c.open[key]
	f := c.codecLocked()
	c.mu.Unlock()
	if at.client != nil {
		return at, nil
	}
	fresh, err := c.ClientSelector.(serverChooser).DialServer(at.network, at.address, f) //nolint:forcetypeassert // whoever gave the place is one
	if err != nil {
		return at, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	at.client = c.open[key]
	if at.client != nil || c.closed { // another call was faster
		_ = fresh.Close()
		if c.closed {
			return at, ErrShutdown
		}
		return at, nil
	}
	c.open[key], at.client = fresh, fresh
	return at, nil
}

// borrow asks a selector of the program's own.
func (c *Client) borrow() (place, error) {
	c.mu.Lock()
	f := c.codecLocked()
	c.mu.Unlock()
	r, err := c.ClientSelector.Select(f)
	if err != nil {
		return place{}, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.borrowed[r] = true
	return place{client: r}, nil
}

// codecLocked returns what makes codecs that say who calls. Selectors of a program's
// own call it, so there always is one.
func (c *Client) codecLocked() ClientCodecFunc {
	if c.ClientCodecFunc == nil {
		return gobCodec(c.who)
	}
	return signed(c.ClientCodecFunc, c.who)
}

// again connects to the same server once more.
func (c *Client) again(at place, err error) (place, error) {
	if at.address == "" {
		return place{}, err
	}
	fresh, dialErr := c.connect(at)
	if dialErr != nil {
		return place{}, errors.Join(err, dialErr)
	}
	return fresh, err
}

// drop closes a connection that has failed.
func (c *Client) drop(at place) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.borrowed, at.client)
	maps.DeleteFunc(c.open, func(_ string, r *rpc.Client) bool { return r == at.client })
	_ = at.client.Close() // it has failed anyway
}
