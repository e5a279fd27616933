package services

import (
	"context"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/registry"
)

// Announce returns a registrar that registers instances in r, unless r is nil, and then calls
// ready. A server registers when it listens: at the call of ready it accepts connections, and
// clients can find it.
func Announce(r registry.Registrar, ready func(tandem.Instance)) registry.Registrar {
	return announcer{r, ready}
}

type announcer struct {
	registrar registry.Registrar
	ready     func(tandem.Instance)
}

func (a announcer) Register(ctx context.Context, in tandem.Instance) (registry.Registration, error) {
	var entry registry.Registration = unlisted{}
	if a.registrar != nil {
		var err error
		if entry, err = a.registrar.Register(ctx, in); err != nil {
			return nil, err
		}
	}
	a.ready(in)
	return entry, nil
}

// unlisted is the registration of a server that is in no registry.
type unlisted struct{}

func (unlisted) Update(context.Context, tandem.Instance) error { return nil }
func (unlisted) Close() error                                  { return nil }
