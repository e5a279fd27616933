// Package file (stable) is the registry that needs no server: a directory shared by the
// processes of one machine.
//
//	r := file.New("/run/arith")
//	entry, err := r.Register(ctx, instance)   // a server
//	err = r.Watch(ctx, target, update)        // a client of file:///run/arith
//
// # On disk
//
// Each instance is a file id.json, its ID escaped, beside id.lock. The owner
// holds a lock on id.lock as long as it is alive; an instance is listed as long as
// that lock is held. The kernel releases the lock when the process ends, however it
// ends, so a killed server is off the list after at most 250 ms, when the directory
// is read again. There is no lease to renew.
//
// A listed instance is not always healthy. A process that is stopped, or hangs,
// keeps its lock; only calls and pings notice that.
//
// The files of a dead owner are removed by the next process that registers. A
// registration whose files were removed writes them again.
//
// # Limits
//
// The directory must be on a local file system, because locks of network file
// systems are not reliable. Every user who may write to the directory may list
// any instance. An instance takes up to 64 KiB, a list has up to
// [registry.MaxInstances]; a file that is too large, or is not an instance, is
// skipped with a line in the log.
package file

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/registry"
	"github.com/tandem-rpc/tandem/registry/adapter"
)

// defaultPoll is the default time between two reads of the directory.
const defaultPoll = 250 * time.Millisecond

// Registry is a directory of instances: a Registrar and a Resolver. It is safe
// for concurrent use.
type Registry struct {
	dir  string
	poll time.Duration
	log  *slog.Logger

	mu    sync.Mutex
	swept time.Time // when files of dead owners were last removed
}

var (
	_ registry.Registrar = (*Registry)(nil)
	_ registry.Resolver  = (*Registry)(nil)
	_ registry.Checker   = (*Registry)(nil)
)

// Option changes a [Registry].
type Option func(*Registry)

// WithPoll sets the time between two reads of the directory, 250 ms unless given.
// File system events report most changes sooner. A registration checks its own
// files at the same interval.
func WithPoll(d time.Duration) Option {
	return func(r *Registry) {
		if d > 0 {
			r.poll = d
		}
	}
}

// WithLogger sets the logger for skipped files, and for registrations that are lost
// and restored; nothing is logged unless given.
func WithLogger(log *slog.Logger) Option {
	return func(r *Registry) {
		if log != nil {
			r.log = log
		}
	}
}

// New returns the registry in a directory, which need not exist: the first
// registration creates it, and a watch waits for it.
func New(dir string, opts ...Option) *Registry {
	r := &Registry{dir: dir, poll: defaultPoll, log: slog.New(slog.DiscardHandler)}
	for _, opt := range opts {
		opt(r)
	}
	return r
}

// Resolver returns a resolver for file:// targets, which name the directory:
// file:///run/arith, or file://relative/path.
func Resolver(opts ...Option) registry.Resolver { return New("", opts...) }

// Watch delivers the instances of the directory that the target names, or of the
// registry's own directory when the target names none. While the directory does not
// exist, it delivers an error that is [io/fs.ErrNotExist].
func (r *Registry) Watch(ctx context.Context, target registry.Target, update func(registry.Snapshot)) error {
	dir, err := r.dirOf(target)
	if err != nil {
		return err
	}
	events := listen(r.poll, r.log)
	defer events.close()
	feed := adapter.NewFeed(update)
	looker := newLooker(dir, r.log)
	for ctx.Err() == nil {
		events.follow(dir) // before look, so that no change is missed before wait
		if list, err := looker.look(); err != nil {
			feed.Fail(fmt.Errorf("file registry: %w", err))
		} else {
			feed.List(list)
		}
		events.wait(ctx)
	}
	return ctx.Err()
}

// Check fails for a target that names no directory, and for any option: a file target
// has none.
func (r *Registry) Check(target registry.Target) error {
	_, err := r.dirOf(target)
	return err
}

// dirOf returns the directory that a target names.
func (r *Registry) dirOf(target registry.Target) (string, error) {
	if _, err := target.Options(); err != nil {
		return "", err
	}
	dir := target.Address()
	if dir == "" {
		dir = r.dir
	}
	if dir == "" {
		return "", errors.New("file registry: the target names no directory; want file:///dir")
	}
	// On Windows file:///C:/dir has the path /C:/dir.
	if len(dir) > 1 && filepath.VolumeName(dir[1:]) != "" {
		dir = dir[1:]
	}
	return filepath.FromSlash(dir), nil
}

// Register lists the instance. It fails when another live process, or this one,
// has registered the same ID.
func (r *Registry) Register(ctx context.Context, in tandem.Instance) (registry.Registration, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	data, err := encode(in)
	if err != nil {
		return nil, fmt.Errorf("file registry: %w", err)
	}
	if r.dir == "" {
		return nil, errors.New("file registry: there is no directory to register in; use New with one")
	}
	if err := os.MkdirAll(r.dir, 0o755); err != nil {
		return nil, fmt.Errorf("file registry: making the directory: %w", err)
	}
	r.sweep(ctx, time.Now())
	own := &owner{name: filepath.Join(r.dir, fileName(in.ID)), data: data}
	if err := own.begin(ctx); err != nil {
		return nil, fmt.Errorf("file registry: registering %q: %w", in.ID, err)
	}
	return start(in.ID, own, r.poll, r.log), nil
}

// sweepEvery is the least time between two sweeps of one Registry.
const sweepEvery = 10 * time.Second

// sweep removes the files of dead owners. Files that can't be removed do no harm,
// because they are not listed.
func (r *Registry) sweep(ctx context.Context, now time.Time) {
	r.mu.Lock()
	due := r.swept.IsZero() || now.Sub(r.swept) >= sweepEvery
	if due {
		r.swept = now
	}
	r.mu.Unlock()
	if !due {
		return
	}
	names, _, err := listDir(r.dir, maxEntries)
	if err != nil {
		return
	}
	for _, name := range names {
		if ctx.Err() != nil {
			return
		}
		removeDead(filepath.Join(r.dir, name))
	}
}

// removeDead removes the files of an instance whose owner is dead. It leaves files
// that are not an instance alone: the directory may have other files, too.
func removeDead(name string) {
	if alive, err := held(name + lockExt); err != nil || alive {
		return
	}
	if _, err := load(name); err != nil {
		return
	}
	c, err := take(name)
	if err != nil {
		return // another process has taken the lock
	}
	c.remove()
}
