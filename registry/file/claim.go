package file

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/tandem-rpc/tandem/registry"
)

// A claim is the right to write an instance's files. Its lock file is in one of
// three states, which seize, own and held of each platform tell apart:
//
//	free     not locked; the instance is not listed
//	seized   a process is about to own or remove the files; not listed
//	owned    the owner is alive; the instance is listed
//
// The seized state keeps other processes out while stale files are removed, and
// is not visible to watchers: so a watcher never sees the lock of a new owner
// together with the data of a dead one.
type claim struct {
	name string   // path of the files, without extension
	lock *os.File // locked for as long as it is open
}

// errTaken is returned when another process or registration has the lock. It may be
// temporary: a process that removes stale files holds the lock for an instant.
var errTaken = registry.ErrTaken

// take seizes the lock of an instance, or fails with errTaken.
func take(name string) (*claim, error) {
	lock, err := os.OpenFile(name+lockExt, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	c := &claim{name: name, lock: lock}
	ok, err := seize(lock)
	switch {
	case err != nil:
		err = fmt.Errorf("locking %s: %w", lock.Name(), err)
	case !ok || !c.current(): // not current: removed after it was opened
		err = errTaken
	default:
		return c, nil
	}
	lock.Close() //nolint:errcheck // only a lock was held
	return nil, err
}

// own removes stale files and turns a seized lock into an owned one.
func (c *claim) own() error {
	c.removeData()
	ok, err := own(c.lock)
	switch {
	case err != nil:
		return fmt.Errorf("locking %s: %w", c.lock.Name(), err)
	case !ok:
		return errTaken
	}
	return nil
}

// acquire takes and owns the lock of an instance, or fails with errTaken.
func acquire(name string) (*claim, error) {
	c, err := take(name)
	if err != nil {
		return nil, err
	}
	if err := c.own(); err != nil {
		c.lock.Close() //nolint:errcheck // only a lock was held
		return nil, err
	}
	return c, nil
}

// Attempts of acquireSoon, and the pause between two of them.
const (
	acquireTries = 20
	acquirePause = 15 * time.Millisecond
)

// acquireSoon is acquire, and retries for about 300 ms while the lock is taken.
func acquireSoon(ctx context.Context, name string) (*claim, error) {
	for try := 1; ; try++ {
		c, err := acquire(name)
		if !errors.Is(err, errTaken) || try == acquireTries {
			return c, err
		}
		select {
		case <-time.After(acquirePause):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// current reports whether the lock file is still the one in the directory. A
// lock on a file that was removed excludes no other process.
func (c *claim) current() bool {
	mine, err := c.lock.Stat()
	if err != nil {
		return false
	}
	there, err := os.Lstat(c.lock.Name())
	return err == nil && os.SameFile(mine, there)
}

// removeData removes everything but the lock.
func (c *claim) removeData() {
	_ = os.Remove(c.name + jsonExt) // on an error it does not exist, or is not listed without an owner
	_ = os.Remove(c.name + tempExt) // the same as for the .json
}

// remove removes the files and releases the lock.
func (c *claim) remove() {
	defer c.lock.Close() //nolint:errcheck // only a lock was held
	if !c.current() {
		return // the files there now are not ours
	}
	c.removeData()
	if os.Remove(c.lock.Name()) != nil {
		c.lock.Close() //nolint:errcheck // Windows doesn't remove an open file
		_ = os.Remove(c.lock.Name())
	}
}
