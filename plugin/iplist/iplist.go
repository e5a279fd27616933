// Package iplist (stable) accepts or refuses connections by their remote address, before a byte
// of them is read.
//
//	list, err := iplist.New(iplist.Allow("10.0.0.0/8", "::1"), iplist.Deny("10.66.0.0/16"))
//	srv := server.New(server.WithPlugins(list))
package iplist

import (
	"fmt"
	"net"
	"net/netip"
	"sync/atomic"
)

// Option changes which connections a [List] accepts.
type Option func(*rules) error

// Allow accepts connections from these networks ("10.0.0.0/8") and addresses ("::1"). Without
// Allow all addresses are accepted that are not denied.
func Allow(networks ...string) Option {
	return func(r *rules) error { return parse(&r.allow, networks) }
}

// Deny refuses connections from these networks and addresses, even if they are allowed.
func Deny(networks ...string) Option {
	return func(r *rules) error { return parse(&r.deny, networks) }
}

// DenyOthers refuses connections whose remote address is not an IP address, such as those of
// unix sockets, which are accepted by default.
func DenyOthers() Option {
	return func(r *rules) error {
		r.denyOthers = true
		return nil
	}
}

type rules struct {
	allow, deny []netip.Prefix
	denyOthers  bool
}

func parse(list *[]netip.Prefix, networks []string) error {
	for _, text := range networks {
		p, err := netip.ParsePrefix(text)
		if err != nil {
			a, notOne := netip.ParseAddr(text)
			if notOne != nil {
				return fmt.Errorf("iplist: %q is neither a network, as 10.0.0.0/8, nor an address", text)
			}
			a = a.Unmap().WithZone("")
			p = netip.PrefixFrom(a, a.BitLen())
		}
		if p.Addr().Is4In6() { // such addresses are compared as IPv4
			const mapped = 96
			if p.Bits() < mapped {
				return fmt.Errorf("iplist: %q has more than IPv4 addresses: write it as networks of IPv4 and of IPv6", text)
			}
			p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-mapped)
		}
		*list = append(*list, p.Masked())
	}
	return nil
}

// List is a plugin for servers. It is safe for concurrent use.
type List struct{ rules atomic.Pointer[rules] }

// New returns a list. It fails for a text that is neither a network nor an address.
func New(opts ...Option) (*List, error) {
	l := new(List)
	return l, l.Set(opts...)
}

// Set replaces the rules for new connections. Open connections stay.
func (l *List) Set(opts ...Option) error {
	r := new(rules)
	for _, o := range opts {
		if err := o(r); err != nil {
			return err
		}
	}
	l.rules.Store(r)
	return nil
}

// KeepsNothing implements plugin.KeepsNothing.
func (*List) KeepsNothing() {}

// ConnAccepted returns an error for a connection from an address that is not accepted.
func (l *List) ConnAccepted(c net.Conn) (net.Conn, error) {
	if !l.rules.Load().lets(c.RemoteAddr()) {
		return nil, fmt.Errorf("the address %v is not allowed to connect", c.RemoteAddr())
	}
	return c, nil
}

func (r *rules) lets(from net.Addr) bool {
	a, ok := addressOf(from)
	if !ok {
		return !r.denyOthers
	}
	return !contains(r.deny, a) && (len(r.allow) == 0 || contains(r.allow, a))
}

func contains(list []netip.Prefix, a netip.Addr) bool {
	for _, p := range list {
		if p.Contains(a) {
			return true
		}
	}
	return false
}

// addressOf returns the IP address of an address that has one. IPv4 addresses that are mapped
// to IPv6 are returned as IPv4.
func addressOf(from net.Addr) (netip.Addr, bool) {
	var a netip.Addr
	switch from := from.(type) {
	case *net.TCPAddr:
		a = from.AddrPort().Addr()
	case *net.UDPAddr:
		a = from.AddrPort().Addr()
	case nil:
		return a, false
	default:
		at, err := netip.ParseAddrPort(from.String())
		if err != nil {
			return a, false
		}
		a = at.Addr()
	}
	return a.Unmap().WithZone(""), a.IsValid()
}
