package deadline_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tandem-rpc/tandem/internal/deadline"
)

type key struct{}

// A context ends at its deadline, with its parent, and with End, whether or not somebody waits for it.
func TestEnds(t *testing.T) {
	for _, waits := range []bool{false, true} {
		for name, row := range map[string]struct {
			end  func(c *deadline.Context, parent context.CancelFunc)
			want error
		}{
			"deadline": {func(*deadline.Context, context.CancelFunc) { time.Sleep(time.Second) }, context.DeadlineExceeded},
			"parent":   {func(_ *deadline.Context, cancel context.CancelFunc) { cancel() }, context.Canceled},
			"End":      {func(c *deadline.Context, _ context.CancelFunc) { c.End() }, context.Canceled},
			"nothing":  {func(*deadline.Context, context.CancelFunc) {}, nil},
		} {
			synctest.Test(t, func(t *testing.T) {
				parent, cancel := context.WithCancel(context.WithValue(t.Context(), key{}, "value"))
				defer cancel()
				c := deadline.With(parent, time.Now().Add(time.Second))
				defer c.End()
				if waits {
					defer context.AfterFunc(c, func() {})()
				}
				row.end(c, cancel)
				synctest.Wait()
				if err := c.Err(); !errors.Is(err, row.want) {
					t.Errorf("%s, waits %v: %v", name, waits, err)
				}
				if c.Value(key{}) != "value" {
					t.Errorf("%s, waits %v: no value", name, waits)
				}
				select {
				case <-c.Done():
					if row.want == nil {
						t.Errorf("%s: it has ended", name)
					}
				default:
					if row.want != nil {
						t.Errorf("%s, waits %v: Done does not tell", name, waits)
					}
				}
			})
		}
	}
}

// The earlier deadline counts, and Split takes a context apart.
func TestSplit(t *testing.T) {
	soon := time.Now().Add(time.Second)
	late := soon.Add(time.Hour)
	parent, cancel := context.WithDeadline(t.Context(), soon)
	defer cancel()
	c := deadline.With(parent, late)
	defer c.End()
	if p, at := deadline.Split(c); p != parent || !at.Equal(soon) {
		t.Errorf("%v, %v", p, at)
	}
	if p, at := deadline.Split(parent); p != parent || !at.Equal(soon) {
		t.Errorf("%v, %v", p, at)
	}
	if _, at := deadline.Split(t.Context()); !at.IsZero() {
		t.Error(at)
	}
}
