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
		return nil, errors.New("connection refused")
	}
	return nil, nil
}

func (*away) Watch(ctx context.Context, _ registry.Target, _ func(registry.Snapshot)) error {
	<-ctx.Done()
	return ctx.Err()
}

// TestLostRegistry is logged once, and when it can be read again.
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
		if said := log.String(); strings.Count(said, "connection refused") != 1 || strings.Contains(said, "can be read again") {
			t.Errorf("while it is away: %s", said)
		}
		time.Sleep(2 * lookEvery)
		if said := log.String(); strings.Count(said, "connection refused") != 1 || strings.Count(said, "can be read again") != 1 {
			t.Errorf("later: %s", said)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
}
