package file

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/registry"
)

// maxEntries is the largest number of directory entries that are read: three files
// for each of MaxInstances instances, and some other files.
const maxEntries = 4 * registry.MaxInstances

// looker reads the list of a directory repeatedly, and parses only files that have
// changed. It is used by one goroutine.
type looker struct {
	dir   string
	log   *slog.Logger
	limit int                // directory entries that are read at most
	full  bool               // the limit was reached
	known map[string]reading // readings by file name without extension
}

// reading is the result of reading and parsing a .json.
type reading struct {
	info     os.FileInfo
	at       time.Time // when the file was read
	instance tandem.Instance
	err      error
}

func newLooker(dir string, log *slog.Logger) *looker {
	return &looker{dir: dir, log: log, limit: maxEntries}
}

// look returns the instances whose owners are alive. It skips bad files. It fails
// when the directory can't be read, or for a transient error of a file, because the
// list would be incomplete.
func (l *looker) look() ([]tandem.Instance, error) {
	names, full, err := listDir(l.dir, l.limit)
	if err != nil {
		return nil, err
	}
	if full && !l.full {
		l.log.Warn("file registry: too many files; some instances may be missing", "dir", l.dir, "limit", l.limit)
	}
	l.full = full
	var list []tandem.Instance
	known := make(map[string]reading, len(names))
	for _, name := range names {
		r, err := l.read(name)
		switch {
		case errors.Is(err, fs.ErrNotExist): // the file was removed, or its owner is dead
			continue
		case err != nil:
			return nil, err
		}
		known[name] = r
		if r.err == nil && len(list) < registry.MaxInstances {
			list = append(list, r.instance)
		}
	}
	l.known = known
	return list, nil
}

// read returns the reading of a name's .json, or fs.ErrNotExist when it has no
// owner.
func (l *looker) read(name string) (reading, error) {
	path := filepath.Join(l.dir, name)
	alive, err := held(path + lockExt)
	switch {
	case errors.Is(err, fs.ErrPermission):
		return l.refuse(name, reading{err: err}), nil
	case err != nil:
		return reading{}, err
	case !alive:
		return reading{}, fs.ErrNotExist
	}
	info, err := os.Lstat(path + jsonExt)
	if err != nil {
		return reading{}, err
	}
	if old, ok := l.known[name]; ok && old.covers(info) {
		return old, nil
	}
	r := reading{info: info, at: time.Now()}
	r.instance, r.err = load(path)
	if r.err == nil {
		return r, nil
	}
	if transient(r.err) {
		return reading{}, r.err
	}
	return l.refuse(name, r), nil
}

// settled is the age of a file from which a changed modification time is certain to
// tell that it was replaced. A younger file may be replaced by one of the same size
// within one tick of the file system's clock.
const settled = time.Second

// covers reports whether the file is still the one that was read.
func (r reading) covers(info os.FileInfo) bool {
	return r.info != nil && os.SameFile(r.info, info) &&
		r.info.Size() == info.Size() && r.info.ModTime().Equal(info.ModTime()) &&
		r.at.Sub(info.ModTime()) >= settled
}

// refuse logs that a file is skipped, unless it was skipped last time for the same
// reason. It returns r.
func (l *looker) refuse(name string, r reading) reading {
	old := l.known[name].err
	if old == nil || old.Error() != r.err.Error() {
		l.log.Warn("file registry: file skipped", "file", filepath.Join(l.dir, name+jsonExt), "error", r.err)
	}
	return r
}

// transient reports whether the cause of err is this process or machine, as with too
// many open files, and not the file.
func transient(err error) bool {
	var path *fs.PathError
	return errors.As(err, &path) && !errors.Is(err, fs.ErrPermission)
}

// listDir returns, in order, the names without extension that have both a .json and
// a .lock. It reads at most limit directory entries, and reports as full that there
// may be more.
func listDir(dir string, limit int) (names []string, full bool, err error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, false, err
	}
	defer f.Close() //nolint:errcheck // it was only read
	entries, err := f.ReadDir(limit)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, false, fmt.Errorf("reading %s: %w", dir, err)
	}
	locks := make(map[string]bool)
	for _, e := range entries {
		if name, ok := strings.CutSuffix(e.Name(), lockExt); ok && e.Type().IsRegular() {
			locks[name] = true
		}
	}
	for _, e := range entries {
		if name, ok := strings.CutSuffix(e.Name(), jsonExt); ok && e.Type().IsRegular() && locks[name] {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names, len(entries) == limit, nil
}
