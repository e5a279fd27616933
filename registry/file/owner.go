package file

import (
	"context"
	"errors"
	"os"
	"path/filepath"
)

// owner writes one instance's files and restores them. It is used by one
// goroutine at a time.
type owner struct {
	name    string // path of the files, without extension
	data    []byte // the encoded instance to list
	claim   *claim
	written os.FileInfo // the .json as we wrote it
}

// begin acquires the claim, which may take about 300 ms, and lists the instance.
func (o *owner) begin(ctx context.Context) error {
	c, err := acquireSoon(ctx, o.name)
	if err != nil {
		return err
	}
	return o.settle(c)
}

// settle lists the instance with an owned claim. On an error it removes the files.
func (o *owner) settle(c *claim) error {
	o.claim = c
	err := o.write(o.data)
	if err != nil {
		o.end()
	}
	return err
}

// write replaces the .json atomically, so that a watcher never reads half of it.
func (o *owner) write(data []byte) error {
	written, err := writeTemp(o.name+tempExt, data)
	if err != nil {
		return err
	}
	if err := os.Rename(o.name+tempExt, o.name+jsonExt); err != nil {
		return err
	}
	o.data, o.written = data, written
	return nil
}

// writeTemp writes a file that is to be renamed, and returns its attributes, which stay the
// same. Attributes that are read after the rename may be those of a file that another process
// has changed already, and heal would take it for ours.
func writeTemp(name string, data []byte) (os.FileInfo, error) {
	if err := os.WriteFile(name, data, 0o644); err != nil {
		return nil, err
	}
	f, err := os.Open(name) // Stat of a path reads the identity of a file late on Windows, by that path
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // it was only looked at
	return f.Stat()
}

// heal restores the files if they were removed or changed.
func (o *owner) heal() error {
	if o.claim == nil || !o.claim.current() {
		return o.reacquire()
	}
	there, err := os.Lstat(o.name + jsonExt)
	if err == nil && os.SameFile(there, o.written) && there.Size() == o.written.Size() && there.ModTime().Equal(o.written.ModTime()) {
		return nil
	}
	return o.write(o.data)
}

// reacquire acquires a new claim after the lock file was lost, and lists the instance
// with it. The old lock is kept until then: if its file comes back, for example with
// a directory that was renamed for a while, the instance is listed again at once.
func (o *owner) reacquire() error {
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

// update lists another version of the instance. When it fails, the version before
// stays listed.
func (o *owner) update(data []byte) error {
	if o.claim == nil || !o.claim.current() {
		return errors.New("the instance's files are lost and not yet restored; try again")
	}
	return o.write(data)
}

// end removes the files, and so the instance from the list.
func (o *owner) end() {
	if o.claim != nil {
		o.claim.remove()
		o.claim = nil
	}
}
