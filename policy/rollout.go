package policy

import (
	"fmt"
	"slices"
	"strings"
)

// Rollout is how far clients have taken up a version of a document.
type Rollout struct {
	Version string
	Applied []Applied // clients that follow the version
	Refused []Applied // clients that could not apply it, each with its Error
	Pending []Applied // clients that have not reported about it yet
}

// RolloutOf sorts the reports of clients about a document by what they say of a version.
func RolloutOf(version string, reports []Applied) Rollout {
	r := Rollout{Version: version}
	for _, a := range reports {
		switch {
		case a.InForce == version:
			r.Applied = append(r.Applied, a)
		case a.Error != "" && a.Version == version:
			r.Refused = append(r.Refused, a)
		default:
			r.Pending = append(r.Pending, a)
		}
	}
	return r
}

// Clients returns how many clients have reported.
func (r Rollout) Clients() int { return len(r.Applied) + len(r.Refused) + len(r.Pending) }

// String says in one line how far the version is: "r7 is applied by 37 of 40 clients, 2 pending, 1
// refused: …", with the reasons of clients that refused it.
func (r Rollout) String() string {
	if r.Clients() == 0 {
		return r.Version + " is in force; no client has reported yet"
	}
	text := fmt.Sprintf("%s is applied by %d of %d clients", r.Version, len(r.Applied), r.Clients())
	if n := len(r.Pending); n > 0 {
		text += fmt.Sprintf(", %d pending", n)
	}
	if n := len(r.Refused); n > 0 {
		var reasons []string
		for _, a := range r.Refused {
			if !slices.Contains(reasons, a.Error) {
				reasons = append(reasons, a.Error)
			}
		}
		text += fmt.Sprintf(", %d refused: %s", n, strings.Join(reasons, "; "))
	}
	return text
}
