package registry_test

import (
	"strings"
	"testing"

	"github.com/tandem-rpc/tandem/registry"
)

// Text of a target that may be a secret appears in no error.
func TestRedact(t *testing.T) {
	for target, want := range map[string]string{
		"tcp://host:80": "tcp://host:80",
		"host:80":       "host:80",
		"etcd://h1:2379,[::1]:2379/prod/a@b?ttl=5s": "etcd://h1:2379,[::1]:2379/prod/a@b?ttl=5s",
		"unix:///run/a@b":                      "unix:///run/a@b",
		"unix://@abstract":                     "unix://@abstract",
		"etcd://user:canary@host:1/a":          "etcd://***@host:1/a",
		"user:canary@host:1":                   "***@host:1",
		"etcd://canary@host:1/a":               "etcd://***@host:1/a",
		"etcd://h:1,user:canary@g:2/a":         "etcd://***@g:2/a",
		"etcd://user:can/ary@host/a":           "etcd://***@host/a",
		"etcd://user:can?ary@host/a":           "etcd://***@host/a",
		"etcd://user:can@ary@host/a":           "etcd://***@host/a",
		"nacos://h:1/S?password=canary&ttl=5s": "nacos://h:1/S?password=***&ttl=5s",
		"nacos://h:1/S?Access-Token=canary":    "nacos://h:1/S?Access-Token=***",
		"nacos://h:1/S?%70assword=canary":      "nacos://h:1/S?%70assword=***",
		"nacos://h:1/S?%zz=canary":             "nacos://h:1/S?%zz=***",
		"?token=canary":                        "?token=***",
	} {
		if got := registry.Redact(target); got != want {
			t.Errorf("%q: %q, want %q", target, got, want)
		}
		_, err := registry.ParseTarget(target)
		if strings.Contains(want, "***@") && err == nil {
			t.Errorf("%q parses", target)
		}
		if err != nil && (strings.Contains(err.Error(), "canary") || strings.Contains(err.Error(), "ary@")) {
			t.Errorf("%q: %v", target, err)
		}
	}
}
