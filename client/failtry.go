package client

import (
	"context"

	"github.com/tandem-rpc/tandem"
)

// failtry tries the same instance again, after a pause.
func (c *Client) failtry(next tandem.Func) tandem.Func {
	return c.retry(next, func(ctx context.Context, call *tandem.Call, failures int) bool {
		if call.Peer.Instance != "" {
			call.Pin = call.Peer.Instance
		}
		return sleep(ctx, c.opts.backoff.pause(failures))
	})
}
