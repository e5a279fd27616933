// Package authz (experimental) decides who may call what, by rules that are data: in a file, or a
// document of a registry, and followed while the server runs.
//
//	rules, err := authz.Follow(policy.File("authz.json"), authz.WithLogger(logger))
//	srv := server.New(server.WithPlugins(auth.New(authenticator), rules))
//
// It denies what no rule allows. A call is allowed if an allow rule fits it and no deny rule
// does; the order of the rules does not matter:
//
//	{
//	  "allow": [
//	    {"name": "cart reads", "callers": ["spiffe://shop/cart"], "methods": ["Stock.Get", "Stock.List"]},
//	    {"name": "staff", "callers": ["*"], "methods": ["Admin.*"], "claims": {"groups": {"contains": "staff"}}},
//	    {"name": "probes", "anyone": true, "methods": ["grpc.health.v1.Health.*"]}
//	  ],
//	  "deny": [{"name": "no trials", "callers": ["*"], "methods": ["Admin.*"], "claims": {"plan": {"equals": "trial"}}}]
//	}
//
// Package policy/yaml reads them from YAML: policy.Decoded(policy.File("authz.yaml"), yaml.JSON).
// The command tandem policy test --authz tries a file without a server. Rules hold for the method
// that is called, under whatever alias or spelling, on every protocol.
package authz

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/plugin/auth"
	"github.com/tandem-rpc/tandem/policy"
)

// The limits of rules.
const (
	maxRules      = 1000 // allow and deny rules together
	maxPatterns   = 1000 // of callers, methods, issuers or tenants in a rule
	maxConditions = 32   // of claims, or of metadata, in a rule
	maxText       = 1024 // bytes of a name, a pattern or a value
)

// Rules say which calls are allowed. They must not be changed after [Rules.Check].
type Rules struct {
	Version string `json:"version,omitempty"` // for people: what is in force, in logs and in the status
	Allow   []Rule `json:"allow,omitempty"`
	Deny    []Rule `json:"deny,omitempty"` // they win over all allow rules
}

// Rule fits a call if each of its fields that is set fits. In a rule that allows, all values of a
// metadata key must fit, in one that denies one suffices.
type Rule struct {
	Name string `json:"name"` // what decisions cite; each rule has its own

	// Callers are names of authenticated callers: the whole name, its beginning with a "*" after
	// one of "/", ":" and ".", such as "spiffe://shop/web/*", or "*" for all. Instead of them
	// Anyone fits all callers, also those that are not authenticated, as those of methods that are
	// auth.Public.
	Callers []string `json:"callers,omitempty"`
	Anyone  bool     `json:"anyone,omitempty"`

	Methods []string `json:"methods"`           // "Service.Method", "Service.*" or "*"
	Issuers []string `json:"issuers,omitempty"` // who vouches for the caller: issuers of tokens, trust domains
	Tenants []string `json:"tenants,omitempty"` // whose work the caller does

	Claims   map[string]Condition `json:"claims,omitempty"`   // by path, as for auth.Principal.Claim
	Metadata map[string]Condition `json:"metadata,omitempty"` // by key. The caller writes it: it proves nothing
}

// Condition compares a value. Exactly one of its fields must be set. Numbers and booleans are
// compared by their text in JSON, and a missing value fits no condition.
type Condition struct {
	Equals   string   `json:"equals,omitempty"`
	In       []string `json:"in,omitempty"`       // one of these equals the value
	Contains string   `json:"contains,omitempty"` // an element of a list, or a word of a text with spaces, as OAuth's scope
}

// Parse reads rules and checks them. Unknown fields, fields that differ in case and fields that occur twice
// are errors.
func Parse(text []byte) (*Rules, error) {
	if len(text) > policy.MaxSize {
		return nil, fmt.Errorf("authz: rules of %d bytes, limit %d", len(text), policy.MaxSize)
	}
	if err := exact(text); err != nil {
		return nil, fmt.Errorf("authz: %w", err)
	}
	r := new(Rules)
	if err := json.Unmarshal(text, r); err != nil {
		return nil, fmt.Errorf("authz: %w", err)
	}
	if err := r.Check(); err != nil {
		return nil, err
	}
	return r, nil
}

// Check returns an error for rules that can't be followed; it names the rule.
func (r *Rules) Check() error {
	if n := len(r.Allow) + len(r.Deny); n > maxRules {
		return fmt.Errorf("authz: %d rules, limit %d", n, maxRules)
	}
	seen := map[string]bool{}
	for i, rule := range slices.Concat(r.Allow, r.Deny) {
		err := rule.check()
		switch {
		case rule.Name == "" || len(rule.Name) > maxText || strings.ContainsFunc(rule.Name, unicode.IsControl):
			return fmt.Errorf("authz: rule %d needs a name of at most %d bytes without control characters", i+1, maxText)
		case err == nil && seen[rule.Name]:
			err = errors.New("another rule has this name")
		}
		if err != nil {
			return fmt.Errorf("authz: rule %q: %w", rule.Name, err)
		}
		seen[rule.Name] = true
	}
	return nil
}

func (r *Rule) check() error {
	switch {
	case r.Anyone == (len(r.Callers) > 0):
		return errors.New(`want callers, such as ["*"] for all that are authenticated, or "anyone": true`)
	case len(r.Methods) == 0:
		return errors.New(`want methods, such as ["Service.Method"], ["Service.*"] or ["*"]`)
	case r.Anyone && len(r.Issuers)+len(r.Tenants)+len(r.Claims) > 0:
		return errors.New(`"anyone" has no issuer, tenant or claims: write "callers": ["*"]`)
	case len(r.Claims) > maxConditions || len(r.Metadata) > maxConditions:
		return fmt.Errorf("more than %d conditions", maxConditions)
	}
	return cmp.Or(
		checkList("callers", r.Callers, checkCaller), checkList("methods", r.Methods, checkMethod),
		checkList("issuers", r.Issuers, nil), checkList("tenants", r.Tenants, nil),
		checkConditions("claims", r.Claims), checkConditions("metadata", r.Metadata),
	)
}

func checkList(field string, list []string, check func(string) error) error {
	if len(list) > maxPatterns {
		return fmt.Errorf("%s: %d values, limit %d", field, len(list), maxPatterns)
	}
	for _, s := range list {
		if s == "" || len(s) > maxText {
			return fmt.Errorf("%s: %.50q has %d bytes, want 1 to %d", field, s, len(s), maxText)
		}
		if check != nil {
			if err := check(s); err != nil {
				return fmt.Errorf("%s: %.200q: %w", field, s, err)
			}
		}
	}
	return nil
}

func checkCaller(pattern string) error {
	i := strings.IndexByte(pattern, '*')
	if i < 0 || pattern == "*" {
		return nil
	}
	if i != len(pattern)-1 || !strings.ContainsRune("/:.", rune(pattern[i-1])) {
		return errors.New(`a "*" stands at the end, after "/", ":" or ".", so that it begins a new part of the name`)
	}
	return nil
}

func checkMethod(pattern string) error {
	service, method, ok := cutLast(pattern)
	if pattern != "*" && (!ok || service == "" || method == "" || strings.ContainsRune(service, '*') || method != "*" && strings.ContainsRune(method, '*')) {
		return errors.New(`want "Service.Method", "Service.*" or "*"`)
	}
	return nil
}

func checkConditions(field string, all map[string]Condition) error {
	for name, c := range all {
		set := 0
		for _, is := range []bool{c.Equals != "", len(c.In) > 0, c.Contains != ""} {
			if is {
				set++
			}
		}
		switch {
		case name == "" || len(name) > maxText:
			return fmt.Errorf("%s: a name of %d bytes, want 1 to %d", field, len(name), maxText)
		case set != 1:
			return fmt.Errorf("%s: %.100q: want one of equals, in and contains", field, name)
		case len(c.Equals) > maxText || len(c.Contains) > maxText:
			return fmt.Errorf("%s: %.100q: a value of more than %d bytes", field, name, maxText)
		}
		if err := checkList(field, c.In, nil); err != nil {
			return err
		}
	}
	return nil
}

func cutLast(method string) (service, name string, ok bool) {
	i := strings.LastIndexByte(method, '.')
	if i < 0 {
		return "", method, false
	}
	return method[:i], method[i+1:], true
}

// Request is a call, as far as rules look at it.
type Request struct {
	Caller   *auth.Principal // nil for a caller that is not authenticated
	Method   string          // the registered name, not an alias
	Metadata tandem.Metadata
}

// Decision says whether a call is allowed.
type Decision struct {
	Allowed bool   `json:"allowed"`
	Rule    string `json:"rule,omitempty"` // the rule that decided; "" if none allows the call
}

// Decide applies the rules to a call.
func (r *Rules) Decide(q *Request) Decision {
	if rule := firstFit(pointers(r.Deny), q, true); rule != nil {
		return Decision{Rule: rule.Name}
	}
	if rule := firstFit(pointers(r.Allow), q, false); rule != nil {
		return Decision{Allowed: true, Rule: rule.Name}
	}
	return Decision{}
}

func firstFit(rules []*Rule, q *Request, denies bool) *Rule {
	for _, r := range rules {
		if r.misses(q, denies) == "" {
			return r
		}
	}
	return nil
}

func pointers(rules []Rule) []*Rule {
	all := make([]*Rule, len(rules))
	for i := range rules {
		all[i] = &rules[i]
	}
	return all
}

// Miss says why a rule does not fit a call.
type Miss struct {
	Rule  string `json:"rule"`
	Field string `json:"field"` // the first field that does not fit, as "claims"
}

// Misses returns the rules that do not fit a call, in the order of the rules: for people who wonder
// about a decision.
func (r *Rules) Misses(q *Request) (all []Miss) {
	for _, rule := range pointers(r.Deny) {
		if field := rule.misses(q, true); field != "" {
			all = append(all, Miss{rule.Name, field})
		}
	}
	for _, rule := range pointers(r.Allow) {
		if field := rule.misses(q, false); field != "" {
			all = append(all, Miss{rule.Name, field})
		}
	}
	return all
}

// misses returns the first field of the rule that does not fit the call; "" if it fits.
func (r *Rule) misses(q *Request, denies bool) string {
	switch {
	case !r.hasMethod(q.Method):
		return "methods"
	case !r.hasCaller(q.Caller):
		return "callers"
	}
	return r.missesElsewhere(q, denies)
}

func (r *Rule) hasMethod(name string) bool {
	for _, pattern := range r.Methods {
		if fitsMethod(pattern, name) {
			return true
		}
	}
	return false
}

func (r *Rule) hasCaller(p *auth.Principal) bool {
	if r.Anyone || p == nil {
		return r.Anyone
	}
	for _, pattern := range r.Callers {
		if fitsCaller(pattern, p.Name) {
			return true
		}
	}
	return false
}

// missesElsewhere looks at the fields besides methods and callers.
func (r *Rule) missesElsewhere(q *Request, denies bool) string {
	switch {
	case len(r.Issuers) > 0 && !slices.Contains(r.Issuers, q.Caller.Issuer):
		return "issuers"
	case len(r.Tenants) > 0 && !slices.Contains(r.Tenants, q.Caller.Tenant):
		return "tenants"
	}
	for path, c := range r.Claims {
		if value, ok := q.Caller.Claim(path); !ok || !c.fits(value) {
			return "claims"
		}
	}
	for key, c := range r.Metadata {
		if !c.fitsValues(q.Metadata.Values(key), denies) {
			return "metadata"
		}
	}
	return ""
}

func fitsMethod(pattern, method string) bool {
	if pattern == "*" || pattern == method {
		return true
	}
	service, all := strings.CutSuffix(pattern, ".*")
	of, _, _ := cutLast(method)
	return all && of == service
}

func fitsCaller(pattern, name string) bool {
	if beginning, ok := strings.CutSuffix(pattern, "*"); ok {
		return strings.HasPrefix(name, beginning) && (len(name) > len(beginning) || pattern == "*")
	}
	return pattern == name
}

// fits compares a claim.
func (c *Condition) fits(value any) bool {
	if list, ok := value.([]any); ok {
		return c.Contains != "" && slices.ContainsFunc(list, func(v any) bool {
			s, ok := textOf(v)
			return ok && s == c.Contains
		})
	}
	s, ok := textOf(value)
	return ok && c.fitsText(s)
}

func (c *Condition) fitsText(s string) bool {
	switch {
	case c.Contains != "":
		for word := range strings.SplitSeq(s, " ") {
			if word == c.Contains {
				return true
			}
		}
		return false
	case len(c.In) > 0:
		return slices.Contains(c.In, s)
	}
	return s == c.Equals
}

// fitsValues compares metadata: one value is enough, or all must fit, but at least one.
func (c *Condition) fitsValues(values []string, one bool) bool {
	if one {
		return slices.ContainsFunc(values, c.fitsText)
	}
	return len(values) > 0 && !slices.ContainsFunc(values, func(s string) bool { return !c.fitsText(s) })
}

// textOf returns a scalar of JSON as text.
func textOf(value any) (string, bool) {
	switch v := value.(type) {
	case string:
		return v, true
	case json.Number:
		return v.String(), true
	case bool, float64, int, int64:
		return fmt.Sprint(v), true
	}
	return "", false
}
