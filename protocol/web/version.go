package web

import (
	"context"
	"net/http"
)

// version finds out which HTTP version streams use.
type version struct {
	known bool          // http is known; guarded by turn, as is http
	turn  chan struct{} // has a token while a goroutine finds out
	http  *http.Client  // for HTTP/1.1; nil if the server supports HTTP/2
	old   bool          // the server supports HTTP/1.1 only
}

func newVersion(old bool) *version { return &version{old: old, turn: make(chan struct{}, 1)} }

// httpClient returns the HTTP client for streams; nil if c.http2 carries them. The first caller finds
// out the version.
func (v *version) httpClient(ctx context.Context, c *caller) (*http.Client, error) {
	select {
	case v.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, notSent(context.Cause(ctx))
	}
	defer func() { <-v.turn }()
	if !v.known {
		found, err := v.choose(ctx, c)
		if err != nil {
			return nil, notSent(err)
		}
		v.http, v.known = found, true
	}
	return v.http, nil
}

// choose returns nil if the server supports HTTP/2: it then sends settings. It does not if that fails
// and a ping over HTTP/1.1 succeeds.
func (v *version) choose(ctx context.Context, c *caller) (*http.Client, error) {
	first := c.Client()
	if v.old {
		return first, nil
	}
	if _, err := c.http2.streams.Connect(ctx); err == nil {
		return nil, nil //nolint:nilnil // as documented
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return first, c.ping(ctx, first)
}
