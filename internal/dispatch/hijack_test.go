package dispatch

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/tandem-rpc/tandem"
)

type User struct {
	ID   int
	Name string
}

// HelloTest is the service of the LittleRpc document, with its two hijackers.
// The first writes one result more than there is, a nil.
type HelloTest struct {
	Hijacker
	t     *testing.T
	count int64
	users sync.Map
}

func (h *HelloTest) GetCount() (int64, error) {
	h.t.Error("GetCount itself ran")
	return 0, nil
}

func (h *HelloTest) SelectUser(_ context.Context, uid int) (User, bool, error) {
	u, ok := h.users.Load(uid)
	if !ok {
		return User{}, false, tandem.Errorf(tandem.NotFound, "no user %d", uid)
	}
	return u.(User), true, nil
}

func (h *HelloTest) WaitSelectUserHijack(context.Context, int) (*User, error) {
	h.t.Error("WaitSelectUserHijack itself ran")
	return nil, nil
}

func (h *HelloTest) noError(err error) {
	if err != nil {
		h.t.Error(err)
	}
}

func (h *HelloTest) Setup() {
	err := h.HijackProcess("GetCount", func(stub *Stub) {
		h.noError(stub.Write(atomic.LoadInt64(&h.count)))
		h.noError(stub.Write(nil))
		h.noError(stub.WriteErr(nil))
	})
	h.noError(err)
	err = h.HijackProcess("WaitSelectUserHijack", func(stub *Stub) {
		var uid int
		h.noError(stub.Read(&uid))
		<-stub.Done()
		user, _, err := h.SelectUser(stub, uid)
		h.noError(stub.Write(&user))
		h.noError(stub.WriteErr(err))
	})
	h.noError(err)
}

// cancelled makes a call that is cancelled while it runs.
func cancelled(table *Table, name, in string) (string, error) {
	ctx, cancel := context.WithCancel(context.Background())
	b := &jsonBody{in: in}
	done := make(chan error)
	go func() { done <- table.Lookup(name).Func(ctx, &tandem.Call{Method: name, Body: b}) }()
	cancel()
	err := <-done
	return b.out, err
}

// skipping registers a service that has methods that can't be served.
func skipping(t *Table, rcvr any) error { return t.Register(rcvr, WithSkipUnsuitable()) }

// TestHijackExamples runs the document's two examples.
func TestHijackExamples(t *testing.T) {
	h := &HelloTest{t: t, count: 1024}
	h.users.Store(7, User{7, "Ada"})
	table := New(Config{})
	must(t, skipping(table, h))
	wantCall(t, table, "HelloTest.GetCount", "[]", "1024")

	out, err := cancelled(table, "HelloTest.WaitSelectUserHijack", "7")
	if want := `{"ID":7,"Name":"Ada"}`; err != nil || out != want {
		t.Errorf("got %s, %v; want %s", out, err, want)
	}
	out, err = cancelled(table, "HelloTest.WaitSelectUserHijack", "8")
	if tandem.CodeOf(err) != tandem.NotFound || out != "" {
		t.Errorf("got %s, %v; want an error that nothing was found", out, err)
	}

	for _, name := range []string{"HelloTest.Setup", "HelloTest.HijackProcess"} {
		if table.Lookup(name) != nil {
			t.Errorf("%s is served", name)
		}
	}
	wantError(t, h.HijackProcess("GetCount", func(*Stub) {}), "in the service's Setup method only")
	must(t, table.RegisterName("Again", h, WithSkipUnsuitable())) // set up once more
	wantCall(t, table, "Again.GetCount", "[]", "1024")
}

// Hijacked has methods of several shapes; its hijackers come from the test.
type Hijacked struct {
	Hijacker
	hijack map[string]func(*Stub)
}

func (*Hijacked) None() error                                           { return errors.New("not hijacked") }
func (*Hijacked) One(*Point) (*Point, error)                            { return nil, nil }
func (*Hijacked) Two(context.Context, int, *Point) (int, *Point, error) { return 0, nil, nil }
func (*Hijacked) Reply(int, *Point) error                               { return nil }
func (*Hijacked) Any(any) (any, error)                                  { return nil, nil }
func (*Hijacked) Stream(*tandem.Stream[int, int]) error                 { return nil }
func (*Hijacked) Raw(context.Context, *tandem.Call) error               { return nil }
func (*Hijacked) Variadic(...int) error                                 { return nil }

func (h *Hijacked) Setup() {
	for name, f := range h.hijack {
		_ = h.HijackProcess(name, f)
	}
}

// TestHijack runs hijackers that read and write in all possible ways.
func TestHijack(t *testing.T) {
	for _, test := range []struct {
		name, method string
		in, want     string
		f            func(s *Stub) error
	}{
		{"nothing", "None", "[]", "[]", func(*Stub) error { return nil }},
		{"unread", "One", "?", `{"X":0,"Y":0}`, func(*Stub) error { return nil }},
		{"value for pointer", "One", `{"X":1}`, `{"X":1,"Y":0}`, func(s *Stub) error {
			var p Point
			return errors.Join(s.Read(&p), s.Write(p))
		}},
		{"pointer", "One", `{"X":1}`, `{"X":1,"Y":0}`, func(s *Stub) error {
			var p *Point
			return errors.Join(s.Read(&p), s.Write(p))
		}},
		{"sole argument of another type", "One", `{"X":1}`, `{"X":1,"Y":0}`, func(s *Stub) error {
			var m map[string]int
			return errors.Join(s.Read(&m), s.Write(Point{X: m["X"]}))
		}},
		{"several", "Two", `[1,{"X":2}]`, `[3,{"X":2,"Y":0}]`, func(s *Stub) error {
			var n int
			var p *Point
			err := errors.Join(s.Read(&n), s.Read(&p))
			n += p.X
			return errors.Join(err, s.Write(&n), s.Write(&p), s.Write(nil))
		}},
		{"several, value for pointer", "Two", `[1,{"X":2}]`, `[1,{"X":2,"Y":0}]`, func(s *Stub) error {
			var n int
			var p Point
			return errors.Join(s.Read(&n), s.Read(&p), s.Write(n), s.Write(p))
		}},
		{"nils", "Two", `[1,{}]`, `[0,null]`, func(s *Stub) error { return errors.Join(s.Write((*int)(nil)), s.Write(nil)) }},
		{"left out", "Two", `[1,{}]`, `[5,null]`, func(s *Stub) error { return s.Write(5) }},
		{"reply", "Reply", `4`, `{"X":4,"Y":0}`, func(s *Stub) error {
			var n int
			return errors.Join(s.Read(&n), s.Write(Point{X: n}))
		}},
		{"reply pointer", "Reply", `4`, `{"X":1,"Y":0}`, func(s *Stub) error { return s.Write(&Point{X: 1}) }},
		{"reply left out", "Reply", `4`, `{"X":0,"Y":0}`, func(*Stub) error { return nil }},
		{"any", "Any", `4`, `"a"`, func(s *Stub) error { return s.Write("a") }},
		{"any nil", "Any", `4`, `null`, func(s *Stub) error { return s.Write(nil) }},
		{"pointer to nil any", "Any", `4`, `null`, func(s *Stub) error { return s.Write(new(any)) }},
	} {
		t.Run(test.name, func(t *testing.T) {
			table := New(Config{})
			must(t, skipping(table, &Hijacked{hijack: map[string]func(*Stub){test.method: func(s *Stub) {
				if err := test.f(s); err != nil {
					t.Error(err)
				}
			}}}))
			wantCall(t, table, "Hijacked."+test.method, test.in, test.want)
		})
	}
}

// TestHijackErrors checks misuse of stubs, and that the caller gets the method's error.
func TestHijackErrors(t *testing.T) {
	for _, test := range []struct {
		name, method, in string
		f                func(s *Stub) error
		want             string
	}{
		{"no argument", "None", "[]", func(s *Stub) error { return s.Read(new(int)) }, "read argument 1 of Hijacked.None: the method has 0"},
		{"too many arguments", "Reply", "1", func(s *Stub) error { _ = s.Read(new(int)); return s.Read(new(int)) }, "read argument 2 of Hijacked.Reply: the method has 1"},
		{"not a pointer", "One", "1", func(s *Stub) error { return s.Read(1) }, "want a pointer that is not nil, not int"},
		{"nil", "One", "1", func(s *Stub) error { return s.Read(nil) }, "want a pointer"},
		{"nil pointer", "One", "1", func(s *Stub) error { return s.Read((*int)(nil)) }, "want a pointer"},
		{"another argument type", "Two", `[1,{}]`, func(s *Stub) error { return s.Read(new(string)) }, "argument 1 of Hijacked.Two: it is int, not string"},
		{"bad arguments", "Two", `[1]`, func(s *Stub) error { return s.Read(new(int)) }, "invalid argument: arguments of Hijacked.Two"},
		{"bad argument", "Reply", `{}`, func(s *Stub) error { return s.Read(new(int)) }, "invalid argument: arguments of Hijacked.Reply"},
		{"another result type", "Reply", "1", func(s *Stub) error { return s.Write("x") }, "result 1 of Hijacked.Reply: it is *dispatch.Point, not string"},
		{"too many results", "None", "[]", func(s *Stub) error { return s.Write(1) }, "result 1 of Hijacked.None: the method has 0"},
		{"error after result", "Reply", "1", func(s *Stub) error { _ = s.Write(nil); return errors.New("authored") }, "authored"},
	} {
		t.Run(test.name, func(t *testing.T) {
			table := New(Config{})
			must(t, skipping(table, &Hijacked{hijack: map[string]func(*Stub){test.method: func(s *Stub) {
				if err := s.WriteErr(test.f(s)); err != nil {
					t.Error(err)
				}
			}}}))
			out, err := call(table, "Hijacked."+test.method, test.in)
			wantError(t, err, test.want)
			if out != "" || !tandem.MayHaveExecuted(err) {
				t.Errorf("sent %q; may have executed: %v", out, tandem.MayHaveExecuted(err))
			}
		})
	}
}

// TestHijackForwards checks that a forwarded error is no longer marked as not executed.
func TestHijackForwards(t *testing.T) {
	table := New(Config{})
	must(t, skipping(table, &Hijacked{hijack: map[string]func(*Stub){"None": func(s *Stub) {
		_ = s.WriteErr(&tandem.Error{Code: tandem.Unavailable, NotExecuted: true})
	}}}))
	_, err := call(table, "Hijacked.None", "[]")
	if tandem.CodeOf(err) != tandem.Unavailable || !tandem.MayHaveExecuted(err) {
		t.Errorf("got %v, may have executed: %v", err, tandem.MayHaveExecuted(err))
	}
}

// TestHijackPanic checks that a hijacker's panic is recovered like a method's.
func TestHijackPanic(t *testing.T) {
	table, reports := recorder()
	must(t, skipping(table, &Hijacked{hijack: map[string]func(*Stub){"None": func(*Stub) { explode() }}}))
	_, err := call(table, "Hijacked.None", "[]")
	wantError(t, err, "Hijacked.None panicked")
	if len(*reports) != 1 {
		t.Error(*reports)
	}
}

// TestHijackAgain registers a service whose first registration failed.
func TestHijackAgain(t *testing.T) {
	h := &Hijacked{hijack: map[string]func(*Stub){"Unknown": func(*Stub) {}}}
	table := New(Config{})
	wantError(t, skipping(table, h), "Unknown")
	h.hijack = map[string]func(*Stub){"None": func(*Stub) {}}
	must(t, skipping(table, h))
	wantCall(t, table, "Hijacked.None", "[]", "[]")
}

// TestStubIsContext checks that FromContext of a stub returns its call.
func TestStubIsContext(t *testing.T) {
	c := &tandem.Call{Method: "Hijacked.None", Body: &jsonBody{in: "[]"}}
	var got *tandem.Call
	table := New(Config{})
	must(t, skipping(table, &Hijacked{hijack: map[string]func(*Stub){"None": func(s *Stub) { got = tandem.FromContext(s) }}}))
	must(t, table.Lookup("Hijacked.None").Func(tandem.NewContext(context.Background(), c), c))
	if got != c {
		t.Errorf("got %v", got)
	}
}

// TestHijackRefused checks that errors of HijackProcess fail registrations, although Setup ignores them.
func TestHijackRefused(t *testing.T) {
	f := func(*Stub) {}
	for method, want := range map[string]string{
		"Unknown":  "no such exported method",
		"Stream":   "handle their messages themselves",
		"Raw":      "handle their messages themselves",
		"Variadic": "variadic",
		"Setup":    "no such exported method",
	} {
		table := New(Config{})
		wantError(t, skipping(table, &Hijacked{hijack: map[string]func(*Stub){method: f}}), "Hijacked."+method, want)
		if len(table.Methods()) != 0 {
			t.Error("methods are left")
		}
	}
	wantError(t, skipping(New(Config{}), &Hijacked{hijack: map[string]func(*Stub){"None": nil}}), "the function is nil")
	wantError(t, New(Config{}).Register(&hijacksTwice{}), "no exported name")
	wantError(t, New(Config{}).RegisterName("S", &hijacksTwice{}), "S.M: it is hijacked already")
	wantError(t, New(Config{}).RegisterName("S", hijackedByValue{}), "register a pointer to the dispatch.hijackedByValue")
	wantError(t, New(Config{}).RegisterName("S", &oddSetup{}), "its Setup must be func()")
	wantError(t, New(Config{}).RegisterName("S", &nilHijacker{}), "nil *Hijacker")
}

// TestSetupRegistersItself checks that a Setup that registers its own service does not deadlock.
func TestSetupRegistersItself(t *testing.T) {
	r := new(registersItself)
	must(t, New(Config{}).RegisterName("S", r))
	wantError(t, r.inner, `service "S" is being registered elsewhere at this moment`)
}

type hijacksTwice struct{ Hijacker }

func (h *hijacksTwice) M() error { return nil }
func (h *hijacksTwice) Setup() {
	_ = h.HijackProcess("M", func(*Stub) {})
	_ = h.HijackProcess("M", func(*Stub) {})
}

type hasM struct{}

func (hasM) M() error { return nil }

type hijackedByValue struct {
	Hijacker
	hasM
}

type oddSetup struct{ Hijacker }

func (*oddSetup) M() error     { return nil }
func (*oddSetup) Setup() error { return nil }

type nilHijacker struct{ *Hijacker }

func (*nilHijacker) M() error { return nil }
func (*nilHijacker) Setup()   {}

type registersItself struct {
	Hijacker
	inner error
}

func (*registersItself) M() error { return nil }
func (r *registersItself) Setup() { r.inner = New(Config{}).RegisterName("S", r) }

// PlainSetup has a Setup and no Hijacker: it is an ordinary net/rpc service.
type PlainSetup struct{ called int }

func (p *PlainSetup) Setup(n int, reply *int) error { p.called++; return nil }

func TestSetupWithoutHijacker(t *testing.T) {
	table := New(Config{})
	must(t, table.Register(&PlainSetup{}))
	wantCall(t, table, "PlainSetup.Setup", "1", "0")
}

// TestSetupPanics checks that a panic in Setup leaves the service as it was.
func TestSetupPanics(t *testing.T) {
	s := &panicsInSetup{first: true}
	table := New(Config{})
	func() {
		defer func() {
			if recover() == nil {
				t.Error("no panic")
			}
		}()
		_ = table.RegisterName("S", s)
	}()
	must(t, table.RegisterName("S", s))
	wantCall(t, table, "S.M", "[]", "[]")
}

type panicsInSetup struct {
	Hijacker
	first bool
}

func (*panicsInSetup) M() error { return nil }
func (p *panicsInSetup) Setup() {
	if p.first {
		p.first = false
		panic("setup")
	}
}
