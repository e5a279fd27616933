package instructions

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// Profile is one dump of callgrind's.
type Profile struct {
	Total  int64            // instructions, as the dump says itself; the sum of Self
	Self   map[string]int64 // of each function without those that it calls
	Calls  map[string]int64 // how often each was called
	Missed int64            // reads and writes of data that were in no simulated cache, as the dump says
}

// maxLine is the longest line that a dump may have: a name may be long.
const maxLine = 1 << 20

// ReadProfile reads a dump in the format that valgrind's manual describes
// (Callgrind Format Specification, version 1). Of a function that calls itself
// callgrind makes several, "f" and "f'2"; they count as one. A dump whose lines
// do not add up to its totals is an error, so that one cut short is not taken
// for a small one.
func ReadProfile(r io.Reader) (*Profile, error) {
	p := parser{
		profile:   &Profile{Self: map[string]int64{}, Calls: map[string]int64{}},
		names:     map[string]string{},
		positions: 1,
		event:     -1,
	}
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxLine)
	for n := 1; lines.Scan(); n++ {
		if err := p.line(strings.TrimSpace(lines.Text())); err != nil {
			return nil, fmt.Errorf("instructions: line %d of callgrind's dump: %w", n, err)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("instructions: reading callgrind's dump: %w", err)
	}
	if !p.hasTotal {
		return nil, errors.New("instructions: callgrind's dump has no totals: was it cut short?")
	}
	if p.sum != p.profile.Total {
		return nil, fmt.Errorf("instructions: the lines of callgrind's dump add up to %d instructions, its totals say %d", p.sum, p.profile.Total)
	}
	return p.profile, nil
}

// parser is a dump that is being read.
type parser struct {
	profile   *Profile
	names     map[string]string // of functions, by their numbers in the dump
	positions int               // columns of a line before its costs
	event     int               // which cost counts instructions; -1 until known
	misses    []int             // which costs count misses; none without simulated caches
	function  string            // whose lines follow
	callee    string            // whom the next call calls
	inclusive bool              // the next line is the cost of a call, which is not the function's own
	hasTotal  bool
	sum       int64
}

// line reads one: a cost, "key=value" in the body, or "key: value" in the head.
func (p *parser) line(text string) error {
	switch {
	case text == "" || text[0] == '#':
		return nil
	case strings.IndexByte("0123456789+-*", text[0]) >= 0:
		return p.cost(text)
	}
	// A name may have either sign in it; the key ends at the first.
	i := strings.IndexAny(text, "=:")
	if i < 0 {
		return fmt.Errorf("%q is neither a cost nor a specification", text)
	}
	if text[i] == '=' {
		return p.specification(text[:i], strings.TrimSpace(text[i+1:]))
	}
	return p.header(text[:i], strings.Fields(text[i+1:]))
}

// header reads what matters of the head, and the totals at the end.
func (p *parser) header(key string, values []string) (err error) {
	switch key {
	case "positions":
		p.positions = len(values)
	case "events":
		if p.event = slices.Index(values, "Ir"); p.event < 0 {
			return fmt.Errorf("it counts %q, and not Ir, instructions", values)
		}
		p.misses = nil
		for i, name := range values {
			if name == "DLmr" || name == "DLmw" { // reads and writes that the last cache did not have
				p.misses = append(p.misses, i)
			}
		}
	case "totals":
		if p.event < 0 || p.event >= len(values) {
			return fmt.Errorf("totals %q without instructions", values)
		}
		p.hasTotal = true
		if p.profile.Total, err = addField(p.profile.Total, values[p.event]); err != nil {
			return err
		}
		for _, i := range p.misses {
			if i < len(values) && err == nil {
				p.profile.Missed, err = addField(p.profile.Missed, values[i])
			}
		}
	}
	return err
}

// addField adds a count that is still a text.
func addField(sum int64, text string) (int64, error) {
	n, err := number(text)
	if err != nil {
		return sum, err
	}
	return add(sum, n)
}

// specification reads who is meant from here on. Files and objects don't
// matter: a function's name has its package.
func (p *parser) specification(key, value string) (err error) {
	switch key {
	case "fn":
		p.function, err = p.name(value)
	case "cfn":
		p.callee, err = p.name(value)
	case "calls":
		count, _, _ := strings.Cut(value, " ")
		var n int64
		if n, err = number(count); err != nil {
			return err
		}
		p.inclusive = true
		p.profile.Calls[p.callee], err = add(p.profile.Calls[p.callee], n)
	}
	return err
}

// name reads "(number) name", which gives a name a number, "(number)" or "name".
func (p *parser) name(text string) (string, error) {
	if !strings.HasPrefix(text, "(") {
		return withoutDepth(text), nil
	}
	id, rest, closed := strings.Cut(text[1:], ")")
	if !closed || strings.Trim(id, "0123456789") != "" { // a name may begin with a bracket too
		return withoutDepth(text), nil
	}
	if rest = strings.TrimSpace(rest); rest != "" {
		p.names[id] = withoutDepth(rest)
	}
	name, known := p.names[id]
	if !known {
		return "", fmt.Errorf("function %s has no name yet", id)
	}
	return name, nil
}

// withoutDepth cuts off the "'2" of a function that calls itself.
func withoutDepth(name string) string {
	base, depth, found := strings.Cut(name, "'")
	if _, err := strconv.Atoi(depth); !found || err != nil {
		return name
	}
	return base
}

// cost reads a line of positions and costs. A cost that is not there is 0.
func (p *parser) cost(text string) error {
	if p.event < 0 {
		return errors.New("a cost before the line that says which events are counted")
	}
	if p.inclusive {
		p.inclusive = false
		return nil
	}
	column, fields := p.positions+p.event, strings.Fields(text)
	if column >= len(fields) {
		return nil
	}
	n, err := number(fields[column])
	if err != nil {
		return err
	}
	if p.sum, err = add(p.sum, n); err != nil {
		return err
	}
	p.profile.Self[p.function] += n // no more than the sum
	return nil
}

// number reads a count, which may be hexadecimal.
func number(text string) (int64, error) {
	n, err := strconv.ParseInt(text, 0, 64)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("%q is no count", text)
	}
	return n, nil
}

// add adds counts.
func add(a, b int64) (int64, error) {
	if a+b < a {
		return 0, errors.New("more than an int64 can count")
	}
	return a + b, nil
}
