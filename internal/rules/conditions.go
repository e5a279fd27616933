package rules

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/balance"
	"github.com/tandem-rpc/tandem/policy"
)

// condition is one thing that a route wants of a call.
type condition struct {
	holds func(*tandem.Call) bool
	why   func(*tandem.Call) string // why it does not hold
}

// conditionsOf returns what a route wants of a call beyond what the index of candidates covers.
func conditionsOf(g *policy.Route) (list []condition) {
	m := &g.Match
	if slices.ContainsFunc(m.Methods, isPrefix) {
		list = append(list, condition{func(c *tandem.Call) bool {
			return slices.ContainsFunc(m.Methods, func(pattern string) bool { return isMethod(pattern, c.Method) })
		}, func(*tandem.Call) string { return "it is not for the method" }})
	}
	if len(m.Versions) > 0 {
		list = append(list, oneOf("the version that the call asks for", m.Versions, versionOf))
	}
	if len(m.Lanes) > 0 {
		list = append(list, oneOf("the call's lane", m.Lanes, laneOf))
	}
	for key, text := range m.Metadata {
		if text.Prefix != "" || text.Regexp != "" || text.Present != nil {
			list = append(list, textCondition(key, text))
		}
	}
	if s := m.Share; s != nil {
		list = append(list, shareCondition(newHasher(g.Name+"\x00share", s.Key()), s.Percent))
	}
	return list
}

// isPrefix reports whether a pattern is for a part of a service's methods.
func isPrefix(pattern string) bool {
	return strings.HasSuffix(pattern, "*") && !strings.HasSuffix(pattern, ".*")
}

func versionOf(c *tandem.Call) string {
	if c.Route == nil {
		return ""
	}
	return c.Route.Version
}

func laneOf(c *tandem.Call) string {
	if c.Route == nil {
		return ""
	}
	return c.Route.Tags[balance.ReservedTag]
}

func oneOf(what string, list []string, of func(*tandem.Call) string) condition {
	return condition{
		func(c *tandem.Call) bool { return slices.Contains(list, of(c)) },
		func(c *tandem.Call) string {
			return fmt.Sprintf("%s is %q, wanted %s", what, of(c), strings.Join(list, " or "))
		},
	}
}

func textCondition(key string, t policy.Text) condition {
	var e *regexp.Regexp
	if t.Regexp != "" {
		e = regexp.MustCompile(`^(?:` + t.Regexp + `)$`) // the policy is valid
	}
	holds := func(c *tandem.Call) bool {
		values := c.Metadata[key]
		if len(values) == 0 {
			return t.Present != nil && !*t.Present
		}
		return (t.Present == nil || *t.Present) && strings.HasPrefix(values[0], t.Prefix) && (e == nil || e.MatchString(values[0]))
	}
	return condition{holds, func(c *tandem.Call) string { return whyNot(c, key, &t) }}
}

// whyNot returns what is wrong with the value that a call has for a key of the metadata.
func whyNot(c *tandem.Call, key string, t *policy.Text) string {
	values := c.Metadata[key]
	if len(values) == 0 {
		return fmt.Sprintf("the call has no metadata %q", key)
	}
	var wanted []string
	for _, w := range []struct{ what, text string }{{"", t.Exact}, {"prefix ", t.Prefix}, {"a match of ", t.Regexp}} {
		if w.text != "" {
			wanted = append(wanted, fmt.Sprintf("%s%q", w.what, w.text))
		}
	}
	if t.Present != nil && !*t.Present {
		wanted = append(wanted, "none")
	}
	return fmt.Sprintf("metadata %q is %.100q, wanted %s", key, values[0], strings.Join(wanted, " and "))
}

func shareCondition(h *hasher, percent float64) condition {
	return condition{
		func(c *tandem.Call) bool {
			at, ok := h.at(c)
			return ok && 100*at < percent
		},
		func(c *tandem.Call) string {
			at, ok := h.at(c)
			if !ok {
				return "the call has no " + h.what()
			}
			return fmt.Sprintf("its %s is at %.4g %%, and the share ends at %v %%", h.what(), 100*at, percent)
		},
	}
}

// hasher puts the keys of calls on a line from 0 to 1, in the same places in every process. It
// must never change: clients with different hashes would treat a key differently.
type hasher struct {
	key  policy.Key
	salt uint64 // the state of the hash after the salt
}

func newHasher(salt string, key policy.Key) *hasher {
	return &hasher{key, fnv1a(fnvOffset, salt+"\x00")}
}

// at returns the place of a call's key; false if it has none.
func (h *hasher) at(c *tandem.Call) (float64, bool) {
	text := c.HashKey
	if !h.key.HashKey {
		values := c.Metadata[h.key.Metadata]
		if len(values) == 0 {
			return 0, false
		}
		text = values[0]
	}
	if text == "" {
		return 0, false
	}
	return unit(spread(fnv1a(h.salt, text))), true
}

func (h *hasher) has(c *tandem.Call) bool {
	_, ok := h.at(c)
	return ok
}

func (h *hasher) what() string {
	if h.key.HashKey {
		return "hash key"
	}
	return fmt.Sprintf("metadata %q", h.key.Metadata)
}

const fnvOffset = 14695981039346656037

// fnv1a continues a hash of FNV-1a with 64 bits.
func fnv1a(h uint64, s string) uint64 {
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * 1099511628211
	}
	return h
}

// spread is the finalizer of MurmurHash3: each bit of h changes half of the result.
func spread(h uint64) uint64 {
	h = (h ^ h>>33) * 0xff51afd7ed558ccd
	h = (h ^ h>>33) * 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}

// unit returns a number from 0 to below 1.
func unit(h uint64) float64 { return float64(h>>11) / (1 << 53) }
