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

// window is how long answers to a question are waited for.
const window = 300 * time.Millisecond

// ask asks the network for a service, or one instance of it, and returns what has
// come in the window. The library hands out entries that it goes on changing, so
// they are looked at when it has ended.
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

// notify asks a question that only those who watch the service understand.
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

// logger returns what the library logs to: it has much to say about packets of
// strangers.
func logger(to *slog.Logger) *log.Logger {
	return slog.NewLogLogger(to.Handler(), slog.LevelDebug)
}
