package console

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tandem-rpc/tandem/registry"
)

// away is a registry that answers from the third time on.
type away struct{ asked atomic.Int32 }

func (a *away) Lists(context.Context, registry.Target) ([]registry.Target, error) {
	if a.asked.Add(1) < 3 {
		return nil, errors.New("nobody is there")
	}
	return nil, nil
}

func (*away) Watch(ctx context.Context, _ registry.Target, _ func(registry.Snapshot)) error {
	<-ctx.Done()
	return ctx.Err()
}

// TestLostRegistry is logged once, and when it answers again.
func TestLostRegistry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := new(lockedBuffer)
		c, err := New(Config{
			Sources: []Registry{{Target: "etcd://h1:2379/shop", Resolver: new(away)}},
			Log:     slog.New(slog.NewTextHandler(log, nil)),
		})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(lookEvery + time.Second)
		if said := log.String(); strings.Count(said, "nobody is there") != 1 || strings.Contains(said, "answers again") {
			t.Errorf("while it is away: %s", said)
		}
		time.Sleep(2 * lookEvery)
		if said := log.String(); strings.Count(said, "nobody is there") != 1 || strings.Count(said, "answers again") != 1 {
			t.Errorf("later: %s", said)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
}
