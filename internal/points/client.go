package points

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/internal/dispatch"
	"github.com/tandem-rpc/tandem/plugin"
)

// IsOfClient reports whether a value has a point of a client.
func IsOfClient(p any) bool {
	switch p.(type) {
	case plugin.Connected, plugin.BeforeCall, plugin.Intercepts, plugin.InterceptsAttempts, plugin.BeforeSelect, plugin.BeforeRequest, plugin.AfterRequest,
		plugin.BeforeResponseHeader, plugin.AfterResponseHeader, plugin.BeforeResponseBody, plugin.AfterResponseBody, plugin.AfterCall:
		return true
	}
	return false
}

// Client has the points of a client's calls and connections. A nil Client has none.
type Client struct {
	guard

	connected []plugin.Connected
	before    []plugin.BeforeCall
	intercept []tandem.Interceptor
	tried     []tandem.Interceptor // of attempts
	selecting []plugin.BeforeSelect
	after     []plugin.AfterCall
	attempts  *Attempts
}

// OfClient returns the points of a client, nil if it has no plugins. report is called for
// plugins that panic.
func OfClient(plugins []any, report dispatch.PanicFunc) *Client {
	if len(plugins) == 0 {
		return nil
	}
	p := &Client{guard: guard{report}, attempts: ofAttempts(plugins, report)}
	for _, given := range plugins {
		p.connected = collect(p.connected, given)
		p.before = collect(p.before, given)
		p.intercept = collectIntercept(p.intercept, given)
		if i, ok := given.(plugin.InterceptsAttempts); ok {
			p.tried = append(p.tried, i.InterceptAttempt)
		}
		p.selecting = collect(p.selecting, given)
		p.after = collect(p.after, given)
	}
	slices.Reverse(p.after)
	return p
}

// Attempts returns the points of attempts and replies, nil if there are none.
func (p *Client) Attempts() *Attempts {
	if p == nil {
		return nil
	}
	return p.attempts
}

// Connected passes a new connection to the plugins. If one refuses it, it is closed.
func (p *Client) Connected(c net.Conn) (net.Conn, error) {
	if p == nil {
		return c, nil
	}
	passed := c
	for _, to := range p.connected {
		next, err := Pass(p.report, to, "Connected", passed, to.Connected)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("refused by a plugin: %w", err), passed.Close())
		}
		passed = next
	}
	return Over(passed, c), nil
}

// OfCalls reports whether Call does anything but make the call. Without it, no closure is allocated
// for a call.
func (p *Client) OfCalls() bool { return p != nil && len(p.before)+len(p.after) > 0 }

// Call makes a call between BeforeCall and AfterCall. made encodes the arguments, makes the
// attempts and decodes the reply; it ends the call, and is not called if a plugin refuses.
func (p *Client) Call(ctx context.Context, call *tandem.Call, made func() error) error {
	if !p.OfCalls() {
		return made()
	}
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

// Open opens a stream after BeforeCall. AfterCall follows when the stream is over.
func (p *Client) Open(ctx context.Context, call *tandem.Call, opened func() (tandem.MessageStream, error)) (tandem.MessageStream, error) {
	began := time.Now()
	if err := p.begin(ctx, call); err != nil {
		call.End(err)
		p.end(ctx, call, began, err)
		return nil, err
	}
	call.OnEnd(func(err error) { p.end(ctx, call, began, err) })
	return opened()
}

func (p *Client) begin(ctx context.Context, call *tandem.Call) (err error) {
	defer p.catch(call.Method, &err)
	return each(p.before, func(to plugin.BeforeCall) error { return to.BeforeCall(ctx, call) })
}

func (p *Client) end(ctx context.Context, call *tandem.Call, began time.Time, err error) {
	end := tandem.Outcome{Began: began, Err: err}
	if len(p.after) > 0 {
		end.Took = time.Since(began)
		if body, ok := call.Body.(attempted); ok {
			end.Attempts = body.Attempts()
		}
	}
	inform(p.guard, call.Method, p.after, func(to plugin.AfterCall) { to.AfterCall(ctx, call, end) })
}

// attempted is implemented by the Body of a client's call. It is declared here because package
// call imports this one.
type attempted interface{ Attempts() int }

// Intercept wraps a chain in the Intercept plugins.
func (p *Client) Intercept(f tandem.Func) tandem.Func {
	if p == nil {
		return f
	}
	return p.wrap(f, p.intercept)
}

// InterceptAttempt wraps the chain of an attempt in the InterceptsAttempts plugins.
func (p *Client) InterceptAttempt(f tandem.Func) tandem.Func {
	if p == nil {
		return f
	}
	return p.wrap(f, p.tried)
}

func (p *Client) wrap(f tandem.Func, interceptors []tandem.Interceptor) tandem.Func {
	if len(interceptors) == 0 {
		return f
	}
	f = tandem.Chain(f, interceptors...)
	return func(ctx context.Context, call *tandem.Call) (err error) {
		defer p.catch(call.Method, &err)
		return f(ctx, call)
	}
}

// OfAttempts reports whether InterceptAttempt or Select does anything.
func (p *Client) OfAttempts() bool { return p != nil && len(p.tried)+len(p.selecting) > 0 }

// Select is an interceptor of attempts that calls BeforeSelect.
func (p *Client) Select(next tandem.Func) tandem.Func {
	if p == nil || len(p.selecting) == 0 {
		return next
	}
	return func(ctx context.Context, call *tandem.Call) error {
		if err := p.beforeSelect(ctx, call); err != nil {
			return err
		}
		return next(ctx, call)
	}
}

func (p *Client) beforeSelect(ctx context.Context, call *tandem.Call) (err error) {
	defer p.catch(call.Method, &err)
	return each(p.selecting, func(to plugin.BeforeSelect) error { return to.BeforeSelect(ctx, call) })
}

// Attempts has the points of attempts and replies of a client. A nil Attempts has none.
type Attempts struct {
	guard

	writing    []plugin.BeforeRequest
	written    []plugin.AfterRequest
	answered   []plugin.BeforeResponseHeader
	understood []plugin.AfterResponseHeader
	decoding   []plugin.BeforeResponseBody
	decoded    []plugin.AfterResponseBody
}

func ofAttempts(plugins []any, report dispatch.PanicFunc) *Attempts {
	p := &Attempts{guard: guard{report}}
	for _, given := range plugins {
		p.writing = collect(p.writing, given)
		p.written = collect(p.written, given)
		p.answered = collect(p.answered, given)
		p.understood = collect(p.understood, given)
		p.decoding = collect(p.decoding, given)
		p.decoded = collect(p.decoded, given)
	}
	if len(p.writing)+len(p.written)+len(p.answered)+len(p.understood)+len(p.decoding)+len(p.decoded) == 0 {
		return nil
	}
	slices.Reverse(p.answered)
	slices.Reverse(p.understood)
	slices.Reverse(p.decoding)
	slices.Reverse(p.decoded)
	return p
}

// BeforeRequest calls the plugins that see an attempt when its instance is chosen. An attempt
// that one refuses is not made, and has no other points.
func (p *Attempts) BeforeRequest(ctx context.Context, call *tandem.Call) error {
	if p == nil || len(p.writing) == 0 {
		return nil
	}
	return p.beforeRequest(ctx, call)
}

func (p *Attempts) beforeRequest(ctx context.Context, call *tandem.Call) (err error) {
	defer p.catch(call.Method, &err)
	return each(p.writing, func(to plugin.BeforeRequest) error { return to.BeforeRequest(ctx, call) })
}

// AfterResponseHeader calls the plugins that see how an attempt ended, with its error or nil, and
// returns its error.
func (p *Attempts) AfterResponseHeader(ctx context.Context, call *tandem.Call, err error) error {
	if p == nil || len(p.understood) == 0 || call.Kind == tandem.OneWay {
		return err
	}
	return p.afterHeader(ctx, call, err)
}

func (p *Attempts) afterHeader(ctx context.Context, call *tandem.Call, cause error) (err error) {
	defer p.catch(call.Method, &err)
	return replace(p.understood, cause, func(to plugin.AfterResponseHeader, err error) error { return to.AfterResponseHeader(ctx, call, err) })
}

// Attempt makes an attempt between all its points over a connection that has no Trace, as it does
// not report when the request has been written: the points in the middle are called when attempt
// has returned, or the request of a stream has been sent.
//
// A session's attempt calls the points itself: so the frame of Attempt is not on the stack of each
// call that waits for its response.
func (p *Attempts) Attempt(ctx context.Context, call *tandem.Call, attempt func() error) error {
	if p == nil {
		return attempt()
	}
	if err := p.BeforeRequest(ctx, call); err != nil {
		return err
	}
	err := attempt()
	unsent, answered := err, err == nil
	if e := tandem.AsError(err); e != nil && !e.NotExecuted {
		unsent, answered = nil, e.Remote
	}
	t := Trace{p, ctx, call}
	t.Sent(unsent)
	if answered && call.Kind != tandem.OneWay {
		t.Answered()
	}
	return p.AfterResponseHeader(ctx, call, err)
}

// Trace calls the points between the begin and the end of an attempt; it is a session.Trace.
type Trace struct {
	points *Attempts
	ctx    context.Context //nolint:containedctx // the call's
	call   *tandem.Call
}

// Trace returns the Trace of an attempt, nil if it would do nothing.
func (p *Attempts) Trace(ctx context.Context, call *tandem.Call) *Trace {
	if p == nil || len(p.written)+len(p.answered) == 0 {
		return nil
	}
	return &Trace{p, ctx, call}
}

// Sent calls AfterRequest.
func (t *Trace) Sent(err error) {
	inform(t.points.guard, t.call.Method, t.points.written, func(to plugin.AfterRequest) { to.AfterRequest(t.ctx, t.call, err) })
}

// Answered calls BeforeResponseHeader.
func (t *Trace) Answered() {
	inform(t.points.guard, t.call.Method, t.points.answered, func(to plugin.BeforeResponseHeader) { to.BeforeResponseHeader(t.ctx, t.call) })
}

// Receive decodes a reply or a stream's message into v, by decode, between BeforeResponseBody
// and AfterResponseBody. If decode returns io.EOF there is no message, and AfterResponseBody is
// not called.
func (p *Attempts) Receive(ctx context.Context, call *tandem.Call, v any, decode func(any) error) error {
	if p == nil {
		return decode(v)
	}
	if err := p.beforeBody(ctx, call); err != nil {
		return err
	}
	err := decode(v)
	if errors.Is(err, io.EOF) {
		return err
	}
	return p.afterBody(ctx, call, v, err)
}

func (p *Attempts) beforeBody(ctx context.Context, call *tandem.Call) (err error) {
	defer p.catch(call.Method, &err)
	return eachAfter(p.decoding, func(to plugin.BeforeResponseBody) error { return to.BeforeResponseBody(ctx, call) })
}

func (p *Attempts) afterBody(ctx context.Context, call *tandem.Call, v any, cause error) (err error) {
	defer p.catch(call.Method, &err)
	return replace(p.decoded, cause, func(to plugin.AfterResponseBody, err error) error { return to.AfterResponseBody(ctx, call, v, err) })
}
