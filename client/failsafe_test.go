package client_test

import (
	"log/slog"
	"testing"
	"testing/synctest"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
)

// An error is logged and ignored; a response is returned.
func TestFailsafe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := make(records, 100)
		cl := newCluster(t, 1, sick)
		c := cl.client(t, client.WithFailMode(client.Failsafe), client.WithLogger(slog.New(log)))
		if said, err := do(t, c); err != nil || said != "unchanged" {
			t.Errorf("got %q, %v", said, err)
		}
		if n := cl.total(); n != 1 {
			t.Errorf("%d attempts", n)
		}
		if err := c.Notify(t.Context(), "Test.Do", "", client.Instance("nobody")); err != nil {
			t.Errorf("one-way: %v", err)
		}
		warned := 0
		for len(log) > 0 {
			if rec := <-log; rec.Level == slog.LevelWarn {
				warned++
			}
		}
		if warned != 2 {
			t.Errorf("%d of 2 errors are in the log", warned)
		}
		if said, err := do(t, newCluster(t, 1, well).client(t, client.WithFailMode(client.Failsafe))); err != nil || said != "a" {
			t.Errorf("got %q, %v", said, err)
		}
	})
}

// A stream that can't be opened fails: there is no stream to return.
func TestFailsafeStreamFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 1, well).client(t, client.WithFailMode(client.Failsafe))
		if _, err := c.OpenStream(t.Context(), "Test.None"); tandem.CodeOf(err) != tandem.Unimplemented {
			t.Errorf("got %v", err)
		}
	})
}

// A call whose memory is used again does not return the reply of the call before.
func TestFailsafeLeavesReplies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 1, well).client(t)
		for range 3 {
			if said, err := do(t, c, client.Instance("nobody"), client.FailMode(client.Failsafe)); err != nil || said != "unchanged" {
				t.Errorf("got %q, %v", said, err)
			}
			if said, err := do(t, c); err != nil || said != "a" {
				t.Errorf("after it: got %q, %v", said, err)
			}
		}
	})
}
