package nacos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/registry"
	"github.com/tandem-rpc/tandem/registry/nacos/internal/standin"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// backend is a Nacos to test with: the stand-in, or the real server.
type backend struct {
	direct string // host:port
	relay  *relay // through which the package under test connects
	ttl    time.Duration
	poll   time.Duration
	within time.Duration
	swaps  bool // publishing heeds casMd5
	admin  *http.Client
	token  string // token of the admin
}

// standIn returns a backend whose reads show a change a little later, as Nacos's do.
func standIn(t testing.TB) *backend {
	t.Helper()
	web := httptest.NewServer(&standin.Server{Lag: 30 * time.Millisecond, Swaps: true})
	t.Cleanup(web.Close)
	b := &backend{direct: web.Listener.Addr().String(), ttl: 3 * time.Second, poll: 100 * time.Millisecond, within: 30 * time.Second, swaps: true}
	b.open(t)
	return b
}

// open sets up the admin's client and the relay.
func (b *backend) open(t testing.TB) {
	t.Helper()
	b.admin = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 10 * time.Second}
	b.relay = newRelay(t, b.direct)
}

// target returns a target for a service that only this test uses.
func (b *backend) target(t testing.TB, service string) string {
	t.Helper()
	return "nacos://" + b.relay.address() + "/" + groupOf(t) + "/" + service
}

// odd matches characters of test names that Nacos's groups must not have.
var odd = regexp.MustCompile(`[^0-9A-Za-z_.:-]+`)

func groupOf(t testing.TB) string { return odd.ReplaceAllString(t.Name(), ".") }

// registry returns a registry for a service that only this test uses.
func (b *backend) registry(t testing.TB, service string, opts ...Option) *Registry {
	t.Helper()
	r, err := New(b.target(t, service), append([]Option{WithTTL(b.ttl), WithPoll(b.poll)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

// ask sends a request as Nacos's console does, for a service that only this test uses.
func (b *backend) ask(t testing.TB, method, path, service string, pairs ...string) (string, error) {
	q := url.Values{"serviceName": {service}, "groupName": {groupOf(t)}, "ephemeral": {"true"}}
	for i := 0; i < len(pairs); i += 2 {
		q.Set(pairs[i], pairs[i+1])
	}
	request, err := newRequest(context.Background(), method, "http://"+b.direct+"/nacos"+path, q)
	if err != nil {
		return "", err
	}
	request.Header.Set("Authorization", "Bearer "+b.token)
	answer, err := b.admin.Do(request)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s %s: %s: %.300s", method, path, answer.Status, body)
	}
	return string(body), err
}

// do is like ask, and fails the test if the request fails.
func (b *backend) do(t testing.TB, method, path, service string, pairs ...string) {
	t.Helper()
	if _, err := b.ask(t, method, path, service, pairs...); err != nil {
		t.Fatal(err)
	}
}

// edit changes an instance as the console does, which also sends the metadata back.
func (b *backend) edit(t testing.TB, service string, in tandem.Instance, weight float64, enabled bool) {
	t.Helper()
	at, _ := addressOf(&in)
	metadata := text(map[string]string{key: text(in)})
	b.do(t, http.MethodPut, instancePath, service, "ip", at.host, "port", strconv.Itoa(at.port),
		"weight", fmt.Sprint(weight), "enabled", strconv.FormatBool(enabled), "metadata", metadata)
}

// text returns a value as JSON.
func text(value any) string {
	data, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	return string(data)
}

// hosts returns the hosts of an answer.
func hosts(answer []byte) ([]json.RawMessage, error) {
	list, err := hostsOf(answer)
	if err != nil {
		return nil, err
	}
	return split(list)
}

// lose removes an instance without its registrar's doing.
func (b *backend) lose(t testing.TB, service, id string) error {
	deadline := time.Now().Add(b.within)
	for time.Now().Before(deadline) {
		body, err := b.ask(t, http.MethodGet, instancePath+"/list", service)
		if err != nil {
			return err
		}
		list, err := hosts([]byte(body))
		if err != nil {
			return err
		}
		for at, in := range collectHosts(list, func(string, error) {}) {
			if in.ID == id {
				host, port, _ := net.SplitHostPort(at)
				_, err := b.ask(t, http.MethodDelete, instancePath, service, "ip", host, "port", port)
				return err
			}
		}
		time.Sleep(b.poll) // the server shows it after a while
	}
	return fmt.Errorf("%q is not listed", id)
}

// server returns an instance with a unique address.
func server(n int) tandem.Instance {
	return tandem.Instance{
		ID:        fmt.Sprintf("server-%d", n),
		Endpoints: []tandem.Endpoint{{Transport: "tcp", Address: fmt.Sprintf("10.1.%d.%d:8972", n/250, n%250)}},
		Started:   time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
	}
}

// register lists an instance until the test ends.
func register(t testing.TB, r *Registry, in tandem.Instance) registry.Registration {
	t.Helper()
	entry, err := r.Register(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { entry.Close() })
	return entry
}

// view records what a watch delivers.
type view struct {
	within time.Duration
	news   chan struct{}

	mu   sync.Mutex
	last registry.Snapshot
	errs int
	none int // number of empty lists after the first that was not empty
	some bool
}

// look watches a target until the test ends.
func look(t testing.TB, r registry.Resolver, target string, within time.Duration) *view {
	t.Helper()
	at, err := registry.ParseTarget(target)
	if err != nil {
		t.Fatal(err)
	}
	v := &view{within: within, news: make(chan struct{}, 1)}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- r.Watch(ctx, at, v.update) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("Watch returned %v", err)
		}
	})
	return v
}

func (v *view) update(s registry.Snapshot) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.last = s
	switch {
	case s.Err != nil:
		v.errs++
	case len(s.Instances) > 0:
		v.some = true
	case v.some:
		v.none++
	}
	select {
	case v.news <- struct{}{}:
	default:
	}
}

// failures returns how many errors were delivered, and how many empty lists after the first
// that was not empty.
func (v *view) failures() (errs, none int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.errs, v.none
}

// shows waits until the list is as wanted: "id:weight …".
func (v *view) shows(t testing.TB, want string) {
	t.Helper()
	v.until(t, want, func(s registry.Snapshot) bool { return s.Err == nil && brief(s) == want })
}

func (v *view) until(t testing.TB, what string, ok func(registry.Snapshot) bool) {
	t.Helper()
	timeout := time.NewTimer(v.within)
	defer timeout.Stop()
	for {
		v.mu.Lock()
		last := v.last
		v.mu.Unlock()
		if ok(last) {
			return
		}
		select {
		case <-v.news:
		case <-timeout.C:
			t.Fatalf("after %v the list is %.300q, error %v; want %q", v.within, brief(last), last.Err, what)
		}
	}
}

func brief(s registry.Snapshot) string {
	var b []string
	for _, in := range s.Instances {
		b = append(b, fmt.Sprintf("%s:%d", in.ID, in.Weight))
	}
	return strings.Join(b, " ")
}

// relay forwards connections to a server, unless it is cut.
type relay struct {
	ln net.Listener
	to string

	mu   sync.Mutex
	cut  bool
	open map[net.Conn]bool // true for those of clients
}

func newRelay(t testing.TB, to string) *relay {
	t.Helper()
	return newRelayAt(t, "127.0.0.1:0", to)
}

func newRelayAt(t testing.TB, address, to string) *relay {
	t.Helper()
	ln, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{ln: ln, to: to, open: map[net.Conn]bool{}}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			all.Go(func() { r.serve(conn) })
		}
	})
	t.Cleanup(func() {
		ln.Close()
		r.setCut(true)
		all.Wait()
	})
	return r
}

func (r *relay) address() string { return r.ln.Addr().String() }

// setCut closes all connections and accepts no more if cut is true, or accepts them again.
func (r *relay) setCut(cut bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cut = cut
	for _, ofClient := range []bool{true, false} { // clients lose theirs before the server can say so
		for conn, is := range r.open {
			if cut && is == ofClient {
				conn.Close()
			}
		}
	}
}

// outage is the Outage of a [registrytest.Harness].
func (r *relay) outage() (func() error, error) {
	r.setCut(true)
	return func() error { r.setCut(false); return nil }, nil
}

func (r *relay) serve(in net.Conn) {
	defer in.Close()
	out, err := net.DialTimeout("tcp", r.to, 5*time.Second)
	if err != nil {
		return
	}
	defer out.Close()
	r.mu.Lock()
	if r.cut {
		r.mu.Unlock()
		return
	}
	r.open[in], r.open[out] = true, false
	r.mu.Unlock()
	var both sync.WaitGroup
	both.Go(func() { io.Copy(out, in); out.Close() })
	both.Go(func() { io.Copy(in, out); in.Close() })
	both.Wait()
	r.mu.Lock()
	delete(r.open, in)
	delete(r.open, out)
	r.mu.Unlock()
}
