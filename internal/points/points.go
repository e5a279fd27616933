// Package points calls the plugins of servers and clients at their points, which package plugin
// declares. Plugins are sorted by their points once: for each method of a server when it is
// registered ([Method]), and for a client when it is made ([Client]). Without plugins there is
// nothing to call. For tandem's own packages only.
package points

import (
	"fmt"
	"net"
	"reflect"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/internal/dispatch"
	"github.com/tandem-rpc/tandem/plugin"
	"github.com/tandem-rpc/tandem/transport"
)

// Keep reports whether a plugin may keep the calls that it sees.
func Keep(plugins []any) bool {
	for _, p := range plugins {
		if _, promised := p.(plugin.KeepsNothing); !promised {
			return true
		}
	}
	return false
}

// collect appends a plugin if it has the point.
func collect[Point any](list []Point, p any) []Point {
	if has, ok := p.(Point); ok {
		return append(list, has)
	}
	return list
}

// collectIntercept appends a plugin's Intercept if it has one.
func collectIntercept(list []tandem.Interceptor, p any) []tandem.Interceptor {
	if i, ok := p.(plugin.Intercepts); ok {
		return append(list, i.Intercept)
	}
	return list
}

// each calls f for the plugins, at a point before the method or the response, until one returns
// an error. It returns that as a refusal.
func each[Point any](list []Point, f func(Point) error) error {
	for _, p := range list {
		if err := f(p); err != nil {
			return Refusal(err)
		}
	}
	return nil
}

// eachAfter is each for a point after the method or the response: the call may have executed.
func eachAfter[Point any](list []Point, f func(Point) error) error {
	for _, p := range list {
		if err := replaced(nil, f(p)); err != nil {
			return err
		}
	}
	return nil
}

// replace calls f for the plugins with the error of a call, nil for success. An error that a
// plugin returns replaces it. replace returns the last one.
func replace[Point any](list []Point, cause error, f func(Point, error) error) error {
	for _, p := range list {
		cause = replaced(cause, f(p, cause))
	}
	return cause
}

// Refusal returns a plugin's error as that of a call that was not executed.
func Refusal(err error) *tandem.Error {
	e := *tandem.AsError(err)
	if e.Code == tandem.Unknown || e.Code == tandem.OK {
		e.Code = tandem.PermissionDenied
	}
	e.NotExecuted = true
	return &e
}

// replaced returns the error of a call that ended with cause, nil for success, after a plugin
// has returned err: a nil err leaves cause. NotExecuted stays as it was.
func replaced(cause, err error) error {
	e := tandem.AsError(err)
	if e == nil || err == cause { //nolint:errorlint // asks whether it is this very value
		return cause
	}
	ran := tandem.MayHaveExecuted(cause)
	if e.Code != tandem.OK && e.NotExecuted != ran {
		return e
	}
	of := e.WithRetryAfter(e.RetryAfter) // a copy
	of.NotExecuted = !ran
	if of.Code == tandem.OK {
		of.Code = tandem.Unknown
	}
	return of
}

// guard turns panics of plugins into errors.
type guard struct{ report dispatch.PanicFunc }

// died reports a panic in a call of the method and returns the call's error.
func (g guard) died(method string, value any) error {
	return dispatch.Died("a plugin at "+method, value, g.report)
}

// catch is deferred: it turns the panic of a plugin into the error of a call of the method.
func (g guard) catch(method string, err *error) {
	if v := recover(); v != nil {
		*err = g.died(method, v)
	}
}

// inform calls f for each plugin, at a point that can't fail the call: the panic of one is
// reported, and the others are still called.
func inform[Point any](g guard, method string, list []Point, f func(Point)) {
	for i := range list {
		informOne(g, method, list[i], f)
	}
}

func informOne[Point any](g guard, method string, p Point, f func(Point)) {
	var lost error // it does not fail the call
	defer g.catch(method, &lost)
	f(p)
}

// Try calls f, a point of p that belongs to no call, and turns a panic into an error.
func Try(report dispatch.PanicFunc, p any, point string, f func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = dispatch.Died(fmt.Sprintf("%T.%s", p, point), v, report)
		}
	}()
	return f()
}

// Pass shows a connection to p, whose point f is, and returns the connection that f returns.
func Pass(report dispatch.PanicFunc, p any, point string, c net.Conn, f func(net.Conn) (net.Conn, error)) (wrapped net.Conn, err error) {
	err = Try(report, p, point, func() error {
		wrapped, err = f(c)
		return err
	})
	switch {
	case err != nil:
		return nil, err
	case wrapped == nil:
		return nil, fmt.Errorf("%T.%s returned no connection", p, point)
	}
	return wrapped, nil
}

// Over returns the connection to use when plugins have passed c on as wrapped: c itself if they
// have not wrapped it.
func Over(wrapped, c net.Conn) net.Conn {
	if reflect.ValueOf(wrapped).Comparable() && reflect.ValueOf(c).Comparable() && wrapped == c {
		return c
	}
	return transport.Over(wrapped, c)
}
