package rules

import (
	"net"
	"strings"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/policy"
)

// subset is a compiled policy.Subset.
type subset struct {
	text   string // for people
	labels policy.Labels
	except *policy.Labels
	none   string // why it has no instance, whatever the list is; "" if it may have some
}

func newSubset(s *policy.Subset, zone string) subset {
	none := ""
	if s.SameZone {
		own := *s
		if own.Zone = zone; zone == "" {
			none = "the client's zone is not known: see client.WithZone"
		} else {
			own.SameZone = false
		}
		s = &own
	}
	return subset{s.String(), s.Labels(), s.Except, none}
}

// all reports whether the subset is all instances.
func (s *subset) all() bool {
	l := &s.labels
	return s.none == "" && s.except == nil && l.Version+l.Group+l.Zone == "" && len(l.Tags)+len(l.Addresses) == 0
}

func (s *subset) has(in *tandem.Instance) bool {
	return s.none == "" && hasLabels(in, &s.labels) && (s.except == nil || !hasLabels(in, s.except))
}

func hasLabels(in *tandem.Instance, l *policy.Labels) bool {
	if l.Version != "" && in.Version != l.Version || l.Group != "" && in.Group != l.Group || l.Zone != "" && in.Zone != l.Zone {
		return false
	}
	for key, want := range l.Tags {
		if have, ok := in.Tags[key]; !ok || have != want {
			return false
		}
	}
	return len(l.Addresses) == 0 || isAt(in, l.Addresses)
}

// isAt reports whether an endpoint of an instance has one of the addresses.
func isAt(in *tandem.Instance, addresses []string) bool {
	for _, ep := range in.Endpoints {
		host, _, err := net.SplitHostPort(ep.Address)
		for _, a := range addresses {
			prefix, some := strings.CutSuffix(a, "*")
			if a == ep.Address || err == nil && a == host || some && strings.HasPrefix(ep.Address, prefix) {
				return true
			}
		}
	}
	return false
}
