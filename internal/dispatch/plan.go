package dispatch

import (
	"context"
	"reflect"
	"sync"

	"github.com/tandem-rpc/tandem"
)

// plan says how to call a function by reflection. It is made once, from the function's
// signature.
type plan struct {
	shape    *shape
	fn       reflect.Value
	receiver reflect.Value // the first parameter of a method; invalid for functions
	params   []param       // the parameters for the arguments
}

// newFuncs returns the Func that calls fn, a function of that shape, and the Func that
// reuses arguments, which is nil if there are none to reuse.
func newFuncs(fn reflect.Value, s *shape) (f, reusing tandem.Func) {
	if s.isFunc {
		f := fn.Convert(funcType).Interface().(tandem.Func) //nolint:forcetypeassert // just converted
		return func(ctx context.Context, call *tandem.Call) error {
			if err := f(ctx, call); err != nil {
				return methodError(err)
			}
			return nil
		}, nil
	}
	return newPlan(fn, reflect.Value{}, s).start()
}

// newMethodFuncs is newFuncs for a method. Passing the receiver as a parameter saves an
// allocation compared with a bound method.
func newMethodFuncs(receiver reflect.Value, goName string, s *shape) (f, reusing tandem.Func) {
	if s.isFunc {
		return newFuncs(receiver.MethodByName(goName), s)
	}
	m, _ := receiver.Type().MethodByName(goName)
	return newPlan(m.Func, receiver, s).start()
}

func newPlan(fn, receiver reflect.Value, s *shape) *plan {
	p := &plan{shape: s, fn: fn, receiver: receiver, params: make([]param, len(s.args))}
	for i, t := range s.args {
		p.params[i] = paramOf(t)
	}
	return p
}

func (p *plan) start() (f, reusing tandem.Func) {
	switch {
	case p.shape.stream != nil:
		return p.streaming, nil
	case len(p.params) == 0:
		return p.unary, nil
	}
	r := *p
	r.params = make([]param, len(p.params))
	for i, param := range p.params {
		r.params[i] = param
		r.params[i].cleared = new(sync.Pool)
	}
	return p.unary, r.unary
}

func (p *plan) unary(ctx context.Context, call *tandem.Call) error {
	return p.run(ctx, call, call.Body, nil)
}

func (p *plan) streaming(ctx context.Context, call *tandem.Call) error {
	s := call.Body.Stream()
	if s == nil {
		return noStream(call)
	}
	return p.run(ctx, call, streamMessages{s}, s)
}

// run receives the arguments, calls the function and sends its results.
func (p *plan) run(ctx context.Context, call *tandem.Call, msgs messages, stream tandem.MessageStream) error {
	var room [8]reflect.Value // on the stack; more parameters go to the heap
	in := room[:0]
	if p.receiver.IsValid() {
		in = append(in, p.receiver)
	}
	if p.shape.context {
		in = append(in, contextValue(ctx))
	}
	if stream != nil {
		in = append(in, newStream(p.shape.stream, stream))
	}
	first := len(in)
	in, err := p.receive(msgs, in)
	if err != nil {
		err = badArguments(call, err)
	} else {
		err = p.invoke(call, msgs, in)
	}
	for i := range p.params { // not after a panic: another goroutine may hold them
		p.params[i].release(in[first+i])
	}
	return err
}

// receive appends the arguments, and the reply to be filled, to in.
func (p *plan) receive(msgs messages, in []reflect.Value) ([]reflect.Value, error) {
	var err error
	switch {
	case len(p.params) == 1:
		ptr := p.params[0].alloc()
		in = append(in, p.params[0].value(ptr))
		err = msgs.Decode(ptr.Interface())
	case len(p.params) > 1:
		ptrs := make(tandem.Results, len(p.params))
		for i, param := range p.params {
			ptr := param.alloc()
			in = append(in, param.value(ptr))
			ptrs[i] = ptr.Interface()
		}
		err = msgs.Decode(ptrs)
	case p.shape.stream == nil:
		err = msgs.Decode(noArguments)
	}
	if p.shape.reply {
		in = append(in, newReply(p.shape.results[0]))
	}
	return in, err
}

// invoke calls the function and sends its results.
func (p *plan) invoke(call *tandem.Call, msgs messages, in []reflect.Value) error {
	out := p.fn.Call(in)
	if p.shape.fails {
		last := len(out) - 1
		if err, failed := reflect.TypeAssert[error](out[last]); failed {
			return methodError(err)
		}
		out = out[:last]
	}
	if p.shape.reply {
		out = in[len(in)-1:]
	}
	if p.shape.stream != nil && len(out) == 0 {
		return nil
	}
	return badResults(call, msgs.Encode(message(out)))
}

// message returns the message to send for the results.
func message(results []reflect.Value) any {
	switch len(results) {
	case 0:
		return noResults
	case 1:
		return sole(results[0])
	}
	args := make(tandem.Args, len(results))
	for i, r := range results {
		if !isNil(r) { // else nil itself, which every codec can send
			args[i] = r.Interface()
		}
	}
	return args
}

// sole returns the only result as it is sent: a nil pointer as a pointer to the zero value.
func sole(v reflect.Value) any {
	if isNil(v) {
		return reflect.New(v.Type().Elem()).Interface()
	}
	return v.Interface()
}

// isNil reports whether v is a nil pointer.
func isNil(v reflect.Value) bool { return v.Kind() == reflect.Pointer && v.IsNil() }

// param is a parameter of a function, for which an argument is decoded.
type param struct {
	elem    reflect.Type // the type to allocate
	pointer bool         // the parameter is the pointer itself
	cleared *sync.Pool   // of pointers to reuse; nil if they must not be reused
}

func paramOf(t reflect.Type) param {
	if t.Kind() == reflect.Pointer {
		return param{elem: t.Elem(), pointer: true}
	}
	return param{elem: t}
}

// alloc returns a pointer to decode the argument into.
func (p param) alloc() reflect.Value {
	if p.cleared != nil {
		if ptr := p.cleared.Get(); ptr != nil {
			return reflect.ValueOf(ptr)
		}
	}
	return reflect.New(p.elem)
}

// release clears an argument, as value returned it, for another call to reuse.
func (p param) release(v reflect.Value) {
	if p.cleared == nil {
		return
	}
	if !p.pointer {
		v = v.Addr()
	}
	v.Elem().SetZero()
	p.cleared.Put(v.Interface())
}

// value returns the argument to pass, given what alloc returned.
func (p param) value(ptr reflect.Value) reflect.Value {
	if p.pointer {
		return ptr
	}
	return ptr.Elem()
}

// newReply returns a pointer, of type t, to a new value. A map or a slice is
// made, as in net/rpc.
func newReply(t reflect.Type) reflect.Value {
	ptr := reflect.New(t.Elem())
	switch reply := ptr.Elem(); reply.Kind() {
	case reflect.Map:
		reply.Set(reflect.MakeMap(reply.Type()))
	case reflect.Slice:
		reply.Set(reflect.MakeSlice(reply.Type(), 0, 0))
	}
	return ptr
}

// newStream returns a new stream of type t, a Stream[In, Out], over s.
func newStream(t reflect.Type, s tandem.MessageStream) reflect.Value {
	ptr := reflect.New(t)
	ptr.Elem().FieldByName("MessageStream").Set(reflect.ValueOf(s))
	return ptr
}

// contextValue returns ctx as a value of type context.Context. reflect.ValueOf(ctx)
// would have ctx's own type, which every call would have to convert.
func contextValue(ctx context.Context) reflect.Value {
	return reflect.ValueOf(&ctx).Elem()
}
