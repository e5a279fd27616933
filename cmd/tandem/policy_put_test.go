package main

import (
	"strings"
	"testing"

	"github.com/tandem-rpc/tandem/registry"
	"github.com/tandem-rpc/tandem/registry/history"
)

// put refuses to replace what is no policy, such as the entry of a server.
func TestOnlyPoliciesAreReplaced(t *testing.T) {
	m := registry.NewMemory()
	for text, good := range map[string]bool{
		"":                                  true,
		`{"version": "7"}`:                  true,
		`{"id": "cart-1", "endpoints": []}`: false,
		`{"set": []}`:                       false,
		`{"kind": "server"}`:                false,
		`{"kind": "server", "a": 1}`:        false,
		"not even JSON":                     false,
	} {
		m.PutDocument("k", []byte(text))
		err := isPolicy(t.Context(), history.Store{Documents: m, Key: "k"}, false)
		if (err == nil) != good || err != nil && !strings.Contains(err.Error(), "--force replaces it") {
			t.Errorf("in place of %q: %v", text, err)
		}
	}
}
