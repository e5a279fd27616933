package mdns

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tandem-rpc/tandem/registry"
)

// place is a parsed target: a service on the network of an interface.
type place struct {
	iface   string // "*" is the system's choice
	service string // _service._tcp
	domain  string // base.local
	ttl     time.Duration
	ipv6    bool
}

// fqdn returns the full name of the service.
func (at place) fqdn() string { return at.service + "." + at.domain + "." }

// parse parses a target.
func parse(t registry.Target) (place, error) {
	at, err := parseOptions(t)
	if err != nil {
		return place{}, fmt.Errorf("%s: %w", name, err)
	}
	at.iface = t.Authority
	if at.iface == "" {
		return place{}, fmt.Errorf("%s: target %.100q: want mdns://interface/Service, or * for an interface of the system's choice", name, t.Redacted())
	}
	labels := strings.Split(strings.ToLower(strings.Trim(t.Path, "/")), "/")
	slices.Reverse(labels)
	for _, l := range labels {
		if !validLabel(l) {
			return place{}, fmt.Errorf("%s: target %.100q: want a path of letters, digits and hyphens, at most 62 between two slashes", name, t.Redacted())
		}
	}
	at.service = "_" + labels[0] + "._tcp"
	at.domain = strings.Join(append(labels[1:], "local"), ".")
	if len(at.fqdn()) > maxName {
		return place{}, fmt.Errorf("%s: target %.100q: the path is too long for a DNS name", name, t.Redacted())
	}
	return at, nil
}

// maxName bounds the name of a service. It leaves room for an instance's name before it, in
// the 255 bytes of a DNS name.
const maxName = 200

func validLabel(l string) bool {
	for _, c := range []byte(l) {
		if c != '-' && (c < '0' || c > '9') && (c < 'a' || c > 'z') {
			return false
		}
	}
	return l != "" && len(l) <= 62
}

func parseOptions(t registry.Target) (at place, err error) {
	options, err := t.Options("ttl", "ipv6")
	if err != nil {
		return at, err
	}
	if text := options["ttl"]; text != "" {
		if at.ttl, err = time.ParseDuration(text); err != nil || at.ttl < minTTL || at.ttl > maxTTL {
			return at, fmt.Errorf("target %.100q: bad ttl %.20q: want a duration from %v to %v", t.Redacted(), text, minTTL, maxTTL)
		}
	}
	if text := options["ipv6"]; text != "" {
		if at.ipv6, err = strconv.ParseBool(text); err != nil {
			return at, fmt.Errorf("target %.100q: bad ipv6 %.20q: want true or false", t.Redacted(), text)
		}
	}
	return at, nil
}

// interfaceOf returns the interface of that name, nil for the system's choice. It is looked
// up each time, as a recreated interface has another index.
func interfaceOf(name string) (*net.Interface, error) {
	if name == "*" {
		return nil, nil
	}
	iface, err := net.InterfaceByName(name)
	if err != nil {
		return nil, fmt.Errorf("interface %q: %w", name, err)
	}
	if iface.Flags&net.FlagUp == 0 {
		return nil, fmt.Errorf("interface %q is down", name)
	}
	return iface, nil
}
