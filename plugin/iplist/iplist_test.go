package iplist_test

import (
	"context"
	"fmt"
	"net"
	"testing"

	"go.uber.org/goleak"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/plugin/iplist"
	"github.com/tandem-rpc/tandem/server"
	"github.com/tandem-rpc/tandem/transport"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// from is a connection with that remote address.
type from struct {
	net.Conn

	addr net.Addr
}

func (f from) RemoteAddr() net.Addr { return f.addr }

type text string

func (text) Network() string  { return "other" }
func (t text) String() string { return string(t) }

func TestList(t *testing.T) {
	list, err := iplist.New(iplist.Allow("10.0.0.0/8", "::1", "fe80::/10", "192.0.2.7"), iplist.Deny("10.66.0.0/16"))
	if err != nil {
		t.Fatal(err)
	}
	tcp := func(ip string) net.Addr { return &net.TCPAddr{IP: net.ParseIP(ip), Port: 1} }
	for addr, want := range map[net.Addr]bool{
		tcp("10.1.2.3"):        true,
		tcp("::ffff:10.1.2.3"): true,
		tcp("10.66.1.1"):       false,
		tcp("11.0.0.1"):        false,
		tcp("::1"):             true,
		tcp("::2"):             false,
		tcp("192.0.2.7"):       true,
		tcp("192.0.2.8"):       false,
		&net.TCPAddr{IP: net.ParseIP("fe80::1"), Zone: "eth0"}: true,
		&net.UDPAddr{IP: net.ParseIP("10.1.2.3")}:              true,
		text("10.1.2.3:5"):        true,
		text("11.1.2.3:5"):        false,
		&net.UnixAddr{Name: "/x"}: true,
		&net.TCPAddr{}:            true, // it has no address
	} {
		if _, err := list.ConnAccepted(from{addr: addr}); (err == nil) != want {
			t.Errorf("%v: %v", addr, err)
		}
	}
	if err := list.Set(iplist.Deny("::1"), iplist.DenyOthers()); err != nil {
		t.Fatal(err)
	}
	for addr, want := range map[net.Addr]bool{tcp("11.0.0.1"): true, tcp("::1"): false, text("@"): false} {
		if _, err := list.ConnAccepted(from{addr: addr}); (err == nil) != want {
			t.Errorf("%v, after the change: %v", addr, err)
		}
	}
	for _, bad := range []string{"10.0.0.0/33", "::ffff:10.0.0.0/90"} {
		if err := list.Set(iplist.Allow(bad)); err == nil {
			t.Errorf("%s is no error", bad)
		}
	}
	if _, err := list.ConnAccepted(from{addr: tcp("::1")}); err == nil {
		t.Error("an invalid list has replaced the valid one")
	}
	if err := list.Set(iplist.Deny("::ffff:10.0.0.0/104")); err != nil {
		t.Fatal(err)
	}
	for addr, want := range map[net.Addr]bool{tcp("10.1.2.3"): false, tcp("11.1.2.3"): true} {
		if _, err := list.ConnAccepted(from{addr: addr}); (err == nil) != want {
			t.Errorf("%v, denied as IPv6 writes it: %v", addr, err)
		}
	}
}

func Example() {
	list, err := iplist.New(iplist.Deny("127.0.0.0/8"))
	fmt.Println(err)
	srv := server.New(server.WithPlugins(list))
	_ = srv.RegisterFunc("Door.Knock", func() string { return "come in" })
	ln, _ := transport.TCP().Listen(context.Background(), "127.0.0.1:0")
	served := make(chan error, 1)
	go func() { served <- srv.ServeListener(ln) }()
	c, _ := client.Dial("tcp://" + ln.Addr().String())
	_, err = client.Invoke[string](context.Background(), c, "Door.Knock", tandem.Args{})
	fmt.Println(tandem.CodeOf(err))
	_ = list.Set(iplist.Allow("127.0.0.1"))
	_ = c.Close()
	c, _ = client.Dial("tcp://" + ln.Addr().String())
	answer, err := client.Invoke[string](context.Background(), c, "Door.Knock", tandem.Args{})
	fmt.Println(*answer, err)
	_ = c.Close()
	_ = srv.Close()
	<-served
	// Output:
	// <nil>
	// unavailable
	// come in <nil>
}
