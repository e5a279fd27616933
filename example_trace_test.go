package tandem_test

import (
	"fmt"

	"github.com/tandem-rpc/tandem"
)

// A plugin that traces sets Call.Trace; package plugin/trace is one.
func ExampleTrace() {
	call := tandem.Call{Method: "Arith.Mul"}
	fmt.Println(call.Trace.Valid())
	call.Trace = tandem.Trace{ID: [16]byte{1}, Span: [8]byte{2}, Flags: tandem.TraceSampled}
	fmt.Println(call.Trace.Valid(), call.Trace.Sampled())
	// Output:
	// false
	// true true
}

// A plugin that sets a pair in every call.
func ExampleCall_SetMetadata() {
	shared := tandem.Metadata{"tenant": {"acme"}}
	call := tandem.Call{Metadata: shared}
	call.SetMetadata("token", "secret")
	fmt.Println(call.Metadata.Get("tenant"), call.Metadata.Get("token"), len(shared))
	call.Reset()
	fmt.Println(call.Metadata == nil)
	// Output:
	// acme secret 1
	// true
}
