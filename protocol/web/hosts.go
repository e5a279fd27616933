package web

import (
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"connectrpc.com/connect"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/server"
)

// WithHosts sets which hosts requests may name, in the Host header or HTTP/2's
// :authority, without the port: "shop.example", "*.shop.example" for names below it, an
// IP address, or "*" for all. Other requests are answered with 421. By default a server that
// listens on a loopback address answers for localhost, names below it and loopback
// addresses, and for all hosts over HTTP/2 without TLS: no browser uses that, and clients
// of gRPC may send the name of a service as the host. Every other server answers for all
// hosts by default.
//
// A page of another site can make a host name of its own resolve to this server (DNS
// rebinding), so that the browser takes both for one site. Such a name is not in the list.
func WithHosts(hosts ...string) Option {
	return func(o *options) {
		o.hosts = []string{}
		for _, host := range hosts {
			o.hosts = append(o.hosts, canonicalHost(host))
		}
	}
}

// canonicalHost returns a host in lower case, without its port, brackets and last dot.
func canonicalHost(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	if ip, err := netip.ParseAddr(host); err == nil {
		return ip.Unmap().WithZone("").String()
	}
	return strings.ToLower(strings.TrimSuffix(host, "."))
}

// hostsOf returns the hosts that requests on a connection may name, nil for any.
func (p *protocol) hostsOf(c *server.Conn) []string {
	if p.opts.hosts != nil {
		return p.opts.hosts
	}
	local, ok := c.LocalAddr().(*net.TCPAddr)
	if !ok || !local.IP.IsLoopback() {
		return nil
	}
	for _, a := range c.Addrs() {
		if a.String() == local.String() {
			return []string{"localhost", "*.localhost", loopback}
		}
	}
	return nil // it listens on other addresses too
}

// loopback stands for all loopback addresses in a list of hosts.
const loopback = "127.0.0.0/8"

// serves reports whether a host is in a list.
func serves(hosts []string, host string) bool {
	host = canonicalHost(host)
	return slices.ContainsFunc(hosts, func(allowed string) bool {
		below, wild := strings.CutPrefix(allowed, "*")
		switch {
		case allowed == loopback:
			ip, err := netip.ParseAddr(host)
			return err == nil && ip.IsLoopback()
		case wild:
			return strings.HasSuffix(host, below)
		}
		return host == allowed
	})
}

// misdirected answers a request for a host that is not served, and reports whether it was
// one. A request of HTTP/1.0 may have no host, and browsers always send one.
func (c *conn) misdirected(w http.ResponseWriter, r *http.Request) bool {
	if c.hosts == nil || r.Host == "" || serves(c.hosts, r.Host) {
		return false
	}
	if c.defaultHosts && r.ProtoMajor == 2 && r.TLS == nil {
		return false
	}
	err := tandem.Errorf(tandem.PermissionDenied, "host %.100q is not served here: add it to WithHosts of package web, or call another", r.Host)
	limitAnswer(http.NewResponseController(w), r, c.Conn, 0)
	if kind := contentOf(r); kind.protocol == "grpc" || kind.protocol == "grpc-web" {
		_ = connect.NewErrorWriter().Write(w, r, toConnect(err)) // an error means that the client is gone
	} else {
		writeError(w, http.StatusMisdirectedRequest, err)
	}
	return true
}
