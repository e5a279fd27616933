package harness

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tandem-rpc/tandem/bench/load"
)

// Serve builds the system's peer and runs its server at the address, with handlers that
// keep a processor busy for work. It calls ready with the address once the server listens,
// and returns, when ctx ends, the server's usage since then.
func Serve(ctx context.Context, system, listen string, work time.Duration, ready func(addr string)) (used load.Usage, err error) {
	peers, err := build(ctx, []string{system})
	if err != nil {
		return used, err
	}
	defer peers.remove()
	// When ctx ends, the server must live on to report its usage.
	server, err := startPeer(context.WithoutCancel(ctx), nil, peers.path(system), "server", "-listen="+listen, fmt.Sprintf("-work=%v", work))
	if err != nil {
		return used, err
	}
	defer func() { err = errors.Join(err, server.end()) }()
	r, err := server.expect(load.EventReady)
	if err != nil {
		return used, err
	}
	before, err := server.mark()
	if err != nil {
		return used, err
	}
	ready(r.Addr)
	<-ctx.Done()
	after, err := server.mark()
	return after.Sub(before), err
}
