package main

import "testing"

func TestSumAfter(t *testing.T) {
	if got := sumAfter("qdisc tbf 8001: root Sent 4711 bytes 3 pkt", "Sent"); got != 4711 {
		t.Errorf("%d bytes, want 4711", got)
	}
}

func TestPassages(t *testing.T) {
	const nft = `table inet faults {
	chain input {
		type filter hook input priority filter; policy accept;
		meta l4proto tcp counter packets 40 bytes 990
		meta l4proto tcp numgen random mod 100 < 20 counter packets 12 bytes 99 drop
	}

	chain output {
		type filter hook output priority filter; policy accept;
		meta l4proto tcp counter packets 30 bytes 9
		meta l4proto tcp counter packets 3 bytes 7 drop
	}
}`
	in, out := passages(nft)
	if want := (passage{40, 12}); in != want {
		t.Errorf("in %+v, want %+v", in, want)
	}
	if want := (passage{30, 3}); out != want {
		t.Errorf("out %+v, want %+v", out, want)
	}
}
