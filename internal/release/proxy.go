package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/mod/module"
	"golang.org/x/mod/sumdb/dirhash"
	"golang.org/x/mod/zip"
)

// publish makes the release commit of version in the clone at tree, with a tag for each
// of the modules, and puts the modules into the file-system module proxy at proxy.
//
// A module's go.sum holds the sums of those that it requires, so modules are written and
// packed one after the other, each from what git has in its index by then.
func publish(ctx context.Context, tree, version, proxy string, modules []*goModule) error {
	date, err := shell{dir: tree}.run(ctx, "git", "show", "--no-patch", "--format=%cI", "HEAD")
	if err != nil {
		return err
	}
	git := shell{tree, identity(date)}
	sums := map[module.Version]string{}
	for _, m := range modules {
		if err := m.setVersion(version); err != nil {
			return err
		}
		if err := m.write(tree, version, sums); err != nil {
			return err
		}
		if _, err := git.run(ctx, "git", "add", "--all"); err != nil {
			return err
		}
		if !m.released() {
			continue
		}
		index, err := git.run(ctx, "git", "write-tree")
		if err != nil {
			return err
		}
		if err := m.pack(tree, index, version, proxy, date, sums); err != nil {
			return err
		}
	}
	if _, err := git.run(ctx, "git", "commit", "--quiet", "--no-verify", "--no-gpg-sign", "--message", "Release "+version); err != nil {
		return err
	}
	for _, m := range modules {
		if !m.released() {
			continue
		}
		if _, err := git.run(ctx, "git", "tag", "--no-sign", m.tag(version)); err != nil {
			return err
		}
	}
	return nil
}

// pack puts the module, as it is in the git tree named revision, into the proxy and adds
// its sums.
func (m *goModule) pack(tree, revision, version, proxy, date string, sums map[module.Version]string) error {
	name := module.Version{Path: m.path(), Version: version}
	dir := filepath.Join(proxy, filepath.FromSlash(m.path()), "@v")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	subdir := m.dir
	if subdir == "." {
		subdir = ""
	}
	var packed bytes.Buffer
	if err := zip.CreateFromVCS(&packed, name, tree, revision, subdir); err != nil {
		return err
	}
	mod, err := m.file.Format()
	if err != nil {
		return err
	}
	at, err := time.Parse(time.RFC3339, date)
	if err != nil {
		return err
	}
	info, err := json.Marshal(struct {
		Version string
		Time    time.Time
	}{version, at.UTC()})
	if err != nil {
		return err
	}
	for ext, text := range map[string][]byte{".zip": packed.Bytes(), ".mod": mod, ".info": info} {
		if err := os.WriteFile(filepath.Join(dir, version+ext), text, 0o644); err != nil {
			return err
		}
	}
	if err := appendLine(filepath.Join(dir, "list"), version); err != nil {
		return err
	}
	return addModuleSums(filepath.Join(dir, version), name, mod, sums)
}

// addModuleSums adds the two sums that a go.sum has of a module.
func addModuleSums(file string, name module.Version, mod []byte, sums map[module.Version]string) (err error) {
	if sums[name], err = dirhash.HashZip(file+".zip", dirhash.Hash1); err != nil {
		return err
	}
	open := func(string) (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(mod)), nil }
	name.Version += "/go.mod"
	sums[name], err = dirhash.Hash1([]string{"go.mod"}, open)
	return err
}

func appendLine(name, line string) error {
	file, err := os.OpenFile(name, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = file.WriteString(line + "\n")
	return errors.Join(err, file.Close())
}
