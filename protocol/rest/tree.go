package rest

import (
	"fmt"
	"slices"
	"strings"
)

// node is a place in the tree of templates, below the segments that lead to it.
type node struct {
	literals map[string]*node
	one      *node
	many     *node
	ends     map[string]map[string]*route // routes that end here, by the template's verb and HTTP's
}

// add adds a route. A route with the same template, but for the names of variables, and the same
// verb of HTTP is an error.
func (n *node) add(r *route) error {
	for _, segment := range r.template.segments {
		n = n.child(segment)
	}
	if n.ends == nil {
		n.ends = map[string]map[string]*route{}
	}
	verbs := n.ends[r.template.verb]
	if verbs == nil {
		verbs = map[string]*route{}
		n.ends[r.template.verb] = verbs
	}
	if other := verbs[r.verb]; other != nil {
		return fmt.Errorf("%s: %s %s has the same requests as %s %s of %s", r.method, r.verb, r.template, other.verb, other.template, other.method)
	}
	verbs[r.verb] = r
	return nil
}

// child returns the place below n and a segment, which it makes.
func (n *node) child(segment string) *node {
	at := &n.one
	switch segment {
	case one:
	case many:
		at = &n.many
	default:
		if n.literals == nil {
			n.literals = map[string]*node{}
		}
		if n.literals[segment] == nil {
			n.literals[segment] = &node{}
		}
		return n.literals[segment]
	}
	if *at == nil {
		*at = &node{}
	}
	return *at
}

// anyVerb is the verb of a route of all of HTTP's verbs.
const anyVerb = "*"

// find finds the route of a request. Literals come before wildcards, from the left, and a template
// with a verb before one without. If no route has the request's verb, it returns those that the
// path's routes have.
func (n *node) find(verb, path string) (r *route, segments, allow []string) {
	if strings.Count(path, "/") > maxSegments {
		return nil, nil, nil
	}
	segments = strings.Split(strings.TrimPrefix(path, "/"), "/")
	last := len(segments) - 1
	if head, name, ok := cutLast(segments[last]); ok {
		stripped := append(slices.Clone(segments[:last]), head)
		s := search{verb: verb, name: name}
		if r := s.below(n, stripped); r != nil {
			return r, stripped, nil
		}
		allow = s.allow
	}
	s := search{verb: verb, allow: allow}
	r = s.below(n, segments)
	return r, segments, s.allow
}

// maxSegments is how many segments the path of a request for a route may have.
const maxSegments = 256

// cutLast cuts a segment at its last colon.
func cutLast(segment string) (head, name string, ok bool) {
	i := strings.LastIndexByte(segment, ':')
	if i <= 0 || i == len(segment)-1 {
		return "", "", false
	}
	return segment[:i], segment[i+1:], true
}

// search looks for the route of a request.
type search struct {
	verb, name string // HTTP's verb, and the template's
	allow      []string
}

// below looks below a node. It visits each node at most once, as a node has one depth.
func (s *search) below(n *node, segments []string) *route {
	if len(segments) == 0 {
		if r := s.at(n); r != nil || n.many == nil {
			return r
		}
		return s.at(n.many)
	}
	if next := n.literals[segments[0]]; next != nil {
		if r := s.below(next, segments[1:]); r != nil {
			return r
		}
	}
	if n.one != nil {
		if r := s.below(n.one, segments[1:]); r != nil {
			return r
		}
	}
	if n.many != nil {
		return s.at(n.many)
	}
	return nil
}

// at returns the route that ends at a node.
func (s *search) at(n *node) *route {
	verbs := n.ends[s.name]
	if r := verbs[s.verb]; r != nil {
		return r
	}
	if r := verbs[anyVerb]; r != nil {
		return r
	}
	for verb := range verbs {
		if !slices.Contains(s.allow, verb) {
			s.allow = append(s.allow, verb)
		}
	}
	return nil
}
