package server

import (
	"context"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/internal/dispatch"
	"github.com/tandem-rpc/tandem/internal/session"
)

// longestAbsent is how many bytes plugins see of the name of a method that does not exist.
const longestAbsent = 1 << 10

// NoMethod ends a call of a method that does not exist as [Conn.Go] does, but with the
// protocol's own error, why. The call passes the server's interceptors and plugins like any
// other; they see an error with the code Unimplemented, and the first KiB of the call's Method.
// done gets why, unless one of them refuses the call with an error of its own, or replaces the
// error. Without any, done is called before NoMethod returns. The call's Body is not used.
func (c *Conn) NoMethod(ctx context.Context, call *tandem.Call, why error, done func(error)) {
	absent := c.server.absent()
	if absent == nil {
		c.note()
		done(why)
		return
	}
	c.server.foreign.calls.Add(1)
	call.Method = call.Method[:min(len(call.Method), longestAbsent)]
	c.refuse(ctx, absent, call, dispatch.ErrAbsent(call), func(err error, same bool) {
		if same {
			err = why
		}
		done(err)
	})
}

// Refuse ends a call that can't be made, such as one with an unknown codec, with the error why.
// The call first passes the interceptors and plugins of its method: a caller that they refuse
// gets their error and learns nothing else. A method that does not exist is passed to
// [Conn.NoMethod], which is otherwise the same.
func (c *Conn) Refuse(ctx context.Context, call *tandem.Call, why error, done func(error)) {
	m := c.server.table.Lookup(call.Method)
	if m == nil {
		c.NoMethod(ctx, call, why, done)
		return
	}
	if !m.Guarded {
		c.note()
		done(why)
		return
	}
	c.server.foreign.calls.Add(1)
	e := *tandem.AsError(why)
	e.NotExecuted = true
	call.Body = dispatch.NoBody(&e)
	c.refuse(ctx, m, call, &e, func(err error, same bool) {
		if same {
			err = why
		}
		done(err)
	})
}

// refuse makes a call that ends with why, unless an interceptor or plugin of m returns another
// error; same is false then.
func (c *Conn) refuse(ctx context.Context, m *dispatch.Method, call *tandem.Call, why *tandem.Error, done func(err error, same bool)) {
	c.start(session.WithRefusal(ctx, why), m, call, doneFunc(func(err error) {
		done(err, err == error(why)) //nolint:errorlint // it is that one, or another's
	}))
}
