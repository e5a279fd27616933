package client_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/transport"
)

// around wraps calls and attempts, and panics at the attempt of that number.
type around struct {
	*sightings

	panics int
}

func (a around) Intercept(next tandem.Func) tandem.Func { return a.round("call", next) }

func (a around) InterceptAttempt(next tandem.Func) tandem.Func { return a.round("attempt", next) }

func (a around) round(what string, next tandem.Func) tandem.Func {
	return func(ctx context.Context, call *tandem.Call) error {
		a.mu.Lock()
		a.lines = append(a.lines, fmt.Sprint(what, " ", call.Attempt))
		a.mu.Unlock()
		if what == "attempt" && call.Attempt == a.panics {
			panic("around")
		}
		return next(ctx, call)
	}
}

// A plugin wraps every attempt, retries too, outside the interceptors of attempts; if it panics,
// the attempt fails and is not made.
func TestPluginsInterceptAttempts(t *testing.T) {
	for _, panics := range []int{-1, 1} {
		network, n := transport.NewMemory(), &sightings{}
		stop := serveFailing(t, network, "a")
		inner := around{sightings: n, panics: -1}
		c, err := client.Dial("mem://a", client.WithTransport("mem", network), client.WithFailMode(client.Failtry), client.WithRetries(1),
			client.WithPlugins(around{n, panics}), client.WithAttemptInterceptors(func(next tandem.Func) tandem.Func { return inner.round("inner", next) }))
		if err != nil {
			t.Fatal(err)
		}
		err = c.Call(t.Context(), "A.Fail", tandem.Args{}, nil, client.Idempotent())
		want := []string{"call 0", "attempt 0", "inner 0", "attempt 1", "inner 1"}
		code := tandem.Unavailable
		if panics == 1 {
			want, code = want[:4], tandem.Internal
		}
		if tandem.CodeOf(err) != code {
			t.Errorf("with a panic at %d: %v", panics, err)
		}
		sameLines(t, n.take(), want...)
		_ = c.Close()
		stop()
	}
}
