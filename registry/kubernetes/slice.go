package kubernetes

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/tandem-rpc/tandem"
)

// Types of addresses of a slice.
const (
	familyIPv4 = "IPv4"
	familyIPv6 = "IPv6"
	familyFQDN = "FQDN"
)

// endpointSlice is what is read of an EndpointSlice of discovery.k8s.io/v1.
type endpointSlice struct {
	Metadata struct {
		Name            string            `json:"name"`
		ResourceVersion string            `json:"resourceVersion"`
		Labels          map[string]string `json:"labels"`
	} `json:"metadata"`
	AddressType string     `json:"addressType"`
	Endpoints   []endpoint `json:"endpoints"`
	Ports       []port     `json:"ports"`
}

type port struct {
	Name string `json:"name"` // "" also if there is none: a Service with one port need not name it
	Port *int32 `json:"port"` // nil for all ports
}

type endpoint struct {
	Addresses  []string `json:"addresses"` // only the first has a meaning
	Conditions struct {
		Ready       *bool `json:"ready"`       // nil means true
		Serving     *bool `json:"serving"`     // nil means the value of Ready
		Terminating *bool `json:"terminating"` // nil means false
	} `json:"conditions"`
	TargetRef *struct {
		Kind string `json:"kind"`
		Name string `json:"name"`
		UID  string `json:"uid"`
	} `json:"targetRef"`
	NodeName string `json:"nodeName"`
	Zone     string `json:"zone"`
	Hints    *struct {
		ForZones []struct {
			Name string `json:"name"`
		} `json:"forZones"`
	} `json:"hints"`
}

// candidate is an endpoint that may be listed.
type candidate struct {
	instance tandem.Instance
	uid      string // of the pod; "" for another endpoint
	family   string
	hint     string // the zone that should use it; "" for none

	ready, serving, terminating bool
}

// state orders what is known of two endpoints of the same pod.
func (c *candidate) state() int {
	switch {
	case c.ready:
		return 2
	case c.serving && c.terminating:
		return 1
	}
	return 0
}

// instances returns the list of a place by the IDs of its instances. refuse is called for each
// endpoint that is not valid. It fails if there are endpoints, but no slice has the port.
func (at place) instances(all map[string]*endpointSlice, refuse func(key string, reason error)) (map[string]tandem.Instance, error) {
	found := map[string]*candidate{}
	endpoints, matched := 0, false
	for _, key := range slices.Sorted(maps.Keys(all)) { // so that every client decides alike
		s := all[key]
		if at.family != "" && s.AddressType != at.family {
			continue
		}
		endpoints += len(s.Endpoints)
		number := at.numberIn(s.Ports)
		if number == 0 {
			continue
		}
		matched = true
		for i := range s.Endpoints {
			c, err := at.candidate(&s.Endpoints[i], s.AddressType, number)
			if err != nil {
				refuse(fmt.Sprintf("%s[%d]", key, i), err)
				continue
			}
			found[c.instance.ID] = merge(found[c.instance.ID], c)
		}
	}
	if endpoints > 0 && !matched {
		return nil, &portError{at, portsOf(all)}
	}
	return choose(found), nil
}

// numberIn returns the number of the place's port among those of a slice, 0 if it is not there.
func (at place) numberIn(ports []port) int32 {
	for _, p := range ports {
		if p.Port == nil || *p.Port < 1 || *p.Port > 65535 {
			continue
		}
		if at.number == *p.Port || at.number == 0 && at.port == p.Name {
			return *p.Port
		}
	}
	return 0
}

// candidate returns an endpoint as an instance.
func (at place) candidate(e *endpoint, family string, number int32) (*candidate, error) {
	if len(e.Addresses) == 0 {
		return nil, errors.New("it has no address")
	}
	host := e.Addresses[0]
	if ip, err := netip.ParseAddr(host); family == familyFQDN && (host == "" || len(host) > 253) || family != familyFQDN && (err != nil || ip.Zone() != "") {
		return nil, fmt.Errorf("%.60q is no address of the type %.20q", host, family)
	}
	c := &candidate{family: family, terminating: isTrue(e.Conditions.Terminating)}
	c.ready = e.Conditions.Ready == nil || *e.Conditions.Ready
	c.serving = c.ready
	if e.Conditions.Serving != nil {
		c.serving = *e.Conditions.Serving
	}
	ep := at.endpoint
	ep.Address = net.JoinHostPort(host, strconv.Itoa(int(number)))
	c.instance = tandem.Instance{ID: ep.String(), Endpoints: []tandem.Endpoint{ep}, Zone: e.Zone}
	if ref := e.TargetRef; ref != nil && ref.Kind == "Pod" && ref.Name != "" {
		c.instance.ID, c.uid = ref.Name, ref.UID
	}
	if e.NodeName != "" {
		c.instance.Tags = map[string]string{"node": e.NodeName}
	}
	c.hint = e.hintedZone()
	return c, c.instance.Validate()
}

func isTrue(b *bool) bool { return b != nil && *b }

// hintedZone returns the zone whose clients should use the endpoint, "" if there is no hint. Of
// several zones it is the endpoint's own, if that is one of them.
func (e *endpoint) hintedZone() string {
	if e.Hints == nil || len(e.Hints.ForZones) == 0 {
		return ""
	}
	for _, z := range e.Hints.ForZones {
		if z.Name == e.Zone {
			return e.Zone
		}
	}
	return e.Hints.ForZones[0].Name
}

// merge decides between two candidates with the same ID. An endpoint that moves from one slice to
// another may be in both for a moment. Termination is never undone, so the one that says so is
// the later one. An instance with addresses of two families has its IPv4 address.
func merge(a, b *candidate) *candidate {
	switch {
	case a == nil:
		return b
	case a.uid != b.uid: // a pod was replaced by one with the same name
		if b.state() > a.state() {
			return b
		}
		return a
	case a.terminating != b.terminating:
		if b.terminating {
			a, b = b, a // a is the later one
		}
		if a.family != b.family && b.family == familyIPv4 {
			a.instance.Endpoints, a.family = b.instance.Endpoints, b.family
		}
		return a
	case a.family != b.family:
		if b.family == familyIPv4 {
			return b
		}
		return a
	case b.state() > a.state():
		return b
	}
	return a
}

// choose returns the instances that are listed: those that are ready or, if there are none, those
// that are terminating and still serve.
func choose(found map[string]*candidate) map[string]tandem.Instance {
	best, hinted := 1, true
	for _, c := range found {
		best = max(best, c.state())
	}
	for _, c := range found {
		if c.state() == best && c.hint == "" {
			hinted = false
		}
	}
	list := make(map[string]tandem.Instance, len(found))
	for id, c := range found {
		if c.state() != best {
			continue
		}
		if hinted {
			c.instance.Zone = c.hint
		}
		list[id] = c.instance
	}
	return list
}

// portError says that no slice has the port of a target.
type portError struct {
	at    place
	ports []string
}

// Error names the ports that there are.
func (e *portError) Error() string {
	port := e.at.port
	if e.at.number > 0 {
		port = strconv.Itoa(int(e.at.number))
	}
	return fmt.Sprintf("the endpoints of %s/%s have no port %s; they have %s", e.at.namespace, e.at.service, port, strings.Join(e.ports, ", "))
}

// maxPorts bounds the ports that an error or a directory names.
const maxPorts = 10

// portsOf returns the ports of slices, as targets write them, for an error.
func portsOf(all map[string]*endpointSlice) []string {
	names := map[string]bool{}
	for _, s := range all {
		for _, p := range s.Ports {
			if p.Port != nil && len(names) < maxPorts {
				names[strings.TrimPrefix(p.Name+" ("+strconv.Itoa(int(*p.Port))+")", " ")] = true
			}
		}
	}
	if len(names) == 0 {
		return []string{"none"}
	}
	return slices.Sorted(maps.Keys(names))
}
