package admin

import (
	"context"
	"fmt"
	"maps"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
)

// maxForce is how long a breaker may be forced.
const maxForce = 24 * time.Hour

// forced is how a breaker was forced last.
type forced struct {
	state string
	until time.Time
}

func (f forced) String() string {
	if f.state == "" || !f.until.After(time.Now()) {
		return "auto"
	}
	return fmt.Sprintf("forced %s until %s", f.state, f.until.UTC().Format(time.RFC3339))
}

// apply forces a client's breaker.
func (f forced) apply(c *client.Client, instance string) error {
	return c.ForceBreaker(instance, f.state == "open", f.until)
}

// breakerKey names a breaker of a client.
type breakerKey struct{ client, instance string }

func (a *Admin) forceBreaker(ctx context.Context, req *BreakerRequest) (*Change, error) {
	next, err := req.forced()
	if err != nil {
		return nil, err
	}
	c := a.dialed()[req.Client]
	if c == nil {
		return nil, errNoClient
	}
	k := breakerKey{req.Client, req.Instance}
	a.forcing.Lock()
	defer a.forcing.Unlock()
	before := a.forced[k]
	if err := next.apply(c, req.Instance); err != nil {
		return nil, err
	}
	maps.DeleteFunc(a.forced, func(_ breakerKey, f forced) bool { return !f.until.After(time.Now()) })
	a.forced[k] = next
	what := fmt.Sprintf("breaker of %s for %s", req.Client, req.Instance)
	return a.record(ctx, Change{What: what, Before: before.String(), After: next.String(), Why: req.Why}, func() error {
		a.forcing.Lock()
		defer a.forcing.Unlock()
		if a.forced[k] != next {
			return tandem.Errorf(tandem.FailedPrecondition, "the breaker is %v now", a.forced[k])
		}
		if err := before.apply(c, req.Instance); err != nil {
			return err
		}
		a.forced[k] = before
		return nil
	}), nil
}

// forced returns how a request forces the breaker.
func (r *BreakerRequest) forced() (forced, error) {
	switch {
	case r.State == "auto" && r.For == 0:
		return forced{}, nil
	case r.State != "open" && r.State != "closed":
		return forced{}, tandem.Errorf(tandem.InvalidArgument, "state %q: want open, closed, or auto without a time", r.State)
	case r.For <= 0 || r.For > maxForce:
		return forced{}, tandem.Errorf(tandem.InvalidArgument, "a breaker is forced for up to %v", maxForce)
	}
	return forced{r.State, time.Now().Add(r.For)}, nil
}
