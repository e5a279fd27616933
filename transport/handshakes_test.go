package transport_test

import (
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/tandem-rpc/tandem/transport"
)

func TestNetworkOf(t *testing.T) {
	for _, row := range []struct {
		addr net.Addr
		want string
	}{
		{&net.TCPAddr{IP: net.IPv4(192, 0, 2, 7), Port: 80}, "192.0.2.7/32"},
		{&net.UDPAddr{IP: net.ParseIP("::ffff:192.0.2.7"), Port: 80}, "192.0.2.7/32"},
		{&net.TCPAddr{IP: net.ParseIP("2001:db8:1:2:3:4:5:6"), Port: 80}, "2001:db8:1:2::/64"},
		{&net.TCPAddr{IP: net.ParseIP("fe80::1"), Zone: "eth0", Port: 80}, "fe80::/64"},
		{text("192.0.2.7:80"), "192.0.2.7/32"},
		{text("[2001:db8::1]:80"), "2001:db8::/64"},
		{text("memory"), "invalid Prefix"},
		{&net.UnixAddr{Name: "/run/x"}, "invalid Prefix"},
		{(*net.TCPAddr)(nil), "invalid Prefix"},
		{nil, "invalid Prefix"},
	} {
		if got := transport.NetworkOf(transport.IP(row.addr)).String(); got != row.want {
			t.Errorf("%v: %s, want %s", row.addr, got, row.want)
		}
	}
}

type text string

func (text) Network() string { return "text" }

func (a text) String() string { return string(a) }

// After any sequence of Add, Keep and Remove, Next is the oldest connection of the largest network,
// without those that are kept.
func TestHandshakes(t *testing.T) {
	type waiting struct {
		id   int
		from netip.Prefix
	}
	random := rand.New(rand.NewPCG(1, 2))
	var h transport.Handshakes[int]
	var all []waiting // in the order of Add
	var kept []int
	want := func() int {
		sizes := map[netip.Prefix]int{}
		for _, w := range all {
			sizes[w.from]++
		}
		best, most := -1, 0
		for _, w := range all {
			size := sizes[w.from]
			if !w.from.IsValid() {
				size = 1
			}
			if size > most {
				best, most = w.id, size
			}
		}
		return best
	}
	for id := range 5000 {
		if random.IntN(2) == 0 || len(all) == 0 {
			w := waiting{id: id}
			if n := random.IntN(6); n > 0 { // 0: no network
				w.from = netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 0, 0, byte(n)}), 32)
			}
			h.Add(id, w.from, time.Unix(int64(id), 0))
			all = append(all, w)
		} else {
			i := random.IntN(len(all))
			gone := all[i].id
			all = slices.Delete(all, i, i+1)
			if !h.Remove(gone) || h.Remove(gone) {
				t.Fatalf("%d was not there once", gone)
			}
		}
		if len(all) > 0 && random.IntN(10) == 0 {
			i := random.IntN(len(all))
			if !h.Keep(all[i].id) {
				t.Fatalf("%d was not there", all[i].id)
			}
			kept = append(kept, all[i].id)
			all = slices.Delete(all, i, i+1)
		}
		if n := len(kept) - 1; n > 10 {
			if !h.Keep(kept[n]) || !h.Remove(kept[n]) || h.Keep(kept[n]) {
				t.Fatalf("%d was not kept until it was removed", kept[n])
			}
			kept = kept[:n]
		}
		got, since, ok := h.Next()
		if h.Len() != len(all)+len(kept) || ok != (len(all) > 0) || ok && (got != want() || since != time.Unix(int64(got), 0)) {
			t.Fatalf("after %d: next is %d of %v (%v), want %d", id, got, since, ok, want())
		}
	}
	if left := slices.Collect(h.All()); len(left) != len(all)+len(kept) {
		t.Errorf("All has %d, want %d", len(left), len(all)+len(kept))
	}
}
