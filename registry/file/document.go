package file

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/tandem-rpc/tandem/registry"
	"github.com/tandem-rpc/tandem/registry/adapter"
)

var (
	_ registry.Documents      = (*Registry)(nil)
	_ registry.DocumentWriter = (*Registry)(nil)
	_ registry.DocumentFinder = (*Registry)(nil)
)

// documentsDir is the directory of documents, below the registry's directory.
const documentsDir = "documents"

// appliedExt, appended to the path of a document, is the directory of its reports.
const appliedExt = ".applied"

// document returns the file of a document.
func (r *Registry) document(key string) (string, error) {
	if r.dir == "" || key == "" || len(key) > 1024 {
		return "", fmt.Errorf("file registry: document %.100q: want a name, and a registry made by New with a directory", key)
	}
	return filepath.Join(r.dir, documentsDir, fileName(key)), nil
}

// WatchDocument delivers the text of a file and its changes. The file is in the
// directory documents below the registry's directory; its name is the escaped key. To
// replace it, rename a new file to its name, so that a watcher never reads half of a
// document. See [registry.Documents].
func (r *Registry) WatchDocument(ctx context.Context, key string, update func(text []byte, err error)) error {
	path, err := r.document(key)
	if err != nil {
		return err
	}
	events := listen(r.poll, r.log)
	defer events.close()
	return adapter.DocumentFollower{Name: "file registry", Session: func(ctx context.Context, deliver func([]byte)) error {
		for ctx.Err() == nil {
			events.follow(filepath.Dir(path)) // before reading, so that no change is missed before wait
			text, err := readDocument(path)
			if err != nil {
				return err
			}
			deliver(text)
			events.wait(ctx)
		}
		return ctx.Err()
	}}.Follow(ctx, update)
}

// readDocument reads a file, up to one byte more than the limit. It returns nil for a file
// that does not exist.
func readDocument(path string) ([]byte, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // it was only read
	var text bytes.Buffer
	if _, err := io.CopyN(&text, f, registry.MaxDocument+1); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	return text.Bytes(), nil
}

// overridesKey is the key that DocumentsOf returns: a directory is one list, and has its
// documents below it.
const overridesKey = "/tandem-overrides"

// DocumentsOf returns the documents of the directory that the target names, and the same
// key for every directory. See [registry.DocumentFinder].
func (r *Registry) DocumentsOf(target registry.Target) (d registry.Documents, key string, err error) {
	dir, err := r.dirOf(target)
	if err != nil {
		return nil, "", err
	}
	return New(dir, WithPoll(r.poll), WithLogger(r.log)), overridesKey, nil
}

// ReadDocument reads the file that WatchDocument reads. See [registry.DocumentWriter].
func (r *Registry) ReadDocument(ctx context.Context, key string) ([]byte, error) {
	path, err := r.document(key)
	if err != nil {
		return nil, err
	}
	text, err := currentDocument(path)
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return nil, fmt.Errorf("file registry: reading a document: %w", err)
	}
	return text, nil
}

// currentDocument returns the document in a file, nil for an empty file or none.
func currentDocument(path string) ([]byte, error) {
	text, err := readDocument(path)
	if err == nil {
		err = adapter.CheckDocument(text)
	}
	if err != nil || len(text) == 0 {
		return nil, err
	}
	return text, nil
}

// SwapDocument atomically replaces the file that WatchDocument reads, or removes it, while
// it holds a lock on the file .swap.lock beside it. The system releases the lock of a
// process that ends. Programs that write the file without this lock, such as mv, may come
// in between. SwapDocument fails on systems whose file locks are not known. See
// [registry.DocumentWriter].
func (r *Registry) SwapDocument(ctx context.Context, key string, old, text []byte) error {
	path, err := r.document(key)
	if err != nil {
		return err
	}
	if err = adapter.CheckDocument(text); err == nil {
		err = swapDocument(ctx, path, old, text)
	}
	if err != nil {
		return fmt.Errorf("file registry: writing a document: %w", err)
	}
	return nil
}

func swapDocument(ctx context.Context, path string, old, text []byte) error {
	release, err := lockDocuments(ctx, filepath.Dir(path))
	if err != nil {
		return err
	}
	defer release()
	now, err := currentDocument(path)
	switch {
	case err != nil:
		return err
	case !bytes.Equal(now, old):
		return registry.ErrChanged
	}
	return writeDocument(path, text)
}

// Waiting for the lock of the documents.
const (
	swapPause = 5 * time.Millisecond
	swapWait  = 10 * time.Second
)

// lockDocuments locks the documents of a directory against other writers, in this process
// and in others, and returns the function that releases the lock.
func lockDocuments(ctx context.Context, dir string) (release func(), err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, swapWait)
	defer cancel()
	name := filepath.Join(dir, ".swap") // no document has a file whose name begins with a dot
	for {
		c, err := take(name)
		if err == nil {
			return func() { _ = c.lock.Close() }, nil // only a lock was held
		}
		if !errors.Is(err, errTaken) {
			return nil, err
		}
		select {
		case <-time.After(swapPause):
		case <-ctx.Done():
			return nil, fmt.Errorf("other writers hold the lock on %s: %w", name+lockExt, ctx.Err())
		}
	}
}

func writeDocument(path string, text []byte) error {
	if len(text) == 0 {
		if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	temp, err := os.CreateTemp(filepath.Dir(path), "*"+tempExt) // a unique name, for concurrent writers
	if err != nil {
		return err
	}
	_, err = temp.Write(text)
	if err == nil {
		err = temp.Chmod(0o644)
	}
	if err = errors.Join(err, temp.Close()); err == nil {
		err = os.Rename(temp.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(temp.Name()))
	}
	return nil
}

// PutReport writes the report to a file whose modification time is the time at which its
// life ends. See [registry.Documents].
func (r *Registry) PutReport(ctx context.Context, key, name string, report []byte, life time.Duration) error {
	if err := adapter.CheckReport(name, report, life); err != nil {
		return fmt.Errorf("file registry: %w", err)
	}
	path, err := r.document(key)
	if err != nil {
		return err
	}
	if err := putReport(path+appliedExt, fileName(name), report, time.Now().Add(life)); err != nil {
		return fmt.Errorf("file registry: reporting: %w", err)
	}
	return ctx.Err()
}

func putReport(dir, name string, report []byte, ends time.Time) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	reports, err := liveReports(dir)
	if err != nil {
		return err
	}
	if len(reports) >= registry.MaxReports && !reports[name] {
		return registry.ErrReports
	}
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path+tempExt, report, 0o644); err != nil {
		return err
	}
	if err := os.Chtimes(path+tempExt, ends, ends); err != nil {
		return err
	}
	return os.Rename(path+tempExt, path)
}

// liveReports returns the reports whose life is not over, and removes the others.
func liveReports(dir string) (map[string]bool, error) {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	reports := make(map[string]bool)
	for _, e := range entries {
		info, err := e.Info()
		switch {
		case err != nil: // it is gone
		case time.Now().Before(info.ModTime()):
			if !strings.HasSuffix(e.Name(), tempExt) {
				reports[e.Name()] = true
			}
		case !strings.HasSuffix(e.Name(), tempExt) || time.Since(info.ModTime()) > time.Minute: // else it is being written
			if err := os.Remove(filepath.Join(dir, e.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return nil, err
			}
		}
	}
	return reports, nil
}

// Reports reads the reports whose life is not over. A report with a very long name is
// returned under the name of its file. See [registry.Documents].
func (r *Registry) Reports(ctx context.Context, key string) (map[string][]byte, error) {
	path, err := r.document(key)
	if err != nil {
		return nil, err
	}
	names, err := liveReports(path + appliedExt)
	if err != nil {
		return nil, fmt.Errorf("file registry: %w", err)
	}
	reports := make(map[string][]byte, len(names))
	for name := range names {
		text, err := os.ReadFile(filepath.Join(path+appliedExt, name))
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return nil, fmt.Errorf("file registry: %w", err)
		default:
			if plain, err := url.PathUnescape(name); err == nil {
				name = plain
			}
			reports[name] = text
		}
	}
	return reports, ctx.Err()
}
