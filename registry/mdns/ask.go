package mdns

import (
	"context"
	"log"
	"log/slog"
	"strings"
	"time"

	hashicorp "github.com/hashicorp/mdns"

	"github.com/tandem-rpc/tandem/registry"
)

// window is how long ask waits for answers to a question.
const window = 300 * time.Millisecond

// ask asks the network for a service, or one instance of it, and returns the answers that
// arrive within window. The library goes on changing the entries that it delivers, so they
// are read when the query has ended.
func ask(ctx context.Context, at place, service string, log *slog.Logger) ([]*hashicorp.ServiceEntry, error) {
	entries := make(chan *hashicorp.ServiceEntry, 2*registry.MaxInstances)
	if err := query(ctx, at, &hashicorp.QueryParam{Service: service, Timeout: window, Entries: entries}, log); err != nil {
		return nil, err
	}
	close(entries)
	var answers []*hashicorp.ServiceEntry
	for e := range entries {
		e.Name = strings.ToLower(e.Name)
		answers = append(answers, e)
	}
	return answers, ctx.Err()
}

// notify sends a question that only watches of the service understand: see listener.
func notify(ctx context.Context, at place, what string, log *slog.Logger) error {
	return query(ctx, at, &hashicorp.QueryParam{Service: what + "." + at.service, Timeout: time.Millisecond}, log)
}

func query(ctx context.Context, at place, q *hashicorp.QueryParam, log *slog.Logger) error {
	iface, err := interfaceOf(at.iface)
	if err != nil {
		return err
	}
	q.Domain, q.Interface, q.DisableIPv6, q.Logger = at.domain, iface, !at.ipv6, logger(log)
	return hashicorp.QueryContext(ctx, q)
}

// logger returns the library's logger, of level debug: the library logs a lot about packets
// of other programs.
func logger(to *slog.Logger) *log.Logger {
	return slog.NewLogLogger(to.Handler(), slog.LevelDebug)
}
