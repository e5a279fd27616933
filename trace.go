package tandem

// Trace is the place of a call in a trace, as in W3C's Trace Context
// (https://www.w3.org/TR/trace-context/). The zero value means no trace. Package
// plugin/trace sets it and sends it to servers.
type Trace struct {
	ID     [16]byte // ID of the whole trace; zero means that there is none
	Span   [8]byte  // ID of this call on this side
	Parent [8]byte  // ID of the span that contains this one; zero for none
	Flags  byte     // TraceSampled, the only flag defined here
	State  string   // data of tracing vendors, as received
}

// TraceSampled is the flag of a trace that is recorded.
const TraceSampled byte = 1

// Valid reports whether there is a trace.
func (t *Trace) Valid() bool { return t.ID != [16]byte{} && t.Span != [8]byte{} }

// Sampled reports whether the trace is recorded.
func (t *Trace) Sampled() bool { return t.Flags&TraceSampled != 0 }
