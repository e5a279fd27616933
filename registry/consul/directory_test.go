//go:build integration

package consul

import (
	"strings"
	"testing"

	"github.com/hashicorp/consul/api"

	"github.com/tandem-rpc/tandem/registry"
)

// Lists finds lists of one service name apart, and leaves out services of others.
func TestLists(t *testing.T) {
	a := startAgent(t, nil).start()
	for _, path := range []string{"/prod/Cart", "/test/Cart", "/prod/Stock", "/prod", "/production/Cart", "/prod/old/A b"} {
		list(t, open(t, a.target(path)), "a", "b")
	}
	if err := a.api.Agent().ServiceRegister(&api.AgentServiceRegistration{Name: "foreign"}); err != nil {
		t.Fatal(err)
	}
	d := Resolver().(*Registry)
	for below, want := range map[string]string{
		"":      "/prod /prod/Cart /prod/Stock /prod/old/A b /production/Cart /test/Cart",
		"/prod": "/prod /prod/Cart /prod/Stock /prod/old/A b", "/test/Cart": "/test/Cart", "/none": "",
	} {
		lists, err := d.Lists(t.Context(), must(registry.ParseTarget("consul://"+a.addr+below)))
		var got []string
		for _, l := range lists {
			got = append(got, l.Path)
		}
		if err != nil || strings.Join(got, " ") != want {
			t.Errorf("below %q there are %q, %v; want %s", below, got, err, want)
		}
	}
	if lists, err := d.Lists(t.Context(), must(registry.ParseTarget("consul://127.0.0.1:1/prod"))); err == nil {
		t.Errorf("without an agent there are %v", lists)
	}
}
