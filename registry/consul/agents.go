package consul

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/tandem-rpc/tandem/registry"
)

// Limits of requests to an agent, and of its responses.
const (
	maxWaiting = 64        // blocking queries at the same time
	maxConns   = 96        // connections; Consul's limit per client is 200
	maxAnswer  = 256 << 20 // bytes of one response
	dialLimit  = 3 * time.Second
	idleLimit  = time.Minute // after which an unused connection is closed
)

// Times of blocking queries.
const (
	longWait  = 10 * time.Second // how long a query waits, with up to maxWaiting watches
	lookEvery = 4 * time.Second  // with more watches: how often each of them makes a query
	leastWait = 10 * time.Millisecond
	turnIn    = 15 * time.Second // the longest time a watch waits for its turn
	answerIn  = 3 * time.Second  // how long a response may take beyond the wait of its query
)

// agents are the Consul agents of a target, one of which is used at a time, and the
// connections to them. It is safe for concurrent use.
type agents struct {
	hosts     []*api.Client
	transport *http.Transport
	current   atomic.Int64  // number of switches to the next host; modulo len(hosts) it is the host in use
	waiting   chan struct{} // holds a token for each query in progress
	watches   atomic.Int64
	anonymous bool // no token is sent
}

// dial returns the agents at hosts, separated by commas. It does not connect yet.
func dial(hosts string, s settings) (*agents, error) {
	scheme, transport := "http", newTransport()
	if s.tls != nil {
		scheme, transport.TLSClientConfig = "https", s.tls.Clone()
	}
	a := &agents{transport: transport, waiting: make(chan struct{}, maxWaiting)}
	for host := range strings.SplitSeq(hosts, ",") {
		config := &api.Config{
			Address: host, Scheme: scheme, Token: s.token,
			HttpClient: &http.Client{
				Transport: bounded{transport, maxAnswer},
				// An agent does not need redirects, and the token must not go to another host.
				CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
			},
		}
		client, err := api.NewClient(config)
		if err != nil {
			return nil, fmt.Errorf("%s: agent %s: %w", name, host, err)
		}
		a.anonymous = config.Token == "" // NewClient may have read a token from the environment
		a.hosts = append(a.hosts, client)
	}
	return a, nil
}

// newTransport returns the transport of Consul's client with our limits, and without
// proxies or HTTP/2: each blocking query needs a connection of its own.
func newTransport() *http.Transport {
	t := api.DefaultConfig().Transport
	t.Proxy, t.ForceAttemptHTTP2 = nil, false
	t.MaxIdleConns, t.MaxIdleConnsPerHost, t.MaxConnsPerHost = 0, maxConns, maxConns
	t.IdleConnTimeout, t.TLSHandshakeTimeout = idleLimit, dialLimit
	dial := t.DialContext
	// Package http continues to dial after a request was canceled, so the request's deadline is not enough.
	t.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(ctx, dialLimit)
		defer cancel()
		return dial(ctx, network, addr)
	}
	return t
}

func (a *agents) close() { a.transport.CloseIdleConnections() }

// bounded limits the size of a response body.
type bounded struct {
	http.RoundTripper
	limit int64 // bytes
}

func (b bounded) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := b.RoundTripper.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	resp.Body = struct {
		io.Reader
		io.Closer
	}{http.MaxBytesReader(nil, resp.Body, b.limit), resp.Body}
	return resp, nil
}

// host returns the agent in use, and the number to pass to failed if it fails.
func (a *agents) host() (*api.Client, int64) {
	n := a.current.Load()
	return a.hosts[n%int64(len(a.hosts))], n
}

// failed makes the next agent the one in use, unless another caller has done so
// already. It ignores errors that every agent would return.
func (a *agents) failed(n int64, err error) {
	if nextMaySucceed(err) {
		a.current.CompareAndSwap(n, n+1)
	}
}

// nextMaySucceed reports whether another agent may succeed after this error.
func nextMaySucceed(err error) bool {
	if status, ok := errors.AsType[api.StatusError](err); ok {
		return status.Code >= http.StatusInternalServerError || status.Code == http.StatusTooManyRequests
	}
	return !errors.Is(err, registry.ErrSuperseded)
}

// notFound reports whether err is an agent's response that there is no such service
// or check.
func notFound(err error) bool {
	status, ok := errors.AsType[api.StatusError](err)
	return ok && status.Code == http.StatusNotFound
}

// join counts a watch until the function that it returns is called.
func (a *agents) join() (leave func()) {
	a.watches.Add(1)
	return func() { a.watches.Add(-1) }
}

// patience returns how long a blocking query may wait. More watches than maxWaiting
// take turns; each then makes a query about every lookEvery.
func patience(watches int64) time.Duration {
	if watches <= maxWaiting {
		return longWait
	}
	return max(leastWait, lookEvery*maxWaiting/time.Duration(watches))
}

// list returns the passing instances of a service: at once for index 0, and otherwise
// when they have changed since index, or after patience.
func (a *agents) list(ctx context.Context, host *api.Client, service string, index uint64) (entries []*api.ServiceEntry, meta *api.QueryMeta, err error) {
	meta, err = a.query(ctx, index, func(q *api.QueryOptions) (meta *api.QueryMeta, err error) {
		entries, meta, err = host.Health().Service(service, "", true, q)
		return meta, err
	})
	return entries, meta, err
}

// query makes a blocking query after waiting for its turn. The first query of a watch,
// with index 0, is consistent: a leader that has just started answers other queries from
// the part of its log that it has read so far, which may be empty.
func (a *agents) query(ctx context.Context, index uint64, ask func(*api.QueryOptions) (*api.QueryMeta, error)) (*api.QueryMeta, error) {
	if err := a.turn(ctx); err != nil {
		return nil, err
	}
	defer func() { <-a.waiting }()
	query := &api.QueryOptions{WaitIndex: index, WaitTime: patience(a.watches.Load()), RequireConsistent: index == 0}
	limit := answerIn
	if index > 0 {
		limit += query.WaitTime + query.WaitTime/16 // Consul adds up to a sixteenth
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	meta, err := ask(query.WithContext(ctx))
	if errors.Is(ctx.Err(), context.DeadlineExceeded) && err != nil {
		err = fmt.Errorf("the agent does not answer in time: %w", err)
	}
	return meta, err
}

// turn takes a token of waiting.
func (a *agents) turn(ctx context.Context) error {
	limit := time.NewTimer(turnIn)
	defer limit.Stop()
	select {
	case a.waiting <- struct{}{}:
		return nil
	case <-limit.C:
		return fmt.Errorf("no query could start within %v: the agents answer too slowly for %d watches", turnIn, a.watches.Load())
	case <-ctx.Done():
		return ctx.Err()
	}
}
