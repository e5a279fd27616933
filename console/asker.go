package console

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/admin"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/codec"
)

const (
	maxOpen    = 512 // connections to instances
	maxAtOnce  = 64  // requests to instances
	idleClose  = time.Minute
	askTimeout = 2 * time.Second
	retryAfter = 10 * time.Second // how long an instance is left alone that has not answered
)

// asker asks instances. Their connections are kept while they are used.
type asker struct {
	opts []client.Option
	free chan struct{} // has a token for each request that may be made

	mu   sync.Mutex
	open map[string]*line // by target
}

// line is the client of one instance.
type line struct {
	c    *client.Client
	used time.Time
	uses int // requests that use it now
}

func newAsker(opts []client.Option) *asker {
	a := &asker{opts: append(slices.Clip(opts), client.WithCodec(codec.JSON()), client.WithFailMode(client.Failfast)), free: make(chan struct{}, maxAtOnce), open: map[string]*line{}}
	for range maxAtOnce {
		a.free <- struct{}{}
	}
	return a
}

// errNoEndpoint is the error for instances that this console can't reach.
var errNoEndpoint = errors.New("the instance has no endpoint of tandem's own protocol")

// targetOf returns the target of an instance's first endpoint of tandem's own protocol.
func targetOf(in *tandem.Instance) (string, error) {
	for _, e := range in.Endpoints {
		if e.Protocol == "" || e.Protocol == "tandem" {
			return cmp.Or(e.Transport, "tcp") + "://" + e.Address, nil
		}
	}
	return "", errNoEndpoint
}

// ask calls a method of an instance's admin API.
func ask[Resp any](ctx context.Context, a *asker, in *tandem.Instance, method string, req any) (*Resp, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	select {
	case <-a.free:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	defer func() { a.free <- struct{}{} }()
	l, err := a.take(in)
	if err != nil {
		return nil, err
	}
	defer a.give(l)
	return client.Invoke[Resp](ctx, l.c, admin.Service+"."+method, req)
}

func (a *asker) take(in *tandem.Instance) (*line, error) {
	target, err := targetOf(in)
	if err != nil {
		return nil, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	l := a.open[target]
	if l == nil {
		if len(a.open) >= maxOpen && !a.closeOneLocked() {
			return nil, tandem.Errorf(tandem.ResourceExhausted, "the console has %d connections to instances, which is the limit", maxOpen)
		}
		c, err := client.Dial(target, a.opts...)
		if err != nil {
			return nil, err
		}
		l = &line{c: c}
		a.open[target] = l
	}
	l.uses++
	l.used = time.Now()
	return l, nil
}

func (a *asker) give(l *line) {
	a.mu.Lock()
	defer a.mu.Unlock()
	l.uses--
	l.used = time.Now()
}

// closeOneLocked closes the connection that was not used for the longest time.
func (a *asker) closeOneLocked() bool {
	oldest := ""
	for target, l := range a.open {
		if l.uses == 0 && (oldest == "" || l.used.Before(a.open[oldest].used)) {
			oldest = target
		}
	}
	if oldest == "" {
		return false
	}
	go a.open[oldest].c.Close() //nolint:errcheck // it is idle
	delete(a.open, oldest)
	return true
}

// closeIdle closes connections that nobody uses.
func (a *asker) closeIdle() {
	var idle []*client.Client
	a.mu.Lock()
	for target, l := range a.open {
		if l.uses == 0 && time.Since(l.used) > idleClose {
			idle = append(idle, l.c)
			delete(a.open, target)
		}
	}
	a.mu.Unlock()
	for _, c := range idle {
		_ = c.Close() // it is idle
	}
}

func (a *asker) close() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	var errs []error
	for _, l := range a.open {
		errs = append(errs, l.c.Close())
	}
	clear(a.open)
	return errors.Join(errs...)
}

// answers reports whether an instance says that it has the admin API.
func answers(in *tandem.Instance) bool { return slices.Contains(in.Services, admin.Service) }

// short returns the first line of an error's text, for a table.
func short(err error) string {
	text, _, _ := strings.Cut(err.Error(), "\n")
	if len(text) > 200 {
		text = text[:200] + "…"
	}
	return text
}
