package kubernetes

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tandem-rpc/tandem/registry"
)

const target = "kubernetes://shop/price:tandem"

// A list follows slices that are added, changed and deleted.
func TestFollowsSlices(t *testing.T) {
	f := newFake(t)
	f.put(pods("price-a", 1, 2))
	w := watchList(t, f.serve(), target)
	s := w.sees("price-1", "price-2")
	if ep := s.Instances[0].Endpoints[0]; ep.Transport != "tcp" || ep.Address != "10.0.0.1:8972" || ep.Protocol != "" {
		t.Errorf("endpoint %+v", ep)
	}
	f.put(pods("price-b", 3))
	w.sees("price-1", "price-2", "price-3")
	f.put(pods("price-a", 2))
	w.sees("price-2", "price-3")
	f.remove("price-b")
	w.sees("price-2")
	f.put(pods("price-a"))
	w.sees()
	if lists := len(f.asked(false)); lists != 1 {
		t.Errorf("%d lists were read", lists)
	}
}

// A watch that the server ends, or whose connection breaks, goes on without another list, from
// the last version, which may be that of a bookmark.
func TestGoesOnWithoutAList(t *testing.T) {
	f := newFake(t)
	f.put(pods("price-a", 1))
	w := watchList(t, f.serve(), target)
	w.sees("price-1")
	f.bookmark()                                  // version 2
	time.Sleep(shortWatch + 100*time.Millisecond) // a watch that ends sooner is a failure
	f.endWatches()
	f.put(pods("price-a", 1, 2))
	w.sees("price-1", "price-2")
	watches := f.asked(true)
	if got := watches[len(watches)-1].URL.Query(); got.Get("resourceVersion") != "2" || got.Get("allowWatchBookmarks") != "true" || got.Get("timeoutSeconds") == "" {
		t.Errorf("the second watch asked for %v", got)
	}
	f.inject(func(http.ResponseWriter, *http.Request) bool { panic(http.ErrAbortHandler) }) // the server is away
	f.endWatches()
	w.fails("EOF")
	f.put(pods("price-a", 2, 3))
	f.inject(nil)
	w.sees("price-2", "price-3")
	if lists := len(f.asked(false)); lists != 1 {
		t.Errorf("%d lists were read", lists)
	}
}

// A watch from a version that the server has forgotten reads the list again.
func TestReadsTheListAgainWhenItsVersionIsGone(t *testing.T) {
	for form, event := range map[string]bool{"as a response": false, "as an event": true} {
		t.Run(form, func(t *testing.T) {
			f := newFake(t)
			f.put(pods("price-a", 1))
			w := watchList(t, f.serve(), target)
			w.sees("price-1")
			f.put(pods("price-b", 2))
			w.sees("price-1", "price-2")
			if event {
				var once atomic.Bool
				f.inject(func(w http.ResponseWriter, r *http.Request) bool {
					if !r.URL.Query().Has("watch") || once.Swap(true) {
						return false
					}
					fmt.Fprintln(w, `{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired","message":"too old resource version: 2 (9)"}}`)
					return true
				})
			}
			f.mu.Lock() // a change that nobody reports
			delete(f.slices, "price-a")
			f.mu.Unlock()
			f.compact()
			f.endWatches()
			w.sees("price-2")
			if lists := len(f.asked(false)); lists != 2 || w.failures > 0 {
				t.Errorf("%d lists were read, and there were %d errors", lists, w.failures)
			}
		})
	}
}

// A client that is told to come back later does not come back sooner.
func TestWaitsAsLongAsRetryAfterSays(t *testing.T) {
	f := newFake(t)
	f.put(pods("price-a", 1))
	var refused atomic.Int32
	f.inject(func(w http.ResponseWriter, _ *http.Request) bool {
		if refused.Add(1) > 1 {
			return false
		}
		w.Header().Set("Retry-After", "2")
		refuse(w, http.StatusTooManyRequests, "too many requests, please try again later")
		return true
	})
	start := time.Now()
	w := watchList(t, f.serve(), target)
	w.fails("429: too many requests")
	w.sees("price-1")
	if d := time.Since(start); d < 2*time.Second {
		t.Errorf("came back after %v", d)
	}
}

// Retry-After is bounded, and many clients don't come back at the same moment.
func TestRetryAfter(t *testing.T) {
	for _, tc := range []struct {
		code   int
		header string
		random float64
		want   time.Duration
	}{
		{429, "4", 0, 4 * time.Second},
		{429, "4", 0.5, 4500 * time.Millisecond},
		{429, "", 0, unstatedRetry},
		{429, "soon", 0, unstatedRetry},
		{429, "86400", 0, maxRetryAfter},
		{429, "99999999999999999999", 0, unstatedRetry},
		{503, "1", 0, time.Second},
		{503, "", 0, 0},
	} {
		resp := &http.Response{StatusCode: tc.code, Header: http.Header{"Retry-After": {tc.header}}}
		if got := retryAfter(resp, tc.random); got != tc.want {
			t.Errorf("%d %q: %v, want %v", tc.code, tc.header, got, tc.want)
		}
	}
}

// A list of several pages is read whole.
func TestReadsAllPages(t *testing.T) {
	f := newFake(t)
	var want []string
	for i := range 2*pageSize + 1 {
		f.put(pods(fmt.Sprintf("price-%03d", i), 1))
	}
	f.put(pods("price-999", 2))
	want = append(want, "price-1", "price-2")
	watchList(t, f.serve(), target).sees(want...)
	if lists := len(f.asked(false)); lists != 3 {
		t.Errorf("%d pages were read", lists)
	}
}

// What an API server or something in its place may answer leads to an error, and the right
// answer afterwards to a list.
func TestSurvivesWrongAnswers(t *testing.T) {
	long := `{"type":"ADDED","object":{"metadata":{"resourceVersion":"9","name":"` + strings.Repeat("x", maxEvent) + `"}}}`
	for name, tc := range map[string]struct {
		watch  bool
		code   int
		answer string
		err    string
	}{
		"a page":              {false, 200, "<html>", "the API server's list: invalid character"},
		"no version":          {false, 200, "{}", "no resourceVersion"},
		"a list that is cut":  {false, 200, `{"items":[`, "unexpected EOF"},
		"pages without end":   {false, 200, `{"metadata":{"continue":"x"}}`, "empty page"},
		"a redirect":          {false, 302, "", "302"},
		"forbidden":           {false, 403, `{"message":"endpointslices is forbidden"}`, "403: endpointslices is forbidden: give the service account the Role"},
		"a long message":      {false, 500, strings.Repeat("m", 10000), "mmm…"},
		"a watch of garbage":  {true, 200, "<html>\n", "an event of the watch: invalid character"},
		"an event cut off":    {true, 200, `{"type":"ADD`, "unexpected EOF"},
		"an event too long":   {true, 200, long + "\n", "more than 4194304 bytes"},
		"an unknown event":    {true, 200, `{"type":"X","object":{"metadata":{"resourceVersion":"9"}}}` + "\n", "unknown type"},
		"an empty event":      {true, 200, "{}\n", "unexpected end of JSON"},
		"an unversioned one":  {true, 200, `{"type":"ADDED","object":{"metadata":{"name":"x"}}}` + "\n", "no resourceVersion"},
		"an error event":      {true, 200, `{"type":"ERROR","object":{"code":500,"message":"etcd is away"}}` + "\n", "500: etcd is away"},
		"a watch at an end":   {true, 200, "", "ended the watch at once"},
		"too large a version": {true, 504, `{"message":"Too large resource version: 9, current: 3"}`, "504: Too large resource version"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFake(t)
			f.put(pods("price-a", 1))
			var done atomic.Bool
			f.inject(func(w http.ResponseWriter, r *http.Request) bool {
				if r.URL.Query().Has("watch") != tc.watch || done.Swap(true) {
					return false
				}
				w.WriteHeader(tc.code)
				fmt.Fprint(w, tc.answer)
				return true
			})
			w := watchList(t, f.serve(), target)
			w.fails(tc.err)
			w.sees("price-1")
		})
	}
}

// A version that the server answers with an error is not used again: the list is read again. One
// that it refuses for other reasons is.
func TestKeepsItsVersionThroughRefusals(t *testing.T) {
	for code, lists := range map[int]int{401: 1, 403: 1, 429: 1, 503: 1, 500: 2, 504: 2, 400: 2} {
		t.Run(fmt.Sprint(code), func(t *testing.T) {
			t.Parallel()
			f := newFake(t)
			f.put(pods("price-a", 1))
			var done atomic.Bool
			f.inject(func(w http.ResponseWriter, r *http.Request) bool {
				if !r.URL.Query().Has("watch") || done.Swap(true) {
					return false
				}
				w.Header().Set("Retry-After", "0")
				refuse(w, code, "no")
				return true
			})
			w := watchList(t, f.serve(), target)
			w.fails("no")
			w.sees("price-1")
			if got := len(f.asked(false)); got != lists {
				t.Errorf("%d lists were read, want %d", got, lists)
			}
		})
	}
}

// A port that no slice has is an error that names those that there are, not an empty list.
func TestUnknownPortIsAnError(t *testing.T) {
	f := newFake(t)
	f.put(pods("price-a", 1))
	r := f.serve()
	w := watchList(t, r, "kubernetes://shop/price:http")
	w.fails("the endpoints of shop/price have no port http; they have tandem (8972)")
	watchList(t, r, "kubernetes://shop/other:http").sees()
}

// Below a namespace are the ports of its Services.
func TestLists(t *testing.T) {
	f := newFake(t)
	f.put(pods("price-a", 1))
	f.put(pods("price-b", 2))
	other := pods("stock-a", 3)
	other["metadata"].(map[string]any)["labels"] = map[string]any{serviceLabel: "stock"}
	other["ports"] = []any{map[string]any{"port": 80}, map[string]any{"name": "admin", "port": 81}}
	f.put(other)
	f.put(map[string]any{"metadata": map[string]any{"name": "x", "labels": map[string]any{serviceLabel: ""}}})
	r := f.serve().(registry.Directory)
	for at, want := range map[string]string{
		"kubernetes://shop?protocol=grpc": "/price:tandem /stock:80 /stock:admin",
		"kubernetes://shop/":              "/price:tandem /stock:80 /stock:admin",
		"kubernetes://shop/stock":         "/stock:80 /stock:admin",
		"kubernetes://shop/stock:admin":   "/stock:admin",
		"kubernetes://shop/nothing":       "",
	} {
		lists, err := r.Lists(t.Context(), mustParse(t, at))
		var got []string
		for _, l := range lists {
			got = append(got, l.Path)
			if l.Authority != "shop" || len(l.Query) != len(mustParse(t, at).Query) {
				t.Errorf("%s: %v", at, l)
			}
		}
		if err != nil || strings.Join(got, " ") != want {
			t.Errorf("%s: %v, %v", at, got, err)
		}
	}
	if _, err := r.Lists(t.Context(), mustParse(t, "kubernetes://Shop")); err == nil {
		t.Error("a bad namespace was accepted")
	}
	if _, err := r.Lists(t.Context(), mustParse(t, "kubernetes://other")); err == nil || !strings.Contains(err.Error(), "404") {
		t.Errorf("an unknown path: %v", err)
	}
}
