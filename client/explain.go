package client

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/balance"
	"github.com/tandem-rpc/tandem/internal/pool"
	"github.com/tandem-rpc/tandem/policy"
)

// Explanation says why a call went to its instances: what was known of the instances, what each
// step of the policy kept and dropped, and how every attempt ended. Its JSON form is for people
// and tools.
type Explanation struct {
	Method   string  `json:"method"`
	Target   string  `json:"target"`
	Policy   string  `json:"policy"`            // the balancing policy's name
	Version  string  `json:"version,omitempty"` // version of the client's policy; see [WithPolicy]
	Budget   float64 `json:"retryBudget"`       // retries left in the budget after the call
	Stale    string  `json:"stale,omitempty"`   // why the list may be old
	mu       sync.Mutex
	Attempts []Attempt `json:"attempts"` // in the order in which they ended
}

// Attempt is one attempt of a call that is explained.
type Attempt struct {
	Number    int             `json:"number"` // 0 for the first; parallel ones may share a number
	Began     time.Time       `json:"began"`
	Took      time.Duration   `json:"took"` // ns
	Instances []InstanceState `json:"instances"`
	// Route says where the routes of the client's policy sent the attempt; nil if there are none.
	Route  *policy.Decision `json:"route,omitempty"`
	Steps  []balance.Step   `json:"steps"`
	Chosen string           `json:"chosen,omitempty"` // ID of the instance; "" if there was none
	Error  string           `json:"error,omitempty"`
}

// InstanceState is what a client knows of an instance when it chooses.
type InstanceState struct {
	ID       string        `json:"id"`
	Unusable string        `json:"unusable,omitempty"`    // why the call can't go there now; "" if it can
	Suspect  string        `json:"suspect,omitempty"`     // why it is doubtful that it still runs; "" if it is not
	Breaker  string        `json:"breaker"`               // state of the instance's breaker: closed, open or half-open
	Since    time.Time     `json:"breakerSince,omitzero"` // since when the breaker is in that state; zero if it was always closed
	Why      string        `json:"breakerWhy,omitempty"`  // what opened it: the error of the last call that counted, or how the instance differs from the others; "" while it is closed
	Forced   time.Time     `json:"forced,omitzero"`       // until when [Client.ForceBreaker] keeps the breaker in that state; zero if it does not
	Method   string        `json:"methodBreaker,omitempty"`
	Throttle float64       `json:"throttle,omitempty"` // share of the method's calls that is not sent, as the instance refuses most of them
	InFlight int64         `json:"inFlight"`
	Latency  time.Duration `json:"latency"` // ns; average
	Calls    uint64        `json:"calls"`
	Failed   uint64        `json:"failed"`
	Weight   int           `json:"weight"`
}

// Explain fills e while the call is made; e must not be read before the call has ended. It
// costs much more than the call itself.
func Explain(e *Explanation) tandem.CallOption {
	return func(call *tandem.Call) {
		call.Explain = func(step any) { e.add(step.(pool.Explained)) }
	}
}

// ExplainTo returns an interceptor for [WithInterceptors] that calls f with the Explanation of
// every call when it has ended, for debugging. f must be safe for concurrent use.
func ExplainTo(f func(*Explanation)) tandem.Interceptor {
	return func(next tandem.Func) tandem.Func {
		return func(ctx context.Context, call *tandem.Call) error {
			if call.Explain != nil {
				return next(ctx, call)
			}
			e := new(Explanation)
			Explain(e)(call)
			err := next(ctx, call)
			f(e)
			return err
		}
	}
}

// Describe explains where a call of the method would go now, without making it. With an empty method
// it describes the instances alone.
func (c *Client) Describe(method string, opts ...tandem.CallOption) *Explanation {
	call := &tandem.Call{Method: method, Route: c.usual.route}
	for _, opt := range opts {
		opt(call)
	}
	e := new(Explanation)
	e.add(c.pool.Explain(call))
	return e
}

// String returns the explanation as some lines of text.
func (e *Explanation) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s at %s by %s; the retry budget has %.0f\n", e.Method, e.Target, e.Policy, e.Budget)
	if e.Version != "" {
		fmt.Fprintf(&b, "  version %s of the policy\n", e.Version)
	}
	if e.Stale != "" {
		fmt.Fprintf(&b, "  the list may be old: %s\n", e.Stale)
	}
	for i := range e.Attempts {
		e.Attempts[i].write(&b)
	}
	return b.String()
}

func (a *Attempt) write(b *strings.Builder) {
	if a.Took > 0 { // else it was not made
		fmt.Fprintf(b, "  attempt %d went to %s in %v", a.Number, cmp.Or(a.Chosen, "no instance"), a.Took)
		if a.Error != "" {
			fmt.Fprintf(b, " and failed: %s", a.Error)
		}
		b.WriteByte('\n')
	}
	for _, in := range a.Instances {
		fmt.Fprintf(b, "    %s: weight %d, %d in flight, average %v, %d of %d calls failed, breaker %s",
			in.ID, in.Weight, in.InFlight, in.Latency, in.Failed, in.Calls, in.Breaker)
		if !in.Forced.IsZero() {
			fmt.Fprintf(b, " (forced %s until %s)", in.Breaker, in.Forced.Format(time.RFC3339))
		}
		if in.Method != "" {
			fmt.Fprintf(b, ", the method's %s", in.Method)
		}
		if in.Throttle > 0 {
			fmt.Fprintf(b, ", %.0f %% of its calls are not sent: the instance refuses most", 100*in.Throttle)
		}
		if in.Suspect != "" {
			fmt.Fprintf(b, ", suspect: %s", in.Suspect)
		}
		if in.Unusable != "" {
			fmt.Fprintf(b, " (%s)", in.Unusable)
		}
		b.WriteByte('\n')
	}
	if a.Route != nil {
		for _, line := range a.Route.Lines() {
			b.WriteString("    " + line + "\n")
		}
	}
	for _, s := range a.Steps {
		fmt.Fprintf(b, "    %s kept %s", s.Policy, cmp.Or(strings.Join(s.Kept, " "), "none"))
		for _, id := range slices.Sorted(maps.Keys(s.Dropped)) {
			fmt.Fprintf(b, "; not %s: %s", id, s.Dropped[id])
		}
		for _, id := range slices.Sorted(maps.Keys(s.Scores)) {
			fmt.Fprintf(b, "; %s scores %.4g", id, s.Scores[id])
		}
		b.WriteByte('\n')
	}
}

// add adds an attempt that a pool has explained.
func (e *Explanation) add(x pool.Explained) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.Method, e.Target, e.Policy, e.Version, e.Budget, e.Stale = x.Method, x.Target, x.Policy, x.Version, x.Budget, x.Stale
	a := Attempt{
		Number: x.Attempt.Number, Began: x.Attempt.Began, Took: x.Attempt.Took, Route: x.Attempt.Route, Steps: x.Attempt.Steps,
		Chosen: x.Attempt.Chosen, Error: x.Attempt.Error,
	}
	for _, in := range x.Attempt.Instances {
		a.Instances = append(a.Instances, InstanceState(in))
	}
	e.Attempts = append(e.Attempts, a)
}
