//go:build unix

package connections

import (
	"os"
	"path/filepath"
	"testing"
)

func TestASettingIsRaisedAndPutBack(t *testing.T) {
	path := filepath.Join(t.TempDir(), "setting")
	if err := os.WriteFile(path, []byte("100\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	content := func() string { b, _ := os.ReadFile(path); return string(b) }
	if note, _ := raiseSetting(path, 100); note != "" || content() != "100\n" {
		t.Errorf("a setting that suffices: %q, now %q", note, content())
	}
	note, restore := raiseSetting(path, 200)
	if note == "" || content() != "200" {
		t.Errorf("raising: %q, now %q", note, content())
	}
	if err := restore(); err != nil || content() != "100\n" {
		t.Errorf("putting back: %v, now %q", err, content())
	}
	if note, _ := raiseSetting(filepath.Join(path, "nowhere"), 200); note != "" {
		t.Errorf("a setting that does not exist: %q", note)
	}
}

func TestLimitsThatSufficeStay(t *testing.T) {
	allowed, notes, restore := raise(10)
	if allowed != 10 || len(notes) > 0 || restore() != nil {
		t.Errorf("%d files allowed, notes %v", allowed, notes)
	}
}
