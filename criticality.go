package tandem

// Criticality says how much a call matters when its server has more to do than it can: of the
// requests that wait, those of a higher class are served first. After chapter 21 of Site
// Reliability Engineering (Beyer and others, 2016).
//
// It goes with the call's metadata, under [CriticalityKey], and calls that a handler makes
// have that of the call which it serves. A server believes what is above Normal only of
// callers that it trusts.
type Criticality string

// The classes. A call that says nothing is Normal.
const (
	Sheddable    Criticality = "sheddable"     // may fail now and then: batches, prefetching
	Normal       Criticality = "normal"        // a caller waits for the answer
	Critical     Criticality = "critical"      // users see its failure
	CriticalPlus Criticality = "critical-plus" // the last that is given up
)

// CriticalityKey is the key of a call's [Criticality] in its metadata.
const CriticalityKey = "tandem-criticality"
