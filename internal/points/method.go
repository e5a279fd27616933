package points

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/internal/dispatch"
	"github.com/tandem-rpc/tandem/plugin"
)

// IsOfServer reports whether a value has a point of a server.
func IsOfServer(p any) bool {
	switch p.(type) {
	case plugin.ServiceRegistered, plugin.ConnAccepted, plugin.ConnClosed:
		return true
	}
	return IsOfMethods(p)
}

// IsOfMethods reports whether a value has a point of the calls of a server's methods, or is
// called for panics.
func IsOfMethods(p any) bool {
	switch p.(type) {
	case plugin.PerMethod, plugin.Panicked, plugin.BeforeRequestHeader, plugin.Intercepts, plugin.AfterRequestHeader,
		plugin.BeforeRequestBody, plugin.AfterRequestBody, plugin.BeforeResponse, plugin.AfterResponse:
		return true
	}
	return false
}

// Describe describes a method to plugins. maxMessage is the limit of a message, in bytes, if
// the method has none of its own.
func Describe(m *dispatch.Method, maxMessage int) plugin.Method {
	if m.MaxMessage > 0 {
		maxMessage = m.MaxMessage
	}
	return plugin.Method{
		Name: m.Name, Kind: m.Kind, MaxMessage: maxMessage, Safe: m.Safe,
		Args: m.Args, Results: m.Results, In: m.In, Out: m.Out,
	}
}

// Method has the points of the calls of one method of a server. They are collected when the
// method is registered.
type Method struct {
	guard

	name         string
	beforeHeader []plugin.BeforeRequestHeader
	intercept    []tandem.Interceptor
	afterHeader  []plugin.AfterRequestHeader
	body         *bodyPoints // nil if no plugin looks at messages
	afterAnswer  []plugin.AfterResponse
}

// bodyPoints are the points that look at messages.
type bodyPoints struct {
	before []plugin.BeforeRequestBody
	after  []plugin.AfterRequestBody
	answer []plugin.BeforeResponse
}

// OfMethod returns the points of a method, nil if there are none. report is called for plugins
// that panic.
func OfMethod(plugins []any, m plugin.Method, report dispatch.PanicFunc) *Method {
	p := &Method{guard: guard{report}, name: cmp.Or(m.Name, "a method that does not exist")}
	body := &bodyPoints{}
	for _, given := range plugins {
		if per, ok := given.(plugin.PerMethod); ok {
			given = per.ForMethod(m)
		}
		p.add(body, given)
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

func (p *Method) add(body *bodyPoints, given any) {
	p.beforeHeader = collect(p.beforeHeader, given)
	p.intercept = collectIntercept(p.intercept, given)
	p.afterHeader = collect(p.afterHeader, given)
	p.afterAnswer = collect(p.afterAnswer, given)
	body.before = collect(body.before, given)
	body.after = collect(body.after, given)
	body.answer = collect(body.answer, given)
}

// Wrap returns f with the points round it. f includes the method's limits and interceptors.
func (p *Method) Wrap(f tandem.Func) tandem.Func {
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
				inform(p.guard, p.name, p.afterAnswer, func(to plugin.AfterResponse) { to.AfterResponse(ctx, call, end) })
			}
		}()
		err = p.run(ctx, call, f)
		returned = true
		return err
	}
}

// broken returns the error of a call in which a plugin panicked or, if the value is nil,
// whose goroutine was ended.
func (p *Method) broken(value any) error {
	if value == nil {
		return tandem.Errorf(tandem.Internal, "method %s ended its goroutine", p.name)
	}
	return p.died(p.name, value)
}

// run makes a call pass all points but the last.
func (p *Method) run(ctx context.Context, call *tandem.Call, f tandem.Func) error {
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
	return replace(p.body.answer, err, func(to plugin.BeforeResponse, err error) error { return to.BeforeResponse(ctx, call, nil, err) })
}

func (p *Method) begin(ctx context.Context, call *tandem.Call, f tandem.Func) error {
	err := each(p.beforeHeader, func(to plugin.BeforeRequestHeader) error { return to.BeforeRequestHeader(ctx, call) })
	if err != nil {
		return err
	}
	return f(ctx, call)
}

func (p *Method) enter(f tandem.Func) tandem.Func {
	if len(p.afterHeader) == 0 {
		return f
	}
	return func(ctx context.Context, call *tandem.Call) error {
		err := each(p.afterHeader, func(to plugin.AfterRequestHeader) error { return to.AfterRequestHeader(ctx, call) })
		if err != nil {
			return err
		}
		return f(ctx, call)
	}
}

// Absent returns the method that is called in place of methods that do not exist: it runs
// the plugins, and inside them the interceptors of around, which may be nil. Absent returns
// nil if there are neither. A call ends with the error of [dispatch.WithRefusal], or of
// [dispatch.ErrAbsent].
func Absent(plugins []any, around func(tandem.Func) tandem.Func, report dispatch.PanicFunc) *dispatch.Method {
	p := OfMethod(plugins, plugin.Method{}, report)
	if p == nil && around == nil {
		return nil
	}
	pass := func(ctx context.Context, call *tandem.Call) error {
		if why := dispatch.Refused(ctx); why != nil {
			return why
		}
		return dispatch.ErrAbsent(call)
	}
	if around != nil {
		pass = around(pass)
	}
	if p != nil {
		pass = p.Wrap(pass)
	}
	return &dispatch.Method{Guarded: true, Func: func(ctx context.Context, call *tandem.Call) error {
		call.Body = dispatch.NoBody(dispatch.ErrAbsent(call))
		return pass(ctx, call)
	}}
}

// Report returns a PanicFunc that calls report, and then the plugins that have the point
// [plugin.Panicked].
func Report(plugins []any, report dispatch.PanicFunc) dispatch.PanicFunc {
	var told []plugin.Panicked
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
func tellPanic(p plugin.Panicked, what string, value any, stack []byte) {
	defer func() { _ = recover() }()
	p.Panicked(what, value, stack)
}
