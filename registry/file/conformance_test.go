//go:build unix

package file

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/tandem-rpc/tandem/registry"
	"github.com/tandem-rpc/tandem/registry/registrytest"
)

func TestConformance(t *testing.T) {
	registrytest.Run(t, func(t testing.TB) registrytest.Harness {
		base := t.TempDir()
		dir := filepath.Join(base, "link")
		mkdir(t, filepath.Join(base, "real"))
		point(t, base, "real")
		r := New(dir, WithPoll(20*time.Millisecond))
		return registrytest.Harness{
			Registrar: r,
			Resolver:  Resolver(WithPoll(20 * time.Millisecond)),
			Target:    registry.Target{Scheme: "file", Path: dir},
			Lose: func(id string) error {
				os.Remove(filepath.Join(dir, fileName(id)+jsonExt))
				return os.Remove(filepath.Join(dir, fileName(id)+lockExt))
			},
			Outage: func() (func() error, error) {
				put(t, base, "nothing", "")
				point(t, base, "nothing")
				return func() error { point(t, base, "real"); return nil }, nil
			},
		}
	})
}

// point atomically makes base/link a symbolic link to a name in base.
func point(t testing.TB, base, name string) {
	next := filepath.Join(base, "next")
	if err := os.Symlink(name, next); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(next, filepath.Join(base, "link")); err != nil {
		t.Fatal(err)
	}
}

func mkdir(t testing.TB, dir string) {
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
}
