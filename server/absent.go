package server

import (
	"context"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/internal/dispatch"
)

// longestAbsent is how many bytes of a name that means nothing plugins see.
const longestAbsent = 1 << 10

// NoMethod ends a call of a method that does not exist as [Conn.Go] does, in a
// protocol's own words: it passes the server's plugins like any other, to which its error
// has the code Unimplemented. done gets why, unless a plugin refuses the call with an
// error of its own, or puts one in its place; without plugins before NoMethod returns.
// The call's Body is not used, and plugins see the first KiB of its Method.
func (c *Conn) NoMethod(ctx context.Context, call *tandem.Call, why error, done func(error)) {
	c.server.outside.calls.Add(1)
	absent := c.server.absent()
	if absent == nil {
		done(why)
		return
	}
	call.Method = call.Method[:min(len(call.Method), longestAbsent)]
	gone := dispatch.ErrAbsent(call)
	c.start(dispatch.WithAbsent(ctx, gone), absent, call, func(err error) {
		if err == error(gone) { //nolint:errorlint // it is that one, or a plugin's
			err = why
		}
		done(err)
	})
}
