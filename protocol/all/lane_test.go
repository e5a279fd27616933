package all_test

import (
	"context"
	"net"
	"net/netip"
	"strings"
	"testing"

	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/protocol/all"
	"github.com/tandem-rpc/tandem/registry"
	"github.com/tandem-rpc/tandem/server"
)

var loopback = netip.MustParsePrefix("127.0.0.0/8")

// hop is one instance of a service in a chain: its handler calls the next service, by the context
// and nothing else.
type hop struct {
	name     string
	lane     string // its tag; "" for the base
	protocol string // by which it is called
	next     *client.Client
}

// visited is the way that a call has taken.
type visited struct{ Way string }

func (h *hop) visit(ctx context.Context, _ *struct{}) (*visited, error) {
	v := &visited{h.name + ":" + h.lane}
	if h.next != nil {
		var rest visited
		if err := h.next.Call(ctx, "Hop.Visit", struct{}{}, &rest); err != nil {
			return nil, err
		}
		v.Way += " " + rest.Way
	}
	return v, nil
}

func dialAll(t *testing.T, target string, opts ...client.Option) *client.Client {
	t.Helper()
	c, err := client.Dial(target, append(opts, client.WithProtocols(all.Clients()...))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// startHop serves a hop and lists it.
func startHop(t *testing.T, h *hop, list *registry.Memory, opts ...server.Option) *server.Server {
	t.Helper()
	srv := server.New(append(opts, server.WithProtocols(all.New()...))...)
	if err := server.Handle(srv, "Hop.Visit", h.visit); err != nil {
		t.Fatal(err)
	}
	in := tandem.Instance{ID: h.name + h.lane, Endpoints: []tandem.Endpoint{{Transport: "tcp", Address: listening(t, srv), Protocol: h.protocol}}}
	if h.lane != "" {
		in.Tags = map[string]string{"lane": h.lane}
	}
	if _, err := list.Register(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	return srv
}

// A chain of four services over four protocols keeps its lane: no handler mentions it. The service
// without an instance in the lane is called in the base, and the call returns to the lane after it.
func TestALaneIsKeptOverFourServices(t *testing.T) {
	var next *client.Client
	var first *registry.Memory
	for _, s := range []struct{ name, protocol string }{{"d", "connect"}, {"c", "rpcx"}, {"b", "grpc"}, {"a", ""}} {
		first = registry.NewMemory()
		for _, lane := range []string{"", "blue"} {
			if s.name == "b" && lane == "blue" {
				continue
			}
			startHop(t, &hop{s.name, lane, s.protocol, next}, first, server.WithBaggage(server.Baggage{Networks: []netip.Prefix{loopback}}))
		}
		next = dialAll(t, "list://"+s.name, client.WithResolver("list", first))
	}
	visit := func(ctx context.Context) string {
		var v visited
		if err := next.Call(ctx, "Hop.Visit", struct{}{}, &v); err != nil {
			t.Fatal(err)
		}
		return v.Way
	}
	blue, err := tandem.WithBaggage(t.Context(), "lane", "blue")
	if err != nil {
		t.Fatal(err)
	}
	green, err := tandem.WithBaggage(t.Context(), "lane", "green")
	if err != nil {
		t.Fatal(err)
	}
	for range 20 {
		if way := visit(blue); way != "a:blue b: c:blue d:blue" {
			t.Fatalf("in the lane: %s", way)
		}
		if way := visit(t.Context()); way != "a: b: c: d:" {
			t.Fatalf("in the base: %s", way)
		}
		if way := visit(green); way != "a: b: c: d:" {
			t.Fatalf("in a lane that does not exist: %s", way)
		}
	}
}

// By each protocol, a server takes the listed pairs of callers that it believes, and counts the rest;
// a stranger's lane is dropped. No call fails for its baggage.
func TestBaggageCrosses(t *testing.T) {
	var seen tandem.Baggage
	serveWith := func(b server.Baggage) (*server.Server, string) {
		srv := server.New(server.WithProtocols(all.New()...), server.WithBaggage(b))
		err := server.Handle(srv, "Test.Seen", func(ctx context.Context, in *wrapperspb.StringValue) (*wrapperspb.StringValue, error) {
			seen = tandem.BaggageFromContext(ctx)
			return in, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return srv, listening(t, srv)
	}
	trusting, open := serveWith(server.Baggage{Keys: []string{"lane", "tenant"}, Networks: []netip.Prefix{loopback}})
	strict, closed := serveWith(server.Baggage{Networks: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}})
	b, _ := tandem.ParseBaggage("lane=blue,tenant=7%208,secret=x")
	ctx := tandem.ContextWithBaggage(t.Context(), b)
	schemes := []string{"tcp", "grpc", "connect", "rpcx", "jsonrpc+http"}
	for i, scheme := range schemes {
		call := func(address string, opts ...tandem.CallOption) {
			t.Helper()
			c := dialAll(t, scheme+"://"+address, client.WithBaggage(client.Baggage{Target: client.Trusted}))
			seen = tandem.Baggage{}
			if err := c.Call(ctx, "Test.Seen", wrapperspb.String(""), new(wrapperspb.StringValue), opts...); err != nil {
				t.Fatalf("%s: %v", scheme, err)
			}
		}
		call(open)
		if seen.String() != "lane=blue,tenant=7%208" || seen.Get("tenant") != "7 8" {
			t.Errorf("%s: %q", scheme, seen)
		}
		call(open, client.Metadata("baggage", "no pair,"+strings.Repeat("x", 9000)+"=1"))
		if seen.Len() != 0 {
			t.Errorf("%s: of invalid baggage: %q", scheme, seen)
		}
		call(closed)
		if seen.Len() != 0 {
			t.Errorf("%s: of a stranger: %q", scheme, seen)
		}
		n := uint64(i + 1)
		if got, want := trusting.BaggageCounts(), (server.BaggageCounts{Taken: n, Pairs: 3 * n}); got != want {
			t.Errorf("%s: %+v, want %+v", scheme, got, want)
		}
		if got, want := strict.BaggageCounts(), (server.BaggageCounts{Strangers: n}); got != want {
			t.Errorf("%s: %+v, want %+v", scheme, got, want)
		}
	}
}

// A call's baggage stays at home unless its target is trusted: a registry's is, a host is not.
func TestBaggageLeavesForTrustedTargetsOnly(t *testing.T) {
	var got string
	srv := server.New()
	err := server.Handle(srv, "Test.Seen", func(ctx context.Context, in *visited) (*visited, error) {
		got = tandem.FromContext(ctx).Metadata.Get(tandem.BaggageKey)
		return in, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	address := listening(t, srv)
	list := registry.NewMemory()
	if _, err := list.Register(t.Context(), tandem.Instance{ID: "a", Endpoints: []tandem.Endpoint{{Transport: "tcp", Address: address}}}); err != nil {
		t.Fatal(err)
	}
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	ctx, err := tandem.WithBaggage(t.Context(), "lane", "blue")
	if err != nil {
		t.Fatal(err)
	}
	if ctx, err = tandem.WithBaggage(ctx, "user", "ann"); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		target string
		set    client.Baggage
		want   string
	}{
		{"list://a", client.Baggage{}, "lane=blue,user=ann"},
		{"list://a", client.Baggage{Keys: []string{"lane"}}, "lane=blue"},
		{"list://a", client.Baggage{Keys: []string{}}, ""},
		{"list://a", client.Baggage{Target: client.Untrusted}, ""},
		{"tcp://" + address, client.Baggage{}, ""},
		{"static://" + address, client.Baggage{}, ""},
		{"dns://localhost:" + port, client.Baggage{}, ""},
		{"tcp://" + address, client.Baggage{Target: client.Trusted}, "lane=blue,user=ann"},
	} {
		got = "none"
		cl := dialAll(t, c.target, client.WithResolver("list", list), client.WithBaggage(c.set))
		if err := cl.Call(ctx, "Test.Seen", visited{}, new(visited)); err != nil || got != c.want {
			t.Errorf("%s with %+v: %q, %v; want %q", c.target, c.set, got, err, c.want)
		}
	}
}

// Baggage that does not fit beside the call's other metadata is dropped and counted; the call is made.
func TestBaggageThatDoesNotFitIsDropped(t *testing.T) {
	srv := server.New(server.WithProtocols(all.New()...), server.WithBaggage(server.Baggage{Networks: []netip.Prefix{loopback}}))
	err := server.Handle(srv, "Test.Seen", func(ctx context.Context, in *wrapperspb.StringValue) (*wrapperspb.StringValue, error) {
		return wrapperspb.String(tandem.BaggageFromContext(ctx).Get("lane")), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	address := listening(t, srv)
	ctx, err := tandem.WithBaggage(t.Context(), "lane", strings.Repeat("x", 8000))
	if err != nil {
		t.Fatal(err)
	}
	for _, scheme := range []string{"tcp", "grpc", "rpcx"} {
		c := dialAll(t, scheme+"://"+address, client.WithBaggage(client.Baggage{Target: client.Trusted}))
		for i, size := range []int{1000, 9000} {
			lane := new(wrapperspb.StringValue)
			err := c.Call(ctx, "Test.Seen", wrapperspb.String(""), lane, client.Metadata("other", strings.Repeat("y", size)))
			if want := 8000 * (1 - i); err != nil || len(lane.GetValue()) != want || c.State().BaggageDropped != uint64(i) {
				t.Errorf("%s, %d bytes beside: %v, a lane of %d bytes, want %d; %d dropped", scheme, size, err, len(lane.GetValue()), want, c.State().BaggageDropped)
			}
		}
	}
}
