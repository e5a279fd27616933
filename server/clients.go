package server

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/internal/call"
	"github.com/tandem-rpc/tandem/internal/dispatch"
	"github.com/tandem-rpc/tandem/internal/points"
	"github.com/tandem-rpc/tandem/internal/session"
)

// ErrNoClient is in the chain of the error of a call to a client that is not
// connected: Unavailable, and not executed.
var ErrNoClient = errors.New("no client is connected under this ID")

// WithClients lets clients announce themselves under an ID (client.WithID), so that
// [Server.Client] can call them: over the connection that they have made, also from behind NAT.
//
// An announcement is a call of [tandem.AnnounceMethod]. It passes interceptors and plugins like
// every call, and a client that they refuse is not announced. allow, if it is not nil, decides
// besides whether the caller may have the ID: its error refuses the announcement, as
// PermissionDenied if it has no code. ctx has the call, with the peer's certificate and the
// metadata. With a nil allow any caller may take any ID.
//
// Of several connections under one ID the latest is called; when it ends, the one before it, if
// that is still there. So a client that reconnects is reached at once, even while the server
// has not noticed the loss of its last connection, and one with several connections is one
// client.
func WithClients(allow func(ctx context.Context, id string) error) Option {
	return func(o *options) {
		o.given.Add("WithClients")
		o.clients, o.allowClient = true, allow
	}
}

// MaxClientID is how many bytes a client's ID may have.
const MaxClientID = 256

// ConnectedClient is a client that has announced itself.
type ConnectedClient struct {
	ID          string
	Peer        *tandem.Peer // the peer of its latest connection; must not be changed
	Since       time.Time    // when that connection was announced
	Connections int
}

// clients holds the connections of clients that have announced themselves.
type clients struct {
	mu      sync.Mutex
	lines   map[string][]line // by ID; the latest is the last
	ids     map[*session.Session]string
	changed chan struct{} // closed and replaced when one is added; nil until a goroutine waits for that
}

// line is a connection to a client.
type line struct {
	session *session.Session
	since   time.Time
}

// takesCalls reports whether the client still takes calls over this connection.
func (l line) takesCalls() bool { return l.session.TakesCalls() }

// add enters a session under an ID. It fails if the session has another ID already. If the
// session has ended meanwhile, add removes it again.
func (c *clients) add(id string, ses *session.Session, now time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if old, ok := c.ids[ses]; ok {
		if old == id {
			return nil
		}
		return tandem.Errorf(tandem.FailedPrecondition, "this connection is announced already, under another ID")
	}
	if c.lines == nil {
		c.lines, c.ids = map[string][]line{}, map[*session.Session]string{}
	}
	c.lines[id] = append(c.lines[id], line{ses, now})
	c.ids[ses] = id
	if ses.Err() != nil { // else remove is called when it ends
		c.removeLocked(ses)
	}
	if c.changed != nil {
		close(c.changed)
		c.changed = nil
	}
	return nil
}

func (c *clients) remove(ses *session.Session) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.removeLocked(ses)
}

func (c *clients) removeLocked(ses *session.Session) {
	id, ok := c.ids[ses]
	if !ok {
		return
	}
	delete(c.ids, ses)
	left := slices.DeleteFunc(c.lines[id], func(l line) bool { return l.session == ses })
	if c.lines[id] = left; len(left) == 0 {
		delete(c.lines, id)
	}
}

// latest returns the latest session of an ID that takes calls, or nil.
func (c *clients) latest(id string) *session.Session {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, l := range slices.Backward(c.lines[id]) {
		if l.takesCalls() {
			return l.session
		}
	}
	return nil
}

// changes returns a channel that is closed when the next client has announced
// itself.
func (c *clients) changes() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.changed == nil {
		c.changed = make(chan struct{})
	}
	return c.changed
}

func (c *clients) list() []ConnectedClient {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := make([]ConnectedClient, 0, len(c.lines))
	for id, lines := range c.lines {
		last := lines[len(lines)-1]
		all = append(all, ConnectedClient{ID: id, Peer: last.session.Peer(), Since: last.since, Connections: len(lines)})
	}
	slices.SortFunc(all, func(a, b ConnectedClient) int { return strings.Compare(a.ID, b.ID) })
	return all
}

// announced returns the method by which clients announce themselves.
func (s *Server) announced() dispatch.Method {
	return dispatch.UnaryMethod(tandem.AnnounceMethod, func(ctx context.Context, raw *[]byte) (*[]byte, error) {
		id, ses := string(*raw), session.FromContext(ctx)
		if id == "" || len(id) > MaxClientID || !utf8.ValidString(id) {
			return nil, tandem.Errorf(tandem.InvalidArgument, "an ID of %d bytes: want 1 to %d of UTF-8", len(id), MaxClientID)
		}
		if ses == nil {
			return nil, tandem.Errorf(tandem.FailedPrecondition, "only clients of tandem's own protocol can be called")
		}
		if s.opts.allowClient != nil {
			if err := s.opts.allowClient(ctx, id); err != nil {
				return nil, points.Refusal(err)
			}
		}
		return new([]byte), s.clients.add(id, ses, time.Now())
	})
}

// Clients returns the clients that are connected and have announced themselves, in
// the order of their IDs.
func (s *Server) Clients() []ConnectedClient { return s.clients.list() }

// Client returns a caller of the client with that ID, which need not be connected yet: each
// call goes to the connection that is the latest when the call is made. Without a connection
// the call fails with [ErrNoClient]; if the connection ends during a call, the call fails as
// Unavailable, and its error says whether it may have executed. Calls without a deadline have
// five seconds. The codec is the first that the client knows, unless a call names one. It is
// safe for concurrent use.
func (s *Server) Client(id string) tandem.Caller { return &clientCaller{s, id} }

// AwaitClient returns when the client with that ID is connected, or ctx's error.
func (s *Server) AwaitClient(ctx context.Context, id string) error {
	for {
		changed := s.clients.changes()
		if s.clients.latest(id) != nil {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		case <-s.base.Done():
			return ErrServerClosed
		}
	}
}

type clientCaller struct {
	server *Server
	id     string
}

// over returns a caller that uses the client's latest connection.
func (c *clientCaller) over() (*call.Caller, error) {
	ses := c.server.clients.latest(c.id)
	if ses == nil {
		err := tandem.Errorf(tandem.Unavailable, "%w: %q", ErrNoClient, c.id)
		err.NotExecuted = true
		return nil, err
	}
	codec := ""
	if known := ses.Settings().Codecs; len(known) > 0 {
		codec = known[0]
	}
	return &call.Caller{Session: ses, Codec: codec, Timeout: peerTimeout}, nil
}

// Call makes a unary call. One that did not execute because its connection drains is made once
// more, if the client has a newer connection by then.
func (c *clientCaller) Call(ctx context.Context, method string, args, reply any, opts ...tandem.CallOption) error {
	first, err := c.over()
	if err != nil {
		return err
	}
	err = first.Call(ctx, method, args, reply, opts...)
	if !errors.Is(err, session.ErrDraining) {
		return err
	}
	if next, gone := c.over(); gone == nil && next.Session != first.Session {
		return next.Call(ctx, method, args, reply, opts...)
	}
	return err
}

// OpenStream opens a stream.
func (c *clientCaller) OpenStream(ctx context.Context, method string, opts ...tandem.CallOption) (tandem.MessageStream, error) {
	caller, err := c.over()
	if err != nil {
		return nil, err
	}
	return caller.OpenStream(ctx, method, opts...)
}
