package tandem

import (
	"maps"
	"slices"
	"strings"
)

// Route says which instances a call may go to. Empty fields do not restrict them.
// Package balance has the policy that keeps to it, and documents how.
type Route struct {
	Version string            // must equal [Instance.Version]
	Group   string            // must equal [Instance.Group]
	Tags    map[string]string // must all be tags of the instance
	// Force makes a call fail rather than go to an instance that lacks a tag.
	// Without it, if no instance has all tags, the call may go to instances that
	// do not have a tag's key at all.
	Force bool
}

// String returns the route in readable form, for example "version 2 lane=blue".
func (r *Route) String() string {
	var parts []string
	if r.Version != "" {
		parts = append(parts, "version "+r.Version)
	}
	if r.Group != "" {
		parts = append(parts, "group "+r.Group)
	}
	for _, key := range slices.Sorted(maps.Keys(r.Tags)) {
		parts = append(parts, key+"="+r.Tags[key])
	}
	if r.Force {
		parts = append(parts, "forced")
	}
	if len(parts) == 0 {
		return "anywhere"
	}
	return strings.Join(parts, " ")
}
