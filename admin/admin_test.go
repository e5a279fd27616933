package admin

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/codec"
	"github.com/tandem-rpc/tandem/plugin/trace"
	"github.com/tandem-rpc/tandem/server"
	"github.com/tandem-rpc/tandem/transport"
)

// shop is a server that an Admin watches, and clients in the same process.
type shop struct {
	t     *testing.T
	admin *Admin
	net   *transport.Memory
	c     *client.Client // its calls are counted, too
	ask   *client.Client // asks the Admin
	srv   *server.Server
}

type order struct {
	Article  string `json:"article"`
	Password string `json:"password"`
}

func newShop(t *testing.T, opts ...Option) *shop {
	t.Helper()
	s := &shop{t: t, admin: New(opts...), net: transport.NewMemory()}
	traces := trace.New()
	srv := server.New(server.WithPlugins(traces, s.admin), server.WithCodecs(codec.JSON()), server.WithLogger(slog.New(slog.DiscardHandler)))
	err := errors.Join(
		s.admin.Register(srv),
		server.Handle(srv, "Shop.Buy", func(_ context.Context, o *order) (*string, error) {
			switch o.Article {
			case "gone":
				return nil, tandem.Errorf(tandem.NotFound, "no more")
			case "slow":
				time.Sleep(time.Second) // in a synctest bubble
			case "bad":
				panic("bad")
			}
			return &o.Article, nil
		}),
		srv.RegisterFunc("Shop.Wait", func(ctx context.Context) { <-ctx.Done() }),
	)
	if err != nil {
		t.Fatal(err)
	}
	s.srv = srv
	l, err := s.net.Listen(t.Context(), "shop")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- srv.ServeListener(l) }()
	use := client.WithTransport("mem", s.net)
	if s.c, err = s.admin.Dial("mem://shop", use, client.WithPlugins(traces), client.WithCodec(codec.JSON())); err != nil {
		t.Fatal(err)
	}
	if s.ask, err = client.Dial("mem://shop", use, client.WithCodec(codec.JSON())); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(s.c.Close(), s.ask.Close(), srv.Close()); err != nil {
			t.Error(err)
		}
		<-done
	})
	return s
}

func (s *shop) buy(article string) error {
	return s.c.Call(s.t.Context(), "Shop.Buy", order{Article: article, Password: "hunter2"}, nil)
}

func get[Resp any](s *shop, method string, req any) *Resp {
	s.t.Helper()
	resp, err := client.Invoke[Resp](s.t.Context(), s.ask, Service+"."+method, req)
	if err != nil {
		s.t.Fatalf("%s: %v", method, err)
	}
	return resp
}

func figure(m *Methods, name string) MethodFigure {
	for _, f := range m.Methods {
		if f.Method == name {
			return f
		}
	}
	return MethodFigure{}
}

func TestFigures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShop(t)
		time.Sleep(tick / 4) // so that no call ends when a second does
		for i := range 30 {
			_ = s.buy([]string{"pen", "gone", "bad"}[i%3])
			time.Sleep(time.Second / 2)
		}
		for range 10 {
			if err := s.buy("slow"); err != nil {
				t.Fatal(err)
			}
		}
		go func() { _ = s.c.Call(t.Context(), "Shop.Wait", nil, nil, client.Timeout(time.Hour)) }()
		synctest.Wait()

		s.checkFigures("")
		s.checkFigures("mem://shop")
		// What is long past is not in the window.
		time.Sleep(3 * time.Minute)
		if f := figure(get[Methods](s, "Methods", MethodsRequest{}), "Shop.Buy"); f.Rate != 0 || f.Errors != nil || f.P99 != 0 || f.Calls != 40 {
			t.Errorf("after three minutes: %+v", f)
		}
		if f := figure(get[Methods](s, "Methods", MethodsRequest{Window: 5 * time.Minute}), "Shop.Buy"); f.P99 < 950*time.Millisecond {
			t.Errorf("in five minutes: %+v", f)
		}
		in := get[Info](s, "Info", InfoRequest{})
		if !slices.Equal(in.Services, []string{"Shop", Service}) || !slices.Equal(in.Clients, []string{"mem://shop"}) || in.Role != "developer" || in.PID == 0 {
			t.Errorf("%+v", in)
		}
	})
}

// checkFigures checks what TestFigures has done, seen from one side.
func (s *shop) checkFigures(side string) {
	t := s.t
	t.Helper()
	m := get[Methods](s, "Methods", MethodsRequest{Series: true, Client: side})
	f := figure(m, "Shop.Buy")
	if f.Calls != 40 || f.Running != 0 || f.Errors["not found"] != 10 || f.Errors["internal"] != 10 || m.Window != 25*time.Second {
		t.Errorf("%q: %+v in %v", side, f, m.Window)
	}
	if f.Rate != 40.0/25 || f.ErrorRate != 20.0/25 || f.P50 > time.Millisecond || f.P99 < 950*time.Millisecond || f.P99 > 1050*time.Millisecond {
		t.Errorf("%q: rate %v, error rate %v, p50 %v, p99 %v", side, f.Rate, f.ErrorRate, f.P50, f.P99)
	}
	if n := len(f.PerSecond); n != 25 || f.PerSecond[1].Calls != 2 || len(f.Heat) != 2 {
		t.Errorf("%q: %d seconds: %v; heat %v", side, n, f.PerSecond, f.Heat)
	}
	if w := figure(m, "Shop.Wait"); w.Running != 1 || w.Calls != 0 {
		t.Errorf("%q: %+v", side, w)
	}
	if own := figure(m, Service+".Methods"); side == "" && (own.Kind != "unary" || own.Calls != 0) {
		t.Errorf("the Admin counts itself: %+v", own)
	}
}

// Many calls in a second are sampled, and counted one by one.
func TestSampling(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShop(t)
		m := s.admin.method(key{"", "Shop.Buy"})
		time.Sleep(tick / 2) // a tick that falls among the calls would see a part of them
		for range 3 {
			for range 20_000 {
				_ = m.pass(t.Context(), &tandem.Call{Method: "Shop.Buy"}, func(context.Context, *tandem.Call) error { return nil })
			}
			time.Sleep(tick)
		}
		synctest.Wait()
		sampled, all := uint64(0), new(sums)
		m.lately(windows, all)
		for _, n := range all {
			sampled += n
		}
		begun, ended, _ := m.totals()
		if begun != 60_000 || ended != 60_000 || m.skip.Load() != 15 {
			t.Errorf("%d begun, %d ended; skip %d", begun, ended, m.skip.Load())
		}
		if sampled < 55_000 || sampled > 65_000 { // 20,000 are certain, and the rest is off by more than 5,000 in less than 1e-9 of runs
			t.Errorf("the sample stands for %d of 60,000 calls", sampled)
		}
	})
}

func TestSpans(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShop(t)
		_ = s.buy("pen")
		_ = s.buy("gone")
		list := get[Spans](s, "Spans", SpansRequest{}).Spans
		if len(list) != 4 {
			t.Fatalf("%d spans: %+v", len(list), list)
		}
		called, served := list[0], list[1]
		if called.Client != "mem://shop" || served.Client != "" || served.Trace != called.Trace || served.Parent != called.Span || served.Code != "not found" {
			t.Errorf("the client's %+v\nthe server's %+v", called, served)
		}
		if len(called.Attempts) != 1 || called.Attempts[0].Instance == "" || !strings.Contains(called.Attempts[0].Error, "no more") {
			t.Errorf("attempts: %+v", called.Attempts)
		}
		if of := get[Spans](s, "Spans", SpansRequest{Trace: list[3].Trace}).Spans; len(of) != 2 {
			t.Errorf("a trace of %d spans", len(of))
		}
		if failed := get[Spans](s, "Spans", SpansRequest{Failed: true, Method: "Shop.*", Max: 1}).Spans; len(failed) != 1 || failed[0].Error == "" {
			t.Errorf("failed: %+v", failed)
		}
		if too := get[Spans](s, "Spans", SpansRequest{AtLeast: time.Second}).Spans; len(too) != 0 {
			t.Errorf("slow: %+v", too)
		}
	})
}

// When there are many traces, fewer are kept, and the same ones on both sides.
func TestSpansArePaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShop(t)
		for range 10 {
			for range 500 {
				_ = s.buy("pen")
			}
			time.Sleep(tick)
		}
		mask := s.admin.keep.Load()
		if mask < 7 || mask > 63 {
			t.Errorf("with 1,000 spans a second the mask is %d", mask)
		}
		sides := map[string]int{}
		for _, sp := range s.admin.spans.last(100, func(*Span) bool { return true }) {
			sides[sp.Trace]++
		}
		for id, n := range sides {
			if n != 2 {
				t.Errorf("trace %s has %d spans", id, n)
			}
		}
		time.Sleep(10 * time.Second)
		if s.admin.keep.Load() != 0 {
			t.Errorf("at rest the mask is %d", s.admin.keep.Load())
		}
	})
}

func (s *shop) tap(req TapRequest) tandem.MessageStream {
	s.t.Helper()
	st, err := s.ask.OpenStream(s.t.Context(), Service+".Tap", client.Timeout(time.Hour))
	if err != nil {
		s.t.Fatal(err)
	}
	if err := st.SendMsg(req); err != nil {
		s.t.Fatal(err)
	}
	synctest.Wait()
	return st
}

func TestTap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShop(t)
		st := s.tap(TapRequest{Method: "Shop.*", Failed: true})
		_ = s.c.Call(t.Context(), "Shop.Buy", order{Article: "gone"}, nil, client.Metadata("authorization", "Bearer x"), client.Metadata("tenant", "blue"))
		_ = s.buy("pen")
		var e TapEvent
		if err := st.RecvMsg(&e); err != nil {
			t.Fatal(err)
		}
		if e.Method != "Shop.Buy" || e.Code != "not found" || e.Kind != "unary" || e.Metadata["authorization"] != hidden || e.Metadata["tenant"] != "blue" || e.Request != nil {
			t.Errorf("%+v", e)
		}
		began := time.Now()
		if err := st.RecvMsg(&e); err == nil || time.Since(began) > tapTime {
			t.Errorf("the tap ended with %v after %v, with the event %+v", err, time.Since(began), e)
		}
		if s.admin.taps.Load() != nil {
			t.Error("the tap is still there")
		}

		// A tap of a client's calls, that shows at most five a second.
		st = s.tap(TapRequest{Client: "*", Rate: 5})
		for range 12 {
			_ = s.buy("pen")
		}
		time.Sleep(2 * time.Second)
		_ = s.buy("pen")
		for i := range 6 {
			if err := st.RecvMsg(&e); err != nil || e.Client != "mem://shop" {
				t.Fatalf("%d: %+v, %v", i, e, err)
			}
		}
		if e.Missed != 7 {
			t.Errorf("missed %d", e.Missed)
		}
		if err := st.Close(); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		if s.admin.taps.Load() != nil {
			t.Error("the tap outlives its reader")
		}
	})
}

// A tap ends when its server begins to shut down, which does not wait for it.
func TestTapEndsWithItsServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShop(t)
		st := s.tap(TapRequest{For: 10 * time.Minute})
		began := time.Now()
		if err := s.srv.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("the shutdown took %v", took)
		}
		if err := st.RecvMsg(new(TapEvent)); tandem.CodeOf(err) != tandem.Unavailable {
			t.Errorf("the tap ended with %v", err)
		}
	})
}

func TestTapIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShop(t)
		for _, req := range []TapRequest{{Method: "["}, {Share: 2}, {Rate: -1}, {Payload: true}} {
			if err := s.tap(req).RecvMsg(new(TapEvent)); err == nil || errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%+v: %v", req, err)
			}
		}
		for range maxTaps {
			s.tap(TapRequest{})
		}
		if err := s.tap(TapRequest{}).RecvMsg(new(TapEvent)); tandem.CodeOf(err) != tandem.ResourceExhausted {
			t.Errorf("one too many: %v", err)
		}
	})
}

// asked is an Authorizer for tests.
func asked(r Role) Authorizer { return func(context.Context) (Role, error) { return r, nil } }

func TestPayloads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShop(t, WithAuthorizer(asked(Administrator)), WithPayloads(nil))
		st := s.tap(TapRequest{Payload: true, Method: "Shop.Buy"})
		_ = s.buy("pen")
		var e TapEvent
		if err := st.RecvMsg(&e); err != nil {
			t.Fatal(err)
		}
		if string(e.Request) != `{"article":"pen","password":"(hidden)"}` || string(e.Reply) != `"pen"` {
			t.Errorf("%s, %s", e.Request, e.Reply)
		}
		_ = s.buy(strings.Repeat("p", 20<<10))
		if err := st.RecvMsg(&e); err != nil {
			t.Fatal(err)
		}
		if len(e.Request) > maxTapMessage+100 || !json.Valid(e.Request) {
			t.Errorf("%d bytes", len(e.Request))
		}
	})
}

func TestChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		level := new(slog.LevelVar)
		var log strings.Builder
		s := newShop(t, WithAuthorizer(asked(Operator)), WithLogLevel(level), WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
		made := get[Change](s, "SetLogLevel", LogLevelRequest{Level: "debug", Why: "a look"})
		if level.Level() != slog.LevelDebug || made.Before != "INFO" || made.After != "DEBUG" || made.Why != "a look" || made.By != "at "+s.clientAddr() || !strings.Contains(log.String(), `why="a look"`) {
			t.Errorf("%v; %+v; %s", level, made, &log)
		}
		undone := get[Change](s, "Undo", UndoRequest{ID: made.ID})
		if level.Level() != slog.LevelInfo || undone.After != "INFO" {
			t.Errorf("%v after %+v", level, undone)
		}
		list := get[Changes](s, "Changes", ChangesRequest{}).Changes
		if len(list) != 2 || list[1].UndoneBy != undone.ID || len(s.admin.Audit()) != 2 {
			t.Errorf("%+v", list)
		}
		for id, want := range map[string]tandem.Code{made.ID: tandem.FailedPrecondition, undone.ID: tandem.FailedPrecondition, "77": tandem.NotFound} {
			if err := s.ask.Call(t.Context(), Service+".Undo", UndoRequest{ID: id}, nil); tandem.CodeOf(err) != want {
				t.Errorf("undoing change %s: %v, want %v", id, err, want)
			}
		}
		// What others have changed since is not undone.
		made = get[Change](s, "SetLogLevel", LogLevelRequest{Level: "error"})
		level.Set(slog.LevelWarn)
		if err := s.ask.Call(t.Context(), Service+".Undo", UndoRequest{ID: made.ID}, nil); tandem.CodeOf(err) != tandem.FailedPrecondition || level.Level() != slog.LevelWarn {
			t.Errorf("%v, and the level is %v", err, level)
		}
		if err := s.ask.Call(t.Context(), Service+".SetLogLevel", LogLevelRequest{Level: "loud"}, nil); tandem.CodeOf(err) != tandem.InvalidArgument {
			t.Errorf("a level that does not exist: %v", err)
		}
	})
}

func (s *shop) clientAddr() string {
	a := s.admin.Audit()
	return strings.TrimPrefix(a[len(a)-1].By, "at ")
}

// addr is an address of a network.
type addr struct{ network, text string }

func (a addr) Network() string { return a.network }
func (a addr) String() string  { return a.text }

func TestLocal(t *testing.T) {
	for _, c := range []struct {
		addr     net.Addr
		metadata tandem.Metadata
		want     bool
	}{
		{addr{"tcp", "127.0.0.1:80"}, nil, true},
		{addr{"tcp", "127.9.9.9:80"}, nil, true},
		{addr{"tcp", "[::1]:80"}, nil, true},
		{addr{"tcp", "[::ffff:127.0.0.1]:80"}, nil, true},
		{addr{"unix", "@"}, nil, true},
		{addr{"mem", "shop"}, nil, true},
		{addr{"tcp", "10.0.0.1:80"}, nil, false},
		{addr{"tcp", "[fe80::1%lo]:80"}, nil, false},
		{addr{"tcp", "localhost:80"}, nil, false},
		{addr{"odd", ""}, nil, false},
		{nil, nil, false},
		{addr{"tcp", "127.0.0.1:80"}, tandem.Metadata{"x-forwarded-for": {"10.0.0.1"}}, false},
		{addr{"tcp", "127.0.0.1:80"}, tandem.Metadata{"forwarded": {"for=10.0.0.1"}}, false},
		{addr{"tcp", "127.0.0.1:80"}, tandem.Metadata{"via": {"1.1 proxy"}}, false},
	} {
		call := &tandem.Call{Peer: &tandem.Peer{Addr: c.addr}, Metadata: c.metadata}
		if got := isLocal(call); got != c.want {
			t.Errorf("%v with %v is local: %v", c.addr, c.metadata, got)
		}
	}
}

// Each method refuses those who have less than the role that it needs.
func TestRoles(t *testing.T) {
	needs := map[string]Role{
		"Info": Viewer, "Methods": Viewer, "Explain": Viewer, "Changes": Viewer,
		"Connections": Viewer, "Limits": Viewer, "Settings": Viewer, "Clients": Viewer, "Schema": Viewer,
		"Spans": Developer, "Profile": Developer, "Tap": Developer, "Running": Developer,
		"SetLogLevel": Operator, "ForceBreaker": Operator, "Undo": Operator,
	}
	for role := Role(0); role <= Administrator; role++ {
		synctest.Test(t, func(t *testing.T) {
			s := newShop(t, WithAuthorizer(asked(role)), WithPayloads(nil))
			for _, m := range get0(s) {
				need := needs[m]
				if need == 0 {
					t.Errorf("%s has no role in this test", m)
				}
				var err error
				if m == "Tap" {
					err = s.tap(TapRequest{For: time.Second}).RecvMsg(new(TapEvent))
				} else {
					err = s.ask.Call(t.Context(), Service+"."+m, struct{}{}, nil)
				}
				if refused := tandem.CodeOf(err) == tandem.PermissionDenied; err != nil && refused != (role < need) || err == nil && role < need {
					t.Errorf("%v calls %s: %v", role, m, err)
				}
			}
			err := s.tap(TapRequest{Payload: true, For: time.Second}).RecvMsg(new(TapEvent))
			if refused := tandem.CodeOf(err) == tandem.PermissionDenied; refused != (role < Administrator) {
				t.Errorf("%v taps payloads: %v", role, err)
			}
		})
	}
}

// get0 returns the names of the Admin's methods.
func get0(s *shop) (names []string) {
	for _, m := range s.admin.watched()[0].Methods() {
		if name, own := strings.CutPrefix(m, Service+"."); own {
			names = append(names, name)
		}
	}
	return names
}

// Without an Authorizer nobody may write, and its errors refuse calls.
func TestAuthorizer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShop(t, WithLogLevel(new(slog.LevelVar)))
		err := s.ask.Call(t.Context(), Service+".SetLogLevel", LogLevelRequest{Level: "debug"}, nil)
		if tandem.CodeOf(err) != tandem.PermissionDenied || !strings.Contains(err.Error(), "admin.WithAuthorizer") {
			t.Errorf("%v", err)
		}
		s = newShop(t, WithAuthorizer(func(ctx context.Context) (Role, error) {
			if tandem.FromContext(ctx).Metadata.Get("token") == "" {
				return 0, errors.New("who are you?")
			}
			return Viewer, nil
		}))
		err = s.ask.Call(t.Context(), Service+".Info", InfoRequest{}, nil)
		if tandem.CodeOf(err) != tandem.PermissionDenied || !strings.Contains(err.Error(), "who are you?") {
			t.Errorf("%v", err)
		}
		if err = s.ask.Call(t.Context(), Service+".Info", InfoRequest{}, nil, client.Metadata("token", "x")); err != nil {
			t.Error(err)
		}
	})
}

func TestExplain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShop(t)
		_ = s.buy("pen")
		e := get[client.Explanation](s, "Explain", ExplainRequest{Client: "mem://shop", Method: "Shop.Buy", Metadata: map[string]string{"a": "b"}, HashKey: "k"})
		if e.Method != "Shop.Buy" || len(e.Attempts) != 1 || len(e.Attempts[0].Instances) != 1 {
			t.Errorf("%+v", e)
		}
		err := s.ask.Call(t.Context(), Service+".Explain", ExplainRequest{Client: "other"}, nil)
		if tandem.CodeOf(err) != tandem.NotFound {
			t.Errorf("a client that does not exist: %v", err)
		}
		if err := s.ask.Call(t.Context(), Service+".Methods", MethodsRequest{Client: "other"}, nil); tandem.CodeOf(err) != tandem.NotFound {
			t.Errorf("its methods: %v", err)
		}
		if err := s.tap(TapRequest{Client: "other", For: time.Second}).RecvMsg(new(TapEvent)); tandem.CodeOf(err) != tandem.NotFound {
			t.Errorf("a tap of it: %v", err)
		}
	})
}

func TestForceBreaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShop(t, WithAuthorizer(asked(Operator)))
		if err := s.buy("pen"); err != nil {
			t.Fatal(err)
		}
		id := get[Clients](s, "Clients", ClientsRequest{}).Clients[0].Explanation.Attempts[0].Instances[0].ID
		open := get[Change](s, "ForceBreaker", BreakerRequest{Client: "mem://shop", Instance: id, State: "open", For: time.Hour, Why: "a test"})
		if err := s.buy("pen"); tandem.CodeOf(err) != tandem.Unavailable {
			t.Errorf("a call at an instance whose breaker is forced open: %v", err)
		}
		if open.Before != "auto" || !strings.HasPrefix(open.After, "forced open until 2000-01-01T01:00:0") {
			t.Errorf("%+v", open)
		}
		undone := get[Change](s, "Undo", UndoRequest{ID: open.ID})
		if err := s.buy("pen"); err != nil || undone.After != "auto" {
			t.Errorf("after undoing: %v, %+v", err, undone)
		}
		get[Change](s, "ForceBreaker", BreakerRequest{Client: "mem://shop", Instance: id, State: "open", For: time.Second})
		time.Sleep(2 * time.Second)
		if err := s.buy("pen"); err != nil {
			t.Errorf("after its time: %v", err)
		}
		for _, wrong := range []BreakerRequest{{State: "half"}, {State: "open"}, {State: "open", For: 25 * time.Hour}, {State: "auto", For: time.Second}} {
			wrong.Client, wrong.Instance = "mem://shop", id
			if err := s.ask.Call(t.Context(), Service+".ForceBreaker", wrong, nil); tandem.CodeOf(err) != tandem.InvalidArgument {
				t.Errorf("%+v: %v", wrong, err)
			}
		}
		for _, unknown := range []BreakerRequest{{Client: "x", Instance: id}, {Client: "mem://shop", Instance: "x"}} {
			unknown.State, unknown.For = "open", time.Second
			if err := s.ask.Call(t.Context(), Service+".ForceBreaker", unknown, nil); tandem.CodeOf(err) != tandem.NotFound {
				t.Errorf("%+v: %v", unknown, err)
			}
		}
	})
}

func TestInspect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShop(t)
		_ = s.buy("pen")
		go func() { _ = s.c.Call(t.Context(), "Shop.Wait", nil, nil, client.Timeout(time.Hour)) }()
		synctest.Wait()
		time.Sleep(time.Minute)
		if c := get[Connections](s, "Connections", ConnectionsRequest{}); c.Total != 2 || len(c.Connections) != 2 || c.Connections[0].Protocol != "tandem" || c.Protocols[0] != (Tally{"tandem", 2}) {
			t.Errorf("%+v", c)
		}
		if c := get[Connections](s, "Connections", ConnectionsRequest{Max: 1}); c.Total != 2 || len(c.Connections) != 1 {
			t.Errorf("%+v", c)
		}
		found := false
		for _, c := range get[Running](s, "Running", RunningRequest{}).Calls {
			found = found || c.Method == "Shop.Wait" && time.Since(c.Since) >= time.Minute && !c.Deadline.IsZero() && c.Kind == "unary"
		}
		if !found {
			t.Error("a call that runs is not listed")
		}
		if l := get[Limits](s, "Limits", LimitsRequest{}); len(l.Overload) != 1 {
			t.Errorf("%+v", l)
		}
		all := get[Settings](s, "Settings", SettingsRequest{})
		for of, settings := range map[string][]tandem.Setting{"WithLogger": all.Server, "WithTransport": all.Clients["mem://shop"]} {
			if !slices.ContainsFunc(settings, func(o tandem.Setting) bool { return o.Name == of && o.From == "option" }) {
				t.Errorf("no %s in %+v", of, settings)
			}
		}
		c := get[Clients](s, "Clients", ClientsRequest{}).Clients
		if len(c) != 1 || c[0].Name != "mem://shop" || c[0].State.Connections != 1 || len(c[0].Explanation.Attempts) != 1 {
			t.Errorf("%+v", c)
		}
		if err := s.ask.Call(t.Context(), Service+".Running", RunningRequest{Max: -1}, nil); tandem.CodeOf(err) != tandem.InvalidArgument {
			t.Errorf("a negative number: %v", err)
		}
	})
}

func TestProfile(t *testing.T) {
	s := newShop(t)
	p := get[Profile](s, "Profile", ProfileRequest{Kind: "goroutine", Text: true})
	if p.Name != "goroutine.txt" || !strings.Contains(string(p.Data), "goroutine profile") {
		t.Errorf("%s: %.100s", p.Name, p.Data)
	}
	if p := get[Profile](s, "Profile", ProfileRequest{Kind: "cpu", For: 50 * time.Millisecond}); p.Name != "cpu.pprof" || len(p.Data) == 0 {
		t.Errorf("%s: %d bytes", p.Name, len(p.Data))
	}
	for kind, want := range map[string]tandem.Code{"nothing": tandem.InvalidArgument, "trace": tandem.DeadlineExceeded} {
		err := s.ask.Call(t.Context(), Service+".Profile", ProfileRequest{Kind: kind, For: time.Minute}, nil)
		if tandem.CodeOf(err) != want {
			t.Errorf("%s: %v", kind, err)
		}
	}
	if _, err := new(bounded).Write(make([]byte, maxProfile+1)); err == nil {
		t.Error("a profile without a bound")
	}
}

// Methods beyond the limit are counted together.
func TestMethodsOfClientsAreBounded(t *testing.T) {
	a := New()
	for i := range MaxCalled + 10 {
		a.method(key{"c", strings.Repeat("x", i)})
	}
	if n := len(*a.all.Load()); n != MaxCalled+1 {
		t.Errorf("%d methods", n)
	}
	if m := a.method(key{"c", "\xff"}); m.key.method != Other {
		t.Errorf("a name that is not UTF-8 is counted as %q", m.key.method)
	}
}

// The history goes on when the server ends on which the Admin was registered first, and calls are
// timed only while there is one.
func TestServersTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := New()
		first, second := server.New(), server.New()
		m := a.method(key{"", "Shop.Buy"})
		if m.skip.Load() != never {
			t.Error("calls are timed before there is a server")
		}
		if err := errors.Join(a.Register(first), a.Register(second), first.Close()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10*tick + tick/2)
		synctest.Wait()
		if at := m.history.at; at != 10 || m.skip.Load() != 0 {
			t.Errorf("%d ticks; skip %d", at, m.skip.Load())
		}
		if err := second.Close(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10*tick + tick/2)
		synctest.Wait()
		if at := m.history.at; at != 10 || m.skip.Load() != never {
			t.Errorf("after the end: %d ticks; skip %d", at, m.skip.Load())
		}
	})
}

// A closed client is shown no more, and its name is free.
func TestClosedClients(t *testing.T) {
	a := New()
	var names []string
	for range 2 {
		c, err := a.Dial("tcp://u:secret@127.0.0.1:1")
		if err == nil {
			t.Cleanup(func() { _ = c.Close() })
		}
	}
	for range 3 {
		c, err := a.Dial("tcp://127.0.0.1:1")
		if err != nil {
			t.Fatal(err)
		}
		for name := range a.dialed() {
			names = append(names, name)
		}
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if slices.ContainsFunc(names, func(n string) bool { return strings.Contains(n, "secret") || strings.Contains(n, "1:1#2") }) || len(names) < 3 {
		t.Errorf("names: %q", names)
	}
	if len(a.dialed()) > 2 {
		t.Errorf("clients: %v", a.dialed())
	}
}
