// Package iplist lets connections in by the address that they come from, before a byte
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

// Option changes what a [List] lets in.
type Option func(*rules) error

// Allow lets in addresses of these networks ("10.0.0.0/8") and addresses ("::1"). If
// nothing is allowed, everything is that is not denied.
func Allow(networks ...string) Option {
	return func(r *rules) error { return parse(&r.allow, networks) }
}

// Deny keeps out addresses of these networks and addresses, though they are allowed.
func Deny(networks ...string) Option {
	return func(r *rules) error { return parse(&r.deny, networks) }
}

// DenyOthers keeps out connections whose address is no IP address, as those of unix
// sockets, which are let in by default.
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
		if p.Addr().Is4In6() { // addresses are looked at as IPv4
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

// New returns a list, or an error for what is no network.
func New(opts ...Option) (*List, error) {
	l := new(List)
	return l, l.Set(opts...)
}

// Set replaces the list for connections to come. Those that are there stay.
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

// KeepsNothing is a promise to the server.
func (*List) KeepsNothing() {}

// ConnAccepted lets a connection in, or not.
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

// addressOf returns the IP address of an address that has one: an IPv4 address as such,
// whatever the socket calls it.
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
