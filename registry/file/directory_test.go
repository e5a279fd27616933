package file_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/registry"
	"github.com/tandem-rpc/tandem/registry/file"
)

// Lists finds all directories with instances below one, and no other.
func TestLists(t *testing.T) {
	base := t.TempDir()
	for _, dir := range []string{"shop/cart", "shop/stock", "bank"} {
		entry, err := file.New(filepath.Join(base, dir)).Register(t.Context(), tandem.Instance{ID: "a", Endpoints: []tandem.Endpoint{{Transport: "tcp", Address: "h:1"}}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = entry.Close() })
	}
	if err := os.MkdirAll(filepath.Join(base, "shop", "empty"), 0o700); err != nil {
		t.Fatal(err)
	}
	d := file.Resolver().(registry.Directory)
	for below, want := range map[string]string{"": "bank shop/cart shop/stock", "/shop": "shop/cart shop/stock", "/bank": "bank", "/shop/empty": ""} {
		target, err := registry.ParseTarget("file://" + filepath.ToSlash(base) + below)
		if err != nil {
			t.Fatal(err)
		}
		lists, err := d.Lists(t.Context(), target)
		var got []string
		for _, l := range lists {
			got = append(got, strings.TrimPrefix(l.String(), "file://"+filepath.ToSlash(base)+"/"))
		}
		if err != nil || strings.Join(got, " ") != want {
			t.Errorf("below %q there are %q, %v; want %s", below, got, err, want)
		}
	}
	target, err := registry.ParseTarget("file:///no/such/directory")
	if err != nil {
		t.Fatal(err)
	}
	if lists, err := d.Lists(t.Context(), target); err == nil {
		t.Errorf("a directory that does not exist has the lists %v", lists)
	}
}
