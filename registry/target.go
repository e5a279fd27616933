package registry

import (
	"fmt"
	"net/url"
	"strings"
)

// Target names a set of instances: scheme://authority/path?query. The scheme
// selects the [Resolver].
type Target struct {
	Scheme    string     // "tcp", "static", "file", "etcd", …
	Authority string     // between "//" and the next "/": hosts, never decoded
	Path      string     // from that "/" on
	Query     url.Values // options; nil when there are none
}

// ParseTarget parses a target string. A target without a scheme is taken as
// tcp://.
func ParseTarget(s string) (Target, error) {
	scheme, rest, ok := strings.Cut(s, "://")
	if !ok {
		scheme, rest = "tcp", s
	}
	var t Target
	rest, query, hasQuery := strings.Cut(rest, "?")
	if hasQuery {
		q, err := url.ParseQuery(query)
		if err != nil {
			return Target{}, fmt.Errorf("target %q: bad query: %w", s, err)
		}
		t.Query = q
	}
	t.Scheme, t.Authority = strings.ToLower(scheme), rest
	if i := strings.IndexByte(rest, '/'); i >= 0 {
		t.Authority, t.Path = rest[:i], rest[i:]
	}
	if t.Scheme == "" || t.Authority == "" && t.Path == "" {
		return Target{}, fmt.Errorf("target %q: want scheme://address", s)
	}
	return t, nil
}

// String returns the target as it was parsed.
func (t Target) String() string {
	s := t.Scheme + "://" + t.Authority + t.Path
	if len(t.Query) > 0 {
		s += "?" + t.Query.Encode()
	}
	return s
}
