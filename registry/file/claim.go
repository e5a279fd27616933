package file

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/tandem-rpc/tandem/registry"
)

// A claim is the right to an instance's files. Its lock file can be in three
// states, which seize, own and held of each platform tell apart:
//
//	free     nobody has it; the instance is not listed
//	seized   somebody is about to own it or to remove it; not listed
//	owned    the owner lives; listed
//
// Being seized keeps others out while stale files are removed, and is not yet
// visible to those who watch: so nobody sees a new owner's lock together with
// a dead one's data.
type claim struct {
	name string   // path of the files, without extension
	lock *os.File // locked for as long as it is open
}

// errTaken says that somebody else has the lock. It may pass: those who only
// remove leavings have it for an instant.
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

// own turns a seized lock into an owned one, having removed what was there.
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

// How often, and for how long, acquireSoon asks.
const (
	acquireTries = 20
	acquirePause = 15 * time.Millisecond
)

// acquireSoon is acquire with some patience.
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
// lock on a file that was removed keeps nobody out.
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
	_ = os.Remove(c.name + jsonExt) // it is not there, or stays unlisted
	_ = os.Remove(c.name + tempExt) // as above
}

// remove removes the files and gives up the lock.
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
