package harness

import (
	"os"
	"strings"
	"testing"
)

// Reports name the revision; README.md of that revision says how a system is set up.
func TestEverySystemsSettingsAreKnown(t *testing.T) {
	systems, err := Systems(t.Context())
	if err != nil || len(systems) < 10 {
		t.Fatalf("systems %q, %v", systems, err)
	}
	readme, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range systems {
		if !strings.Contains(string(readme), "\n| `"+name+"` | ") {
			t.Errorf("bench/README.md has no row about %s in its table of settings", name)
		}
	}
}

func TestRevisionIsACommit(t *testing.T) {
	r, err := revision(t.Context())
	if err != nil || r == "" || r != "unknown" && len(r) < 12 {
		t.Errorf("got %q, %v", r, err)
	}
}
