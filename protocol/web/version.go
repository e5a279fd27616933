package web

import (
	"context"
	"net/http"

	"github.com/tandem-rpc/tandem"
)

// version finds out which HTTP version streams use.
type version struct {
	http2   bool          // the server supports HTTP/2
	certain bool          // http2 is known
	turn    chan struct{} // has a token while a goroutine finds out
	http    *http.Client  // guarded by turn, as is known
	known   bool          // http is for HTTP/2, and may be nil: http2Caller is used instead
}

func newVersion(http2, certain bool) *version {
	return &version{http2: http2, certain: certain || http2, turn: make(chan struct{}, 1)}
}

// httpClient returns the HTTP client for streams; nil if c.http2 carries them. The first caller finds out the version.
func (v *version) httpClient(ctx context.Context, c *caller) (*http.Client, error) {
	select {
	case v.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, notSent(context.Cause(ctx))
	}
	defer func() { <-v.turn }()
	if v.http == nil && !v.known {
		found, err := v.choose(ctx, c)
		if err != nil {
			return nil, notSent(err)
		}
		v.http, v.known = found, true
	}
	return v.http, nil
}

// choose returns the client for HTTP/2 if the server supports it. The server does not if a
// ping over HTTP/2 fails and one over HTTP/1.1 succeeds.
func (v *version) choose(ctx context.Context, c *caller) (*http.Client, error) {
	if c.http2 != nil && !v.certain {
		return v.tryHTTP2(ctx, c)
	}
	second, first := c.Streams(c.remote.StreamWindow, c.ping), c.Client(false, 0)
	switch {
	case v.http2:
		return second, nil
	case v.certain:
		return first, nil
	}
	err := c.ping(ctx, second)
	if err == nil {
		return second, nil
	}
	if code := tandem.CodeOf(err); code == tandem.Canceled || code == tandem.DeadlineExceeded {
		return nil, err
	}
	return first, c.ping(ctx, first)
}

// tryHTTP2 returns nil if the server speaks HTTP/2, and the client for HTTP/1.1 if it does not.
func (*version) tryHTTP2(ctx context.Context, c *caller) (*http.Client, error) {
	_, err := c.http2.streams.Connect(ctx)
	if err == nil {
		return nil, nil //nolint:nilnil // as documented
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	first := c.Client(false, 0)
	return first, c.ping(ctx, first)
}
