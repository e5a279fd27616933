//go:build integration

package redis

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tandem-rpc/tandem"
)

// Lists finds lists among other keys, and none whose path only begins alike.
func TestLists(t *testing.T) {
	s := start(t)
	for _, list := range []string{"shop/cart", "shop/stock", "shop", "shopping", "a*b/x", "aab/x"} {
		r, err := New(s.target(list))
		if err != nil {
			t.Fatal(err)
		}
		entry, err := r.Register(t.Context(), tandem.Instance{ID: "a", Endpoints: []tandem.Endpoint{{Transport: "tcp", Address: "h:1"}}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { entry.Close(); r.Close() })
	}
	admin := s.admin()
	var others []any
	for i := range 3000 {
		others = append(others, fmt.Sprint("other:", i), "x")
	}
	if err := admin.MSet(t.Context(), others...).Err(); err != nil {
		t.Fatal(err)
	}
	if err := putDocument(t, admin, []byte("{}")); err != nil {
		t.Fatal(err)
	}
	d := Resolver().(*Registry)
	for below, want := range map[string]string{
		"": "/a*b/x /aab/x /shop /shop/cart /shop/stock /shopping", "shop": "/shop /shop/cart /shop/stock",
		"shop/cart": "/shop/cart", "a*b": "/a*b/x", "none": "",
	} {
		lists, err := d.Lists(t.Context(), mustParse(t, s.target(below)))
		var got []string
		for _, l := range lists {
			got = append(got, l.Path)
		}
		if err != nil || strings.Join(got, " ") != want {
			t.Errorf("below %q there are %q, %v; want %s", below, got, err, want)
		}
	}
}
