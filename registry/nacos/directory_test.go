package nacos

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tandem-rpc/tandem/registry"
)

func TestLists(t *testing.T) { directory(t, standIn(t)) }

// directory looks for the lists of a group, among services of others.
func directory(t *testing.T, b *backend) {
	for _, service := range []string{"Orders", "Stock"} {
		r := b.registry(t, service)
		register(t, r, server(1))
		look(t, r, b.target(t, service), b.within).shows(t, "server-1:0")
	}
	b.do(t, "POST", instancePath, "Foreign", "ip", "10.0.0.9", "port", "80")
	group := strings.TrimSuffix(b.target(t, ""), "/")
	own := "/" + groupOf(t)
	d := Resolver(WithPoll(b.poll)).(registry.Directory)
	for target, want := range map[string]string{
		group: own + "/Orders " + own + "/Stock", group + "/Orders": own + "/Orders", group + "/None": "", group + "x": "",
	} {
		parsed, err := registry.ParseTarget(target)
		if err != nil {
			t.Fatal(err)
		}
		lists, err := d.Lists(t.Context(), parsed)
		var got []string
		for _, l := range lists {
			got = append(got, l.Path)
		}
		if err != nil || strings.Join(got, " ") != want {
			t.Errorf("below %s there are %q, %v; want %s", target, got, err, want)
		}
	}
}

// More services than fit into a page are read page by page.
func TestListsInPages(t *testing.T) {
	b := standIn(t)
	for i := range directoryPage + 20 {
		b.do(t, "POST", instancePath, fmt.Sprint("S", i), "ip", "10.0.0.9", "port", "80")
	}
	r := b.registry(t, "zz-last")
	register(t, r, server(1))
	target := b.target(t, "zz-last")
	look(t, r, target, b.within).shows(t, "server-1:0")
	parsed, err := registry.ParseTarget(strings.TrimSuffix(target, "/zz-last"))
	if err != nil {
		t.Fatal(err)
	}
	lists, err := r.Lists(t.Context(), parsed)
	if err != nil || len(lists) != 1 || lists[0].String() != target {
		t.Errorf("there are %v, %v", lists, err)
	}
}
