package kubernetes

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/tandem-rpc/tandem/registry"
)

// A recording is what a real API server answered to a resolver, with what the list was then. The
// tests with a real one write recordings with the flag -record; TestRecordings plays them.
type recording struct {
	Server    string     `json:"server"` // its version
	Target    string     `json:"target"`
	Exchanges []exchange `json:"exchanges"`
}

// exchange is one request and its response.
type exchange struct {
	Before  []chunk           `json:"before,omitempty"` // what the watch delivered before the request came
	Request string            `json:"request"`          // without timeoutSeconds, which is random
	Status  int               `json:"status"`
	Header  map[string]string `json:"header,omitempty"`
	Body    []chunk           `json:"body,omitempty"`
	Cut     bool              `json:"cut,omitempty"` // the client lost the connection
}

// chunk is a line of a response, or what the watch delivered before the next line came.
type chunk struct {
	Line string `json:"line,omitempty"`
	List string `json:"list,omitempty"` // IDs and addresses, or "none"
	Fail string `json:"fail,omitempty"` // a part of the error
}

// requestOf returns the request of an exchange.
func requestOf(u *url.URL) string {
	q := u.Query()
	q.Del("timeoutSeconds")
	return u.Path + "?" + q.Encode()
}

// player answers a resolver's requests as they were recorded.
type player struct {
	t     *testing.T
	steps chan chunk    // with what is to be seen now
	seen  chan struct{} // one for each of them
	end   chan struct{} // closed at the end of the test

	mu   sync.Mutex
	next []exchange
}

func (p *player) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	if len(p.next) == 0 {
		p.mu.Unlock()
		<-p.end
		return
	}
	now := p.next[0]
	p.next = p.next[1:]
	last := len(p.next) == 0
	p.mu.Unlock()
	if got := requestOf(r.URL); got != now.Request {
		p.t.Errorf("the resolver asks for\n%s, in the recording it asked for\n%s", got, now.Request)
	}
	for _, c := range now.Before {
		if !p.play(w, r, c) {
			return
		}
	}
	for name, value := range now.Header {
		w.Header().Set(name, value)
	}
	w.WriteHeader(now.Status)
	w.(http.Flusher).Flush()
	for _, c := range now.Body {
		if !p.play(w, r, c) {
			return
		}
	}
	switch {
	case now.Cut:
		panic(http.ErrAbortHandler)
	case last:
		close(p.steps)
		select {
		case <-r.Context().Done():
		case <-p.end:
		}
	}
}

// play sends a line, or waits until the test has seen what it should. It returns false if the
// client has gone, or the test has ended.
func (p *player) play(w http.ResponseWriter, r *http.Request, c chunk) bool {
	if c.Line != "" {
		fmt.Fprintln(w, c.Line)
		w.(http.Flusher).Flush()
		return true
	}
	select {
	case p.steps <- c:
	case <-p.end:
		return false
	case <-r.Context().Done():
		return false
	}
	select {
	case <-p.seen:
		return true
	case <-p.end:
		return false
	case <-r.Context().Done():
		return false
	}
}

// A resolver makes the same lists of the answers of a real API server as it did when they were
// recorded, and sends the same requests.
func TestRecordings(t *testing.T) {
	files, err := filepath.Glob("testdata/recorded/*.json")
	if err != nil || len(files) == 0 {
		t.Fatal("there are no recordings", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".json"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var r recording
			if err := json.Unmarshal(text, &r); err != nil {
				t.Fatal(err)
			}
			playRecording(t, &r)
		})
	}
}

func playRecording(t *testing.T, r *recording) {
	p := &player{t: t, steps: make(chan chunk), seen: make(chan struct{}), end: make(chan struct{}), next: r.Exchanges}
	web := httptest.NewServer(p)
	defer web.Close()
	defer close(p.end)
	w := watchList(t, Resolver(WithKubeconfig(writeKubeconfig(t, web.URL))), r.Target)
	steps := 0
	for c := range p.steps {
		w.shows(c)
		steps++
		p.seen <- struct{}{}
	}
	if steps == 0 {
		t.Error("the recording says nothing about lists")
	}
}

// shows waits for what a step says.
func (w *watcher) shows(c chunk) {
	w.t.Helper()
	if c.Fail != "" {
		w.fails(c.Fail)
		return
	}
	w.await(c.List, func(s registry.Snapshot) bool { return s.Err == nil && describe(s) == c.List })
}

// describe returns a list as a recording has it.
func describe(s registry.Snapshot) string {
	var lines []string
	for _, in := range s.Instances {
		lines = append(lines, strings.TrimSpace(in.ID+" "+in.Endpoints[0].Address+" "+in.Zone))
	}
	if len(lines) == 0 {
		return "none"
	}
	return strings.Join(lines, ", ")
}
