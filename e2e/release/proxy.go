package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/mod/module"
	"golang.org/x/mod/sumdb/dirhash"
	"golang.org/x/mod/zip"
)

// publish makes the release commit of version in the clone at tree, with a tag for each
// of the modules, and puts the modules into the file-system module proxy at proxy.
//
// A module's go.sum has the sums of the modules that it requires, so modules are written and
// packed one after the other, each from git's index.
func publish(ctx context.Context, tree, version, proxy string, modules []*goModule) error {
	p := packer{tree, version, proxy, time.Time{}, map[module.Version]string{}}
	date, err := shell{dir: tree}.run(ctx, "git", "show", "--no-patch", "--format=%cI", "HEAD")
	if err != nil {
		return err
	}
	if p.at, err = time.Parse(time.RFC3339, date); err != nil {
		return err
	}
	git := shell{tree, identity(date)}
	for _, m := range modules {
		if err := m.setVersion(version); err != nil {
			return err
		}
		if err := m.write(tree, version, p.sums); err != nil {
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
		if err := p.pack(m, index); err != nil {
			return err
		}
	}
	if _, err := git.run(ctx, "git", "commit", "--quiet", "--allow-empty", "--no-verify", "--no-gpg-sign", "--message", "Release "+version); err != nil {
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

// packer puts modules into a file-system module proxy.
type packer struct {
	tree    string // a clone
	version string
	proxy   string
	at      time.Time // of the version
	sums    map[module.Version]string
}

// pack puts the module, as in the git tree revision, into the proxy and adds its sums.
func (p *packer) pack(m *goModule, revision string) error {
	name := module.Version{Path: m.path(), Version: p.version}
	dir := filepath.Join(p.proxy, filepath.FromSlash(m.path()), "@v")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	var packed bytes.Buffer
	if err := zip.CreateFromVCS(&packed, name, p.tree, revision, strings.TrimPrefix(m.dir, ".")); err != nil {
		return err
	}
	mod, err := m.file.Format()
	if err != nil {
		return err
	}
	info, err := json.Marshal(map[string]any{"Version": p.version, "Time": p.at.UTC()})
	if err != nil {
		return err
	}
	for ext, text := range map[string][]byte{".zip": packed.Bytes(), ".mod": mod, ".info": info} {
		if err := os.WriteFile(filepath.Join(dir, p.version+ext), text, 0o644); err != nil {
			return err
		}
	}
	if err := appendLine(filepath.Join(dir, "list"), p.version); err != nil {
		return err
	}
	return p.addSums(filepath.Join(dir, p.version+".zip"), name, mod)
}

// addSums adds the two sums that a go.sum has for a module.
func (p *packer) addSums(packed string, name module.Version, mod []byte) (err error) {
	if p.sums[name], err = dirhash.HashZip(packed, dirhash.Hash1); err != nil {
		return err
	}
	open := func(string) (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(mod)), nil }
	name.Version += "/go.mod"
	p.sums[name], err = dirhash.Hash1([]string{"go.mod"}, open)
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
