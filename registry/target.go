package registry

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strings"
)

// Target names a set of instances: scheme://authority/path?query. The scheme
// selects the [Resolver].
type Target struct {
	Scheme    string     // "tcp", "static", "file", "etcd", …; lower case
	Authority string     // between "//" and the next "/": hosts, never decoded
	Path      string     // from that "/" on, never decoded
	Query     url.Values // options; nil when there are none
}

// maxTarget bounds the text of a target, in bytes. A static list of MaxInstances
// addresses fits.
const maxTarget = 1 << 20

// ParseTarget parses a target string. A target without a scheme is taken as
// tcp://. Credentials before an "@" are an error: registries have options for them.
func ParseTarget(s string) (Target, error) {
	if len(s) > maxTarget {
		return Target{}, fmt.Errorf("target of %d bytes, limit %d", len(s), maxTarget)
	}
	scheme, rest := cutScheme(s)
	if !validScheme(scheme) {
		return Target{}, fmt.Errorf("target %.100q: bad scheme: want letters, digits, '+', '-' or '.' before ://", Redact(s))
	}
	if credentials(rest) > 0 && !strings.EqualFold(scheme, "unix") {
		return Target{}, fmt.Errorf("target %.100q: a target has no user or password: give them by WithAuth or WithToken of the registry's package", Redact(s))
	}
	rest, options, _ := strings.Cut(rest, "?")
	query, err := url.ParseQuery(options)
	if err != nil {
		return Target{}, fmt.Errorf("target %.100q: bad query: want name=value, with & between options", Redact(s)) // err may have a secret
	}
	t := Target{Scheme: strings.ToLower(scheme), Authority: rest}
	if i := strings.IndexByte(rest, '/'); i >= 0 {
		t.Authority, t.Path = rest[:i], rest[i:]
	}
	if len(query) > 0 {
		t.Query = query
	}
	if t.Address() == "" {
		return Target{}, fmt.Errorf("target %.100q: want scheme://address", Redact(s))
	}
	return t, nil
}

// cutScheme splits s at the "://" that ends its scheme. A "://" after a '/' or '?'
// does not end a scheme; without a scheme it returns tcp and s.
func cutScheme(s string) (scheme, rest string) {
	scheme, rest, ok := strings.Cut(s, "://")
	if !ok || strings.ContainsAny(scheme, "/?") {
		return "tcp", s
	}
	return scheme, rest
}

// validScheme reports whether s is a scheme as RFC 3986, section 3.1, defines it.
func validScheme(s string) bool {
	for i, c := range []byte(s) {
		letter := 'a' <= c|0x20 && c|0x20 <= 'z'
		if !letter && (i == 0 || !strings.ContainsRune("0123456789+-.", rune(c))) {
			return false
		}
	}
	return s != ""
}

// Address returns the text between "//" and "?": authority and path.
func (t Target) Address() string { return t.Authority + t.Path }

// String returns the target as a string that parses to an equal target.
func (t Target) String() string {
	s := t.Scheme + "://" + t.Address()
	if len(t.Query) > 0 {
		s += "?" + t.Query.Encode()
	}
	return s
}

// Redacted returns String without text that may be a secret, for errors, logs and pages.
// See [Redact].
func (t Target) Redacted() string { return Redact(t.String()) }

// hidden replaces a secret.
const hidden = "***"

// Redact returns the text of a target, valid or not, for errors, logs and pages. It
// replaces a user and password before the host, and the values of options whose names say
// that they are secret, such as password or token, by "***".
func Redact(target string) string {
	scheme, rest := cutScheme(target)
	if strings.HasSuffix(target, "://"+rest) {
		scheme += "://"
	} else {
		scheme = ""
	}
	if end := credentials(rest); end > 0 {
		rest = hidden + rest[end:]
	}
	rest, options, given := strings.Cut(rest, "?")
	if !given {
		return scheme + rest
	}
	list := strings.Split(options, "&")
	for i, o := range list {
		name, _, _ := strings.Cut(o, "=")
		if plain, err := url.QueryUnescape(name); err != nil || secret(plain) {
			list[i] = name + "=" + hidden
		}
	}
	return scheme + rest + "?" + strings.Join(list, "&")
}

// credentials returns how many bytes of a target, after its scheme, are or may be a user
// and a password before an "@"; 0 for none. A password may contain a slash or a question
// mark that is not escaped.
func credentials(rest string) int {
	authority := rest
	if i := strings.IndexAny(rest, "/?"); i >= 0 {
		authority = rest[:i]
	}
	for server := range strings.SplitSeq(authority, ",") {
		_, port, found := strings.Cut(server, ":")
		if found && !strings.HasPrefix(server, "[") && strings.Trim(port, "0123456789") != "" {
			return max(0, strings.LastIndexByte(rest, '@'))
		}
	}
	return max(0, strings.LastIndexByte(authority, '@'))
}

// secret reports whether an option's name says that its value is a secret.
func secret(name string) bool {
	name = strings.ToLower(name)
	for _, word := range []string{"pass", "pwd", "secret", "token", "auth", "cred", "apikey", "api_key", "api-key", "accesskey"} {
		if strings.Contains(name, word) {
			return true
		}
	}
	return false
}

// Options returns the values of the target's query by name. It fails for an
// option that is not among the names, so that a misspelled option is noticed,
// and for one that is given twice.
func (t Target) Options(names ...string) (map[string]string, error) {
	options := make(map[string]string, len(t.Query))
	for name, values := range t.Query {
		if !slices.Contains(names, name) {
			return nil, t.errorf("unknown option %.50q; there are %s", name, cmp.Or(strings.Join(names, ", "), "none"))
		}
		if len(values) != 1 {
			return nil, t.errorf("option %q is given %d times", name, len(values))
		}
		options[name] = values[0]
	}
	return options, nil
}

// errorf returns an error that begins with the target, shortened.
func (t Target) errorf(format string, args ...any) error {
	return fmt.Errorf("target %.100q: "+format, append([]any{t.Redacted()}, args...)...)
}
