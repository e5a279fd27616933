package server

import (
	"net"
	"os"
	"testing"
)

// addr is an address of any network.
type addr struct{ network, text string }

func (a addr) Network() string { return a.network }
func (a addr) String() string  { return a.text }

// Whatever type an address has, one on all interfaces gets the host's name, and any other stays
// as it is.
func TestReachable(t *testing.T) {
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		listener net.Addr
		want     string
	}{
		{&net.TCPAddr{IP: net.IPv6unspecified, Port: 8972}, host + ":8972"},
		{&net.TCPAddr{IP: net.IPv4zero, Port: 8972}, host + ":8972"},
		{&net.TCPAddr{Port: 8972}, host + ":8972"},
		{&net.TCPAddr{IP: net.IPv4(10, 0, 0, 1), Port: 8972}, "10.0.0.1:8972"},
		{&net.UDPAddr{IP: net.IPv6unspecified, Port: 8974}, host + ":8974"},
		{&net.UDPAddr{IP: net.IPv4zero, Port: 8974}, host + ":8974"},
		{&net.UDPAddr{IP: net.IPv6unspecified, Zone: "eth0", Port: 8974}, host + ":8974"},
		{&net.UDPAddr{IP: net.IPv6loopback, Port: 8974}, "[::1]:8974"},
		{addr{"tcp", "[::]:8080/rpc"}, host + ":8080/rpc"},
		{addr{"tcp", "[::]:8080"}, host + ":8080"},
		{addr{"tcp", "10.0.0.1:8080/a/b:c"}, "10.0.0.1:8080/a/b:c"},
		{addr{"tcp", "example.org:8080"}, "example.org:8080"},
		{addr{"mem", ":8080"}, ":8080"},
		{addr{"mem", "here"}, "here"},
		{addr{"pipe", "here"}, "here"},
		{&net.UnixAddr{Net: "unix", Name: "/run/a:b/s"}, "/run/a:b/s"},
		{&net.UnixAddr{Net: "unix", Name: "@rpc"}, "@rpc"},
	} {
		if got := reachable(c.listener); got != c.want {
			t.Errorf("%s %s is reached as %s, want %s", c.listener.Network(), c.listener, got, c.want)
		}
		if placeless(c.listener) {
			t.Errorf("%s %s is taken for nowhere", c.listener.Network(), c.listener)
		}
	}
	if !placeless(addr{"websocket", "mounted"}) {
		t.Error("a mounted handler is taken for an address")
	}
}
