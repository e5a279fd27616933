package server

import (
	"context"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/transport"
)

// Baggage says which baggage a server takes, for [WithBaggage]. The zero value is the default.
type Baggage struct {
	// Keys are the keys that are taken; "lane" by default. An empty list that is not nil takes none.
	Keys []string
	// Networks are those whose callers are believed although they are not authenticated.
	Networks []netip.Prefix
}

// WithBaggage sets which [tandem.Baggage] the server takes, so that the context of a handler has it
// and calls that the handler makes carry it on. By default it takes the pair "lane", of callers that
// are authenticated: calls that have an Identity, and connections with a verified client
// certificate. The rest is dropped and counted ([Server.BaggageCounts]), and fails no call. The
// metadata of the call stays as it came.
func WithBaggage(b Baggage) Option {
	return func(o *options) {
		bad := func(key string) bool {
			_, err := tandem.Baggage{}.With(key, "")
			return err != nil
		}
		o.want(!slices.ContainsFunc(b.Keys, bad), "WithBaggage: Keys", b.Keys, "keys of baggage")
		for _, n := range b.Networks {
			o.want(n.IsValid(), "WithBaggage: Networks", n, "a network")
		}
		o.given.Add("WithBaggage")
		b.Keys, b.Networks = slices.Clone(b.Keys), slices.Clone(b.Networks)
		if b.Keys == nil {
			b.Keys = defaultBaggageKeys()
		}
		o.baggage = b
	}
}

func defaultBaggageKeys() []string { return []string{"lane"} }

// text is the setting as people read it.
func (b *Baggage) text() string {
	if len(b.Keys) == 0 {
		return "none"
	}
	from := []string{"authenticated callers"}
	for _, n := range b.Networks {
		from = append(from, n.String())
	}
	return strings.Join(b.Keys, ", ") + " of " + strings.Join(from, ", ")
}

// BaggageCounts counts calls with baggage, see [WithBaggage].
type BaggageCounts struct {
	Taken     uint64 `json:"taken"`     // calls whose baggage was taken, as a whole or in part
	Strangers uint64 `json:"strangers"` // calls whose baggage was dropped because the caller is not believed
	Pairs     uint64 `json:"pairs"`     // pairs of believed callers that were dropped: invalid, too many, or of other keys
}

// BaggageCounts returns what became of the baggage of calls so far.
func (s *Server) BaggageCounts() BaggageCounts {
	b := &s.baggage
	return BaggageCounts{Taken: b.taken.Load(), Strangers: b.strangers.Load(), Pairs: b.pairs.Load()}
}

type baggageCounts struct{ taken, strangers, pairs atomic.Uint64 }

// takeBaggage puts the baggage of calls into the context of f. It is inside all interceptors, so
// that those that authenticate have run.
func (s *Server) takeBaggage(f tandem.Func) tandem.Func {
	return func(ctx context.Context, call *tandem.Call) error {
		if len(call.Metadata) > 0 {
			if lists := call.Metadata[tandem.BaggageKey]; len(lists) > 0 {
				ctx = s.withBaggage(ctx, call, lists)
			}
		}
		return f(ctx, call)
	}
}

func (s *Server) withBaggage(ctx context.Context, call *tandem.Call, lists []string) context.Context {
	if call.Identity == nil && !isVerified(call.Peer) && !s.isListed(call.Peer) {
		s.baggage.strangers.Add(1)
		return ctx
	}
	all, dropped := tandem.ParseBaggage(lists...)
	taken := all.Only(func(key string) bool { return slices.Contains(s.opts.baggage.Keys, key) })
	dropped += all.Len() - taken.Len()
	s.baggage.pairs.Add(uint64(dropped)) //nolint:gosec // not negative
	if taken.String() == "" {
		return ctx
	}
	s.baggage.taken.Add(1)
	return tandem.ContextWithBaggage(ctx, taken)
}

// isListed reports whether the peer is in one of the networks whose callers are believed.
func (s *Server) isListed(p *tandem.Peer) bool {
	if len(s.opts.baggage.Networks) == 0 {
		return false
	}
	ip := transport.IP(p.Addr)
	return slices.ContainsFunc(s.opts.baggage.Networks, func(n netip.Prefix) bool { return n.Contains(ip) })
}
