package main

import (
	"context"
	"fmt"
	"net"
	"strings"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/codec"
	"github.com/tandem-rpc/tandem/server"
)

const echoMethod = "Lab.Echo"

func serveTandem(h handler) (backend, error) {
	srv := server.New(server.WithCodecs(codec.Raw()))
	err := server.Handle(srv, echoMethod, func(_ context.Context, request *[]byte) (*[]byte, error) {
		answer, err := h.echo(*request)
		return &answer, err
	})
	return backend{
		serve: func(ln net.Listener) error { return srv.ServeListener(ln) },
		stop:  srv.Shutdown,
	}, err
}

type tandemCaller struct{ *client.Client }

func dialTandem(p plan) (caller, error) {
	c, err := client.Dial(p.target(), client.WithCodec(codec.Raw()))
	return tandemCaller{c}, err
}

// call makes a call in the fail mode that begins the variant. "+safe" behind it makes
// the call idempotent.
func (c tandemCaller) call(ctx context.Context, variant string, request []byte) ([]byte, error) {
	var opts []tandem.CallOption
	mode, safe := strings.CutSuffix(variant, variantSafe)
	if safe {
		opts = append(opts, client.Idempotent())
	}
	if mode != variantDefault {
		m, ok := failModes()[mode]
		if !ok {
			return nil, fmt.Errorf("variant %q: no such fail mode", variant)
		}
		opts = append(opts, client.FailMode(m))
	}
	var answer []byte
	err := c.Call(ctx, echoMethod, &request, &answer, opts...)
	return answer, err
}

func failModes() map[string]tandem.FailMode {
	return map[string]tandem.FailMode{
		"failfast": client.Failfast, "failover": client.Failover, "failtry": client.Failtry,
		"failsafe": client.Failsafe, "failback": client.Failback, "broadcast": client.Broadcast,
		"fork": client.Fork, "backup": client.Backup,
	}
}

func (tandemCaller) verdict(err error) (string, bool) {
	return tandem.CodeOf(err).String(), !tandem.MayHaveExecuted(err)
}

func (c tandemCaller) close() { _ = c.Close() } // the process ends
