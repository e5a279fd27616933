package httpcalls

import (
	"context"
	"net/http"
	"slices"
	"sync"
)

// Streams returns a client like [Server.Client], over HTTP/2, that never has more requests on a
// connection than the server allows. net/http's own would exceed the limit until it has
// received it. greet is called with each new connection, and makes a request that the server
// answers.
func (s *Server) Streams(window int, greet func(context.Context, *http.Client) error) *http.Client {
	return client(&streams{transport: s.transport(true, window), greet: greet, turn: make(chan struct{}, 1)})
}

// streams is a RoundTripper with connections for streams.
type streams struct {
	transport *http.Transport
	greet     func(context.Context, *http.Client) error
	turn      chan struct{} // has a token while a call connects

	mu    sync.Mutex
	conns []*http.ClientConn
}

// RoundTrip makes a request.
func (s *streams) RoundTrip(req *http.Request) (*http.Response, error) {
	c, err := s.reserve(req)
	if err != nil {
		_ = req.Body.Close()
		return nil, err
	}
	return c.RoundTrip(req)
}

// reserve takes a place on a connection, on a new one if all are full.
func (s *streams) reserve(req *http.Request) (*http.ClientConn, error) {
	if c := s.vacant(); c != nil {
		return c, nil
	}
	ctx := req.Context()
	select {
	case s.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	defer func() { <-s.turn }()
	if c := s.vacant(); c != nil {
		return c, nil
	}
	c, err := s.transport.NewClientConn(ctx, "http", req.URL.Host)
	if err != nil {
		return nil, err
	}
	if err = s.greet(untraced{ctx}, client(c)); err == nil {
		err = c.Reserve()
	}
	if err != nil {
		_ = c.Close()
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.conns = append(s.conns, c)
	return c, nil
}

// untraced is a context without values: the trace of the call must not see the greeting.
type untraced struct{ context.Context }

func (untraced) Value(any) any { return nil }

// vacant takes a place on a connection that has one, nil if none has. It drops connections that
// take no more requests: they are closed after their last one.
func (s *streams) vacant() *http.ClientConn {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.conns = slices.DeleteFunc(s.conns, func(c *http.ClientConn) bool { return c.Err() != nil })
	for _, c := range s.conns {
		if c.Reserve() == nil {
			return c
		}
	}
	return nil
}
