package client

import "github.com/tandem-rpc/tandem"

// carryCriticality gives a call that a handler makes the class of the call which it serves,
// unless it says one.
func carryCriticality(served, call *tandem.Call) {
	class := served.Metadata.Get(tandem.CriticalityKey)
	if class == "" || call.Metadata.Get(tandem.CriticalityKey) != "" {
		return
	}
	md := call.Metadata.Clone()
	if md == nil {
		md = tandem.Metadata{}
	}
	md.Set(tandem.CriticalityKey, class)
	call.Metadata = md
}
