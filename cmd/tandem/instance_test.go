package main

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/cmd/tandem/internal/listing"
	"github.com/tandem-rpc/tandem/override"
	"github.com/tandem-rpc/tandem/policy"
	"github.com/tandem-rpc/tandem/registry/file"
	"github.com/tandem-rpc/tandem/registry/history"
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
		{"disable --by ann T cart-1", exitOK, []string{"cart-1    disabled  -       1.1", "by ann\n", "revision 1 is in force; no client has reported yet"}},
		{"disable --by bob T cart-2", exitRefused, []string{"1 of 2 instances get calls now: no instance of the service would be left"}},
		{"drain --by bob T zone=z2", exitRefused, []string{"no instance of the service would be left"}},
		{"enable --by bob T cart-1", exitOK, []string{"cart-1    enabled"}},
		{"weight --by ann T version=1.2 40", exitOK, []string{"cart-2    enabled  40"}},
		{"weight --by ann --ramp 1h T cart-2 80", exitOK, []string{"cart-2    enabled  40"}},
		{"drain --by ann --for 1h --why patching T cart-2", exitOK, []string{"draining  -", "by ann until 20", ": patching\n"}},
		{"history T", exitOK, []string{"REVISION", "\n3         ", "bob  -         nothing\n", "patching  version=1.2 weight 40; cart-2 weight 80 from 40 within 1h0m0s; cart-2 draining\n", "\n1         "}},
		{"restore --by bob T 1", exitOK, []string{"cart-1    disabled", "cart-2    enabled   100"}},
		{"restore --by bob T 99", exitFailed, []string{"revision 99", "not kept"}},
		{"clear --by ann T cart-1", exitOK, []string{"cart-1    enabled  100", "cart-2    enabled  100"}},
		{"clear --by ann T cart-1", exitFailed, []string{"this changes nothing"}},
		{"disable T cart-9", exitFailed, []string{`no instance "cart-9" is listed`}},
		{"disable --by ann --force T cart-9", exitOK, nil},
		{"disable T", exitUsage, []string{"instance disable wants TARGET INSTANCE…, got 1"}},
		{"weight T cart-1 heavy", exitUsage, []string{`weight "heavy"`}},
		{"weight T cart-1 0", exitUsage, []string{"instance disable stops the calls"}},
		{"disable T zone=nope", exitFailed, []string{"no listed instance has zone=nope"}},
		{"disable T zone=", exitFailed, []string{"no listed instance has zone="}},
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

func TestInstanceTable(t *testing.T) {
	at := time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC)
	o := &override.Overrides{Set: []override.Override{
		{Instance: "cart-1", State: override.Disabled, By: "ann", Why: "new disk", At: at},
		{Instance: "cart-2", Weight: 20, By: "ann", At: at},
	}}
	list := withOverrides([]tandem.Instance{
		{ID: "cart-1", Group: "canary"},
		{ID: "cart-2", Tags: map[string]string{"b": "2", "a": "1"}, Started: at},
	}, o, at)
	table := instanceTable(list)
	table.Value = instanceList{Target: "etcd://h/shop", Instances: list, Rollout: &rollout{Revision: 3, Applied: 2}}
	for format, want := range map[listing.Format]string{
		listing.Wide: "INSTANCE  STATE     WEIGHT  VERSION  ZONE  ADDRESS  GROUP   TAGS     STARTED               WHY\n" +
			"cart-1    disabled  -       -        -     -        canary  -        -                     by ann: new disk\n" +
			"cart-2    enabled   20      -        -     -        -       a=1,b=2  2026-11-21T08:00:00Z  -\n",
		listing.JSON: `{"target":"etcd://h/shop","instances":[` +
			`{"id":"cart-1","endpoints":null,"group":"canary","state":"disabled","weight":0,` +
			`"override":{"instance":"cart-1","state":"disabled","by":"ann","why":"new disk","at":"2026-11-21T08:00:00Z"}},` +
			`{"id":"cart-2","endpoints":null,"tags":{"a":"1","b":"2"},"started":"2026-11-21T08:00:00Z","state":"enabled","weight":20}],` +
			`"rollout":{"revision":3,"applied":2,"pending":0,"refused":0}}` + "\n",
	} {
		var out strings.Builder
		if err := (&listing.Printer{Out: &out, Format: format, Stream: true}).Print(table); err != nil || out.String() != want {
			t.Errorf("%s: %v\n%s\nwant\n%s", format, err, out.String(), want)
		}
	}
}

func TestInstanceHistory(t *testing.T) {
	at := time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC)
	list := instanceHistory("etcd://h/shop", []history.Version{
		{Change: policy.Change{Revision: 1, By: "ann", At: at}, Text: `{"set": [{"labels": {"zone": "b", "group": "x"}, "weight": 20, "ramp": "10m"}]}`},
		{Change: policy.Change{Revision: 2, By: "bob", Why: "odd", At: at}, Text: `{"sat": []}`},
		{Change: policy.Change{Revision: 3, By: "ann", At: at}},
	})
	for format, want := range map[listing.Format][]string{
		listing.Table: {"3         2026-11-21T08:00:00Z  ann  -    nothing\n2 ", "bob  odd  ", "\n1         2026-11-21T08:00:00Z  ann  -    group=x,zone=b weight 20 within 10m0s\n"},
		listing.JSON:  {`{"revision":3,"by":"ann","at":"2026-11-21T08:00:00Z","set":[]}`, `"error":`, `"set":[{"labels":{"group":"x","zone":"b"},"weight":20,"ramp":"10m0s"}]}`},
	} {
		var out strings.Builder
		err := (&listing.Printer{Out: &out, Format: format, Stream: true}).Print(list)
		for _, text := range want {
			if err != nil || !strings.Contains(out.String(), text) {
				t.Errorf("%s: %v\n%s\nwant\n%s", format, err, out.String(), text)
			}
		}
	}
}
