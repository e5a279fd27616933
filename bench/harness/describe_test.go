package harness

import (
	"slices"
	"strings"
	"testing"

	"github.com/tandem-rpc/tandem/bench/java"
)

// Every system has a row in README.md's table of settings, since reports show
// it.
func TestEverySystemsSettingsAreKnown(t *testing.T) {
	systems, err := Systems(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	all, err := describe(t.Context(), slices.Concat(systems, java.Systems(), []string{"tandem+tls"}))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range all {
		if p.Settings == "" {
			t.Errorf("bench/README.md has no row about %s in its table of settings", p.Name)
		}
		if p.Name == "rpcx" && (len(p.Modules) != 1 || !strings.HasPrefix(p.Modules[0], "github.com/smallnest/rpcx v")) {
			t.Errorf("rpcx is built from %q, want its module with a version", p.Modules)
		}
		if p.Name == "dubbo-triple" && !slices.ContainsFunc(p.Modules, isDubbo) {
			t.Errorf("dubbo-triple is built from %q, want Dubbo's jar with a version", p.Modules)
		}
		if p.Name == "netrpc" && len(p.Modules) != 0 {
			t.Errorf("netrpc is built from %q, want nothing foreign", p.Modules)
		}
	}
}

func isDubbo(jar string) bool { return strings.HasPrefix(jar, "org.apache.dubbo:dubbo 3.") }

func TestSettingsTable(t *testing.T) {
	readme := "# x\n| `a` | no |\n\n## Settings\n\n| system | settings |\n|---|---|\n| `a` | one `two` |\n| `b`, `c` | three |\n\n## More\n\n| `d` | no |\n"
	table := settingsTable(readme)
	if len(table) != 3 || table["a"] != "one `two`" || table["b"] != "three" || table["c"] != "three" {
		t.Errorf("got %q", table)
	}
}

func TestRevisionIsACommit(t *testing.T) {
	r, err := Revision(t.Context())
	if err != nil || r == "" || r != "unknown" && len(r) < 12 {
		t.Errorf("got %q, %v", r, err)
	}
}
