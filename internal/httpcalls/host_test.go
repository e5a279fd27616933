package httpcalls_test

import (
	"testing"

	"github.com/tandem-rpc/tandem/internal/httpcalls"
)

func TestHost(t *testing.T) {
	for address, want := range map[string]string{
		"127.0.0.1:80": "127.0.0.1:80", "[::1]:80": "[::1]:80", "shop:http": "localhost", "here": "here",
		"/run/shop.sock": "localhost", "run/shop.sock": "localhost", "@shop": "localhost", "": "localhost", "a b": "localhost", "h?q": "localhost",
	} {
		if got := httpcalls.Host(address); got != want {
			t.Errorf("%q: %q, want %q", address, got, want)
		}
	}
}
