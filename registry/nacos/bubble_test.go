package nacos

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/registry"
	"github.com/tandem-rpc/tandem/registry/nacos/internal/standin"
)

// direct passes requests to a handler without a network, so that tests can run in a synctest
// bubble.
type direct struct {
	to  http.Handler
	cut atomic.Bool
}

func (d *direct) RoundTrip(r *http.Request) (answer *http.Response, err error) {
	if d.cut.Load() {
		return nil, errors.New("connection refused")
	}
	defer func() {
		if recover() != nil { // the server has hung up
			err = io.ErrUnexpectedEOF
		}
	}()
	w := httptest.NewRecorder()
	d.to.ServeHTTP(w, r)
	return w.Result(), nil
}

// partly is like direct, but requests to the silent hosts are never answered.
type partly struct {
	direct
	silent []string
}

func (p *partly) RoundTrip(r *http.Request) (*http.Response, error) {
	if slices.Contains(p.silent, r.URL.Hostname()) {
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	return p.direct.RoundTrip(r)
}

const bubbleTarget = "nacos://h:8848/shop/S"

// inBubble returns a registry that uses the server without a network, and the transport of
// its registrations, which can be cut.
func inBubble(t *testing.T, s *standin.Server, opts ...Option) (*Registry, *direct) {
	t.Helper()
	r, err := New(bubbleTarget, opts...)
	if err != nil {
		t.Fatal(err)
	}
	way := &direct{to: s}
	r.servers.client.Transport = way
	r.shared.Open = func(addresses string) (*servers, error) {
		s2 := r.dial(addresses)
		s2.client.Transport, s2.login = &direct{to: s}, r.servers.login
		return s2, nil
	}
	return r, way
}

// TestSilentServersArePassed: more servers are silent than one request has the time to try
// the others. The next request begins with a server after those that failed.
func TestSilentServersArePassed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, err := New("nacos://a:1,b:1,c:1,d:1,e:1/S")
		if err != nil {
			t.Fatal(err)
		}
		r.servers.client.Transport = &partly{direct: direct{to: nacos224()}, silent: []string{"a", "b", "c", "d"}}
		w := watch{servers: r.servers, place: r.place}
		if _, err := w.ask(t.Context()); err == nil {
			t.Error("the first request had time for four silent servers: nothing is tested")
		}
		if _, err := w.ask(t.Context()); err != nil {
			t.Errorf("the second request: %v", err)
		}
		begin := time.Now()
		if _, err := w.ask(t.Context()); err != nil || time.Since(begin) > 0 {
			t.Errorf("the third request: %v after %v", err, time.Since(begin))
		}
	})
}

// TestGivenUpRequest: a request that its caller cancels does not count against the server.
func TestGivenUpRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, err := New("nacos://a:1,b:1/S")
		if err != nil {
			t.Fatal(err)
		}
		r.servers.client.Transport = &partly{direct: direct{to: nacos224()}, silent: []string{"a"}}
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Millisecond, cancel)
		w := watch{servers: r.servers, place: r.place}
		if _, err := w.ask(ctx); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		if at := r.servers.current.Load(); at != 0 {
			t.Errorf("the next request begins with server %d", at)
		}
	})
}

func nacos224() *standin.Server { return &standin.Server{Lag: 500 * time.Millisecond} }

func TestSilentInstanceGoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, way := inBubble(t, nacos224())
		v := look(t, r, bubbleTarget, time.Minute)
		register(t, r, server(1))
		v.shows(t, "server-1:0")
		time.Sleep(10 * time.Minute)
		if errs, none := v.failures(); errs+none > 0 {
			t.Errorf("in ten quiet minutes %d errors and %d empty lists", errs, none)
		}
		way.cut.Store(true)
		begin := time.Now()
		v.shows(t, "")
		if took := time.Since(begin); took < 10*time.Second || took > 20*time.Second {
			t.Errorf("a server without beats left the list after %v, its ttl is 15s", took)
		}
		time.Sleep(5 * time.Minute)
		way.cut.Store(false)
		begin = time.Now()
		v.shows(t, "server-1:0")
		if took := time.Since(begin); took > 20*time.Second {
			t.Errorf("it was back after %v", took)
		}
	})
}

func TestRestartWithNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := nacos224()
		r, _ := inBubble(t, s)
		v := look(t, r, bubbleTarget, 20*time.Second) // the ttl and 5 s
		for i := range 100 {
			register(t, r, server(i))
		}
		all := func(s registry.Snapshot) bool { return s.Err == nil && len(s.Instances) == 100 }
		v.until(t, "100 instances", all)
		s.SetDown(true)
		s.Restart()
		time.Sleep(5 * time.Minute)
		if errs, none := v.failures(); errs == 0 || none > 0 {
			t.Errorf("in an outage: %d errors and %d empty lists", errs, none)
		}
		s.SetDown(false)
		v.until(t, "100 instances", all)
	})
}

func TestUpdatesWithoutEdits(t *testing.T) {
	for _, ttl := range []time.Duration{time.Second, 15 * time.Second} {
		updates(t, ttl)
	}
}

// updates changes an instance 50 times, with a server whose reads show it late.
func updates(t *testing.T, ttl time.Duration) {
	synctest.Test(t, func(t *testing.T) {
		s := nacos224()
		r, _ := inBubble(t, s, WithTTL(ttl))
		v := look(t, r, bubbleTarget, 5*time.Second)
		in := server(1)
		entry := register(t, r, in)
		for weight := 1; weight < 50; weight++ {
			in.Weight = weight
			if err := entry.Update(t.Context(), in); err != nil {
				t.Fatal(err)
			}
			v.shows(t, fmt.Sprintf("server-1:%d", weight))
			time.Sleep(time.Duration(weight) * 500 * time.Millisecond)
		}
		if n := s.Requests("DELETE " + metadataPath); n > 0 {
			t.Errorf("metadata were taken away %d times without an edit", n)
		}
		if n := s.Requests("POST " + instancePath); n != 50 {
			t.Errorf("%d registrations for 50 changes", n)
		}
	})
}

func TestOlderLeavesTheNewer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := nacos224()
		r, _ := inBubble(t, s)
		v := look(t, r, bubbleTarget, 5*time.Second)
		newer := server(1)
		newer.Started, newer.Incarnation, newer.Weight = newer.Started.Add(time.Minute), "later", 8
		older := register(t, r, server(1))
		v.shows(t, "server-1:0")
		register(t, r, newer)
		v.shows(t, "server-1:8")
		time.Sleep(time.Minute)
		if err := older.Close(); err != nil {
			t.Error(err)
		}
		if n := s.Requests("DELETE " + instancePath); n > 0 {
			t.Error("the older one has taken the newer one off")
		}
		if n := s.Requests("POST " + instancePath); n != 2 {
			t.Errorf("two servers registered %d times", n)
		}
	})
}

// TestOverwritten registers other metadata in an instance's place, which is no edit of the
// console: the instance is registered again, and no metadata are deleted.
func TestOverwritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := nacos224()
		r, way := inBubble(t, s)
		v := look(t, r, bubbleTarget, 20*time.Second)
		in := server(1)
		register(t, r, in)
		v.shows(t, "server-1:0")
		other := in
		other.Weight = 5
		for _, metadata := range []string{text(map[string]string{key: text(other)}), "{}"} {
			q := r.place.of(address{"10.1.0.1", 8972})
			q.Set("metadata", metadata)
			request, err := newRequest(t.Context(), http.MethodPost, "http://h/nacos"+instancePath, q)
			if err != nil {
				t.Fatal(err)
			}
			answer, err := way.RoundTrip(request)
			if err != nil {
				t.Fatal(err)
			}
			answer.Body.Close()
			time.Sleep(20 * time.Second) // a poll and a check, in any order
			v.shows(t, "server-1:0")
		}
		if n := s.Requests("DELETE " + metadataPath); n > 0 {
			t.Errorf("metadata were taken away %d times without an edit", n)
		}
	})
}

func TestAddressMoves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, _ := inBubble(t, nacos224())
		v := look(t, r, bubbleTarget, 5*time.Second)
		in := server(1)
		entry := register(t, r, in)
		v.shows(t, "server-1:0")
		in.Endpoints, in.Weight = server(2).Endpoints, 3
		if err := entry.Update(t.Context(), in); err != nil {
			t.Fatal(err)
		}
		v.shows(t, "server-1:3")
		if _, none := v.failures(); none > 0 {
			t.Error("the list was empty in between")
		}
		register(t, r, func() tandem.Instance { in := server(9); in.Endpoints = server(1).Endpoints; return in }())
		v.shows(t, "server-1:3 server-9:0") // the old address is free
	})
}

func TestOldAndNewVersions(t *testing.T) {
	for what, s := range map[string]*standin.Server{
		"decodes parameters twice": {DecodeTwice: true},
		"limits metadata":          {MaxMetadata: 1024},
		"is as strict as 3":        {Three: true, MaxMetadata: 1024},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, _ := inBubble(t, s)
				v := look(t, r, bubbleTarget, 20*time.Second)
				in := server(1)
				in.Tags = map[string]string{"a%20b": "1+1=2 & 100 % \\+ é🚲"}
				in.Endpoints[0].Address = "[2001:db8::1%eth0]:8972"
				register(t, r, in)
				same := func(s registry.Snapshot) bool {
					return len(s.Instances) == 1 && s.Instances[0].Tags["a%20b"] == in.Tags["a%20b"]
				}
				v.until(t, "one with its tags", same)
				s.Restart()
				time.Sleep(20 * time.Second) // a poll and a beat, in any order
				v.until(t, "one with its tags", same)
			})
		})
	}
}

func TestTooMuchMetadata(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, _ := inBubble(t, &standin.Server{MaxMetadata: 1024})
		in := server(1)
		in.Tags = map[string]string{"long": strings.Repeat("x", 900)}
		if _, err := r.Register(t.Context(), in); err == nil || !strings.Contains(err.Error(), "should not exceed 1024") {
			t.Errorf("got %v", err)
		}
		in.Tags["long"] = strings.Repeat("x", 1<<16)
		if _, err := r.Register(t.Context(), in); err == nil || !strings.Contains(err.Error(), "list fewer services, endpoints or tags") {
			t.Errorf("got %v", err)
		}
	})
}

func TestLoginIsRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &standin.Server{Password: "secret", TokenTTL: time.Minute}
		r, _ := inBubble(t, s, WithAuth("nacos", "secret"))
		v := look(t, r, bubbleTarget, 20*time.Second)
		register(t, r, server(1))
		v.shows(t, "server-1:0")
		time.Sleep(time.Hour)
		if errs, none := v.failures(); errs+none > 0 {
			t.Errorf("in an hour %d errors and %d empty lists", errs, none)
		}
		if n := s.Logins(); n < 62 || n > 70 { // each a tenth of its token's life early
			t.Errorf("%d logins in an hour, for tokens that live a minute", n)
		}
		for n := s.Logins(); s.Logins() == n; {
			time.Sleep(time.Second)
		}
		time.Sleep(2 * loginPause)
		s.Restart() // which invalidates all tokens
		time.Sleep(20 * time.Second)
		v.shows(t, "server-1:0")
		if n := s.Requests("POST " + instancePath); n != 2 {
			t.Errorf("registered %d times, want once more after the restart", n)
		}
		if errs, _ := v.failures(); errs > 0 {
			t.Errorf("%d errors, although a login would have helped", errs)
		}
	})
}

func TestWrongPassword(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &standin.Server{Password: "secret"}
		r, _ := inBubble(t, s, WithAuth("nacos", "wrong"))
		if _, err := r.Register(t.Context(), server(1)); err == nil || !strings.Contains(err.Error(), `logging in as "nacos"`) || strings.Contains(err.Error(), "wrong") {
			t.Errorf("got %v", err)
		}
		for range 50 {
			look(t, r, bubbleTarget, time.Minute)
		}
		time.Sleep(time.Minute)
		if n := s.Logins(); n < 5 || n > 13 {
			t.Errorf("50 watches with a wrong password made %d logins in a minute", n)
		}
		other, _ := inBubble(t, s)
		if _, err := other.Register(t.Context(), server(1)); err == nil || !strings.Contains(err.Error(), "403") {
			t.Errorf("without a password: %v", err)
		}
	})
}
