package client_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/codec"
	"github.com/tandem-rpc/tandem/policy"
	"github.com/tandem-rpc/tandem/server"
	"github.com/tandem-rpc/tandem/transport"
)

type (
	query struct{ Name string }
	found struct {
		Name string
		N    int64
	}
)

// brittle is a server whose methods fail with a code while it is not OK.
type brittle struct {
	network tandem.Transport
	code    atomic.Int32
	n       atomic.Int64
}

func newBrittle(t *testing.T) *brittle {
	t.Helper()
	s := &brittle{network: transport.NewMemory()}
	srv := server.New(server.WithTransport("mem", s.network))
	find := func(_ context.Context, q *query) (*found, error) {
		if code := tandem.Code(s.code.Load()); code != tandem.OK {
			return nil, tandem.Errorf(code, "broken")
		}
		return &found{q.Name, s.n.Add(1)}, nil
	}
	for _, name := range []string{"Shop.Last", "Shop.Default", "Shop.Both", "Shop.Bad", "Shop.Other", "Shop.Internal"} {
		if err := server.Handle(srv, name, find); err != nil {
			t.Fatal(err)
		}
	}
	ended := make(chan error, 1)
	go func() { ended <- srv.Serve("mem", "s") }()
	t.Cleanup(func() {
		_ = srv.Close()
		<-ended
	})
	return s
}

const degrading = `{"methods": {
	"Shop.Last": {"degrade": {"last": {"maxAge": "%s"}}},
	"Shop.Default": {"degrade": {"reply": "{\"Name\": \"nothing\"}"}},
	"Shop.Both": {"degrade": {"last": {"entries": 1}, "reply": "{\"Name\": \"nothing\"}"}},
	"Shop.Bad": {"degrade": {"reply": "{\"N\": \"no number\"}"}},
	"Shop.Internal": {"degrade": {"on": ["internal"], "reply": "{\"Name\": \"nothing\"}"}}
}}`

func (s *brittle) dial(t *testing.T, maxAge string, opts ...client.Option) *client.Client {
	t.Helper()
	p, err := policy.Parse(fmt.Appendf(nil, degrading, maxAge))
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.Dial("mem://s", append(opts, client.WithTransport("mem", s.network), client.WithPolicy(p), client.WithTimeout(time.Minute))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// ask returns what a call is answered with: the name, the mark, and the code.
func ask(t *testing.T, c *client.Client, method, name string, opts ...tandem.CallOption) string {
	t.Helper()
	var reply found
	var md tandem.Metadata
	err := c.Call(t.Context(), method, &query{name}, &reply, append(opts, client.Trailer(&md))...)
	return fmt.Sprintf("%s %d %q %v", reply.Name, reply.N, md.Get(tandem.DegradedKey), tandem.CodeOf(err))
}

// Calls that fail are answered with the last good answer to the same request, or the rule's own, and
// the answer is marked. Methods that no rule names fail.
func TestDegrade(t *testing.T) {
	for _, c := range []tandem.Codec{codec.Gob(), codec.JSON()} {
		t.Run(c.Name(), func(t *testing.T) {
			s := newBrittle(t)
			cl := s.dial(t, "1h", client.WithCodec(c))
			for i, want := range []string{`a 1 "" ok`, `b 2 "" ok`} {
				if got := ask(t, cl, "Shop.Last", string(rune('a'+i))); got != want {
					t.Fatal(got)
				}
			}
			for i, want := range []string{`a 3 "" ok`, `b 4 "" ok`} {
				if got := ask(t, cl, "Shop.Both", string(rune('a'+i))); got != want {
					t.Fatal(got)
				}
			}
			s.code.Store(int32(tandem.Unavailable))
			for _, c := range []struct {
				method, name, want string
			}{
				{"Shop.Last", "a", `a 1 "last" ok`},
				{"Shop.Last", "b", `b 2 "last" ok`},
				{"Shop.Last", "c", ` 0 "" unavailable`},
				{"Shop.Default", "a", `nothing 0 "default" ok`},
				{"Shop.Both", "b", `b 4 "last" ok`},
				{"Shop.Both", "a", `nothing 0 "default" ok`}, // one entry is kept
				{"Shop.Bad", "a", ` 0 "" unavailable`},
				{"Shop.Other", "a", ` 0 "" unavailable`},
				{"Shop.Internal", "a", ` 0 "" unavailable`},
			} {
				if got := ask(t, cl, c.method, c.name); got != c.want {
					t.Errorf("%s(%s): %s, want %s", c.method, c.name, got, c.want)
				}
			}
			s.code.Store(int32(tandem.NotFound))
			if got := ask(t, cl, "Shop.Both", "b"); got != ` 0 "" not found` {
				t.Errorf("an answer of the server: %s", got)
			}
			s.code.Store(int32(tandem.Internal))
			if got := ask(t, cl, "Shop.Internal", "b"); got != `nothing 0 "default" ok` {
				t.Errorf("a code of the rule: %s", got)
			}
			if got, want := cl.State().Degraded, (client.DegradeCounts{Default: 3, Last: 3}); got != want {
				t.Errorf("%+v, want %+v", got, want)
			}
			if err := cl.Call(t.Context(), "Shop.Internal", &query{}, nil); err != nil {
				t.Errorf("a reply that is discarded: %v", err)
			}
		})
	}
}

// A good answer is kept for its request alone: one with other metadata, or made for another caller,
// does not get it. It is not given when it is too old.
func TestDegradeKeepsAnswersApart(t *testing.T) {
	s := newBrittle(t)
	c, hasty := s.dial(t, "1h"), s.dial(t, "1ns")
	as := func(who string) tandem.CallOption { return client.Metadata("user", who) }
	for _, cl := range []*client.Client{c, hasty} {
		if got := ask(t, cl, "Shop.Last", "a", as("ann")); got[0] != 'a' {
			t.Fatal(got)
		}
	}
	s.code.Store(int32(tandem.Unavailable))
	if got := ask(t, c, "Shop.Last", "a", as("ann")); got != `a 1 "last" ok` {
		t.Error(got)
	}
	if got := ask(t, c, "Shop.Last", "a", as("bob")); got != ` 0 "" unavailable` {
		t.Errorf("bob gets ann's answer: %s", got)
	}
	if got := ask(t, hasty, "Shop.Last", "a", as("ann")); got != ` 0 "" unavailable` {
		t.Errorf("too old: %s", got)
	}
	served := tandem.NewContext(t.Context(), &tandem.Call{Identity: "ann", Metadata: tandem.Metadata{}})
	if err := c.Call(served, "Shop.Last", &query{"a"}, new(found), as("ann")); tandem.CodeOf(err) != tandem.Unavailable {
		t.Errorf("a handler that serves ann gets what nobody's call was answered with: %v", err)
	}
}

// A method whose breakers are open is answered, too.
func TestDegradeWhileTheBreakerIsOpen(t *testing.T) {
	s := newBrittle(t)
	p, err := policy.Parse([]byte(`{"methods": {"Shop.Both": {
		"breaker": {"consecutive": 1, "pause": "1h", "maxPause": "1h"}, "degrade": {"reply": "{\"Name\": \"nothing\"}"}}}}`))
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.Dial("mem://s", client.WithTransport("mem", s.network), client.WithPolicy(p))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	s.code.Store(int32(tandem.Unavailable))
	_ = ask(t, c, "Shop.Both", "a")
	if b := c.State().Breakers; len(b) != 1 || b[0].Open != 1 {
		t.Fatalf("%+v", b)
	}
	s.code.Store(int32(tandem.OK))
	if got := ask(t, c, "Shop.Both", "a"); got != `nothing 0 "default" ok` || s.n.Load() != 0 {
		t.Errorf("%s, %d calls", got, s.n.Load())
	}
}
