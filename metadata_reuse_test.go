package tandem_test

import (
	"testing"

	"github.com/tandem-rpc/tandem"
)

// Metadata that one call has set is not in the next call, which reuses its memory.
func TestMetadataOfCallsIsReused(t *testing.T) {
	var call tandem.Call
	for range 3 {
		for _, key := range []string{"a", "B", "c"} {
			call.SetMetadata(key, "of "+key)
		}
		call.SetMetadata("a", "again")
		if m := call.Metadata; len(m) != 3 || m.Get("a") != "again" || m.Get("b") != "of B" || m.Get("c") != "of c" {
			t.Errorf("got %v", m)
		}
		copied := call.Clone()
		copied.SetMetadata("a", "the copy's")
		if call.Metadata.Get("a") != "again" {
			t.Error("a copy of the call changed the call")
		}
		call.Reset()
		if call.Metadata.Get("a") != "" || copied.Metadata.Get("b") != "of B" {
			t.Error("Reset leaves metadata, or takes the copy's")
		}
	}
	if n := testing.AllocsPerRun(100, func() {
		call.SetMetadata("a", "1")
		call.SetMetadata("b", "2")
		call.Reset()
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
