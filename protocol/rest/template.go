package rest

import (
	"fmt"
	"slices"
	"strings"
)

// template is a path template of google.api.http, parsed: /v1/{name=shelves/*}:merge.
type template struct {
	segments  []string // literals, and the wildcards "*" and "**"; the latter is last
	variables []variable
	verb      string // without the colon; "" for none
}

// variable is a field of the request that gets a part of the path.
type variable struct {
	field    string // its path, such as "shelf.name"
	from, to int    // its segments
}

const (
	one  = "*"  // one segment
	many = "**" // all further segments
)

// parser parses a template: https://github.com/googleapis/googleapis/blob/master/google/api/http.proto.
type parser struct {
	rest string
	t    template
}

// parse parses a template.
func parse(text string) (*template, error) {
	p := parser{rest: text}
	if err := p.parse(); err != nil {
		return nil, fmt.Errorf("path %.200q: %w", text, err)
	}
	return &p.t, nil
}

func (p *parser) parse() error {
	if !p.take("/") {
		return p.expected("a slash")
	}
	if err := p.segments(false); err != nil {
		return err
	}
	if p.take(":") {
		if p.t.verb = p.literal(); p.t.verb == "" {
			return p.expected("a verb")
		}
	}
	if p.rest != "" {
		return p.expected("a slash, a verb or the end")
	}
	if i := slices.Index(p.t.segments, many); i >= 0 && i != len(p.t.segments)-1 {
		return fmt.Errorf("only the last segment may be %s", many)
	}
	return nil
}

// segments parses segments with slashes between them.
func (p *parser) segments(inVariable bool) error {
	for {
		if err := p.segment(inVariable); err != nil {
			return err
		}
		if !p.take("/") {
			return nil
		}
	}
}

func (p *parser) segment(inVariable bool) error {
	switch {
	case p.take(many):
		p.t.segments = append(p.t.segments, many)
	case p.take(one):
		p.t.segments = append(p.t.segments, one)
	case p.take("{"):
		if inVariable {
			return fmt.Errorf("a variable within a variable before %.50q", p.rest)
		}
		return p.variable()
	default:
		text := p.literal()
		if text == "" {
			return p.expected("a segment")
		}
		p.t.segments = append(p.t.segments, text)
	}
	return nil
}

func (p *parser) variable() error {
	end := strings.IndexAny(p.rest, "=}")
	if end < 0 {
		return fmt.Errorf("a variable has no end: %.50q", p.rest)
	}
	v := variable{field: p.rest[:end], from: len(p.t.segments)}
	if !isFieldPath(v.field) {
		return fmt.Errorf("%.50q is no path of a field", v.field)
	}
	if slices.ContainsFunc(p.t.variables, func(other variable) bool { return other.field == v.field }) {
		return fmt.Errorf("variable %.50q is there twice", v.field)
	}
	p.rest = p.rest[end:]
	if p.take("=") {
		if err := p.segments(true); err != nil {
			return err
		}
	} else {
		p.t.segments = append(p.t.segments, one)
	}
	if !p.take("}") {
		return p.expected("the end of a variable")
	}
	v.to = len(p.t.segments)
	p.t.variables = append(p.t.variables, v)
	return nil
}

// isFieldPath reports whether text is names with dots between them.
func isFieldPath(text string) bool {
	for name := range strings.SplitSeq(text, ".") {
		if name == "" || '0' <= name[0] && name[0] <= '9' || strings.TrimFunc(name, isNameRune) != "" {
			return false
		}
	}
	return true
}

func isNameRune(r rune) bool {
	return r == '_' || '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z'
}

// literal takes characters that a segment of a path can have without encoding, except colons.
func (p *parser) literal() string {
	end := strings.IndexFunc(p.rest, func(r rune) bool {
		return !isNameRune(r) && !strings.ContainsRune("-.~!$&'(),;@+", r)
	})
	if end < 0 {
		end = len(p.rest)
	}
	text := p.rest[:end]
	if text == "." || text == ".." {
		return "" // no request has them
	}
	p.rest = p.rest[end:]
	return text
}

func (p *parser) take(text string) bool {
	rest, ok := strings.CutPrefix(p.rest, text)
	p.rest = rest
	return ok
}

func (p *parser) expected(what string) error {
	if p.rest == "" {
		return fmt.Errorf("it ends where %s is expected", what)
	}
	return fmt.Errorf("%s is expected before %.50q", what, p.rest)
}

// String returns the template; parse accepts it.
func (t *template) String() string {
	var s strings.Builder
	for i, segment := range t.segments {
		s.WriteByte('/')
		for _, v := range t.variables {
			if v.from == i {
				s.WriteString("{" + v.field + "=")
			}
		}
		s.WriteString(segment)
		for _, v := range t.variables {
			if v.to == i+1 {
				s.WriteByte('}')
			}
		}
	}
	if t.verb != "" {
		s.WriteString(":" + t.verb)
	}
	return s.String()
}

// openAPI returns the template with OpenAPI's variables, which are one segment each, and their
// names for each of the template's variables.
func (t *template) openAPI() (path string, names [][]string) {
	names = make([][]string, len(t.variables))
	var s strings.Builder
	unnamed := 0
	for i, segment := range t.segments {
		s.WriteByte('/')
		if segment != one && segment != many {
			s.WriteString(segment)
			continue
		}
		name := ""
		for k, v := range t.variables {
			if v.from <= i && i < v.to {
				if name = v.field; t.wildcards(v) > 1 {
					name = fmt.Sprintf("%s_%d", v.field, len(names[k])+1)
				}
				names[k] = append(names[k], name)
			}
		}
		if name == "" {
			unnamed++
			name = fmt.Sprintf("segment_%d", unnamed)
		}
		s.WriteString("{" + name + "}")
	}
	if t.verb != "" {
		s.WriteString(":" + t.verb)
	}
	return s.String(), names
}

// wildcards returns how many wildcards a variable has.
func (t *template) wildcards(v variable) (n int) {
	for _, segment := range t.segments[v.from:v.to] {
		if segment == one || segment == many {
			n++
		}
	}
	return n
}
