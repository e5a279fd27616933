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
	// ClientCodecFunc makes the codec of a connection; servers must have its counterpart. If
	// it is nil, calls with selectors of this module use tandem's protocol.
	ClientCodecFunc ClientCodecFunc
	// PluginContainer has the client's plugins.
	PluginContainer *ClientPluginContainer
	FailMode        FailMode // NewClient sets Failfast
	// Retries is the number of retries of Failover and Failtry; NewClient sets 3. Clients that
	// share a selector use the value of the first one that calls.
	Retries int
	// Timeout bounds each call with all its attempts; 0 means no timeout. A connection of a
	// net/rpc client that does not take the request in that time is closed. If the response
	// arrives later, net/rpc still decodes it: don't use the reply of a call that timed out
	// for another call.
	Timeout time.Duration

	mu       sync.Mutex
	who      *credentials
	closed   bool
	open     map[string]*rpc.Client // connections of selectors of this module, by network and address
	borrowed map[*rpc.Client]bool   // connections of a program's own selector
	running  sync.WaitGroup
	ctx      context.Context //nolint:containedctx // ends with the client
	cancel   context.CancelCauseFunc
}

const defaultRetries = 3

// NewClient returns a client for the servers that s chooses. It connects at the first call.
func NewClient(s ClientSelector) *Client {
	c := &Client{
		ClientSelector: s, FailMode: Failfast, Retries: defaultRetries, PluginContainer: new(ClientPluginContainer),
		open: map[string]*rpc.Client{}, borrowed: map[*rpc.Client]bool{},
	}
	c.ctx, c.cancel = context.WithCancelCause(context.Background())
	return c
}

// Auth sets the credentials of all further calls: a token, and the kind of token. With the
// user's own codecs, they apply to connections that are opened after it. The error is always
// nil.
func (c *Client) Auth(authorization, tag string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.who = &credentials{authorization, tag}
	return nil
}

// Call calls a method, waits, and decodes the result into reply, a pointer. An error that the
// server has sent is an [Error].
func (c *Client) Call(serviceMethod string, args, reply any) error {
	if !c.begin() {
		return ErrShutdown
	}
	defer c.running.Done()
	return c.call(serviceMethod, args, reply)
}

// Go calls a method without waiting. When the call has ended, it is sent to done. If done is
// nil, Go makes a channel; otherwise, as with net/rpc, done must be buffered.
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
		default: // as net/rpc: dropped if the channel is full
		}
	}()
	return call
}

// Close closes the client: calls in flight fail. Connections from a program's own selector
// are closed; those of this module's selectors belong to the selector.
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

// begin counts a running call. It returns false if the client is closed.
func (c *Client) begin() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed {
		c.running.Add(1)
	}
	return !c.closed
}

// call makes a call with the tandem client, or with callByCodec, depending on the fields.
func (c *Client) call(method string, args, reply any) error {
	ctx := c.ctx
	if c.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.Timeout)
		defer cancel()
	}
	t := &pluginCall{c.PluginContainer.GetAll(), method, args}
	s, ok := c.ClientSelector.(CoreSelector)
	if !ok || c.ClientCodecFunc != nil {
		return ended(c.callByCodec(ctx, t, reply))
	}
	core, err := c.core(ctx, s)
	if err != nil {
		return err
	}
	if len(t.plugins) > 0 {
		ctx = context.WithValue(ctx, pluginCallKey{}, t)
	}
	c.mu.Lock()
	who := c.who
	c.mu.Unlock()
	return ended(core.Call(ctx, method, args, reply, client.FailMode(c.FailMode.tandem()), client.Idempotent(), withCredentials(who)))
}

// core returns the tandem client of a selector, which may have to connect first.
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
