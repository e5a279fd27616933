//go:build integration

package zookeeper

import (
	"net/url"
	"strings"
	"testing"

	"github.com/go-zookeeper/zk"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/registry"
)

// TestLists finds the lists of each layout, and no nodes of others.
func TestLists(t *testing.T) {
	s := startServer(t)
	in := tandem.Instance{ID: "a", Endpoints: []tandem.Endpoint{{Transport: "tcp", Address: "h:1"}, {Transport: "tcp", Address: "h:2", Protocol: "grpc"}, {Transport: "tcp", Address: "h:3", Protocol: "rpcx"}}}
	for _, list := range []string{"/shop/cart", "/shop/stock", "/shop", "/shopping/x/y", "/dubbo/com.A?layout=dubbo", "/dubbo/com.B?layout=dubbo", "/rpcx/Arith?layout=rpcx"} {
		entry, err := open(t, "zookeeper://"+s.address()+list, logged(t)).Register(t.Context(), in)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { entry.Close() })
	}
	other := s.connect(t)
	for _, node := range []string{"/shop/empty", "/other"} {
		if _, err := other.Create(node, nil, 0, zk.WorldACL(zk.PermAll)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := other.Create("/other/lock", []byte("x"), zk.FlagEphemeral, zk.WorldACL(zk.PermAll)); err != nil {
		t.Fatal(err)
	}
	d := Resolver(logged(t)).(registry.Directory)
	for _, test := range []struct{ below, layout, want string }{
		{"", "", "/shop /shop/cart /shop/stock /shopping/x/y"},
		{"/shop", "", "/shop /shop/cart /shop/stock"},
		{"/shop/cart", "", "/shop/cart"},
		{"/none", "", ""},
		{"/", "dubbo", "/dubbo/com.A /dubbo/com.B"},
		{"/dubbo/com.A", "dubbo", "/dubbo/com.A"},
		{"/rpcx", "rpcx", "/rpcx/Arith"},
	} {
		target := registry.Target{Scheme: "zookeeper", Authority: s.address(), Path: test.below}
		if test.layout != "" {
			target.Query = url.Values{"layout": {test.layout}}
		}
		lists, err := d.Lists(t.Context(), target)
		var got []string
		for _, l := range lists {
			got = append(got, l.Path)
		}
		if err != nil || strings.Join(got, " ") != test.want {
			t.Errorf("below %q there are %q, %v; want %s", target, got, err, test.want)
		}
	}
}
