package file

import (
	"context"
	"errors"
	"os"
	"path/filepath"
)

// owner keeps one instance's files as they should be. It is used by one
// goroutine at a time.
type owner struct {
	name    string // path of the files, without extension
	data    []byte // what is to be listed
	claim   *claim
	written os.FileInfo // the .json as we wrote it
}

// begin takes the files, which may take a moment, and lists the instance.
func (o *owner) begin(ctx context.Context) error {
	c, err := acquireSoon(ctx, o.name)
	if err != nil {
		return err
	}
	return o.settle(c)
}

// settle lists the instance with a claim that is owned.
func (o *owner) settle(c *claim) error {
	o.claim = c
	err := o.write(o.data)
	if err != nil {
		o.end()
	}
	return err
}

// write replaces the .json in one step, so that nobody reads half of it.
func (o *owner) write(data []byte) error {
	if err := os.WriteFile(o.name+tempExt, data, 0o644); err != nil {
		return err
	}
	if err := os.Rename(o.name+tempExt, o.name+jsonExt); err != nil {
		return err
	}
	written, err := os.Lstat(o.name + jsonExt)
	if err != nil {
		return err
	}
	o.data, o.written = data, written
	return nil
}

// heal puts right whatever somebody did to the files.
func (o *owner) heal() error {
	if o.claim == nil || !o.claim.current() {
		return o.again()
	}
	there, err := os.Lstat(o.name + jsonExt)
	if err == nil && os.SameFile(there, o.written) && there.Size() == o.written.Size() && there.ModTime().Equal(o.written.ModTime()) {
		return nil
	}
	return o.write(o.data)
}

// again takes the files anew after the lock file was lost. The old lock is kept
// until then: should its file come back, with a directory that was merely out
// of sight, the instance has been listed all the time.
func (o *owner) again() error {
	if err := os.MkdirAll(filepath.Dir(o.name), 0o755); err != nil {
		return err
	}
	c, err := acquire(o.name)
	if err != nil {
		return err
	}
	if o.claim != nil {
		o.claim.lock.Close() //nolint:errcheck // only a lock was held
	}
	return o.settle(c)
}

// update lists something else. When it fails, what was listed stays.
func (o *owner) update(data []byte) error {
	if o.claim == nil || !o.claim.current() {
		return errors.New("the instance's files are lost and not yet restored; try again")
	}
	return o.write(data)
}

// end takes the instance off the list.
func (o *owner) end() {
	if o.claim != nil {
		o.claim.remove()
		o.claim = nil
	}
}
