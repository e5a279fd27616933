package file

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tandem-rpc/tandem/registry"
	"github.com/tandem-rpc/tandem/registry/registrytest"
)

func TestDocuments(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, documentsDir, "%2fpolicies%2fshop")
	if err := os.Mkdir(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	err := registrytest.CheckDocuments(t.Context(), registrytest.DocumentHarness{
		Documents: New(dir, WithPoll(20*time.Millisecond)), Key: "/policies/shop", Name: "file registry",
		Put: func(text []byte) error {
			if len(text) == 0 {
				return os.Remove(path)
			}
			return errors.Join(os.WriteFile(path+".new", text, 0o600), os.Rename(path+".new", path))
		},
	})
	if err != nil {
		t.Error(err)
	}
	if left, err := filepath.Glob(path + ".applied/*"); err != nil || len(left) != 0 {
		t.Errorf("left are %v, %v", left, err)
	}
}

func TestDocumentsNeedAName(t *testing.T) {
	for _, r := range []*Registry{New(t.TempDir()), New("")} {
		key := ""
		if r.dir == "" {
			key = "/policies/shop"
		}
		_, err := r.Reports(t.Context(), key)
		put := r.PutReport(t.Context(), key, "n", nil, time.Minute)
		watch := r.WatchDocument(t.Context(), key, func([]byte, error) {})
		swap := r.SwapDocument(t.Context(), key, nil, []byte("x"))
		_, read := r.ReadDocument(t.Context(), key)
		if err == nil || put == nil || watch == nil || swap == nil || read == nil {
			t.Errorf("%q in %q: %v, %v, %v, %v, %v", key, r.dir, err, put, watch, swap, read)
		}
	}
}

func TestReportsAreBounded(t *testing.T) {
	dir := t.TempDir()
	ends := time.Now().Add(time.Hour)
	for i := range registry.MaxReports {
		path := filepath.Join(dir, "r"+strings.Repeat("x", i%7)+string(rune('0'+i%10))+"-"+time.Duration(i).String())
		if err := errors.Join(os.WriteFile(path, nil, 0o600), os.Chtimes(path, ends, ends)); err != nil {
			t.Fatal(err)
		}
	}
	if err := putReport(dir, "one-more", nil, ends); !errors.Is(err, registry.ErrReports) {
		t.Errorf("one more: %v", err)
	}
}
