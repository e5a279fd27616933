package dispatch

import (
	"cmp"
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/tandem-rpc/tandem"
)

// The points of calls, which package server documents at WithPlugins. A plugin has a point
// if it has the method.
type (
	beforeRequestHeader interface {
		BeforeRequestHeader(ctx context.Context, call *tandem.Call) error
	}
	intercepts interface {
		Intercept(next tandem.Func) tandem.Func
	}
	afterRequestHeader interface {
		AfterRequestHeader(ctx context.Context, call *tandem.Call) error
	}
	beforeRequestBody interface {
		BeforeRequestBody(ctx context.Context, call *tandem.Call) error
	}
	afterRequestBody interface {
		AfterRequestBody(ctx context.Context, call *tandem.Call, args any) error
	}
	beforeResponse interface {
		BeforeResponse(ctx context.Context, call *tandem.Call, reply any, err error) error
	}
	afterResponse interface {
		AfterResponse(ctx context.Context, call *tandem.Call, end tandem.Outcome)
	}
	panicked interface {
		Panicked(what string, value any, stack []byte)
	}
	perMethod interface {
		ForMethod(m Description) any
	}
	keepsNothing interface {
		KeepsNothing()
	}
)

// IsPlugin reports whether a value has a point of calls, or is called for panics.
func IsPlugin(plugin any) bool {
	switch plugin.(type) {
	case perMethod, panicked, beforeRequestHeader, intercepts, afterRequestHeader,
		beforeRequestBody, afterRequestBody, beforeResponse, afterResponse:
		return true
	}
	return false
}

// Keep reports whether a plugin may keep the calls that it sees.
func Keep(plugins []any) bool {
	for _, p := range plugins {
		if _, promised := p.(keepsNothing); !promised {
			return true
		}
	}
	return false
}

// Points are the points of the calls of one method that plugins have. They are compiled
// when the method is registered; without plugins there are none, and calls do no work for
// them.
type Points struct {
	method       string
	beforeHeader []beforeRequestHeader
	intercept    []tandem.Interceptor
	afterHeader  []afterRequestHeader
	body         *bodyPoints // nil if no plugin looks at messages
	afterAnswer  []afterResponse
	panicked     func(what string, value any) error
}

// bodyPoints are the points that look at messages.
type bodyPoints struct {
	before []beforeRequestBody
	after  []afterRequestBody
	answer []beforeResponse
}

// PointsOf returns the points of a method, nil if there are none.
func PointsOf(plugins []any, m Description) *Points {
	p := &Points{method: cmp.Or(m.Name, "a method that does not exist")}
	body := &bodyPoints{}
	for _, plugin := range plugins {
		if per, ok := plugin.(perMethod); ok {
			plugin = per.ForMethod(m)
		}
		p.add(body, plugin)
	}
	if len(body.before)+len(body.after)+len(body.answer) > 0 {
		p.body = body
	}
	if p.body == nil && len(p.beforeHeader)+len(p.intercept)+len(p.afterHeader)+len(p.afterAnswer) == 0 {
		return nil
	}
	slices.Reverse(body.answer)
	slices.Reverse(p.afterAnswer)
	return p
}

func (p *Points) add(body *bodyPoints, plugin any) {
	p.beforeHeader = collect(p.beforeHeader, plugin)
	p.afterHeader = collect(p.afterHeader, plugin)
	p.afterAnswer = collect(p.afterAnswer, plugin)
	body.before = collect(body.before, plugin)
	body.after = collect(body.after, plugin)
	body.answer = collect(body.answer, plugin)
	if i, ok := plugin.(intercepts); ok {
		p.intercept = append(p.intercept, i.Intercept)
	}
}

// collect appends a plugin if it has the point.
func collect[Point any](list []Point, plugin any) []Point {
	if p, ok := plugin.(Point); ok {
		return append(list, p)
	}
	return list
}

// Wrap returns f with the points round it. f includes the method's limits and interceptors.
// report is called for plugins that panic.
func (p *Points) Wrap(f tandem.Func, report PanicFunc) tandem.Func {
	p.panicked = func(what string, value any) error { return Died(what, value, report) }
	f = tandem.Chain(p.enter(f), p.intercept...)
	return func(ctx context.Context, call *tandem.Call) (err error) {
		end := tandem.Outcome{}
		if len(p.afterAnswer) > 0 {
			end.Began = time.Now()
		}
		returned := false
		defer func() {
			if !returned {
				err = p.broken(recover())
			}
			if len(p.afterAnswer) > 0 {
				end.Took, end.Err = time.Since(end.Began), err
				p.tell(ctx, call, end, 0)
			}
		}()
		err = p.run(ctx, call, f)
		returned = true
		return err
	}
}

// broken returns the error of a call in which a plugin panicked or, if the value is nil,
// whose goroutine was ended.
func (p *Points) broken(value any) error {
	if value == nil {
		return tandem.Errorf(tandem.Internal, "method %s ended its goroutine", p.method)
	}
	return p.panicked("a plugin at "+p.method, value)
}

// run makes a call pass all points but the last.
func (p *Points) run(ctx context.Context, call *tandem.Call, f tandem.Func) error {
	if p.body == nil {
		return p.begin(ctx, call, f)
	}
	b := &pointBody{Body: call.Body, points: p.body, ctx: ctx, call: call}
	call.Body = b
	defer func() { call.Body = b.Body }()
	err := p.begin(ctx, call, f)
	if refused := b.refused.Load(); refused != nil { // the plugin's error, whatever the method returned for it
		err = refused
	}
	if err == nil && call.Kind != tandem.Streaming {
		return nil // the reply has passed
	}
	for _, plugin := range p.body.answer {
		if instead := plugin.BeforeResponse(ctx, call, nil, err); instead != nil {
			err = instead
		}
	}
	return err
}

func (p *Points) begin(ctx context.Context, call *tandem.Call, f tandem.Func) error {
	for _, plugin := range p.beforeHeader {
		if err := plugin.BeforeRequestHeader(ctx, call); err != nil {
			return Refusal(err)
		}
	}
	return f(ctx, call)
}

func (p *Points) enter(f tandem.Func) tandem.Func {
	if len(p.afterHeader) == 0 {
		return f
	}
	return func(ctx context.Context, call *tandem.Call) error {
		for _, plugin := range p.afterHeader {
			if err := plugin.AfterRequestHeader(ctx, call); err != nil {
				return Refusal(err)
			}
		}
		return f(ctx, call)
	}
}

// tell calls AfterResponse of the plugins from i on. One that panics does not stop the others.
func (p *Points) tell(ctx context.Context, call *tandem.Call, end tandem.Outcome, i int) {
	defer func() {
		if v := recover(); v != nil {
			_ = p.panicked("a plugin at "+p.method, v) // the call is over
			p.tell(ctx, call, end, i+1)
		}
	}()
	for ; i < len(p.afterAnswer); i++ {
		p.afterAnswer[i].AfterResponse(ctx, call, end)
	}
}

// Refusal returns a plugin's error for the caller, marked as not executed.
func Refusal(err error) *tandem.Error {
	e := *tandem.AsError(err)
	if e.Code == tandem.Unknown || e.Code == tandem.OK {
		e.Code = tandem.PermissionDenied
	}
	e.NotExecuted = true
	return &e
}

// pointBody is a call's Body with the plugins that look at messages.
type pointBody struct {
	tandem.Body

	points  *bodyPoints
	ctx     context.Context //nolint:containedctx // the call's
	call    *tandem.Call
	begun   bool
	refused atomic.Pointer[tandem.Error] // the error of a plugin at the arguments
}

// Decode decodes the arguments.
func (b *pointBody) Decode(v any) error {
	return b.receive(v, b.Body.Decode)
}

// receive decodes one message between the points.
func (b *pointBody) receive(v any, decode func(any) error) error {
	for _, p := range b.points.before {
		if b.begun { // the same arguments are decoded again
			break
		}
		if err := p.BeforeRequestBody(b.ctx, b.call); err != nil {
			return b.refuse(err)
		}
	}
	b.begun = b.call.Kind != tandem.Streaming
	if err := decode(v); err != nil {
		return err
	}
	for _, p := range b.points.after {
		if err := p.AfterRequestBody(b.ctx, b.call, v); err != nil {
			return b.refuse(err)
		}
	}
	return nil
}

func (b *pointBody) refuse(err error) error {
	e := Refusal(err)
	b.refused.Store(e)
	return e
}

// Encode encodes the reply.
func (b *pointBody) Encode(v any) error { return b.send(v, b.Body.Encode) }

func (b *pointBody) send(v any, encode func(any) error) error {
	for _, p := range b.points.answer {
		if err := p.BeforeResponse(b.ctx, b.call, v, nil); err != nil {
			return pluginError(err)
		}
	}
	return encode(v)
}

// pluginError returns the error of a plugin that replaces a reply; the method has run.
func pluginError(err error) error {
	e := *tandem.AsError(err)
	e.NotExecuted = false
	return &e
}

// Stream returns the call's stream.
func (b *pointBody) Stream() tandem.MessageStream {
	s := b.Body.Stream()
	if s == nil {
		return nil
	}
	return &pointStream{s, b}
}

// pointStream is a stream whose messages pass the points.
type pointStream struct {
	tandem.MessageStream

	body *pointBody
}

// RecvMsg receives a message.
func (s *pointStream) RecvMsg(v any) error { return s.body.receive(v, s.MessageStream.RecvMsg) }

// SendMsg sends a message.
func (s *pointStream) SendMsg(v any) error { return s.body.send(v, s.MessageStream.SendMsg) }

// WithPlugins returns a PanicFunc that calls report, and then the plugins that have a
// method Panicked.
func (report PanicFunc) WithPlugins(plugins []any) PanicFunc {
	var told []panicked
	for _, p := range plugins {
		told = collect(told, p)
	}
	if told == nil {
		return report
	}
	return func(what string, value any, stack []byte) {
		report(what, value, stack)
		for _, p := range told {
			tellPanic(p, what, value, stack)
		}
	}
}

// tellPanic calls a plugin and ignores its panic: the first panic is in the log.
func tellPanic(p panicked, what string, value any, stack []byte) {
	defer func() { _ = recover() }()
	p.Panicked(what, value, stack)
}
