package once_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/codec"
	"github.com/tandem-rpc/tandem/once"
	"github.com/tandem-rpc/tandem/plugin/auth"
	"github.com/tandem-rpc/tandem/server"
	"github.com/tandem-rpc/tandem/tandemtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// shop counts how often it runs.
type shop struct {
	runs   atomic.Int64
	before func(run int64) error // called in each run; may be nil
}

type receipt struct {
	Number int64
	Lines  map[string]int // encoded in another order each time
}

func (s *shop) place(_ context.Context, what *string) (*receipt, error) {
	n := s.runs.Add(1)
	if s.before != nil {
		if err := s.before(n); err != nil {
			return nil, err
		}
	}
	return &receipt{n, map[string]int{*what: 1, "a": 2, "b": 3, "c": 4}}, nil
}

func (s *shop) register(srv *server.Server) error { return server.Handle(srv, "Shop.Place", s.place) }

// shared is a store that several instances in this process use.
func shared() once.Store { return once.NewMemory(once.MemoryConfig{OneInstance: true}) }

func keeping(store once.Store, opts ...once.Option) server.Option {
	return server.WithPlugins(once.New(store, append([]once.Option{once.WithCaller(once.Anyone)}, opts...)...))
}

func place(t *testing.T, c tandem.Caller, what string, opts ...tandem.CallOption) (*receipt, error) {
	t.Helper()
	var r receipt
	err := c.Call(t.Context(), "Shop.Place", &what, &r, opts...)
	return &r, err
}

// A retry at another instance gets the answer of the attempt whose answer was lost.
func TestRetryGetsTheFirstAnswer(t *testing.T) {
	for name, mode := range map[string]tandem.FailMode{"failover": client.Failover, "failtry": client.Failtry} {
		t.Run(name, func(t *testing.T) {
			network, store, s := tandemtest.NewNetwork(t), shared(), &shop{}
			var instances []*tandemtest.Server
			s.before = func(run int64) error {
				if run == 1 {
					for _, i := range instances { // the one that runs the call among them
						i.Cut()
					}
				}
				return nil
			}
			for range 2 {
				instances = append(instances, network.Serve("shop", s.register, keeping(store)))
			}
			c := network.Dial("shop", client.WithFailMode(mode))
			r, err := place(t, c, "tea", client.Key("order-17"))
			if err != nil || s.runs.Load() != 1 || r.Number != 1 {
				t.Fatalf("%+v, %v after %d runs", r, err, s.runs.Load())
			}
		})
	}
}

// Later calls get the same bytes, whatever the order of a map.
func TestAnswersAreTheSameBytes(t *testing.T) {
	network, s := tandemtest.NewNetwork(t), &shop{}
	network.Serve("shop", s.register, keeping(shared()))
	c := network.Dial("shop", client.WithCodec(rawReplies{codec.Gob()}))
	what := "tea"
	var first, later []byte
	for range 20 {
		if err := c.Call(t.Context(), "Shop.Place", &what, &later, client.Key("k")); err != nil {
			t.Fatal(err)
		}
		if first == nil {
			first = later
		}
		if string(first) != string(later) {
			t.Fatalf("%x, want %x", later, first)
		}
	}
	if err := c.Call(t.Context(), "Shop.Place", &what, &later, client.Key("other")); err != nil || string(first) == string(later) {
		t.Fatalf("another key: %v, %x", err, later)
	}
}

// rawReplies is a codec that does not decode replies.
type rawReplies struct{ tandem.Codec }

func (r rawReplies) Decode(src []byte, v any) error {
	if to, ok := v.(*[]byte); ok {
		*to = append([]byte{}, src...)
		return nil
	}
	return r.Codec.Decode(src, v)
}

// A server without the plugin does not run a call with a key: its client would retry it.
func TestServersWithoutThePluginRefuse(t *testing.T) {
	network, s := tandemtest.NewNetwork(t), &shop{}
	network.Serve("shop", s.register)
	_, err := place(t, network.Dial("shop"), "tea", client.Key("k"))
	if tandem.CodeOf(err) != tandem.Unimplemented || tandem.MayHaveExecuted(err) || s.runs.Load() != 0 {
		t.Fatalf("%v after %d runs", err, s.runs.Load())
	}
}

// Another request under the key is refused.
func TestMismatch(t *testing.T) {
	network, s := tandemtest.NewNetwork(t), &shop{}
	network.Serve("shop", s.register, keeping(shared()))
	c := network.Dial("shop")
	if _, err := place(t, c, "tea", client.Key("k")); err != nil {
		t.Fatal(err)
	}
	_, err := place(t, c, "milk", client.Key("k"))
	if once.ReasonOf(err) != once.Mismatch || tandem.MayHaveExecuted(err) || s.runs.Load() != 1 {
		t.Fatalf("%v after %d runs", err, s.runs.Load())
	}
	if r, err := place(t, c, "milk", client.Key("l"), client.Fingerprint("milk")); err != nil || r.Number != 2 {
		t.Fatalf("%+v, %v", r, err)
	}
	if r, err := place(t, c, "oat milk", client.Key("l"), client.Fingerprint("milk")); err != nil || r.Number != 2 {
		t.Fatalf("%+v, %v", r, err)
	}
}

// One caller does not get the answer of another.
func TestCallersHaveTheirOwnKeys(t *testing.T) {
	network, s := tandemtest.NewNetwork(t), &shop{}
	known := auth.Bearer(auth.Known(map[string]string{"1": "ann", "2": "bob"}))
	network.Serve("shop", s.register, server.WithPlugins(auth.New(auth.Any(known, auth.Func(func(context.Context, *tandem.Call) (any, error) { return nil, nil })))),
		server.WithPlugins(once.New(shared())))
	ann := network.Dial("shop", client.WithPlugins(auth.Token("Bearer", "1")))
	bob := network.Dial("shop", client.WithPlugins(auth.Token("Bearer", "2")))
	if r, err := place(t, ann, "tea", client.Key("k")); err != nil || r.Number != 1 {
		t.Fatalf("%+v, %v", r, err)
	}
	if r, err := place(t, bob, "tea", client.Key("k")); err != nil || r.Number != 2 {
		t.Fatalf("%+v, %v", r, err)
	}
	if _, err := place(t, network.Dial("shop"), "tea", client.Key("k")); tandem.CodeOf(err) != tandem.Unauthenticated || tandem.MayHaveExecuted(err) {
		t.Fatal(err)
	}
}

// An error is an answer, unless the method says that it has done nothing.
func TestErrorsAreAnswers(t *testing.T) {
	network, s := tandemtest.NewNetwork(t), &shop{}
	s.before = func(run int64) error {
		switch run {
		case 1:
			return tandem.Errorf(tandem.OutOfRange, "sold out").WithDetail("left", []byte{0})
		case 2:
			return once.Undone(tandem.Errorf(tandem.Unavailable, "closed"))
		case 3:
			panic("on purpose")
		}
		return nil
	}
	network.Serve("shop", s.register, keeping(shared()), server.WithLogger(slog.New(slog.DiscardHandler)))
	c := network.Dial("shop")
	for range 2 {
		_, err := place(t, c, "tea", client.Key("sold-out"))
		if e := tandem.AsError(err); e == nil || e.Code != tandem.OutOfRange || e.Message != "sold out" || len(e.Details) != 1 || s.runs.Load() != 1 {
			t.Fatalf("%v after %d runs", err, s.runs.Load())
		}
	}
	if _, err := place(t, c, "tea", client.Key("undone")); tandem.CodeOf(err) != tandem.Unavailable || s.runs.Load() != 2 {
		t.Fatalf("%v after %d runs", err, s.runs.Load())
	}
	for range 2 {
		if _, err := place(t, c, "tea", client.Key("undone")); tandem.CodeOf(err) != tandem.Internal || s.runs.Load() != 3 {
			t.Fatalf("%v after %d runs", err, s.runs.Load())
		}
	}
}

// A call that certainly did not run leaves no record.
func TestRefusedCallsLeaveNoRecord(t *testing.T) {
	network, s, refuse := tandemtest.NewNetwork(t), &shop{}, atomic.Bool{}
	refuse.Store(true)
	network.Serve("shop", s.register, keeping(shared()), server.WithInterceptors(func(next tandem.Func) tandem.Func {
		return func(ctx context.Context, call *tandem.Call) error {
			if refuse.Load() {
				return &tandem.Error{Code: tandem.ResourceExhausted, NotExecuted: true}
			}
			return next(ctx, call)
		}
	}))
	c := network.Dial("shop")
	if _, err := place(t, c, "tea", client.Key("k")); tandem.MayHaveExecuted(err) {
		t.Fatal(err)
	}
	refuse.Store(false)
	if r, err := place(t, c, "tea", client.Key("k")); err != nil || r.Number != 1 {
		t.Fatalf("%+v, %v", r, err)
	}
}

// What a client can't ask for is refused by it.
func TestWrongKeys(t *testing.T) {
	network, s := tandemtest.NewNetwork(t), &shop{}
	network.Serve("shop", s.register, keeping(shared()))
	c := network.Dial("shop")
	for _, key := range []string{"", "a b", "ä", "\n", strings.Repeat("x", 256)} {
		if _, err := place(t, c, "tea", client.Key(key)); tandem.CodeOf(err) != tandem.InvalidArgument || tandem.MayHaveExecuted(err) {
			t.Errorf("key %q: %v", key, err)
		}
	}
	if _, err := place(t, c, "tea", client.Key("k"), client.Fingerprint("a b")); tandem.CodeOf(err) != tandem.InvalidArgument {
		t.Error(err)
	}
	what := "tea"
	if err := c.Notify(t.Context(), "Shop.Place", &what, client.Key("k")); tandem.CodeOf(err) != tandem.InvalidArgument {
		t.Error(err)
	}
	if _, err := c.OpenStream(t.Context(), "Shop.Place", client.Key("k")); tandem.CodeOf(err) != tandem.InvalidArgument {
		t.Error(err)
	}
	if _, err := place(t, c, "tea", client.Metadata(tandem.KeyKey, "k")); tandem.CodeOf(err) != tandem.InvalidArgument { // no fingerprint
		t.Error(err)
	}
	if n := s.runs.Load(); n != 0 {
		t.Errorf("%d runs", n)
	}
}

// The memory of one instance takes no calls of clients that can call others.
func TestMemoryIsForOneInstance(t *testing.T) {
	network, s := tandemtest.NewNetwork(t), &shop{}
	one := network.Serve("shop", s.register, keeping(once.NewMemory(once.MemoryConfig{})))
	c := network.Dial("shop", client.WithFailMode(client.Failover))
	_, err := place(t, c, "tea", client.Key("k"))
	if tandem.CodeOf(err) != tandem.FailedPrecondition || tandem.MayHaveExecuted(err) || s.runs.Load() != 0 {
		t.Fatalf("%v after %d runs", err, s.runs.Load())
	}
	if r, err := place(t, c, "tea", client.Key("k"), client.Instance(one.ID)); err != nil || r.Number != 1 {
		t.Fatalf("%+v, %v", r, err)
	}
}

// A retry that finds nothing in the memory does not run: the process may have been restarted.
func TestMemoryThatWasLost(t *testing.T) {
	network, runs := tandemtest.NewNetwork(t), new(atomic.Int64)
	for range 2 { // as if each were the other after a restart
		s := &shop{}
		instance := network.Serve("shop", s.register, keeping(once.NewMemory(once.MemoryConfig{OneInstance: true})))
		s.before = func(int64) error {
			if runs.Add(1) == 1 {
				instance.Cut() // not the other one, which the retry then reaches first
			}
			return nil
		}
	}
	c := network.Dial("shop", client.WithFailMode(client.Failover))
	_, err := place(t, c, "tea", client.Key("k"))
	if once.ReasonOf(err) != once.Undecided || !tandem.MayHaveExecuted(err) || runs.Load() != 1 {
		t.Fatalf("%v after %d runs", err, runs.Load())
	}
}

var errBroken = errors.New("broken")

// broken is a store that fails.
type broken struct{ once.Store }

func (broken) Begin(context.Context, once.Request) (once.Claim, once.Record, error) {
	return nil, once.Record{}, errBroken
}

// Without a working store no call with a key runs, and callers don't get the store's error.
func TestStoreFails(t *testing.T) {
	network, s := tandemtest.NewNetwork(t), &shop{}
	network.Serve("shop", s.register, keeping(broken{}))
	c := network.Dial("shop")
	_, err := place(t, c, "tea", client.Key("k"))
	if tandem.CodeOf(err) != tandem.Unavailable || tandem.MayHaveExecuted(err) || s.runs.Load() != 0 || strings.Contains(err.Error(), errBroken.Error()) {
		t.Fatalf("%v after %d runs", err, s.runs.Load())
	}
	if _, err := place(t, c, "tea"); err != nil {
		t.Fatal(err)
	}
}
