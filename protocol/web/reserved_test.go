package web_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/tandem-rpc/tandem/protocol/web"
	"github.com/tandem-rpc/tandem/server"
)

// Messages of undeclared length (chunked ones in HTTP/1) are read to their end, with every
// size around the steps in which memory is reserved, and refused beyond the limit.
func TestMessagesOfUnknownLength(t *testing.T) {
	const step, most, quotes = 16 << 10, 1 << 20, 2
	w := newWebTest(t, web.New(), server.WithMaxMessage(most))
	w.must(w.srv.RegisterFunc("Text.Length", func(s string) int { return len(s) }))
	for version, c := range map[string]*http.Client{"HTTP/1.1": w.h1, "HTTP/2": w.h2} {
		for _, size := range []int{1, step - 1, step, step + 1, 20_000, 2*step - 1, 2 * step, 2*step + 1, 4*step + 1, most - 1, most, most + 1, 2 * most} {
			t.Run(fmt.Sprintf("%s, %d bytes", version, size), func(t *testing.T) {
				text := strings.Repeat("a", max(0, size-quotes))
				body := struct{ io.Reader }{strings.NewReader(`"` + text + `"`)} // net/http sends no Content-Length for this type
				req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://localhost/Text/Length", body)
				if err != nil {
					t.Fatal(err)
				}
				req.Header.Set("Content-Type", asJSON)
				res, err := c.Do(req)
				if err != nil {
					t.Fatal(err)
				}
				defer res.Body.Close()
				answer, _ := io.ReadAll(res.Body) // a connection that ends with a refusal may be cut short
				want, status := fmt.Sprint(len(text)), http.StatusOK
				if size > most {
					want, status = "resource_exhausted", http.StatusTooManyRequests
				}
				if res.StatusCode != status || !strings.Contains(string(answer), want) {
					t.Errorf("got %d, %.100s", res.StatusCode, answer)
				}
			})
		}
	}
}
