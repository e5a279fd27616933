package rpcx

import (
	"context"
	"errors"
	"maps"
	"net/rpc"
	"slices"
	"sync"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
)

// Call is a call made with [Client.Go].
type Call = rpc.Call

// Client makes calls at the servers that its selector chooses. Its fields are set
// before the first call; its methods are safe for concurrent use.
type Client struct {
	ClientSelector ClientSelector
	// ClientCodecFunc makes codecs of the user's own; servers must have their
	// counterpart. If it is nil, calls at servers that our selectors choose go by
	// tandem's protocol.
	ClientCodecFunc ClientCodecFunc
	// PluginContainer has the client's plugins.
	PluginContainer *ClientPluginContainer
	FailMode        FailMode // Failfast unless it is set
	// Retries is how many further attempts Failover and Failtry make; 3 unless it is
	// set. Of clients that share a selector, the first that calls decides.
	Retries int
	// Timeout bounds each call, all attempts together; 0 for no bound. A connection
	// of net/rpc's that does not take a call's request in that time is closed. When
	// an answer comes by one later, net/rpc decodes it nevertheless: the reply of a call
	// whose time was over is not for another call.
	Timeout time.Duration

	mu       sync.Mutex
	who      *credentials
	closed   bool
	open     map[string]*rpc.Client // by network and address, for selectors that tell
	borrowed map[*rpc.Client]bool   // of other selectors
	running  sync.WaitGroup
	ctx      context.Context //nolint:containedctx // the client's own life
	cancel   context.CancelCauseFunc
}

const defaultRetries = 3

// NewClient returns a client that asks s where to call. It connects when it first
// calls.
func NewClient(s ClientSelector) *Client {
	c := &Client{
		ClientSelector: s, FailMode: Failfast, Retries: defaultRetries, PluginContainer: new(ClientPluginContainer),
		open: map[string]*rpc.Client{}, borrowed: map[*rpc.Client]bool{},
	}
	c.ctx, c.cancel = context.WithCancelCause(context.Background())
	return c
}

// Auth has all further calls carry who the client is: a token, and what kind of
// token that is. With codecs of the user's own it counts from the next connection
// on. The error is always nil.
func (c *Client) Auth(authorization, tag string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.who = &credentials{authorization, tag}
	return nil
}

// Call calls a method, waits, and decodes the answer into reply, a pointer. An error
// that the server has sent is an [Error].
func (c *Client) Call(serviceMethod string, args, reply any) error {
	if !c.begin() {
		return ErrShutdown
	}
	defer c.running.Done()
	return c.call(serviceMethod, args, reply)
}

// Go calls a method without waiting. When the call is over it is sent to done, for
// which a nil done gets a new channel. Like net/rpc's, the channel must have room.
func (c *Client) Go(serviceMethod string, args, reply any, done chan *Call) *Call {
	if done == nil {
		done = make(chan *Call, 1)
	}
	if cap(done) == 0 {
		panic("rpcx: done channel is unbuffered") // as net/rpc: it is the program's mistake
	}
	call := &Call{ServiceMethod: serviceMethod, Args: args, Reply: reply, Done: done}
	if !c.begin() {
		call.Error = ErrShutdown
		done <- call
		return call
	}
	go func() {
		defer c.running.Done()
		call.Error = c.call(serviceMethod, args, reply)
		select {
		case done <- call:
		default: // as net/rpc: who gives no room does not want to know
		}
	}()
	return call
}

// Close ends the client: calls in flight fail. The connections of selectors that are
// a program's own are closed, those of ours belong to the selector.
func (c *Client) Close() error {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return ErrShutdown
	}
	c.closed = true
	had := slices.AppendSeq(slices.Collect(maps.Values(c.open)), maps.Keys(c.borrowed))
	c.open, c.borrowed = nil, nil
	c.mu.Unlock()
	c.cancel(ErrShutdown)
	var err error
	for _, r := range had {
		if closed := r.Close(); !errors.Is(closed, ErrShutdown) {
			err = errors.Join(err, closed)
		}
	}
	c.running.Wait()
	return err
}

// begin counts a call in, unless the client is closed.
func (c *Client) begin() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed {
		c.running.Add(1)
	}
	return !c.closed
}

// call makes a call by the way that the client's fields ask for.
func (c *Client) call(method string, args, reply any) error {
	ctx := c.ctx
	if c.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.Timeout)
		defer cancel()
	}
	t := &trip{c.PluginContainer.GetAll(), method, args}
	s, ok := c.ClientSelector.(CoreSelector)
	if !ok || c.ClientCodecFunc != nil {
		return ended(c.callByCodec(ctx, t, reply))
	}
	core, err := c.core(ctx, s)
	if err != nil {
		return err
	}
	if len(t.plugins) > 0 {
		ctx = context.WithValue(ctx, tripKey{}, t)
	}
	c.mu.Lock()
	who := c.who
	c.mu.Unlock()
	return ended(core.Call(ctx, method, args, reply, client.FailMode(c.FailMode.tandem()), client.Idempotent(), withCredentials(who)))
}

// core returns the tandem client of a selector, which may connect first.
func (c *Client) core(ctx context.Context, s CoreSelector) (*client.Client, error) {
	if r, ok := s.(readySelector); ok {
		if core := r.Ready(); core != nil {
			return core, nil
		}
	}
	return within(ctx, func() (*client.Client, error) {
		return s.Core(client.WithFailMode(c.FailMode.tandem()), client.WithRetries(c.Retries), c.PluginContainer.option())
	})
}

func withCredentials(who *credentials) tandem.CallOption {
	return func(call *tandem.Call) {
		if who == nil {
			return
		}
		for key, values := range who.metadata() {
			client.Metadata(key, values[0])(call)
		}
	}
}
