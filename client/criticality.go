package client

import "github.com/tandem-rpc/tandem"

// carryCriticality copies the class of the call that a handler serves to a call that it makes,
// unless that has one. An unknown class, which any peer can send, is not copied.
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

// isClass reports whether a call has no class, or one that exists.
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
