package etcd

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/status"
)

// Times and sizes of a connection.
const (
	opTimeout    = 3 * time.Second  // timeout of one request, and of an operation of several requests
	firstTimeout = 10 * time.Second // timeout of the first Put, and of operations on documents; ctx may end earlier
	probeEvery   = 3 * time.Second
	// HTTP/2 pings detect a dead connection. etcd treats pings more often than
	// every 5 s as an attack; gRPC sends none more often than every 10 s.
	pingEvery   = 10 * time.Second
	pingTimeout = 3 * time.Second
	maxMessage  = 32 << 20 // largest message received, in bytes
	// maxLists is how many lists are read at the same time. Thousands of watches
	// start again together when their connection was lost. If all read their lists
	// at once, none might finish within its timeout, and all would start again.
	maxLists = 32
)

// errLost is the cause for which an epoch ends when the connection breaks.
var errLost = errors.New("the connection to etcd was lost")

// conn is a connection to a cluster, shared by all registrations and watches of a
// Registry. It connects when it is first used.
type conn struct {
	config     clientv3.Config
	entries    atomic.Int64 // number of open registrations
	made       time.Time
	lastAnswer atomic.Int64  // ns after made; when a server answered last
	lists      chan struct{} // holds a token for each list that is being read
	ctx        context.Context
	stop       context.CancelFunc
	wg         sync.WaitGroup

	turn   chan struct{}    // holds a token while client is used by open or close
	client *clientv3.Client // nil before the first open

	mu    sync.Mutex
	epoch context.Context // ends when the connection is lost
	end   context.CancelCauseFunc
}

func newConn(servers string, o options) *conn {
	c := &conn{made: time.Now(), turn: make(chan struct{}, 1), lists: make(chan struct{}, maxLists)}
	c.ctx, c.stop = context.WithCancel(context.Background())
	c.epoch, c.end = context.WithCancelCause(c.ctx)
	c.config = clientv3.Config{
		Endpoints:            strings.Split(servers, ","),
		TLS:                  o.tls,
		Username:             o.user,
		Password:             o.password,
		Context:              c.ctx,
		Logger:               zap.NewNop(), // errors are returned to callers, which report them
		DialTimeout:          opTimeout,    // timeout of a login
		DialKeepAliveTime:    pingEvery,
		DialKeepAliveTimeout: pingTimeout,
		MaxCallRecvMsgSize:   maxMessage,
		MaxUnaryRetries:      4,
		BackoffWaitBetween:   100 * time.Millisecond,
		DialOptions: []grpc.DialOption{grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 200 * time.Millisecond, Multiplier: 1.6, Jitter: 0.3, MaxDelay: 2 * time.Second},
			MinConnectTimeout: 3 * time.Second,
		}), grpc.WithChainUnaryInterceptor((&logins{conn: c}).intercept)},
	}
	return c
}

// open returns the client, and creates it if there is none. Creating it waits for a
// server only with a user name and a password.
func (c *conn) open(ctx context.Context) (*clientv3.Client, error) {
	select {
	case c.turn <- struct{}{}:
		defer func() { <-c.turn }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if c.client != nil {
		return c.client, nil
	}
	if err := c.checkServer(ctx); err != nil {
		return nil, err
	}
	client, err := clientv3.New(c.config)
	if err != nil {
		return nil, fmt.Errorf("logging in to %s: %w", strings.Join(c.config.Endpoints, ","), err)
	}
	c.client = client
	c.wg.Go(func() { c.observe(client) })
	c.wg.Go(func() { c.probe(client) })
	return client, nil
}

// checkServer checks that a server answers before open creates a client with a user name and
// a password. Creating such a client logs in, which does not end with ctx and does not
// say why it failed.
func (c *conn) checkServer(ctx context.Context) error {
	if c.config.Username == "" {
		return nil
	}
	return c.withoutLogin(func(cc *grpc.ClientConn) error { return ask(ctx, cc) })
}

// withoutLogin calls f with a connection without a user name, a password or a token.
func (c *conn) withoutLogin(f func(*grpc.ClientConn) error) error {
	config := c.config
	config.Username, config.Password = "", ""
	client, err := clientv3.New(config)
	if err != nil {
		return err
	}
	defer client.Close() //nolint:errcheck // the only error is that its context has ended
	return f(client.ActiveConnection())
}

// close closes the client and waits for the goroutines of the connection.
func (c *conn) close() {
	c.stop()
	c.turn <- struct{}{}
	defer func() { <-c.turn }()
	if c.client != nil {
		_ = c.client.Close() // the only error is that its context has ended
	}
	c.wg.Wait()
}

// current returns a context that ends, with the reason as its cause, when the
// connection is lost.
func (c *conn) current() context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.epoch
}

// lose ends the epoch and begins the next.
func (c *conn) lose(why error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.end(why)
	c.epoch, c.end = context.WithCancelCause(c.ctx)
}

// observe ends the epoch whenever the connection is no longer ready. etcd's client
// reconnects silently, perhaps to a cluster that has lost its data.
func (c *conn) observe(client *clientv3.Client) {
	cc := client.ActiveConnection()
	state := cc.GetState()
	for cc.WaitForStateChange(c.ctx, state) {
		if state == connectivity.Ready {
			c.lose(errLost)
		}
		state = cc.GetState()
	}
}

// answered records that a server has just answered.
func (c *conn) answered() { c.lastAnswer.Store(int64(time.Since(c.made))) }

// probe ends the epoch when no server answers the probe or any other request. Other
// requests count because a process that is short of CPU may see the response to the
// probe too late.
func (c *conn) probe(client *clientv3.Client) {
	tick := time.NewTicker(probeEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			asked := int64(time.Since(c.made))
			if err := ask(c.ctx, client.ActiveConnection()); err != nil && c.lastAnswer.Load() < asked {
				c.lose(err)
			}
		case <-c.ctx.Done():
			return
		}
	}
}

// ask sends a small request that any member answers by itself. A refusal counts as an
// answer. If no server can be reached, ask does not wait for one: it returns why.
func ask(ctx context.Context, cc *grpc.ClientConn) error {
	ctx, cancel := context.WithTimeout(ctx, opTimeout)
	defer cancel()
	request := &pb.RangeRequest{Key: []byte("/"), Serializable: true, CountOnly: true}
	_, err := pb.NewKVClient(cc).Range(ctx, request)
	switch status.Code(err) {
	case codes.DeadlineExceeded:
		return fmt.Errorf("no etcd server has answered for %v", opTimeout)
	case codes.Unavailable:
		return err
	}
	return nil
}

// down returns why no server can be reached, or nil if one can. Requests that are sent
// without this check wait until a server is back, and then all reach it at once.
func down(ctx context.Context, client *clientv3.Client) error {
	cc := client.ActiveConnection()
	if cc.GetState() == connectivity.Ready {
		return nil
	}
	return ask(ctx, cc)
}

// explain adds to a deadline error the reason why no server can be reached, if there
// is one.
func (c *conn) explain(client *clientv3.Client, err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		if why := down(c.ctx, client); why != nil {
			return fmt.Errorf("%w: %w", err, why)
		}
	}
	return err
}
