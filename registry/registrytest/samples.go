package registrytest

import (
	"fmt"
	"hash/fnv"
	"reflect"
	"strings"
	"time"

	"github.com/tandem-rpc/tandem"
)

// instance returns a valid instance with few fields. Each ID has an address of its own,
// because some registries identify an instance by its address.
func instance(id string) tandem.Instance {
	h := fnv.New64a()
	h.Write([]byte(id))
	sum := h.Sum64()
	address := fmt.Sprintf("127.%d.%d.%d:%d", sum>>56, sum>>48&0xff, sum>>40&0xff, 1024+sum&0x7fff)
	return tandem.Instance{ID: id, Endpoints: []tandem.Endpoint{{Transport: "tcp", Address: address}}}
}

// full returns an instance with a value in every field.
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

		Incarnation: "2f/é 1",
		Position:    &tandem.Position{Latitude: -33.8568, Longitude: 151.2153},
		Load:        &tandem.Load{At: time.Date(2024, 3, 1, 0, 1, 0, 5000, time.UTC), Rate: 1234.5, InFlight: 17, Queued: 2},
	}
}

// same reports whether two instances are equal, and times the same instant.
func same(a, b tandem.Instance) bool {
	if !a.Started.Equal(b.Started) || !sameTime(&a, &b) {
		return false
	}
	a.Started, b.Started = time.Time{}, time.Time{}
	return reflect.DeepEqual(a, b)
}

// sameTime reports whether the times of both loads are equal, and replaces the loads by
// copies without the time.
func sameTime(a, b *tandem.Instance) bool {
	if a.Load == nil || b.Load == nil {
		return a.Load == b.Load
	}
	x, y := *a.Load, *b.Load
	same := x.At.Equal(y.At)
	x.At, y.At = time.Time{}, time.Time{}
	a.Load, b.Load = &x, &y
	return same
}

// scribble changes the values that a shallow copy of an instance shares with it.
func scribble(in tandem.Instance) {
	in.Endpoints[0].Address = "changed"
	in.Services[0] = "changed"
	in.Tags["empty"] = "changed"
	in.Position.Latitude = 0
	in.Load.Rate = 0
}

// oddIDs returns different valid IDs that a registry must not confuse or change.
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
