package kubernetes

import (
	"cmp"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/registry"
)

// place is a parsed target: a port of a Service.
type place struct {
	namespace, service string
	port               string // its name, "" if it has a number
	number             int32
	family             string          // addressType of the slices that count; "" for all
	endpoint           tandem.Endpoint // the endpoint of every instance, without the address
}

// label is the syntax of names of namespaces, Services and ports.
var label = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)

const want = "want kubernetes://namespace/service:port"

// parse parses the target of a list.
func parse(t registry.Target) (place, error) {
	options, err := t.Options("transport", "protocol", "family")
	if err != nil {
		return place{}, fmt.Errorf("%s: %w", name, err)
	}
	service, port, found := strings.Cut(strings.TrimPrefix(t.Path, "/"), ":")
	at := place{namespace: t.Authority, service: service, port: port}
	at.endpoint = tandem.Endpoint{Transport: cmp.Or(options["transport"], "tcp"), Protocol: options["protocol"]}
	switch {
	case !label.MatchString(at.namespace):
		return place{}, wrong(t, "bad namespace %.70q: "+want, at.namespace)
	case !label.MatchString(at.service):
		return place{}, wrong(t, "bad name of a Service %.70q: "+want, at.service)
	case !found || !label.MatchString(port):
		return place{}, wrong(t, "bad port %.70q: "+want+", with the name of a port of the Service, or the number on which its pods listen", port)
	}
	if digits := strings.Trim(port, "0123456789") == ""; digits {
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil || n == 0 {
			return place{}, wrong(t, "bad port %.70q: want 1 to 65535", port)
		}
		at.port, at.number = "", int32(n)
	}
	switch options["family"] {
	case "":
	case "ipv4":
		at.family = familyIPv4
	case "ipv6":
		at.family = familyIPv6
	default:
		return place{}, wrong(t, "bad family %.20q: want ipv4 or ipv6", options["family"])
	}
	return at, nil
}

// wrong returns the error of a target that can never work.
func wrong(target registry.Target, format string, args ...any) error {
	return fmt.Errorf(name+": target %.100q: "+format, append([]any{target.Redacted()}, args...)...)
}
