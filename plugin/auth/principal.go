package auth

import (
	"fmt"
	"strings"

	"github.com/tandem-rpc/tandem"
)

// Principal is an authenticated caller, as [SPIFFE] and package identity return it. Calls share
// it, so it must not be changed.
type Principal struct {
	Name   string // "spiffe://shop/cart", or the subject of a token
	Tenant string // whose work the caller does; "" if nothing says it
	Issuer string // who vouches for the caller: a token's issuer, a certificate's trust domain

	// Claims are what a token says besides, as JSON decodes it: strings, booleans,
	// [encoding/json.Number], lists and objects of these. nil for a certificate.
	Claims map[string]any
}

// String returns the name, by which ratelimit.PerCaller and logs know the caller.
func (p *Principal) String() string { return p.Name }

// Claim returns the claim at a path: its name, or names with slashes between them for a claim
// inside others, such as "kubernetes.io/namespace". A name that has slashes itself is found, too.
func (p *Principal) Claim(path string) (value any, ok bool) {
	if p == nil {
		return nil, false
	}
	return claimAt(p.Claims, path)
}

func claimAt(claims map[string]any, path string) (any, bool) {
	if value, ok := claims[path]; ok {
		return value, true
	}
	for i := range len(path) {
		if path[i] != '/' {
			continue
		}
		if inner, ok := claims[path[:i]].(map[string]any); ok {
			if value, ok := claimAt(inner, path[i+1:]); ok {
				return value, true
			}
		}
	}
	return nil, false
}

// PrincipalOf returns the caller of a call; nil if it was not authenticated. An identity that is
// a string or a [fmt.Stringer] is a name, any other one has no name.
func PrincipalOf(call *tandem.Call) *Principal {
	switch who := call.Identity.(type) {
	case nil:
		return nil
	case *Principal:
		return who
	case string:
		return &Principal{Name: who}
	case fmt.Stringer:
		return &Principal{Name: who.String()}
	}
	return &Principal{}
}

// IsSPIFFE reports whether a name has the scheme of SPIFFE ids, in any case.
func IsSPIFFE(name string) bool {
	const scheme = "spiffe:"
	return len(name) >= len(scheme) && strings.EqualFold(name[:len(scheme)], scheme)
}
