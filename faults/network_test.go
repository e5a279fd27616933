package main

import "testing"

func TestSumAfter(t *testing.T) {
	const nft = "chain input { counter packets 12 bytes 99 drop } chain output { counter packets 3 bytes 7 drop }"
	if got := sumAfter(nft, "packets"); got != 15 {
		t.Errorf("%d packets, want 15", got)
	}
	if got := sumAfter("qdisc tbf 8001: root Sent 4711 bytes 3 pkt", "Sent"); got != 4711 {
		t.Errorf("%d bytes, want 4711", got)
	}
}
