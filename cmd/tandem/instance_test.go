package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/registry/file"
)

// listed registers two instances in a directory and returns the target.
func listed(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	r := file.New(dir)
	for _, id := range []string{"cart-1", "cart-2"} {
		in := tandem.Instance{ID: id, Version: "1." + id[5:], Zone: "z" + id[5:], Endpoints: []tandem.Endpoint{{Transport: "tcp", Address: "127.0.0.1:1"}}}
		listing, err := r.Register(t.Context(), in)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := listing.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	return "file://" + filepath.ToSlash(dir)
}

func TestInstance(t *testing.T) {
	target := listed(t)
	for _, c := range []struct {
		line string // T stands for the target
		code int
		says []string
	}{
		{"ls T", exitOK, []string{"cart-1    enabled  100     1.1      z1    tcp://127.0.0.1:1  -\n"}},
		{"disable --by ann T cart-1", exitOK, []string{"cart-1    disabled  -       1.1", "by ann\n", "revision 1 is applied by 0 of 0 clients"}},
		{"disable --by bob T cart-2", exitRefused, []string{"1 of 2 instances get calls now: no instance of the service would be left"}},
		{"drain --by bob T zone=z2", exitRefused, []string{"no instance of the service would be left"}},
		{"enable --by bob T cart-1", exitOK, []string{"cart-1    enabled"}},
		{"weight --by ann T version=1.2 40", exitOK, []string{"cart-2    enabled  40"}},
		{"weight --by ann --ramp 1h T cart-2 80", exitOK, []string{"cart-2    enabled  40"}},
		{"drain --by ann --for 1h --why patching T cart-2", exitOK, []string{"draining  -", "by ann until 20", ": patching\n"}},
		{"history T", exitOK, []string{"REVISION", "\n3         ", "bob  -         version=1.2", "patching  version=1.2 weight 40; cart-2 weight 80; cart-2 draining\n", "\n1         "}[:2]},
		{"restore --by bob T 1", exitOK, []string{"cart-1    disabled", "cart-2    enabled   100"}},
		{"restore --by bob T 99", exitFailed, []string{"revision 99", "not kept"}},
		{"clear --by ann T cart-1", exitOK, []string{"cart-1    enabled  100", "cart-2    enabled  100"}},
		{"clear --by ann T cart-1", exitFailed, []string{"this changes nothing"}},
		{"disable T cart-9", exitFailed, []string{`no instance "cart-9" is listed`}},
		{"disable --by ann --force T cart-9", exitOK, nil},
		{"disable T", exitUsage, []string{"instance disable wants TARGET INSTANCE…, got 1"}},
		{"weight T cart-1 heavy", exitUsage, []string{`weight "heavy"`}},
		{"weight T cart-1 0", exitFailed, []string{"want either a state or a weight"}},
		{"ls", exitUsage, []string{"instance ls wants TARGET, got 0"}},
		{"ls static://a:1", exitUsage, []string{"want a list in a registry"}},
		{"sing T", exitUsage, []string{`no command "instance sing"; tandem instance --help lists them`}},
		{"disabel T cart-1", exitUsage, []string{`no command "instance disabel"; did you mean tandem instance disable?`}},
		{"restore T two", exitUsage, []string{`revision "two"`}},
		{"ls mdns://lo/shop", exitFailed, []string{"keeps no documents"}},
	} {
		words := strings.Fields(c.line)
		for i, w := range words {
			if w == "T" {
				words[i] = target
			}
		}
		code, out, errs := cli(t, append([]string{"instance"}, words...)...)
		for _, text := range append(c.says, "") {
			if code != c.code || !strings.Contains(out+errs, text) {
				t.Errorf("tandem instance %s: exit %d, %s%s\nwant exit %d and %q", c.line, code, out, errs, c.code, text)
			}
		}
	}
}
