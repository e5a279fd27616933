package debug_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/client/debug"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// dial returns a client of two servers that do not exist.
func dial() *client.Client {
	c, err := client.Dial("static://127.0.0.1:1,127.0.0.1:2")
	if err != nil {
		panic(err)
	}
	return c
}

// get answers a request.
func get(c *client.Client, method, url string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	debug.Handler(c).ServeHTTP(w, httptest.NewRequest(method, url, http.NoBody))
	return w
}

func TestHandler(t *testing.T) {
	c := dial()
	defer c.Close()
	r := get(c, http.MethodGet, "/?method=Arith.Mul")
	var e client.Explanation
	if err := json.NewDecoder(r.Body).Decode(&e); err != nil || e.Method != "Arith.Mul" || r.Header().Get("Content-Type") != "application/json" {
		t.Errorf("%v with header %v explains %+v", err, r.Header(), &e)
	}
	if r := get(c, http.MethodPost, "/"); r.Code != http.StatusMethodNotAllowed {
		t.Errorf("a POST is answered %d", r.Code)
	}
	text := get(c, http.MethodGet, "/?method=Arith.Mul&format=text").Body.String()
	if !strings.HasPrefix(text, "Arith.Mul at static://127.0.0.1:1,127.0.0.1:2 by ") {
		t.Errorf("as text: %s", text)
	}
}

func ExampleHandler() {
	c := dial()
	defer c.Close()
	mux := http.NewServeMux()
	mux.Handle("/debug/tandem", debug.Handler(c))
	w := httptest.NewRecorder()
	mux.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/debug/tandem?method=Arith.Mul", http.NoBody))
	fmt.Println(w.Code, strings.Contains(w.Body.String(), `"target": "static://127.0.0.1:1,127.0.0.1:2"`))
	// Output: 200 true
}
