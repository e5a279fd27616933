package tandem

// Trace is the place of a call in a trace, as W3C's Trace Context has it
// (https://www.w3.org/TR/trace-context/). The zero value is none. Package plugin/trace
// fills it and carries it.
type Trace struct {
	ID     [16]byte // of the whole trace; zero means that there is none
	Span   [8]byte  // of this call on this side
	Parent [8]byte  // the span that this one was begun in; zero for none
	Flags  byte     // TraceSampled, and what others may come to mean
	State  string   // vendors' own, as it came
}

// TraceSampled is the flag of a trace that is recorded.
const TraceSampled byte = 1

// Valid reports whether there is a trace.
func (t *Trace) Valid() bool { return t.ID != [16]byte{} && t.Span != [8]byte{} }

// Sampled reports whether the trace is recorded.
func (t *Trace) Sampled() bool { return t.Flags&TraceSampled != 0 }
