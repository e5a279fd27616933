package web

import (
	"embed"
	"net/http"
	"path"
)

// pages has the page from which methods are called, with its script and style.
//
//go:embed page
var pages embed.FS

// WithPages serves a page at / from which people call methods in a browser, and the
// document that it is built from at /openapi.json: OpenAPI 3.1, from the types of the
// methods, with streams and the paths of [WithRouter]; the page leaves out those paths. Both list the
// methods to anyone who can connect, and no interceptor runs, so they are not served by default. The
// page loads nothing from other sites.
func WithPages() Option {
	return func(o *options) {
		o.document = true
		o.mounts = append(o.mounts,
			mount{"GET /{$}", page("page.html", "text/html; charset=utf-8")},
			mount{"GET /page.js", page("page.js", "text/javascript; charset=utf-8")},
			mount{"GET /page.css", page("page.css", "text/css; charset=utf-8")})
	}
}

// policy lets the page load from, and call, this server only.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

func page(name, contentType string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, err := pages.ReadFile(path.Join("page", name))
		if err != nil {
			writeError(w, http.StatusInternalServerError, err)
			return
		}
		h := w.Header()
		h.Set("Content-Type", contentType)
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cache-Control", "no-cache")
		limitAnswer(http.NewResponseController(w), r, Conn(r.Context()), len(b))
		_, _ = w.Write(b) // an error means that the client is gone
	})
}
