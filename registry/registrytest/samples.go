package registrytest

import (
	"reflect"
	"strings"
	"time"

	"github.com/tandem-rpc/tandem"
)

// instance returns a plain valid instance.
func instance(id string) tandem.Instance {
	return tandem.Instance{ID: id, Endpoints: []tandem.Endpoint{{Transport: "tcp", Address: "127.0.0.1:8972"}}}
}

// full returns an instance with something in every field.
func full(id string) tandem.Instance {
	return tandem.Instance{
		ID: id,
		Endpoints: []tandem.Endpoint{
			{Transport: "tcp", Address: "[2001:db8::1]:8972"},
			{Transport: "unix", Address: "/run/a b.sock", Protocol: "grpc"},
		},
		Services: []string{"Arith", "Größe"},
		Weight:   7,
		Version:  "v1.2.3+meta",
		Zone:     "zone/1",
		Group:    "grün & <gelb>",
		Tags:     map[string]string{"": "empty key", "k=v&x": "a\nb\t\"c\"\\", "emoji": "🚲🚲", "empty": ""},
		Started:  time.Date(2024, 2, 29, 23, 59, 59, 987654321, time.UTC),
	}
}

// same reports whether two instances say the same.
func same(a, b tandem.Instance) bool {
	if !a.Started.Equal(b.Started) {
		return false
	}
	a.Started, b.Started = time.Time{}, time.Time{}
	return reflect.DeepEqual(a, b)
}

// scribble changes what copies of an instance would share.
func scribble(in tandem.Instance) {
	in.Endpoints[0].Address = "changed"
	in.Services[0] = "changed"
	in.Tags["empty"] = "changed"
}

// oddIDs returns IDs that are valid and must be kept apart and whole.
func oddIDs() []string {
	return []string{
		"tcp://[fe80::1%eth0]:80/a?b=c&d#e",
		"a", "A", ".", "..", "../a", "a/", "/", " ", "a b", "a%20b", "a+b", "%", "*", "~", "nul", "-rf",
		`"quotes" 'and' \backslash\`, "<&>", "tab\tnewline\nreturn\r", "größe", "日本語", "🚲",
		strings.Repeat("x", tandem.MaxInstanceID-1) + "1",
		strings.Repeat("x", tandem.MaxInstanceID-1) + "2",
		strings.Repeat("é", tandem.MaxInstanceID/2),
	}
}
