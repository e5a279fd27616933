package client

import (
	"maps"
	"slices"
	"strings"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/balance"
	"github.com/tandem-rpc/tandem/registry"
)

// Baggage says what a client does with the baggage of its calls, for [WithBaggage]. The zero value
// is the default.
type Baggage struct {
	// Keys are the keys that are sent; nil for all: what a context has, the program has put there,
	// or a server has taken by its own list.
	Keys []string
	// Lanes are the keys that choose instances, too; "lane" by default: a call with lane=blue goes
	// to the instances that have the tag lane=blue, and if there are none, to those without the tag
	// lane. An empty list that is not nil means none.
	Lanes []string
	// Target says whether baggage is sent to the target.
	Target Trust
}

// Trust says whether a target may get what belongs to the system, such as baggage.
type Trust uint8

// The answers.
const (
	// TrustByTarget trusts targets in a registry that stores documents: a process that writes there
	// steers the system anyway. Hosts and names that the target itself names are not trusted: they
	// may be those of another company.
	TrustByTarget Trust = iota
	Trusted
	Untrusted
)

// WithBaggage sets what the client does with the [tandem.Baggage] of a call's context: which pairs
// it sends, whether it sends any, and which of them choose instances. A call with the metadata
// [tandem.BaggageKey] of its own sends that, and with a [Route] of its own keeps to that. Baggage
// that does not fit beside the call's other metadata is dropped and counted ([State]).
func WithBaggage(b Baggage) Option {
	return func(o *options) {
		bad := func(key string) bool {
			_, err := tandem.Baggage{}.With(key, "")
			return err != nil
		}
		o.want(!slices.ContainsFunc(b.Keys, bad), "WithBaggage: Keys", b.Keys, "keys of baggage")
		o.want(!slices.ContainsFunc(b.Lanes, bad), "WithBaggage: Lanes", b.Lanes, "keys of baggage")
		o.want(b.Target <= Untrusted, "WithBaggage: Target", uint8(b.Target), "TrustByTarget, Trusted or Untrusted")
		o.given.Add("WithBaggage")
		b.Keys, b.Lanes = slices.Clone(b.Keys), slices.Clone(b.Lanes)
		if b.Lanes == nil {
			b.Lanes = defaultLanes()
		}
		o.baggage = b
	}
}

func defaultLanes() []string { return []string{balance.ReservedTag} }

// trust decides whether baggage goes to the targets that r resolves.
func (b *Baggage) trust(r registry.Resolver) {
	if b.Target != TrustByTarget {
		return
	}
	b.Target = Untrusted
	if _, stores := r.(registry.DocumentFinder); stores {
		b.Target = Trusted
	}
}

// text is the setting as people read it.
func (b *Baggage) text() string {
	lanes := "no lanes"
	if len(b.Lanes) > 0 {
		lanes = "lanes by " + strings.Join(b.Lanes, ", ")
	}
	switch {
	case b.Target != Trusted:
		return "none sent, the target is not trusted; " + lanes
	case b.Keys == nil:
		return "all sent; " + lanes
	}
	return strings.Join(b.Keys, ", ") + " sent; " + lanes
}

// carryBaggage lets the baggage of a context choose the call's instances, and sends it.
func (c *Client) carryBaggage(b tandem.Baggage, call *tandem.Call) {
	o := &c.opts.baggage
	if call.Route == c.usual.route {
		call.Route = c.laneOf(b, call.Route)
	}
	if o.Target != Trusted || c.bare || len(call.Metadata[tandem.BaggageKey]) > 0 {
		return
	}
	if o.Keys != nil {
		b = b.Only(func(key string) bool { return slices.Contains(o.Keys, key) })
	}
	switch text := b.String(); {
	case text == "":
	case len(text)+sizeOf(call.Metadata) > roomForBaggage:
		c.baggageDropped.Add(1)
	default:
		call.SetMetadata(tandem.BaggageKey, text)
	}
}

// roomForBaggage is how many bytes of metadata a call with baggage may have before its attempts.
// The protocols carry 16 KiB; the rest is for plugins that add to it.
const roomForBaggage = 12 << 10

func sizeOf(md tandem.Metadata) (n int) {
	for key, values := range md {
		for _, v := range values {
			n += len(key) + len(v)
		}
	}
	return n
}

// lane is the route of calls with the same baggage.
type lane struct {
	baggage tandem.Baggage
	route   *tandem.Route
}

// laneOf returns the usual route with the tags of the lanes in b. A tag of the usual route stays.
func (c *Client) laneOf(b tandem.Baggage, usual *tandem.Route) *tandem.Route {
	if last := c.lane.Load(); last != nil && last.baggage == b {
		return last.route
	}
	var route tandem.Route
	if usual != nil {
		route = *usual
	}
	tags := maps.Clone(route.Tags)
	for _, key := range c.opts.baggage.Lanes {
		value := b.Get(key)
		if value == "" || tags[key] != "" {
			continue
		}
		if tags == nil {
			tags = map[string]string{}
		}
		tags[key] = value
	}
	last := &lane{b, usual}
	if len(tags) > len(route.Tags) {
		route.Tags = tags
		last.route = &route
	}
	c.lane.Store(last)
	return last.route
}
