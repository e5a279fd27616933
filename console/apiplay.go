package console

import (
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/admin"
)

// PlaygroundRequest is the request of Playground.
type PlaygroundRequest struct {
	List     string `json:"list"`
	Instance string `json:"instance,omitempty"` // that is asked for schemas; "" for any
}

// Playground is what can be called at a list.
type Playground struct {
	Services  []string       `json:"services"` // that the registry lists
	Protocols []string       `json:"protocols"`
	Instances []PlayInstance `json:"instances"`           // at most 1,000, sorted by ID
	Schema    *admin.Schema  `json:"schema,omitempty"`    // without the admin API itself
	Described string         `json:"described,omitempty"` // ID of the instance that has described them
	Error     string         `json:"error,omitempty"`     // why there is no schema
}

// PlayInstance is an instance that can be called.
type PlayInstance struct {
	ID        string            `json:"id"`
	State     State             `json:"state"`
	Protocols []string          `json:"protocols"` // by which it may be called
	Targets   map[string]string `json:"targets"`   // of commands, by protocol
}

// CallRequest is the request of Call, and of Stream. JSON is text, as 64-bit integers are not safe
// in a browser's.
type CallRequest struct {
	List      string        `json:"list"`
	Method    string        `json:"method"`
	Arguments string        `json:"arguments,omitempty"` // JSON; of a stream the first message
	Several   bool          `json:"several,omitempty"`   // Arguments is an array of the method's arguments
	Last      bool          `json:"last,omitempty"`      // of a stream: no more messages are sent
	Metadata  []Pair        `json:"metadata,omitempty"`
	Timeout   time.Duration `json:"timeout,omitempty"`  // 0 for 10 s, at most 1 min; of a stream 0 for 10 min, which is the most
	Instance  string        `json:"instance,omitempty"` // ID; "" for one that a client's default balancer chooses
	Protocol  string        `json:"protocol,omitempty"` // "" for tandem's own
}

// Pair is one value of metadata.
type Pair struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

// CallAnswer is how a call of the playground ended, well or not.
type CallAnswer struct {
	Code        string          `json:"code"` // ok, or that of the error
	Message     string          `json:"message,omitempty"`
	Details     []CallDetail    `json:"details,omitempty"`
	Remote      bool            `json:"remote,omitempty"`      // the server has returned the error
	NotExecuted bool            `json:"notExecuted,omitempty"` // it is certain that no handler ran
	Result      string          `json:"result,omitempty"`      // JSON; "" for a method without results, and for streams
	Metadata    tandem.Metadata `json:"metadata,omitempty"`    // of the response: headers and trailers
	Instance    string          `json:"instance,omitempty"`    // that was called
	Began       time.Time       `json:"began"`
	Took        time.Duration   `json:"took"`
	Sent        int             `json:"sent"` // bytes of messages
	Received    int             `json:"received"`
}

// CallDetail is data of an error.
type CallDetail struct {
	Type  string `json:"type"`
	Value []byte `json:"value"`
}

// StreamEvent is a line of the answer of Stream. The first has the ID, the last the End.
type StreamEvent struct {
	ID      string      `json:"id,omitempty"` // for Send
	Message *string     `json:"message,omitempty"`
	End     *CallAnswer `json:"end,omitempty"`
}

// SendRequest is the request of Send, which sends a message of a stream.
type SendRequest struct {
	ID      string `json:"id"`
	Message string `json:"message,omitempty"` // JSON; "" for none with Last
	Last    bool   `json:"last,omitempty"`    // no more messages are sent
}

// Sent is what a stream has sent so far.
type Sent struct {
	Messages int  `json:"messages"`
	Closed   bool `json:"closed"`
}
