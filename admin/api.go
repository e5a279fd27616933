package admin

import (
	"encoding/json"
	"time"

	"github.com/tandem-rpc/tandem"
)

// Durations in JSON are nanoseconds.

// InfoRequest is the request of Info, which needs the role [Viewer].
type InfoRequest struct{}

// Info says what the process is.
type Info struct {
	Host       string    `json:"host"`
	PID        int       `json:"pid"`
	Command    string    `json:"command"` // name of the program
	Began      time.Time `json:"began"`   // when the Admin was made
	Go         string    `json:"go"`
	Module     string    `json:"module,omitempty"`
	Version    string    `json:"version,omitempty"` // of the main module
	Revision   string    `json:"revision,omitempty"`
	Tandem     string    `json:"tandem,omitempty"` // version of tandem
	GOMAXPROCS int       `json:"gomaxprocs"`
	Goroutines int       `json:"goroutines"`
	HeapBytes  uint64    `json:"heapBytes"`
	LogLevel   string    `json:"logLevel,omitempty"` // "" if it can't be seen: see WithLogLevel
	Role       string    `json:"role"`               // of the caller
	Addresses  []string  `json:"addresses"`          // that the servers listen on
	Services   []string  `json:"services"`
	Clients    []string  `json:"clients"` // names of the clients
	Payloads   bool      `json:"payloads"`
}

// MethodsRequest is the request of Methods, which needs the role [Viewer].
type MethodsRequest struct {
	Window time.Duration `json:"window,omitempty"` // that the figures are of: up to 5 min; 0 for 1 min
	Client string        `json:"client,omitempty"` // name of a client whose calls are meant; "" for those of the servers
	Series bool          `json:"series,omitempty"` // with the figures of each second, and the heat map
	Times  bool          `json:"times,omitempty"`  // with the Times of each method, from which Sum makes percentiles
}

// Methods are the methods of the servers, or those that a client has called.
type Methods struct {
	Window  time.Duration  `json:"window"` // that the figures are of; less than asked for while the process is young
	Methods []MethodFigure `json:"methods"`
}

// MethodFigure is what a method is, and how its calls went.
type MethodFigure struct {
	Method     string            `json:"method"`
	Kind       string            `json:"kind,omitempty"` // "unary" or "stream"; "" for methods of clients
	Safe       bool              `json:"safe,omitempty"`
	Calls      uint64            `json:"calls"`   // that have ended, ever
	Running    uint64            `json:"running"` // now
	Rate       float64           `json:"rate"`    // calls that ended in a second, in the window
	ErrorRate  float64           `json:"errorRate"`
	Errors     map[string]uint64 `json:"errors,omitempty"` // in the window, by name of the code
	Mean       time.Duration     `json:"mean"`
	P50        time.Duration     `json:"p50"`
	P90        time.Duration     `json:"p90"`
	P99        time.Duration     `json:"p99"`
	P999       time.Duration     `json:"p999"`
	PerSecond  []Second          `json:"perSecond,omitempty"` // the last minute, the oldest first
	Times      []TimeCount       `json:"times,omitempty"`
	HeatWindow time.Duration     `json:"heatWindow,omitempty"`
	Heat       [][]HeatCell      `json:"heat,omitempty"` // for each HeatWindow, the oldest first
}

// Second is how many calls ended in a second.
type Second struct {
	Calls  uint64 `json:"calls"`
	Failed uint64 `json:"failed"`
}

// TimeCount is how many calls of the window are in one bucket of times. The buckets are those of an
// HDR histogram with four bits, in units of 256 ns.
type TimeCount struct {
	Bucket int    `json:"b"`
	Calls  uint64 `json:"n"`
}

// HeatCell is how many calls took about so long; a share of them may stand for all.
type HeatCell struct {
	Took  time.Duration `json:"took"` // a power of two
	Calls uint64        `json:"calls"`
}

// SpansRequest is the request of Spans, which needs the role [Developer].
type SpansRequest struct {
	Trace   string        `json:"trace,omitempty"`  // ID in hexadecimal digits; "" for any
	Method  string        `json:"method,omitempty"` // a pattern of path.Match; "" for any
	Failed  bool          `json:"failed,omitempty"` // only calls that failed
	AtLeast time.Duration `json:"atLeast,omitempty"`
	Max     int           `json:"max,omitempty"` // 0 for 100; at most 1000
}

// Spans are calls of the last time, the latest first.
type Spans struct {
	Spans []Span `json:"spans"`
}

// Span is one call of a trace, seen from one side. Of traces that are too many all processes keep
// the same ones. Package plugin/trace, or telemetry/otel, must be among the plugins.
type Span struct {
	Trace    string        `json:"trace"`
	Span     string        `json:"span"`
	Parent   string        `json:"parent,omitempty"`
	Client   string        `json:"client,omitempty"` // name of the client; "" for a server's side
	Method   string        `json:"method"`
	Peer     string        `json:"peer,omitempty"`
	Protocol string        `json:"protocol,omitempty"`
	Began    time.Time     `json:"began"`
	Took     time.Duration `json:"took"`
	Code     string        `json:"code"`
	Error    string        `json:"error,omitempty"`
	Attempts []SpanAttempt `json:"attempts,omitempty"` // of a client's call, in the order in which they ended
}

// SpanAttempt is one attempt of a client's call.
type SpanAttempt struct {
	Instance string        `json:"instance,omitempty"`
	Began    time.Time     `json:"began"`
	Took     time.Duration `json:"took"`
	Error    string        `json:"error,omitempty"`
}

// TapRequest is the request of Tap, a stream that needs the role [Developer], and
// [Administrator] with Payload. All that is set must match.
type TapRequest struct {
	Method  string        `json:"method,omitempty"` // a pattern of path.Match, such as "Cart.*"; "" for any
	Client  string        `json:"client,omitempty"` // name of a client, "*" for all; "" for calls of the servers
	Peer    string        `json:"peer,omitempty"`   // prefix of the peer's address
	Failed  bool          `json:"failed,omitempty"` // only calls that failed
	AtLeast time.Duration `json:"atLeast,omitempty"`
	Share   float64       `json:"share,omitempty"`   // of the calls that match, by chance; 0 for all
	Rate    int           `json:"rate,omitempty"`    // most calls that are shown in a second; 0 for 100, at most 1000
	For     time.Duration `json:"for,omitempty"`     // when the tap ends; 0 for 1 min, at most 10 min
	Payload bool          `json:"payload,omitempty"` // with the messages of unary calls of the servers
}

// TapEvent is a call that has ended.
type TapEvent struct {
	Span

	Kind     string            `json:"kind"`
	Metadata map[string]string `json:"metadata,omitempty"` // of the request, without credentials
	Request  json.RawMessage   `json:"request,omitempty"`
	Reply    json.RawMessage   `json:"reply,omitempty"`
	Missed   uint64            `json:"missed,omitempty"` // calls that matched since the last event, and were too many to be shown
}

// ExplainRequest is the request of Explain, which needs the role [Viewer]. The answer is a
// client.Explanation: where a call would go now, and why.
type ExplainRequest struct {
	Client   string            `json:"client"` // name of the client
	Method   string            `json:"method"`
	Metadata map[string]string `json:"metadata,omitempty"`
	HashKey  string            `json:"hashKey,omitempty"`
	Instance string            `json:"instance,omitempty"` // ID of the only instance allowed
	Version  string            `json:"version,omitempty"`  // with Group and Tags the call's tandem.Route
	Group    string            `json:"group,omitempty"`
	Tags     map[string]string `json:"tags,omitempty"`
}

// LogLevelRequest is the request of SetLogLevel, which needs the role [Operator].
type LogLevelRequest struct {
	Level string `json:"level"` // debug, info, warn or error, or such as "info+2"
	Why   string `json:"why"`
}

// BreakerRequest is the request of ForceBreaker, which needs the role [Operator].
type BreakerRequest struct {
	Client   string        `json:"client"`   // name of the client
	Instance string        `json:"instance"` // ID
	State    string        `json:"state"`    // "open", "closed", or "auto" to let the breaker decide again
	For      time.Duration `json:"for"`      // how long; at most 24 h; 0 for auto
	Why      string        `json:"why"`
}

// ProfileRequest is the request of Profile, which needs the role [Developer].
type ProfileRequest struct {
	// Kind is cpu, trace (for go tool trace), or a profile of runtime/pprof: heap, goroutine,
	// allocs, block, mutex, threadcreate.
	Kind string        `json:"kind"`
	For  time.Duration `json:"for,omitempty"`  // of cpu and trace: 0 for 5 s, at most 1 min
	Text bool          `json:"text,omitempty"` // as text for people; not for cpu and trace
}

// Profile is a profile as runtime/pprof writes it, of at most 64 MiB.
type Profile struct {
	Name string `json:"name"` // for a file
	Data []byte `json:"data"`
}

// ChangesRequest is the request of Changes, which needs the role [Viewer].
type ChangesRequest struct {
	Max int `json:"max,omitempty"` // 0 for 100
}

// Changes are the writes of operators, the latest first. The last 1,000 are kept in memory.
type Changes struct {
	Changes []Change `json:"changes"`
}

// Change is what an operator has changed.
type Change struct {
	ID       string    `json:"id"`
	At       time.Time `json:"at"`
	By       string    `json:"by"` // the identity of the caller, and the address
	What     string    `json:"what"`
	Before   string    `json:"before"`
	After    string    `json:"after"`
	Why      string    `json:"why,omitempty"`
	UndoneBy string    `json:"undoneBy,omitempty"` // ID of the change that has undone it
}

// UndoRequest is the request of Undo, which needs the role [Operator]. Undo fails if what was
// changed is not as the change left it.
type UndoRequest struct {
	ID  string `json:"id"`
	Why string `json:"why"`
}

// kindName returns the name of a call's shape.
func kindName(k tandem.Kind) string {
	switch k {
	case tandem.Streaming:
		return "stream"
	case tandem.OneWay:
		return "one-way"
	case tandem.Unary:
	}
	return "unary"
}
