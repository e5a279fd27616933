package web

import (
	"net/http"
	"net/url"
	"strings"
	"unicode/utf8"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/server"
)

// objection returns the reason to refuse a request that a proxy or an interceptor may
// interpret in another way than the server does; "" if there is none.
func (c *conn) objection(r *http.Request) string {
	if why, _ := c.malformed(); why != "" {
		return why
	}
	if len(r.Header["Authorization"]) > 1 {
		return "it has more than one Authorization"
	}
	if r.Method == http.MethodGet && r.Header.Get("Upgrade") != "" && r.ContentLength != 0 {
		return "it asks for another protocol, and has a body"
	}
	return pathObjection(r.URL)
}

// pathObjection returns what is wrong with a path, "" for nothing: each resource must have
// exactly one spelling.
func pathObjection(u *url.URL) string {
	if !utf8.ValidString(u.Path) {
		return "its path is not UTF-8"
	}
	for i := range len(u.Path) {
		if c := u.Path[i]; c < ' ' || c == 0x7f || c == '\\' {
			return "its path has a control character or backslash"
		}
	}
	if strings.Contains(u.Path, "//") || strings.Contains(u.Path+"/", "/./") || strings.Contains(u.Path+"/", "/../") {
		return "its path has an empty segment, a dot or two dots"
	}
	for raw := u.RawPath; raw != ""; {
		_, after, found := strings.Cut(raw, "%")
		if !found || len(after) < 2 {
			break
		}
		if c, err := url.PathUnescape("%" + after[:2]); err == nil && unreserved(c[0]) {
			return "its path encodes a character that needs no encoding"
		}
		raw = after
	}
	return ""
}

// unreserved reports whether a character needs no encoding: RFC 3986, section 2.3.
func unreserved(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("-._~", c) >= 0
}

// encodesSlash reports whether the path of a request encodes a slash, which makes it ambiguous.
func encodesSlash(r *http.Request) bool {
	return strings.Contains(strings.ToLower(r.URL.RawPath), "%2f")
}

// isBodyOfGet reports whether a request is a GET with a body. A proxy may take that for the next request,
// so no method is called, and the connection ends.
func isBodyOfGet(r *http.Request) bool {
	return r.Method == http.MethodGet && r.ProtoMajor == 1 && r.ContentLength != 0
}

// hasVerb reports whether the method of a request is called by its verb.
func (x *exchange) hasVerb() bool {
	verb := x.req.Method
	return x.route != nil || verb == http.MethodPost || verb == http.MethodGet && x.method.Safe
}

// bodyOfGet answers a GET with a body for a method that is called by GET.
func (g *gateway) bodyOfGet(w http.ResponseWriter, x *exchange) {
	why := tandem.Errorf(tandem.InvalidArgument, "malformed request: it is a GET with a body")
	g.refuse(w, x, why, func(err error) { writeError(w, http.StatusBadRequest, err) })
}

// refuseMalformed answers a request that is refused by objection or encodesSlash, and ends its
// connection.
func refuseMalformed(w http.ResponseWriter, r *http.Request, c *server.Conn, why string) {
	limitAnswer(http.NewResponseController(w), r, c, 0)
	w.Header().Set("Connection", "close")
	writeError(w, http.StatusBadRequest, tandem.Errorf(tandem.InvalidArgument, "malformed request: %s", why))
}
