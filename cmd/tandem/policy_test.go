package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tandem-rpc/tandem/cmd/tandem/internal/listing"
	"github.com/tandem-rpc/tandem/policy"
	"github.com/tandem-rpc/tandem/registry/history"
)

func TestPolicyCheck(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	good := `{"version": "7", "balancer": {"pick": "maglev"}, "default": {"timeout": "2s"}, "methods": {"A.*": {"retries": 1}, "A.B": {"failMode": "failtry"}}}`
	says := []string{
		"is a policy, version 7\n", `balancer: {"pick":"maglev"}` + "\n", `default: {"timeout":"2s"}` + "\n",
		`A.*: {"timeout":"2s","retries":1}` + "\n", `A.B: {"timeout":"2s","failMode":"failtry","retries":1}` + "\n",
	}
	for _, c := range []struct {
		name, in, path string
		code           int
		says           []string
	}{
		{"JSON", "", write("good.json", good), exitOK, says},
		{"standard input", good, "-", exitOK, says},
		{"YAML", "", write("good.yaml", good), exitOK, says},
		{"a bad one", "", write("bad.json", `{"default": {"timeout": "soon"}}`), exitFailed, []string{"bad.json: policy: default.timeout"}},
		{"bad YAML", "", write("bad.yml", "default: ["), exitFailed, []string{"bad.yml: policy: yaml: line 1"}},
		{"too much", "", write("long.json", strings.Repeat(" ", 2*policy.MaxSize)), exitFailed, []string{"limit"}},
		{"none", "", filepath.Join(dir, "none.json"), exitFailed, []string{"none.json"}},
	} {
		code, out, errs := cliWith(t, c.in, "policy", "check", c.path)
		for _, text := range c.says {
			if code != c.code || !strings.Contains(out+errs, text) {
				t.Errorf("%s: exit %d, %q, %q; want %q", c.name, code, out, errs, text)
			}
		}
	}
}

// TestPolicyPut: put checks a policy and replaces the file atomically, as JSON.
func TestPolicyPut(t *testing.T) {
	dir := t.TempDir()
	path, to := filepath.Join(dir, "policy.yaml"), filepath.Join(dir, "live.json")
	for _, c := range []struct {
		text, where string
		code        int
		says, left  string
	}{
		{"version: seven\ndefault: {timeout: 2s}", to, exitOK, to + ": version seven is", `{"version":"seven","default":{"timeout":"2s"}}`},
		{"default: {timeout: soon}", to, exitFailed, "default.timeout", `{"version":"seven","default":{"timeout":"2s"}}`},
		{"version: eight", to, exitOK, "version eight is", `{"version":"eight"}`},
		{"version: nine", filepath.Join(dir, "none", "live.json"), exitFailed, "none", `{"version":"eight"}`},
		{"version: nine", "etcd://127.0.0.1:1/shop/policies/cart", exitFailed, "etcd registry", `{"version":"eight"}`},
		{"version: nine", "consul://127.0.0.1:1/shop/policies/cart", exitFailed, "consul registry", `{"version":"eight"}`},
		{"version: nine", "redis://127.0.0.1:1/shop/policies/cart", exitFailed, "redis registry", `{"version":"eight"}`},
		{"version: nine", "nacos://127.0.0.1:1/shop/cart", exitFailed, "nacos registry", `{"version":"eight"}`},
	} {
		if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		code, out, errs := cli(t, "policy", "put", path, c.where)
		if code != c.code || !strings.Contains(out+errs, c.says) {
			t.Errorf("%s to %s: exit %d, %q, %q; want %q", c.text, c.where, code, out, errs, c.says)
		}
		if left, err := os.ReadFile(to); err != nil || strings.Join(strings.Fields(string(left)), "") != c.left {
			t.Errorf("%s to %s: left is %q, %v", c.text, c.where, left, err)
		}
	}
	if files, err := filepath.Glob(filepath.Join(dir, "*")); err != nil || len(files) != 2 {
		t.Errorf("there are %q, %v", files, err)
	}
}

func TestPolicyApplied(t *testing.T) {
	path := filepath.Join(t.TempDir(), "policy.json")
	src := policy.File(path).(policy.Reporter)
	at := time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC)
	for _, a := range []policy.Applied{
		{Client: "one", Version: "7", InForce: "7", At: at},
		{Client: "two", Version: "8", At: at, Error: "first\nsecond"},
	} {
		if err := src.Report(t.Context(), a); err != nil {
			t.Fatal(err)
		}
	}
	for format, want := range map[string]string{
		"table": "CLIENT  IN FORCE  SINCE OR REFUSED      WHY REFUSED\n" +
			"one     7         2026-11-21T08:00:00Z  -\n" +
			"two     none      2026-11-21T08:00:00Z  8: first; second\n",
		"wide": "CLIENT  IN FORCE  DOCUMENT  SINCE OR REFUSED      WHY REFUSED\n" +
			"one     7         7         2026-11-21T08:00:00Z  -\n" +
			"two     none      8         2026-11-21T08:00:00Z  8: first; second\n",
		"json": `{
  "target": "PATH",
  "clients": [
    {
      "client": "one",
      "version": "7",
      "inForce": "7",
      "at": "2026-11-21T08:00:00Z"
    },
    {
      "client": "two",
      "version": "8",
      "at": "2026-11-21T08:00:00Z",
      "error": "first\nsecond"
    }
  ]
}
`,
		"yaml": `target: PATH
clients:
  - client: one
    version: "7"
    inForce: "7"
    at: "2026-11-21T08:00:00Z"
  - client: two
    version: "8"
    at: "2026-11-21T08:00:00Z"
    error: |-
      first
      second
`,
	} {
		code, out, errs := cli(t, "policy", "applied", path, "-o", format)
		if out = strings.ReplaceAll(out, path, "PATH"); code != exitOK || out != want {
			t.Errorf("%s: exit %d, %s%s\nwant %s", format, code, out, errs, want)
		}
	}
}

func TestPolicyHistory(t *testing.T) {
	at := time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC)
	list := policyHistory("etcd://h/p?password=x", []history.Version{
		{Change: policy.Change{Revision: 1, By: "ann", At: at}, Text: `{"version":"7"}`},
		{Change: policy.Change{Revision: 2, Why: "gone", At: at.Add(time.Hour)}},
		{Change: policy.Change{Revision: 3, At: at}, Omitted: "0123456789abcdef"},
	})
	var out strings.Builder
	if err := (&listing.Printer{Out: &out, Format: listing.Wide}).Print(list); err != nil {
		t.Fatal(err)
	}
	want := "REVISION  VERSION       AT                    BY   WHY   BYTES\n" +
		"3         0123456789ab  2026-11-21T08:00:00Z  -    -     0\n" +
		"2         deleted       2026-11-21T09:00:00Z  -    gone  0\n" +
		"1         7             2026-11-21T08:00:00Z  ann  -     15\n"
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
	out.Reset()
	if err := (&listing.Printer{Out: &out, Format: listing.JSON, Stream: true}).Print(list); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), `{"revision":1,"by":"ann","at":"2026-11-21T08:00:00Z","version":"7","policy":{"version":"7"}}`) ||
		!strings.Contains(out.String(), `{"revision":2,"why":"gone","at":"2026-11-21T09:00:00Z","version":""}`) ||
		!strings.HasPrefix(out.String(), `{"target":"etcd://h/p?password=***"`) {
		t.Errorf("got %s", out.String())
	}
}

func TestPolicyCommandLines(t *testing.T) {
	for line, want := range map[string]string{
		"policy":                     "usage: tandem policy COMMAND",
		"policy check":               "policy check wants FILE, got 0",
		"policy put x":               "policy put wants FILE TARGET, got 1",
		"policy praise x":            `no command "policy praise"`,
		"policy restore x://y z":     `revision "z"`,
		"policy applied file:///x":   "want a file",
		"policy applied mdns://lo/x": "want a file",
		"policy applied odd://x/y":   "want one of",
		"policy applied ://":         "target",
	} {
		if code, out, errs := cli(t, strings.Fields(line)...); code != exitUsage || !strings.Contains(errs, want) {
			t.Errorf("%s: exit %d, %q, %q; want %q", line, code, out, errs, want)
		}
	}
}
