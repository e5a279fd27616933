package file

import (
	"context"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/tandem-rpc/tandem/registry"
)

var _ registry.Directory = (*Registry)(nil)

// Lists returns the directories, at the target's and below it, in which instances are listed or
// were; see [registry.Directory]. Directories that can't be read are left out.
func (r *Registry) Lists(ctx context.Context, target registry.Target) ([]registry.Target, error) {
	root, err := r.dirOf(target)
	if err != nil {
		return nil, err
	}
	var lists []registry.Target
	seen := map[string]bool{}
	err = filepath.WalkDir(root+string(filepath.Separator), func(name string, e fs.DirEntry, err error) error {
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil && filepath.Clean(name) == filepath.Clean(root):
			return err
		case err != nil:
			return nil //nolint:nilerr // that directory is left out
		case e.IsDir() && e.Name() == documentsDir:
			return fs.SkipDir
		case e.IsDir() || !strings.HasSuffix(name, lockExt):
			return nil
		}
		dir := filepath.ToSlash(filepath.Dir(name))
		if seen[dir] {
			return nil
		}
		if len(lists) == registry.MaxLists {
			return fmt.Errorf("there are more than %d lists below %s", registry.MaxLists, root)
		}
		seen[dir] = true
		t := target
		t.Authority, t.Path = "", dir
		if !strings.HasPrefix(dir, "/") { // a relative path, or one with a volume
			t.Authority, t.Path, _ = strings.Cut(dir, "/")
			if t.Path != "" {
				t.Path = "/" + t.Path
			}
		}
		lists = append(lists, t)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("file registry: %w", err)
	}
	return lists, nil
}
