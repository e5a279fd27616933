// Package served compiles the rules of a server, a [policy.Server], and decides by them which calls
// it serves. It is pure: it takes the time as an argument. For tandem's own packages only.
package served

import (
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/policy"
	"github.com/tandem-rpc/tandem/transport"
)

// Rules are the rules in force. They don't change, but the state of their limits does. They are
// safe for concurrent use.
type Rules struct {
	Version string

	policy  *policy.Server
	methods sync.Map // name to *Method; only of methods that exist
}

// New compiles a valid policy. Limits that are the same in before, which may be nil, keep their
// state: a new version does not let all callers burst again, nor forget the calls in flight.
func New(p *policy.Server, version string, before *Rules) *Rules {
	r := &Rules{Version: version, policy: p}
	if before != nil {
		for name, m := range before.methods.Range {
			r.methods.Store(name, newMethod(name.(string), p.For(name.(string)), m.(*Method))) //nolint:forcetypeassert // nothing else is stored
		}
	}
	return r
}

// Of returns the rules of a method that exists.
func (r *Rules) Of(name string) *Method {
	if m, ok := r.methods.Load(name); ok {
		return m.(*Method) //nolint:forcetypeassert // nothing else is stored
	}
	m, _ := r.methods.LoadOrStore(name, newMethod(name, r.policy.For(name), nil))
	return m.(*Method) //nolint:forcetypeassert // as above
}

// Class returns the class of the calls of a name, "" if no rule sets it.
func (r *Rules) Class(name string) tandem.Criticality {
	if m, ok := r.methods.Load(name); ok {
		return tandem.Criticality(m.(*Method).rule.Criticality) //nolint:forcetypeassert // as above
	}
	return tandem.Criticality(r.policy.For(name).Criticality)
}

// Absent returns the error of a call of a method that does not exist, nil if the caller may know
// that: a caller that may not call the name does not learn whether it exists.
func (r *Rules) Absent(name string, call *tandem.Call) error {
	m := r.policy.For(name)
	return permitted(&m, CallerOf(call))
}

// Method holds the rules of one method.
type Method struct {
	name    string
	rule    policy.ServerMethod
	limits  bool
	calls   *bucket // of all callers; nil for no limit
	callers *keyed  // nil for no limit
	tenants *keyed  // nil for no limit
}

func newMethod(name string, rule policy.ServerMethod, before *Method) *Method {
	m := &Method{name: name, rule: rule, limits: rule.Limit != nil || rule.PerCaller != nil || rule.PerTenant != nil}
	if l := rule.Limit; l != nil {
		if m.calls = newBucket(*l); before != nil && before.calls != nil && before.calls.limit == *l {
			m.calls = before.calls
		}
	}
	var callers, tenants *keyed
	if before != nil {
		callers, tenants = before.callers, before.tenants
	}
	m.callers, m.tenants = keyedFor(rule.PerCaller, callers), keyedFor(rule.PerTenant, tenants)
	return m
}

func keyedFor(l *policy.Limit, before *keyed) *keyed {
	switch {
	case l == nil:
		return nil
	case before != nil && before.limit == *l:
		return before
	}
	return newKeyed(*l)
}

// Capped returns the deadline of a call: its own one, or the rule's if that is earlier.
func (m *Method) Capped(now, deadline time.Time) time.Time { return m.rule.Capped(now, deadline) }

// Limited reports whether calls of the method count.
func (m *Method) Limited() bool { return m.limits }

// Permit returns an error if the caller may not call the method.
func (m *Method) Permit(call *tandem.Call) error {
	if m.rule.Allow == nil && m.rule.Deny == nil {
		return nil
	}
	return permitted(&m.rule, CallerOf(call))
}

// permitted returns the error of a caller that is refused. It does not name the method, which the
// caller may have called by an alias.
func permitted(rule *policy.ServerMethod, caller string) error {
	if ok, _ := rule.Admits(caller); ok {
		return nil
	}
	e := tandem.Errorf(tandem.PermissionDenied, "the rules of the server do not let caller %.100q call this method", caller)
	e.NotExecuted = true
	return e
}

// Entry is the place of a call in the limits of its method.
type Entry struct{ all, caller, tenant *bucket }

// Enter counts a call in the limits of its method, which has some. The returned Entry must be left
// when the call has ended. A call that is refused counts nowhere.
func (m *Method) Enter(now time.Time, call *tandem.Call, tenant string) (e Entry, err error) {
	var ok bool
	var wait time.Duration
	if m.tenants != nil && tenant != "" {
		if e.tenant, ok, wait = m.tenants.enter(keyOf(true, tenant), now); !ok {
			return e, m.refusal(wait, "the limit of tenant %.100q", tenant)
		}
	}
	if m.callers != nil {
		name := CallerOf(call)
		isName := name != ""
		if !isName {
			name = addressOf(call)
		}
		if e.caller, ok, wait = m.callers.enter(keyOf(isName, name), now); !ok {
			e.tenant.undo()
			return Entry{}, m.refusal(wait, "the limit of caller %.100q", name)
		}
	}
	if m.calls != nil {
		if ok, wait = m.calls.enter(now); !ok {
			e.tenant.undo()
			e.caller.undo()
			return Entry{}, m.refusal(wait, "the limit of all callers")
		}
		e.all = m.calls
	}
	return e, nil
}

// Leave ends the call's place in the limits.
func (e *Entry) Leave() {
	e.all.leave()
	e.caller.leave()
	e.tenant.leave()
}

func (m *Method) refusal(wait time.Duration, format string, args ...any) error {
	e := tandem.Errorf(tandem.ResourceExhausted, "%s: "+format+" is reached", append([]any{m.name}, args...)...)
	e.NotExecuted, e.RetryAfter = true, wait
	return e
}

// CallerOf returns the name of a call's caller: its Identity if that is a string or a
// [fmt.Stringer], else what a verified certificate names: its only URI, or its common name. "" if
// the caller has no name.
func CallerOf(call *tandem.Call) string {
	switch who := call.Identity.(type) {
	case string:
		return who
	case fmt.Stringer:
		return who.String()
	case nil:
	default:
		return ""
	}
	if call.Peer == nil || call.Peer.TLS == nil || len(call.Peer.TLS.VerifiedChains) == 0 {
		return ""
	}
	cert := call.Peer.TLS.PeerCertificates[0]
	if len(cert.URIs) == 1 {
		return cert.URIs[0].String()
	}
	return cert.Subject.CommonName
}

// TenantOf returns the tenant of a call: what its Identity says if that has a method TenantName,
// else the pair "tenant" of the baggage that the server has taken; "" if there is none.
func TenantOf(call *tandem.Call, baggage tandem.Baggage) string {
	if who, ok := call.Identity.(interface{ TenantName() string }); ok {
		if name := who.TenantName(); name != "" {
			return name
		}
	}
	return baggage.Get("tenant")
}

// addressOf returns the network that a caller without a name counts for: its IPv4 address, or its
// IPv6 /64, which one host has to itself.
func addressOf(call *tandem.Call) string {
	if call.Peer == nil || call.Peer.Addr == nil {
		return ""
	}
	if n := transport.NetworkOf(transport.IP(call.Peer.Addr)); n != (netip.Prefix{}) {
		return strings.TrimSuffix(n.String(), "/32")
	}
	return call.Peer.Addr.String()
}
