package tandem

// Criticality says how important a call is when its server is overloaded: of the requests
// that wait, those of a higher class are served first. After chapter 21 of Site Reliability
// Engineering (Beyer and others, 2016).
//
// It is part of the call's metadata, under [CriticalityKey]. Calls that a handler makes
// inherit it from the call that the handler serves. A server accepts a class above Normal
// only from callers that it trusts.
type Criticality string

// The classes. A call without one is Normal.
const (
	Sheddable    Criticality = "sheddable"     // may fail at times: batches, prefetching
	Normal       Criticality = "normal"        // a caller waits for the response
	Critical     Criticality = "critical"      // users see its failure
	CriticalPlus Criticality = "critical-plus" // refused last
)

// CriticalityKey is the key of a call's [Criticality] in its metadata.
const CriticalityKey = "tandem-criticality"
