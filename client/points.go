package client

import (
	"context"
	"errors"
	"fmt"
	"net"
	"reflect"
	"slices"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/internal/call"
	"github.com/tandem-rpc/tandem/internal/dispatch"
	"github.com/tandem-rpc/tandem/transport"
)

// points are the plugins of a client by the points that they implement, compiled once a client.
type points struct {
	onPanic dispatch.PanicFunc

	connected  []Connected
	before     []BeforeCall
	intercept  []tandem.Interceptor
	selecting  []BeforeSelect
	writing    []BeforeRequest
	written    []AfterRequest
	answered   []BeforeResponseHeader
	understood []AfterResponseHeader
	decoding   []BeforeResponseBody
	decoded    []AfterResponseBody
	after      []AfterCall
	attempts   bool // some plugins see attempts or replies
	atMessages bool // written or answered is not empty
	atEnds     bool // before or after is not empty
}

var _ call.Points = (*points)(nil)

// compilePoints returns the points of a client, nil without plugins.
func compilePoints(plugins []any, onPanic dispatch.PanicFunc) *points {
	if len(plugins) == 0 {
		return nil
	}
	p := &points{onPanic: onPanic}
	for _, plugin := range plugins {
		p.connected = collect(p.connected, plugin)
		p.before = collect(p.before, plugin)
		p.selecting = collect(p.selecting, plugin)
		p.writing = collect(p.writing, plugin)
		p.written = collect(p.written, plugin)
		p.answered = collect(p.answered, plugin)
		p.understood = collect(p.understood, plugin)
		p.decoding = collect(p.decoding, plugin)
		p.decoded = collect(p.decoded, plugin)
		p.after = collect(p.after, plugin)
		if i, ok := plugin.(Intercepts); ok {
			p.intercept = append(p.intercept, i.Intercept)
		}
	}
	slices.Reverse(p.answered)
	slices.Reverse(p.understood)
	slices.Reverse(p.decoding)
	slices.Reverse(p.decoded)
	slices.Reverse(p.after)
	p.atMessages = len(p.written)+len(p.answered) > 0
	p.attempts = p.atMessages || len(p.writing)+len(p.understood)+len(p.decoding)+len(p.decoded) > 0
	p.atEnds = len(p.before)+len(p.after) > 0
	return p
}

// collect appends a plugin if it has the point.
func collect[Point any](list []Point, plugin any) []Point {
	if p, ok := plugin.(Point); ok {
		return append(list, p)
	}
	return list
}

// guard turns a panic of a plugin into the error of the call.
func (p *points) guard(method string, err *error) {
	if v := recover(); v != nil {
		*err = dispatch.Died("a plugin at "+method, v, p.onPanic)
	}
}

// refusal returns a plugin's error as that of a call that was not made.
func refusal(err error) error {
	e := *tandem.AsError(err)
	if e.Code == tandem.Unknown || e.Code == tandem.OK {
		e.Code = tandem.PermissionDenied
	}
	e.NotExecuted = true
	return &e
}

// begin calls the BeforeCall plugins.
func (p *points) begin(ctx context.Context, call *tandem.Call) (err error) {
	defer p.guard(call.Method, &err)
	for _, plugin := range p.before {
		if err := plugin.BeforeCall(ctx, call); err != nil {
			return refusal(err)
		}
	}
	return nil
}

// end calls all AfterCall plugins, even if one panics.
func (p *points) end(ctx context.Context, call *tandem.Call, began time.Time, err error) {
	end := tandem.Outcome{Began: began, Err: err}
	if len(p.after) > 0 {
		end.Took = time.Since(began)
	}
	for i := range p.after {
		p.endOne(ctx, call, end, i)
	}
}

func (p *points) endOne(ctx context.Context, call *tandem.Call, end tandem.Outcome, i int) {
	var lost error // not used: the call is over
	defer p.guard(call.Method, &lost)
	p.after[i].AfterCall(ctx, call, end)
}

// run makes a call between BeforeCall and AfterCall.
func (p *points) run(ctx context.Context, call *tandem.Call, made func() error) error {
	var began time.Time
	if len(p.after) > 0 {
		began = time.Now()
	}
	err := p.begin(ctx, call)
	if err == nil {
		err = made()
	} else {
		call.End(err)
	}
	p.end(ctx, call, began, err)
	return err
}

// open opens a stream after BeforeCall. AfterCall follows when the stream is over.
func (p *points) open(ctx context.Context, call *tandem.Call, opened func() (tandem.MessageStream, error)) (tandem.MessageStream, error) {
	began := time.Now()
	if err := p.begin(ctx, call); err != nil {
		call.End(err)
		p.end(ctx, call, began, err)
		return nil, err
	}
	call.OnEnd(func(err error) { p.end(ctx, call, began, err) })
	return opened()
}

// around wraps a chain in the Intercept plugins.
func (p *points) around(f tandem.Func) tandem.Func {
	if p == nil || len(p.intercept) == 0 {
		return f
	}
	f = tandem.Chain(f, p.intercept...)
	return func(ctx context.Context, call *tandem.Call) (err error) {
		defer p.guard(call.Method, &err)
		return f(ctx, call)
	}
}

// choose adds the BeforeSelect plugins to the attempt chain.
func (p *points) choose(next tandem.Func) tandem.Func {
	if !p.selects() {
		return next
	}
	return func(ctx context.Context, call *tandem.Call) error {
		if err := p.beforeSelect(ctx, call); err != nil {
			return err
		}
		return next(ctx, call)
	}
}

// selects reports whether choose does anything.
func (p *points) selects() bool { return p != nil && len(p.selecting) > 0 }

func (p *points) beforeSelect(ctx context.Context, call *tandem.Call) (err error) {
	defer p.guard(call.Method, &err)
	for _, plugin := range p.selecting {
		if err := plugin.BeforeSelect(ctx, call); err != nil {
			return refusal(err)
		}
	}
	return nil
}

// AtMessages reports whether a plugin has AfterRequest or BeforeResponseHeader.
func (p *points) AtMessages() bool { return p.atMessages }

// BeforeRequest implements [call.Points].
func (p *points) BeforeRequest(ctx context.Context, call *tandem.Call) (err error) {
	defer p.guard(call.Method, &err)
	for _, plugin := range p.writing {
		if err := plugin.BeforeRequest(ctx, call); err != nil {
			return refusal(err)
		}
	}
	return nil
}

// AfterRequest implements [call.Points].
func (p *points) AfterRequest(ctx context.Context, call *tandem.Call, err error) {
	for _, plugin := range p.written {
		p.quietly(call, func() { plugin.AfterRequest(ctx, call, err) })
	}
}

// BeforeResponseHeader implements [call.Points].
func (p *points) BeforeResponseHeader(ctx context.Context, call *tandem.Call) {
	for _, plugin := range p.answered {
		p.quietly(call, func() { plugin.BeforeResponseHeader(ctx, call) })
	}
}

// quietly runs f. A panic of f is logged and does not fail the call.
func (p *points) quietly(call *tandem.Call, f func()) {
	var lost error
	defer p.guard(call.Method, &lost)
	f()
}

// AfterResponseHeader implements [call.Points].
func (p *points) AfterResponseHeader(ctx context.Context, call *tandem.Call, cause error) (err error) {
	defer p.guard(call.Method, &err)
	for _, plugin := range p.understood {
		cause = replaced(cause, plugin.AfterResponseHeader(ctx, call, cause))
	}
	return cause
}

// replaced returns the error of an attempt that ended with cause, nil for success, after a
// plugin has returned err: a nil err leaves cause. NotExecuted stays as the attempt set it.
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

// BeforeResponseBody implements [call.Points].
func (p *points) BeforeResponseBody(ctx context.Context, call *tandem.Call) (err error) {
	defer p.guard(call.Method, &err)
	for _, plugin := range p.decoding {
		if err := replaced(nil, plugin.BeforeResponseBody(ctx, call)); err != nil {
			return err
		}
	}
	return nil
}

// AfterResponseBody implements [call.Points].
func (p *points) AfterResponseBody(ctx context.Context, call *tandem.Call, reply any, cause error) (err error) {
	defer p.guard(call.Method, &err)
	for _, plugin := range p.decoded {
		cause = replaced(cause, plugin.AfterResponseBody(ctx, call, reply, cause))
	}
	return cause
}

var errNoConn = errors.New("its Connected returned no connection")

// passConn passes a new connection to the Connected plugins. If one refuses it, it is closed.
func (p *points) passConn(c net.Conn) (net.Conn, error) {
	if p == nil {
		return c, nil
	}
	passed := c
	for _, plugin := range p.connected {
		next, err := p.passConnTo(plugin, passed)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("refused by a plugin: %w", err), passed.Close())
		}
		passed = next
	}
	if reflect.ValueOf(passed).Comparable() && reflect.ValueOf(c).Comparable() && passed == c {
		return c, nil
	}
	return transport.Over(passed, c), nil
}

func (p *points) passConnTo(plugin Connected, c net.Conn) (next net.Conn, err error) {
	defer p.guard("a new connection", &err)
	next, err = plugin.Connected(c)
	if err == nil && next == nil {
		err = errNoConn
	}
	return next, err
}
