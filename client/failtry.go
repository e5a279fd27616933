package client

import (
	"context"

	"github.com/tandem-rpc/tandem"
)

// failtry tries the same instance again, after a pause, if the call has time for it.
func (c *Client) failtry(next tandem.Func) tandem.Func {
	return c.retry(next, false, func(ctx context.Context, call *tandem.Call, failures int) bool {
		if call.Peer.Instance != "" {
			call.Pin = call.Peer.Instance
		}
		pause := c.opts.backoff.pause(failures)
		return hasTime(call, pause) && sleep(ctx, pause)
	})
}
