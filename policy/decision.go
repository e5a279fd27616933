package policy

import (
	"fmt"
	"strings"
)

// Decision says where the routes of a policy send a call, and why.
type Decision struct {
	Route   string    `json:"route,omitempty"`   // name of the route that matches; "" if none does
	Chances []Chance  `json:"chances,omitempty"` // subsets of the route that the call may go to; one if it has drawn
	Skipped []Skipped `json:"skipped,omitempty"` // the routes that come before it, and do not match
}

// Chance is a subset of a route that matches a call.
type Chance struct {
	Subset  string  `json:"subset"`
	Percent float64 `json:"percent"`         // how many of such calls go there
	Goes    string  `json:"goes,omitempty"`  // the subset that takes the call now; "" if it would fail
	Empty   string  `json:"empty,omitempty"` // why Goes is not Subset
}

// Skipped is a route that does not match a call.
type Skipped struct {
	Route string `json:"route"`
	Why   string `json:"why"`
}

// Lines returns the decision as lines of text, for people.
func (d *Decision) Lines() (lines []string) {
	if d.Route == "" {
		lines = append(lines, "no route matches: the call may go to any instance")
	}
	for _, c := range d.Chances {
		line := fmt.Sprintf("route %q sends %.4g %% to %s", d.Route, c.Percent, c.Subset)
		switch {
		case c.Empty != "" && c.Goes == "":
			line += ": it fails: " + c.Empty
		case c.Empty != "":
			line += ", now to " + c.Goes + ": " + c.Empty
		}
		lines = append(lines, line)
	}
	for _, s := range d.Skipped {
		lines = append(lines, fmt.Sprintf("route %q does not match: %s", s.Route, s.Why))
	}
	return lines
}

// String returns the lines of the decision.
func (d *Decision) String() string { return strings.Join(d.Lines(), "\n") }
