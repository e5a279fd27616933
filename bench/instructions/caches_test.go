package instructions

import (
	"os"
	"path/filepath"
	"testing"
)

func TestCachesOf(t *testing.T) {
	dir := t.TempDir()
	usual := cachesOf(dir)
	for index, files := range map[string]map[string]string{
		"index0": {"level": "1", "type": "Instruction", "size": "64K", "ways_of_associativity": "16", "coherency_line_size": "64"},
		"index1": {"level": "1", "type": "Data", "size": "48K", "ways_of_associativity": "12", "coherency_line_size": "64"},
		"index2": {"level": "2", "type": "Unified", "size": "2048K", "ways_of_associativity": "16", "coherency_line_size": "64"},
		"index3": {"level": "2", "type": "Unified", "size": "many", "ways_of_associativity": "16", "coherency_line_size": "64"},
	} {
		for name, text := range files {
			path := filepath.Join(dir, index, name)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(text+"\n"), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	if want, got := (Caches{First: "49152,12,64", Second: "2097152,16,64"}), cachesOf(dir); got != want || usual == want {
		t.Errorf("found %+v and without them %+v, want %+v", got, usual, want)
	}
}
