//go:build integration && linux

package kubernetes

import (
	"bufio"
	"encoding/json"
	"flag"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

var record = flag.Bool("record", false, "write testdata/recorded")

// recorder passes requests to the API server of a cluster, with a token, and records them.
type recorder struct {
	t       testing.TB
	c       *cluster
	token   string
	forward *http.Client
	target  string

	mu        sync.Mutex
	exchanges []*exchange
	open      *exchange // a response that has not ended
	pending   []chunk   // for the next exchange
	cut       chan struct{}
	away      bool
}

// newRecorder returns a recorder and a watch of the target through it.
func newRecorder(t testing.TB, c *cluster, token, target string) (*recorder, *watcher) {
	t.Helper()
	r := &recorder{t: t, c: c, token: token, target: target, cut: make(chan struct{})}
	r.forward = &http.Client{Transport: &http.Transport{TLSClientConfig: c.clientTLS(), DisableKeepAlives: true}}
	web := httptest.NewServer(r)
	t.Cleanup(web.Close)
	t.Cleanup(r.cutOff)
	return r, watchList(t, Resolver(WithKubeconfig(writeKubeconfig(t, web.URL))), target)
}

// cutOff breaks the connections, and lets no other through until restore.
func (r *recorder) cutOff() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.away = true
	close(r.cut)
	r.cut = make(chan struct{})
}

func (r *recorder) restore() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.away = false
}

// expect waits until the watch shows what a step says, and records the step.
func (r *recorder) expect(w *watcher, c chunk) {
	r.t.Helper()
	w.shows(c)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.open != nil && c.Fail == "" {
		r.open.Body = append(r.open.Body, c)
	} else {
		r.pending = append(r.pending, c)
	}
}

// lists waits for a list.
func (r *recorder) lists(w *watcher, want string) {
	r.t.Helper()
	r.expect(w, chunk{List: want})
}

// fails waits for an error.
func (r *recorder) fails(w *watcher, part string) {
	r.t.Helper()
	r.expect(w, chunk{Fail: part})
}

func (r *recorder) begin(req *http.Request) (*exchange, chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.away {
		return nil, nil
	}
	e := &exchange{Before: r.pending, Request: requestOf(req.URL)}
	r.pending = nil
	r.exchanges, r.open = append(r.exchanges, e), e
	return e, r.cut
}

func (r *recorder) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	e, cut := r.begin(req)
	if e == nil {
		panic(http.ErrAbortHandler)
	}
	out, err := http.NewRequestWithContext(req.Context(), req.Method, "https://"+r.c.address+req.URL.RequestURI(), nil)
	if err != nil {
		r.t.Error(err)
		return
	}
	out.Header = req.Header.Clone()
	out.Header.Del("Accept-Encoding")
	out.Header.Set("Authorization", "Bearer "+r.token)
	resp, err := r.forward.Do(out)
	if err != nil { // the API server is away
		r.drop(e)
		panic(http.ErrAbortHandler)
	}
	defer func() { _ = resp.Body.Close() }()
	r.mu.Lock()
	e.Status, e.Header = resp.StatusCode, map[string]string{}
	for _, name := range []string{"Content-Type", "Retry-After"} {
		if v := resp.Header.Get(name); v != "" {
			e.Header[name] = v
			w.Header().Set(name, v)
		}
	}
	r.mu.Unlock()
	w.WriteHeader(resp.StatusCode)
	w.(http.Flusher).Flush()
	if err := r.copy(w, resp, e, cut); err != nil {
		panic(http.ErrAbortHandler)
	}
}

// copy copies the lines of a response. It fails if the connection was cut.
func (r *recorder) copy(w http.ResponseWriter, resp *http.Response, e *exchange, cut chan struct{}) error {
	ended := make(chan struct{})
	defer close(ended)
	go func() {
		select {
		case <-cut:
			_ = resp.Body.Close()
		case <-ended:
		}
	}()
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, maxPage)
	for lines.Scan() {
		r.mu.Lock()
		e.Body = append(e.Body, chunk{Line: lines.Text()})
		r.mu.Unlock()
		_, _ = w.Write(append(lines.Bytes(), '\n'))
		w.(http.Flusher).Flush()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.open == e {
		r.open = nil
	}
	e.Cut = lines.Err() != nil
	return lines.Err()
}

// drop forgets an exchange to which there was no response; its steps belong to the next one.
func (r *recorder) drop(e *exchange) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.exchanges {
		if r.exchanges[i] == e {
			r.exchanges = append(r.exchanges[:i], r.exchanges[i+1:]...)
			break
		}
	}
	if r.open == e {
		r.open = nil
	}
	r.pending = append(e.Before, r.pending...)
}

// awaitWatch waits until a watch stands.
func (r *recorder) awaitWatch() {
	r.t.Helper()
	for start := time.Now(); !strings.HasSuffix(r.statuses(), "OK watch"); time.Sleep(10 * time.Millisecond) { // until the API server has answered
		if time.Since(start) > 20*time.Second {
			r.t.Fatal("there is no watch")
		}
	}
}

// awaitExchange waits for the first response and returns its status.
func (r *recorder) awaitExchange() int {
	r.t.Helper()
	for start := time.Now(); time.Since(start) < 20*time.Second; time.Sleep(10 * time.Millisecond) { // until the API server has answered
		r.mu.Lock()
		status := 0
		if len(r.exchanges) > 0 {
			status = r.exchanges[0].Status
		}
		r.mu.Unlock()
		if status != 0 {
			return status
		}
	}
	r.t.Fatal("there was no response")
	return 0
}

// statuses returns the statuses of the responses so far, such as "200 list, 200 watch".
func (r *recorder) statuses() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var list []string
	for _, e := range r.exchanges {
		kind := " list"
		if strings.Contains(e.Request, "watch=1") {
			kind = " watch"
		}
		if strings.Contains(e.Request, "continue=") {
			kind = " page"
		}
		status := http.StatusText(e.Status)
		if n := len(e.Body); n > 0 && strings.Contains(e.Body[n-1].Line, `"code":410`) { // of the response, or of an event
			status = "410"
		}
		list = append(list, status+kind)
	}
	return strings.Join(list, ", ")
}

// save writes the recording if the flag -record is set.
func (r *recorder) save(file string) {
	r.t.Helper()
	if !*record {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	out := recording{Target: r.target, Server: "kube-apiserver v1.36.3"}
	for _, e := range r.exchanges {
		out.Exchanges = append(out.Exchanges, *e)
	}
	text, err := json.MarshalIndent(out, "", " ")
	if err != nil {
		r.t.Fatal(err)
	}
	if err := os.MkdirAll("testdata/recorded", 0o755); err != nil {
		r.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join("testdata/recorded", file+".json"), append(text, '\n'), 0o600); err != nil {
		r.t.Fatal(err)
	}
}
