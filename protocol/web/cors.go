package web

import (
	"net/http"
	"slices"
	"strings"
)

// CORS says which pages of other sites may call methods from a browser
// (https://fetch.spec.whatwg.org/#http-cors-protocol).
type CORS struct {
	// Origins are the origins of those pages, such as "https://shop.example"; "*" for all.
	Origins []string
	// Headers are names that a request may have besides those of the protocols, such as
	// "Authorization".
	Headers []string
	// Expose are names of response headers that a page may read besides those of the
	// protocols.
	Expose []string
	// Credentials lets requests carry cookies and client certificates. It needs named Origins:
	// "*" is ignored then.
	Credentials bool
}

// WithCORS lets pages of other sites call methods and the handlers of [WithHandler].
// Without it browsers prevent that.
func WithCORS(rule CORS) Option { return func(o *options) { o.cors = &rule } }

// Header names that the protocols need.
const (
	corsRequest = "Content-Type, Connect-Protocol-Version, Connect-Timeout-Ms, Grpc-Timeout, X-Grpc-Web, X-User-Agent"
	corsExpose  = "Grpc-Status, Grpc-Message, Grpc-Status-Details-Bin, Grpc-Encoding, Connect-Content-Encoding, Retry-After"
	corsMaxAge  = "7200" // seconds; the longest that all browsers honor
)

// wrap serves next to pages, which may use the verbs of methods and those of a router.
func (c *CORS) wrap(next http.Handler, r Router) http.Handler {
	verbs := []string{http.MethodGet, http.MethodPost}
	if r != nil {
		for _, p := range r.Paths() {
			if !slices.Contains(verbs, p.Verb) {
				verbs = append(verbs, p.Verb)
			}
		}
	}
	slices.Sort(verbs)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		origin := r.Header.Get("Origin")
		allowed := c.allows(origin)
		h := w.Header()
		h.Add("Vary", "Origin")
		if allowed {
			c.permit(h, origin)
		}
		if r.Method != http.MethodOptions || r.Header.Get("Access-Control-Request-Method") == "" {
			next.ServeHTTP(w, r)
			return
		}
		h.Add("Vary", "Access-Control-Request-Method, Access-Control-Request-Headers")
		if allowed {
			h.Set("Access-Control-Allow-Methods", strings.Join(verbs, ", "))
			h.Set("Access-Control-Allow-Headers", join(corsRequest, c.Headers))
			h.Set("Access-Control-Max-Age", corsMaxAge)
		}
		w.WriteHeader(http.StatusNoContent)
	})
}

// allows reports whether pages of an origin may call.
func (c *CORS) allows(origin string) bool {
	return origin != "" && (slices.Contains(c.Origins, origin) || !c.Credentials && slices.Contains(c.Origins, "*"))
}

func (c *CORS) permit(h http.Header, origin string) {
	h.Set("Access-Control-Allow-Origin", origin)
	h.Set("Access-Control-Expose-Headers", join(corsExpose, c.Expose))
	if c.Credentials {
		h.Set("Access-Control-Allow-Credentials", "true")
	}
}

func join(first string, more []string) string {
	return strings.Join(append([]string{first}, more...), ", ")
}
