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

// Limits of what is asked of an agent, and taken from it.
const (
	maxWaiting = 64        // blocking queries at the same time
	maxConns   = 96        // connections; Consul's limit a client is 200
	maxAnswer  = 256 << 20 // bytes of one answer
	dialLimit  = 3 * time.Second
	idleLimit  = time.Minute // an unused connection is closed then
)

// Times of blocking queries.
const (
	longWait  = 10 * time.Second // while everybody may wait
	lookEvery = 4 * time.Second  // where watches take turns: how often each has one
	leastWait = 10 * time.Millisecond
	turnIn    = 15 * time.Second // the longest that a watch waits for its turn
	answerIn  = 3 * time.Second  // what an agent may take beyond the wait
)

// agents are the Consul agents of a target, one of which is used at a time, and the
// connections to them. It is safe for concurrent use.
type agents struct {
	hosts     []*api.Client
	transport *http.Transport
	current   atomic.Int64  // index of the host in use, in a growing count
	waiting   chan struct{} // has a token for each blocking query
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
				// An agent has no reason to send us elsewhere, least of all with our token.
				CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
			},
		}
		client, err := api.NewClient(config)
		if err != nil {
			return nil, fmt.Errorf("%s: agent %s: %w", name, host, err)
		}
		a.anonymous = config.Token == "" // NewClient may have taken one from the environment
		a.hosts = append(a.hosts, client)
	}
	return a, nil
}

// newTransport returns that of Consul's client, with our limits, and without proxies
// or HTTP/2: a blocking query is a connection.
func newTransport() *http.Transport {
	t := api.DefaultConfig().Transport
	t.Proxy, t.ForceAttemptHTTP2 = nil, false
	t.MaxIdleConns, t.MaxIdleConnsPerHost, t.MaxConnsPerHost = 0, maxConns, maxConns
	t.IdleConnTimeout, t.TLSHandshakeTimeout = idleLimit, dialLimit
	dial := t.DialContext
	// Package http dials on when a request is given up, so the request's deadline is not enough.
	t.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(ctx, dialLimit)
		defer cancel()
		return dial(ctx, network, addr)
	}
	return t
}

func (a *agents) close() { a.transport.CloseIdleConnections() }

// bounded bounds what an answer may take.
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

// host returns the agent in use, and the number under which failed knows it.
func (a *agents) host() (*api.Client, int64) {
	n := a.current.Load()
	return a.hosts[n%int64(len(a.hosts))], n
}

// failed makes the next agent the one in use, unless somebody has done so
// already. Errors that every agent would answer with are let pass.
func (a *agents) failed(n int64, err error) {
	if elsewhere(err) {
		a.current.CompareAndSwap(n, n+1)
	}
}

// elsewhere reports whether another agent may do better.
func elsewhere(err error) bool {
	if status, ok := errors.AsType[api.StatusError](err); ok {
		return status.Code >= http.StatusInternalServerError || status.Code == http.StatusTooManyRequests
	}
	return !errors.Is(err, registry.ErrSuperseded)
}

// notFound reports whether an agent has answered that there is no such service or
// check.
func notFound(err error) bool {
	status, ok := errors.AsType[api.StatusError](err)
	return ok && status.Code == http.StatusNotFound
}

// join counts a watch until the function that it returns is called.
func (a *agents) join() (leave func()) {
	a.watches.Add(1)
	return func() { a.watches.Add(-1) }
}

// patience is how long a blocking query may wait. Where there are more watches than
// may wait at the same time they take turns, so each has its turn after lookEvery.
func patience(watches int64) time.Duration {
	if watches <= maxWaiting {
		return longWait
	}
	return max(leastWait, lookEvery*maxWaiting/time.Duration(watches))
}

// list returns the passing instances of a service as soon as they are others than
// those at index, or after a while; at once for index 0.
func (a *agents) list(ctx context.Context, host *api.Client, service string, index uint64) (entries []*api.ServiceEntry, meta *api.QueryMeta, err error) {
	meta, err = a.query(ctx, index, func(q *api.QueryOptions) (meta *api.QueryMeta, err error) {
		entries, meta, err = host.Health().Service(service, "", true, q)
		return meta, err
	})
	return entries, meta, err
}

// query makes a blocking query when it is its turn. The first one of a watch, with index
// 0, is consistent: a leader that has just started still reads its log, and answers
// others from what it has read so far, which may be nothing.
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
		return fmt.Errorf("no turn for %v, as agents answer too slowly for %d watches", turnIn, a.watches.Load())
	case <-ctx.Done():
		return ctx.Err()
	}
}
