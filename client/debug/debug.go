// Package debug (experimental) shows over HTTP what a client knows of its instances, and where it
// would send a call now:
//
//	http.Handle("/debug/tandem", debug.Handler(c))
//
//	curl 'localhost:6060/debug/tandem?method=Arith.Mul'
//
// It shows names and addresses of servers: protect it like net/http/pprof.
package debug

import (
	"encoding/json"
	"net/http"

	"github.com/tandem-rpc/tandem/client"
)

// Handler answers GET requests with the client's [client.Explanation] of the method in the
// parameter "method", as JSON, or as text with format=text. It is safe for concurrent use.
func Handler(c *client.Client) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, "only GET", http.StatusMethodNotAllowed)
			return
		}
		e := c.Describe(r.FormValue("method"))
		if r.FormValue("format") == "text" {
			w.Header().Set("Content-Type", "text/plain; charset=utf-8")
			_, _ = w.Write([]byte(e.String())) //nolint:gosec // it is plain text; if it fails, the requester has gone
			return
		}
		w.Header().Set("Content-Type", "application/json")
		out := json.NewEncoder(w)
		out.SetIndent("", "  ")
		_ = out.Encode(e) // as above
	})
}
