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
	except []policy.Labels
	none   string // why it has no instance, whatever the list is; "" if it may have some
}

func newSubset(s *policy.Subset, zone string) subset {
	none := ""
	if s.SameZone {
		own := *s
		if own.Zone = zone; zone == "" {
			none = "the client's zone is not known: see client.Self"
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
	return s.none == "" && len(s.except) == 0 && l.Version+l.Group+l.Zone == "" && len(l.Tags)+len(l.Addresses) == 0
}

func (s *subset) has(in *tandem.Instance) bool {
	if s.none != "" || !hasLabels(in, &s.labels) {
		return false
	}
	for i := range s.except {
		if hasLabels(in, &s.except[i]) {
			return false
		}
	}
	return true
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
			if isLike(ep.Address, a) || err == nil && isLike(host, a) {
				return true
			}
		}
	}
	return false
}

// isLike reports whether a text is the pattern, in which a * at either end stands for any text.
func isLike(text, pattern string) bool {
	rest, before := strings.CutPrefix(pattern, "*")
	rest, after := strings.CutSuffix(rest, "*")
	switch {
	case before && after:
		return strings.Contains(text, rest)
	case before:
		return strings.HasSuffix(text, rest)
	case after:
		return strings.HasPrefix(text, rest)
	}
	return text == pattern
}
