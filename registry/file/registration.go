package file

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/registry"
)

// closeTimeout bounds Close on a file system that hangs.
const closeTimeout = 5 * time.Second

// registration is a registry.Registration. Its goroutine is the only user of the
// owner; Update and Close send to it.
type registration struct {
	id      string
	log     *slog.Logger
	updates chan update
	stop    func()        // closes stopped, once
	stopped chan struct{} // Close was called
	done    chan struct{} // the goroutine has ended
}

// update asks the goroutine to list another version of the instance.
type update struct {
	data   []byte
	result chan<- error // has a buffer of one
}

var _ registry.Registration = (*registration)(nil)

// start runs the goroutine that keeps an instance listed until Close.
func start(id string, own *owner, poll time.Duration, log *slog.Logger) *registration {
	r := &registration{
		id:      id,
		log:     log,
		updates: make(chan update),
		stopped: make(chan struct{}),
		done:    make(chan struct{}),
	}
	r.stop = sync.OnceFunc(func() { close(r.stopped) })
	go r.run(own, poll)
	return r
}

func (r *registration) run(own *owner, poll time.Duration) {
	defer close(r.done)
	defer own.end()
	tick := time.NewTicker(poll)
	defer tick.Stop()
	var trouble error
	for {
		select {
		case <-tick.C:
			trouble = r.report(trouble, own.heal())
		case u := <-r.updates:
			u.result <- own.update(u.data)
		case <-r.stopped:
			return
		}
	}
}

// report logs when heal begins to fail and when it succeeds again. It returns now,
// which is before at the next call.
func (r *registration) report(before, now error) error {
	switch {
	case before == nil && now != nil:
		r.log.Warn("file registry: registration lost; trying to restore it", "instance", r.id, "error", now)
	case before != nil && now == nil:
		r.log.Info("file registry: registration restored", "instance", r.id)
	}
	return now
}

func (r *registration) Update(ctx context.Context, in tandem.Instance) error {
	if in.ID != r.id {
		return fmt.Errorf("file registry: instance %q can't be updated to another id, %q; register that", r.id, in.ID)
	}
	data, err := encode(in)
	if err == nil {
		err = r.send(ctx, data)
	}
	if err != nil {
		return fmt.Errorf("file registry: updating %q: %w", r.id, err)
	}
	return nil
}

var errClosed = errors.New("the registration is closed")

// send has the goroutine list data and waits for the result.
func (r *registration) send(ctx context.Context, data []byte) error {
	result := make(chan error, 1)
	select {
	case r.updates <- update{data, result}:
	case <-r.stopped:
		return errClosed
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case err := <-result:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (r *registration) Close() error {
	r.stop()
	timeout := time.NewTimer(closeTimeout)
	defer timeout.Stop()
	select {
	case <-r.done:
		return nil
	case <-timeout.C:
		return fmt.Errorf("file registry: closing %q: the file system does not answer; the instance goes off the list when it does, or when this process ends", r.id)
	}
}
