package main

import (
	"strings"
	"testing"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/cmd/tandem/internal/listing"
)

func TestLs(t *testing.T) {
	target := listed(t)
	for _, c := range []struct {
		line string
		code int
		says string
	}{
		{"ls " + target, exitOK, "cart-1    tcp://127.0.0.1:1  1.1      z1    -\ncart-2 "},
		{"ls -o wide " + target, exitOK, "WEIGHT  GROUP  TAGS  STARTED  CALLS/S  SERVICES\n"},
		{"ls -o json " + target, exitOK, `"services": []`},
		{"ls static://a:1,b:2?weight=3,1", exitOK, "  tcp://b:2  -        -     -\n"},
		{"ls -o json grpc://a:1", exitOK, `"protocol": "grpc"`},
		{"ls dns://127.0.0.1:7", exitOK, "tcp://127.0.0.1:7"},
		{"ls odd://x", exitUsage, "want a target such as tcp://host:port"},
		{"ls ://", exitUsage, "target"},
		{"ls", exitUsage, "ls wants TARGET, got 0"},
	} {
		code, out, errs := cli(t, strings.Fields(c.line)...)
		if code != c.code || !strings.Contains(out+errs, c.says) {
			t.Errorf("tandem %s: exit %d, %s%s\nwant exit %d and %q", c.line, code, out, errs, c.code, c.says)
		}
	}
}

func TestWatched(t *testing.T) {
	var out strings.Builder
	w := &watched{printer: &listing.Printer{Out: &out, Stream: true}, target: "etcd://h/shop"}
	at := time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC)
	a, b := tandem.Instance{ID: "a", Zone: "x"}, tandem.Instance{ID: "b"}
	loaded, moved := a, a
	loaded.Load, moved.Zone = &tandem.Load{Rate: 7}, "y"
	for _, list := range [][]tandem.Instance{{a}, {a, b}, {loaded}, {moved}} {
		if err := w.update(list, at); err != nil {
			t.Fatal(err)
		}
	}
	want := "TIME                  CHANGE  INSTANCE  ADDRESS  VERSION  ZONE  SERVICES\n" +
		"2026-11-21T08:00:00Z  listed  a         -        -        x     -\n" +
		"2026-11-21T08:00:00Z  listed  b         -        -        -     -\n" +
		"2026-11-21T08:00:00Z  gone    b         -        -        -     -\n" +
		"2026-11-21T08:00:00Z  changed  a         -        -        y     -\n"
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
}
