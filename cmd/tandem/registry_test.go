package main

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/override"
	"github.com/tandem-rpc/tandem/registry"
)

// said returns changes as text, without their times.
func said(changes []heldChange) string {
	var lines []string
	for _, c := range changes {
		lines = append(lines, strings.TrimSpace(strings.Join([]string{c.Change, c.Kind, c.Name, c.Detail}, " ")))
	}
	return strings.Join(lines, "\n")
}

func TestInstanceWatch(t *testing.T) {
	w := &instanceWatch{name: "etcd://h/shop"}
	a := tandem.Instance{ID: "a", Zone: "x", Endpoints: []tandem.Endpoint{{Transport: "tcp", Address: "h:1"}}}
	loaded, moved := a, a
	loaded.Load, moved.Zone, moved.Weight = &tandem.Load{Rate: 7}, "", 3
	for i, c := range []struct {
		s    registry.Snapshot
		want string
	}{
		{registry.Snapshot{Err: errors.New("down")}, "failed registry etcd://h/shop down"},
		{registry.Snapshot{Err: errors.New("down")}, ""},
		{registry.Snapshot{Instances: []tandem.Instance{a}}, "ok registry etcd://h/shop\nlisted instance a tcp://h:1"},
		{registry.Snapshot{Instances: []tandem.Instance{loaded}}, ""},
		{registry.Snapshot{Instances: []tandem.Instance{moved}}, `changed instance a weight: 3, was none; zone: none, was "x"`},
		{registry.Snapshot{}, "gone instance a"},
	} {
		if got := said(w.update(&c.s, time.Now())); got != c.want {
			t.Errorf("%d: %q, want %q", i, got, c.want)
		}
	}
}

func TestDocumentWatch(t *testing.T) {
	h := &holdings{overrides: "/o"}
	version := override.VersionOf([]byte(`{"set": []}`))
	watches := map[string]*documentWatch{"/o": {holdings: h, key: "/o"}, "/p": {holdings: h, key: "/p", own: true}}
	for i, c := range []struct {
		key  string
		text string
		err  error
		want string
	}{
		{"/o", "", registry.ErrNoDocument, ""},
		{"/o", `{"set": []}`, nil, "written overrides /o version " + version + ", 11 bytes"},
		{"/o", "", errors.New("down"), "failed document /o down"},
		{"/o", "", errors.New("down"), ""},
		{"/o", `{"set": []}`, nil, "ok overrides /o"},
		{"/o", `{"set": []}`, nil, ""},
		{"/o", `{"set"`, nil, "written overrides /o version " + override.VersionOf([]byte(`{"set"`)) + ", 6 bytes, invalid: overrides: unexpected EOF"},
		{"/o", "", registry.ErrNoDocument, "deleted overrides /o"},
		{"/p", "an instance", nil, ""},
		{"/p", "", errors.New("a list"), ""},
		{"/p", `{"version": "7"}`, nil, "written policy /p version 7, 16 bytes"},
	} {
		if got := said(watches[c.key].update([]byte(c.text), c.err, time.Now())); got != c.want {
			t.Errorf("%d: %q, want %q", i, got, c.want)
		}
	}
}
