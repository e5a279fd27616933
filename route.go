package tandem

import (
	"maps"
	"slices"
	"strings"
)

// Route says which instances a call may go to. What is empty does not matter.
// Package balance has the policy that keeps to it, and says how.
type Route struct {
	Version string            // of [Instance.Version], exactly
	Group   string            // of [Instance.Group], exactly
	Tags    map[string]string // that the instance has, all of them
	// Force lets a call fail rather than go to an instance that lacks a tag.
	// Without it instances that don't have a tag's key at all will do when there
	// is none that has all tags.
	Force bool
}

// String returns the route as people read it, "version 2 lane=blue".
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
