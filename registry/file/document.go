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
)

var (
	_ registry.Documents      = (*Registry)(nil)
	_ registry.DocumentWriter = (*Registry)(nil)
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
	return registry.DocumentFollower{Name: "file registry", Session: func(ctx context.Context, deliver func([]byte)) error {
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

// WriteDocument atomically replaces the file that WatchDocument reads, or removes it. See
// [registry.DocumentWriter].
func (r *Registry) WriteDocument(ctx context.Context, key string, text []byte) error {
	path, err := r.document(key)
	if err == nil {
		err = registry.CheckDocument(text)
	}
	if err == nil {
		err = writeDocument(path, text)
	}
	if err != nil {
		return fmt.Errorf("file registry: writing a document: %w", err)
	}
	return ctx.Err()
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
	if err := registry.CheckReport(name, report, life); err != nil {
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
