package client

import "github.com/tandem-rpc/tandem"

// carryCriticality gives a call that a handler makes the class of the call which it serves,
// unless it says one. A class that there isn't, which any peer can send, is not carried on.
func carryCriticality(served, call *tandem.Call) {
	class := served.Metadata.Get(tandem.CriticalityKey)
	if class == "" || !isClass(served) || call.Metadata.Get(tandem.CriticalityKey) != "" {
		return
	}
	md := call.Metadata.Clone()
	if md == nil {
		md = tandem.Metadata{}
	}
	md.Set(tandem.CriticalityKey, class)
	call.Metadata = md
}

// isClass reports whether a call says no class, or one that there is.
func isClass(call *tandem.Call) bool {
	if len(call.Metadata) == 0 {
		return true
	}
	switch tandem.Criticality(call.Metadata.Get(tandem.CriticalityKey)) {
	case "", tandem.Sheddable, tandem.Normal, tandem.Critical, tandem.CriticalPlus:
		return true
	}
	return false
}
