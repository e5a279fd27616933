package kubernetes

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tandem-rpc/tandem/registry"
)

// fakeAPI is as much of an API server as a watch needs, with faults.
type fakeAPI struct {
	t  testing.TB
	mu sync.Mutex

	version   int
	slices    map[string]map[string]any // by name
	events    []string                  // lines; event i has the version i+1
	compacted int                       // versions up to this one are forgotten
	news      chan struct{}             // closed with every change
	kick      chan struct{}             // closed to end the watches

	requests []*http.Request
	token    string                                            // wanted; "" for none
	fault    func(w http.ResponseWriter, r *http.Request) bool // answers itself if it returns true
}

func newFake(t testing.TB) *fakeAPI {
	return &fakeAPI{t: t, slices: map[string]map[string]any{}, news: make(chan struct{}), kick: make(chan struct{})}
}

// serve starts the server and returns a resolver for it.
func (f *fakeAPI) serve(opts ...Option) registry.Resolver {
	f.t.Helper()
	web := httptest.NewServer(f)
	f.t.Cleanup(web.Close)
	f.t.Cleanup(f.endWatches)
	return Resolver(append(opts, WithKubeconfig(writeKubeconfig(f.t, web.URL)))...)
}

// writeKubeconfig writes a kubeconfig without credentials.
func writeKubeconfig(t testing.TB, url string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config")
	text := "current-context: a\ncontexts: [{name: a, context: {cluster: b}}]\nclusters: [{name: b, cluster: {server: '" + url + "'}}]\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// pods returns a slice of ready pods with the port tandem, 8972; IPs are 10.0.0.N for price-N.
func pods(name string, numbers ...int) map[string]any {
	endpoints := []any{}
	for _, n := range numbers {
		endpoints = append(endpoints, map[string]any{
			"addresses":  []any{fmt.Sprintf("10.0.0.%d", n)},
			"conditions": map[string]any{"ready": true, "serving": true, "terminating": false},
			"targetRef":  map[string]any{"kind": "Pod", "name": fmt.Sprintf("price-%d", n), "uid": fmt.Sprintf("uid-%d", n)},
		})
	}
	return map[string]any{
		"metadata":    map[string]any{"name": name, "labels": map[string]any{serviceLabel: "price"}},
		"addressType": "IPv4",
		"endpoints":   endpoints,
		"ports":       []any{map[string]any{"name": "tandem", "port": 8972, "protocol": "TCP"}},
	}
}

// put creates or replaces a slice.
func (f *fakeAPI) put(s map[string]any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	name := s["metadata"].(map[string]any)["name"].(string)
	kind := "MODIFIED"
	if f.slices[name] == nil {
		kind = "ADDED"
	}
	f.slices[name] = s
	f.emit(kind, s)
}

// remove deletes a slice.
func (f *fakeAPI) remove(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.slices[name]
	delete(f.slices, name)
	f.emit("DELETED", s)
}

// bookmark sends a bookmark to every watch; versions have then grown by other objects.
func (f *fakeAPI) bookmark() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.emit("BOOKMARK", map[string]any{"kind": "EndpointSlice", "metadata": map[string]any{}})
}

// emit adds an event with the next version. The mutex is held.
func (f *fakeAPI) emit(kind string, s map[string]any) {
	f.version++
	s["metadata"].(map[string]any)["resourceVersion"] = strconv.Itoa(f.version)
	line, err := json.Marshal(map[string]any{"type": kind, "object": s})
	if err != nil {
		f.t.Error(err)
	}
	f.events = append(f.events, string(line))
	close(f.news)
	f.news = make(chan struct{})
}

// compact forgets all changes so far.
func (f *fakeAPI) compact() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.version++
	f.events = append(f.events, "") // of another object
	f.compacted = f.version
}

// endWatches ends the watches that run, as a server does after their time.
func (f *fakeAPI) endWatches() {
	f.mu.Lock()
	defer f.mu.Unlock()
	close(f.kick)
	f.kick = make(chan struct{})
}

// inject sets the fault.
func (f *fakeAPI) inject(fault func(http.ResponseWriter, *http.Request) bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fault = fault
}

// asked returns the requests of a kind so far.
func (f *fakeAPI) asked(watches bool) (list []*http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, r := range f.requests {
		if r.URL.Query().Has("watch") == watches {
			list = append(list, r)
		}
	}
	return list
}

// awaitWatch waits until a watch was asked for.
func (f *fakeAPI) awaitWatch() {
	for len(f.asked(true)) == 0 {
		time.Sleep(time.Millisecond) // until the request is there, which the test's own deadline bounds
	}
}

func (f *fakeAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	f.requests = append(f.requests, r)
	fault, token := f.fault, f.token
	f.mu.Unlock()
	q := r.URL.Query()
	switch {
	case fault != nil && fault(w, r):
	case r.Method != http.MethodGet || r.URL.Path != "/apis/discovery.k8s.io/v1/namespaces/shop/endpointslices":
		refuse(w, http.StatusNotFound, r.Method+" "+r.URL.Path)
	case token != "" && r.Header.Get("Authorization") != "Bearer "+token:
		refuse(w, http.StatusUnauthorized, "Unauthorized")
	case q.Has("watch"):
		f.watch(w, r)
	default:
		f.list(w, q.Get("labelSelector"), q.Get("limit"), q.Get("continue"))
	}
}

func refuse(w http.ResponseWriter, code int, message string) {
	w.WriteHeader(code)
	fmt.Fprintf(w, `{"kind":"Status","code":%d,"message":%q}`, code, message)
}

func (f *fakeAPI) list(w http.ResponseWriter, selector, limit, after string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var names []string
	for name, s := range f.slices {
		service := s["metadata"].(map[string]any)["labels"].(map[string]any)[serviceLabel]
		if selector == "" || selector == fmt.Sprint(serviceLabel, "=", service) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	most, _ := strconv.Atoi(limit)
	items, next := []any{}, ""
	for _, name := range names {
		if name <= after {
			continue
		}
		if len(items) == most {
			break
		}
		items, next = append(items, f.slices[name]), name
	}
	if len(names) == 0 || next == names[len(names)-1] {
		next = ""
	}
	text, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": strconv.Itoa(f.version), "continue": next}, "items": items,
	})
	if err != nil {
		f.t.Error(err)
	}
	_, _ = w.Write(text)
}

func (f *fakeAPI) watch(w http.ResponseWriter, r *http.Request) {
	seen, _ := strconv.Atoi(r.URL.Query().Get("resourceVersion"))
	f.mu.Lock()
	compacted, kick := f.compacted, f.kick
	f.mu.Unlock()
	if seen < compacted {
		refuse(w, http.StatusGone, "too old resource version")
		return
	}
	w.WriteHeader(http.StatusOK)
	w.(http.Flusher).Flush()
	for {
		f.mu.Lock()
		lines, news := f.events[seen:], f.news
		f.mu.Unlock()
		seen += len(lines)
		if len(lines) > 0 {
			fmt.Fprintln(w, strings.Join(lines, "\n"))
			w.(http.Flusher).Flush()
		}
		select {
		case <-news:
		case <-kick:
			return
		case <-r.Context().Done():
			return
		}
	}
}
