package console

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/admin"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/codec"
	"github.com/tandem-rpc/tandem/override"
	"github.com/tandem-rpc/tandem/registry/file"
	"github.com/tandem-rpc/tandem/server"
)

// toys is a list with two servers whose methods the playground calls.
type toys struct {
	*cluster

	list   string
	served [2]atomic.Int64 // calls of Toys.Same
	log    *lockedBuffer
}

// lockedBuffer is a log that a test reads while it is written.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// echo is a protocol that answers a call with its arguments, once it has reached the server.
type echo struct{}

func (echo) Name() string           { return "echo" }
func (echo) Codecs() []tandem.Codec { return []tandem.Codec{codec.JSON()} }

func (echo) Connect(ctx context.Context, r *client.Remote) (client.Carrier, error) {
	conn, err := r.Dial(ctx)
	if err != nil {
		return nil, err
	}
	return echoing{conn, make(chan struct{})}, nil
}

type echoing struct {
	net.Conn

	done chan struct{}
}

func (echoing) Carry(_ context.Context, r *client.Request) error {
	r.Reply = bytes.Clone(r.Message)
	return nil
}

func (echoing) Ping(context.Context) error { return nil }

func (e echoing) Done() <-chan struct{} { return e.done }

func (echoing) Err() error { return nil }

// toy is the argument of Toys.Same.
type toy struct {
	Number int64  `json:"number"`
	Name   string `json:"name"`
}

func newToys(t *testing.T, cfg Config) *toys {
	t.Helper()
	out := &toys{log: new(lockedBuffer)}
	cfg.Log = slog.New(slog.NewTextHandler(out.log, nil))
	cfg.Protocols = []client.Protocol{echo{}}
	out.cluster = newCluster(t, cfg)
	out.list = "file://" + out.base + "/toys"
	for i := range out.served {
		out.serveToys(i)
	}
	if cfg.Authorizer == nil {
		out.login()
	}
	out.until("both instances", func() bool {
		var p Playground
		out.post("Playground", PlaygroundRequest{List: out.list}, &p)
		return len(p.Instances) == 2 && p.Schema != nil
	})
	return out
}

func (c *toys) serveToys(i int) {
	c.t.Helper()
	a := admin.New()
	r := file.New(filepath.FromSlash(c.base + "/toys"))
	srv := server.New(server.WithPlugins(a), server.WithRegistrar(r, tandem.Instance{ID: fmt.Sprint("t", i)}))
	c.check(errors.Join(
		a.Register(srv),
		server.Handle(srv, "Toys.Same", func(ctx context.Context, t *toy) (*toy, error) {
			c.served[i].Add(1)
			call := tandem.FromContext(ctx)
			call.Trailer = tandem.Metadata{"seen": {call.Metadata.Get("colour")}}
			return t, nil
		}),
		server.Handle(srv, "Toys.Break", func(context.Context, *toy) (*toy, error) {
			return nil, tandem.Errorf(tandem.ResourceExhausted, "it is broken").WithDetail("why", []byte("worn"))
		}),
		server.Handle(srv, "Toys.Wait", func(ctx context.Context, _ *toy) (*toy, error) { <-ctx.Done(); return nil, ctx.Err() }),
		srv.RegisterFunc("Toys.Div", func(a, b int) (int, int) { return a / b, a % b }),
		srv.RegisterFunc("Toys.Stop", func() {}),
		server.HandleStream(srv, "Toys.Sum", func(_ context.Context, s *tandem.Stream[int64, int64]) error {
			sum := int64(0)
			for n, err := range s.All() {
				if err != nil {
					return err
				}
				sum += *n
				if err := s.Send(&sum); err != nil {
					return err
				}
			}
			return nil
		}),
		server.HandleStream(srv, "Toys.Deaf", func(ctx context.Context, _ *tandem.Stream[string, string]) error { <-ctx.Done(); return nil }),
		server.HandleStream(srv, "Toys.Flood", func(_ context.Context, s *tandem.Stream[int64, string]) error {
			for {
				if err := s.Send(new(strings.Repeat("x", 1000))); err != nil {
					return err
				}
			}
		}),
	))
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	c.check(err)
	done := make(chan error, 1)
	go func() { done <- srv.ServeListener(ln) }()
	c.t.Cleanup(func() {
		_ = srv.Close()
		<-done
	})
}

func TestPlayground(t *testing.T) {
	c := newToys(t, Config{Writer: "ann"})
	var p Playground
	if status := c.post("Playground", PlaygroundRequest{List: c.list}, &p); status != http.StatusOK || p.Error != "" || p.Described != "t0" {
		t.Fatalf("%d: %+v", status, p)
	}
	if first := &p.Instances[0]; fmt.Sprintf("%v %v %v %v %v", p.Services, p.Protocols, first.ID, first.State, first.Protocols) != "[Toys] [echo tandem] t0 enabled [tandem echo]" || !strings.HasPrefix(first.Targets["echo"], "echo://127.0.0.1:") {
		t.Errorf("%v %v %v", p.Services, p.Protocols, p.Instances)
	}
	if len(p.Schema.Methods) != 8 || p.Schema.Methods[2].Method != "Toys.Div" || p.Schema.Methods[2].Arguments != 2 {
		t.Errorf("%+v", p.Schema.Methods)
	}
	c.until("the description of t1", func() bool {
		p = Playground{}
		c.post("Playground", PlaygroundRequest{List: c.list, Instance: "t1"}, &p)
		return p.Described == "t1"
	})
	const big = `{"number":9007199254740993,"name":"top"}`
	for name, call := range map[string]struct {
		req  CallRequest
		want CallAnswer
	}{
		"a number that no float64 has": {
			CallRequest{Method: "Toys.Same", Arguments: big, Instance: "t1", Metadata: []Pair{{"colour", "red"}}},
			CallAnswer{Code: "OK", Result: big, Instance: "t1"},
		},
		"several arguments": {CallRequest{Method: "Toys.Div", Arguments: `[17, 5]`, Several: true, Instance: "t0"}, CallAnswer{Code: "OK", Result: `[3,2]`, Instance: "t0"}},
		"no arguments":      {CallRequest{Method: "Toys.Stop", Several: true, Instance: "t0"}, CallAnswer{Code: "OK", Instance: "t0"}},
		"another protocol":  {CallRequest{Method: "Toys.Same", Arguments: big, Instance: "t0", Protocol: "echo"}, CallAnswer{Code: "OK", Result: big, Instance: "t0"}},
		"an error":          {CallRequest{Method: "Toys.Break", Instance: "t0"}, CallAnswer{Code: "ResourceExhausted", Message: "it is broken", Instance: "t0"}},
		"no such method":    {CallRequest{Method: "Toys.No", Instance: "t0"}, CallAnswer{Code: "Unimplemented", Instance: "t0"}},
		"too late":          {CallRequest{Method: "Toys.Wait", Instance: "t0", Timeout: 50 * time.Millisecond}, CallAnswer{Code: "DeadlineExceeded", Instance: "t0"}},
	} {
		call.req.List = c.list
		var got CallAnswer
		status := c.post("Call", call.req, &got)
		if status != http.StatusOK || !strings.EqualFold(got.Code, call.want.Code) && got.Code != tandemCode(call.want.Code) || got.Result != call.want.Result || got.Instance != call.want.Instance || got.Took <= 0 {
			t.Errorf("%s: %d %+v", name, status, got)
		}
		if call.want.Message != "" && (got.Message != call.want.Message || !got.Remote || len(got.Details) != 1 || string(got.Details[0].Value) != "worn") {
			t.Errorf("%s: %+v", name, got)
		}
		if name == "a number that no float64 has" && (got.Metadata.Get("seen") != "red" || got.Sent != len(big) || got.Received != len(big)) {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if text := c.log.String(); !strings.Contains(text, "who=ann") || !strings.Contains(text, "list="+c.list+` what="call of Toys.Same at t1 by `) || strings.Contains(text, "9007199254740993") {
		t.Errorf("the log: %.500s", text)
	}
}

// The balancer uses both instances, until one is disabled; that one can still be named.
func TestPlaygroundBalances(t *testing.T) {
	c := newToys(t, Config{Writer: "ann"})
	const big = `{"number":9007199254740993}`
	by := func() map[string]int {
		seen := map[string]int{}
		for range 8 {
			var got CallAnswer
			c.post("Call", CallRequest{List: c.list, Method: "Toys.Same", Arguments: big}, &got)
			seen[got.Instance]++
		}
		return seen
	}
	if seen := by(); seen["t0"] == 0 || seen["t1"] == 0 {
		t.Errorf("the balancer has chosen %v", seen)
	}
	if status := c.post("Edit", EditRequest{List: c.list, Set: []override.Override{{Instance: "t0", State: override.Disabled}}, Why: "a test"}, nil); status != http.StatusOK {
		t.Fatal(status)
	}
	c.until("t0 is shown as disabled", func() bool { // that a few calls go to t1 may be chance
		var p Playground
		c.post("Playground", PlaygroundRequest{List: c.list}, &p)
		return slices.ContainsFunc(p.Instances, func(in PlayInstance) bool { return in.ID == "t0" && in.State == "disabled" })
	})
	for range 3 {
		if seen := by(); seen["t0"] > 0 {
			t.Errorf("with t0 disabled the balancer has chosen %v", seen)
		}
	}
	before := c.served[0].Load()
	if c.post("Call", CallRequest{List: c.list, Method: "Toys.Same", Arguments: big, Instance: "t0"}, nil); c.served[0].Load() != before+1 {
		t.Error("an instance that is disabled can't be called by its name")
	}
}

// tandemCode returns a code's name as the API has it.
func tandemCode(name string) string {
	for c := tandem.OK; c <= tandem.Unauthenticated; c++ {
		if strings.EqualFold(strings.ReplaceAll(c.String(), " ", ""), name) {
			return c.String()
		}
	}
	return name
}

// Only instances that are listed are called, and only by users who may.
func TestPlaygroundIsRefused(t *testing.T) {
	c := newToys(t, Config{Writer: "ann"})
	for name, call := range map[string]struct {
		req  CallRequest
		want int
	}{
		"a list that is not shown":     {CallRequest{List: "tcp://127.0.0.1:1", Method: "Toys.Same"}, http.StatusNotFound},
		"an instance that isn't there": {CallRequest{Instance: "127.0.0.1:1", Method: "Toys.Same"}, http.StatusNotFound},
		"the admin API":                {CallRequest{Method: "tandem.Admin.SetLogLevel"}, http.StatusForbidden},
		"the admin API, disguised":     {CallRequest{Method: "Tandem_admin.SetLogLevel"}, http.StatusForbidden},
		"an escaped name":              {CallRequest{Method: "tandem.Admi%6e.SetLogLevel"}, http.StatusBadRequest},
		"a path":                       {CallRequest{Method: "tandem/Admin.Info"}, http.StatusBadRequest},
		"no method":                    {CallRequest{}, http.StatusBadRequest},
		"not JSON":                     {CallRequest{Method: "Toys.Same", Arguments: "{"}, http.StatusBadRequest},
		"an object of several":         {CallRequest{Method: "Toys.Div", Arguments: "{}", Several: true}, http.StatusBadRequest},
		"too late":                     {CallRequest{Method: "Toys.Same", Timeout: time.Hour}, http.StatusBadRequest},
		"metadata without a name":      {CallRequest{Method: "Toys.Same", Metadata: []Pair{{"", "x"}}}, http.StatusBadRequest},
		"much metadata":                {CallRequest{Method: "Toys.Same", Metadata: make([]Pair, 65)}, http.StatusBadRequest},
		"an unknown protocol":          {CallRequest{Method: "Toys.Same", Protocol: "gopher"}, http.StatusConflict},
		"large arguments":              {CallRequest{Method: "Toys.Same", Arguments: `"` + strings.Repeat("x", maxArgument) + `"`}, http.StatusBadRequest},
	} {
		if call.req.List == "" {
			call.req.List = c.list
		}
		for _, method := range []string{"Call", "Stream"} {
			if method == "Stream" && (call.req.Several || call.want == http.StatusBadRequest && call.req.Timeout > 0) {
				continue
			}
			if status := c.post(method, call.req, nil); status != call.want {
				t.Errorf("%s by %s: %d, want %d", name, method, status, call.want)
			}
		}
	}
	if c.served[0].Load()+c.served[1].Load() != 0 {
		t.Error("a server was called")
	}
	if status := c.post("Send", SendRequest{ID: "no", Message: "1"}, nil); status != http.StatusNotFound {
		t.Errorf("a stream that does not exist: %d", status)
	}
	// Only so many run at a time.
	var wg sync.WaitGroup
	statuses := make(chan int, callsOfUser+1)
	for range callsOfUser + 1 {
		wg.Go(func() {
			statuses <- c.post("Call", CallRequest{List: c.list, Method: "Toys.Wait", Timeout: 2 * time.Second}, nil)
		})
	}
	wg.Wait()
	close(statuses)
	refused := 0
	for s := range statuses {
		if s == http.StatusTooManyRequests {
			refused++
		}
	}
	if refused != 1 {
		t.Errorf("%d of %d calls were refused", refused, callsOfUser+1)
	}
	if c.console.gate.all != 0 || len(c.console.gate.of) != 0 {
		t.Errorf("%d calls are still counted, %v", c.console.gate.all, c.console.gate.of)
	}
}

// A console that is read-only makes no calls, and a viewer may make none.
func TestPlaygroundNeedsARole(t *testing.T) {
	c := newToys(t, Config{})
	req := CallRequest{List: c.list, Method: "Toys.Same", Instance: "t0"}
	for _, method := range []string{"Call", "Stream", "Send"} {
		if status := c.post(method, req, nil); status != http.StatusForbidden {
			t.Errorf("%s of a read-only console: %d", method, status)
		}
	}
	role := admin.Viewer // requests come one after the other
	other := newToys(t, Config{Authorizer: func(*http.Request) (User, error) { return User{"bob", role}, nil }})
	req.List = other.list
	for _, method := range []string{"Call", "Stream", "Send"} {
		if status := other.post(method, req, nil); status != http.StatusForbidden {
			t.Errorf("%s of a viewer: %d", method, status)
		}
	}
	if other.served[0].Load()+c.served[0].Load() != 0 {
		t.Error("a server was called")
	}
	refused := slices.DeleteFunc(other.console.audit.records(), func(r Record) bool { return r.Who != "bob" || r.Method != "Call" || r.Error == "" })
	if len(refused) != 2 || !strings.HasPrefix(refused[1].What, "call of Toys.Same at t0") {
		t.Errorf("recorded: %+v", refused)
	}
	role = admin.Developer
	if status := other.post("Call", req, nil); status != http.StatusOK || other.served[0].Load() != 1 {
		t.Errorf("a call of a developer: %d", status)
	}
}

// talk opens a stream, and returns what reads its next line.
func (c *toys) talk(ctx context.Context, req CallRequest) (next func() StreamEvent, end func()) {
	c.t.Helper()
	req.List = c.list
	body, err := json.Marshal(req)
	c.check(err)
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+c.at.String()+"/api/Stream", bytes.NewReader(body))
	c.check(err)
	r.AddCookie(c.cookie)
	resp, err := c.http.Do(r) //nolint:bodyclose // end closes it
	c.check(err)
	lines := json.NewDecoder(resp.Body)
	return func() (e StreamEvent) {
		c.t.Helper()
		c.check(lines.Decode(&e))
		return e
	}, func() { _ = resp.Body.Close() }
}

func TestPlaygroundStream(t *testing.T) {
	c := newToys(t, Config{Writer: "ann"})
	for _, protocol := range []string{"", "tandem"} {
		next, end := c.talk(t.Context(), CallRequest{Method: "Toys.Sum", Arguments: "1", Protocol: protocol, Instance: "t1"})
		id := next().ID
		if e := next(); e.Message == nil || *e.Message != "1" {
			t.Fatalf("%+v", e)
		}
		for i, want := range []string{"9007199254740994", "9007199254740995"} {
			var sent Sent
			message := []string{"9007199254740993", "1"}[i]
			if status := c.post("Send", SendRequest{ID: id, Message: message, Last: i == 1}, &sent); status != http.StatusOK || sent.Messages != i+2 || sent.Closed != (i == 1) {
				t.Fatalf("%d: %+v", status, sent)
			}
			if e := next(); e.Message == nil || *e.Message != want {
				t.Errorf("%+v, want %s", e, want)
			}
		}
		if e := next(); e.End == nil || !strings.EqualFold(e.End.Code, "ok") || e.End.Instance != "t1" || e.End.Sent != 18 {
			t.Errorf("%+v", e.End)
		}
		end()
		if status := c.post("Send", SendRequest{ID: id, Message: "1"}, nil); status != http.StatusNotFound {
			t.Errorf("a message after the end: %d", status)
		}
	}
	// After the last message, and for what is no message, the error says so.
	next, end := c.talk(t.Context(), CallRequest{Method: "Toys.Flood", Arguments: "1", Last: true})
	id := next().ID
	if status := c.post("Send", SendRequest{ID: id, Message: "2"}, nil); status != http.StatusConflict {
		t.Errorf("a message after the last: %d", status)
	}
	n := 0
	for e := next(); ; e = next() {
		if e.End != nil {
			if n != maxMessages || e.End.Code != tandem.ResourceExhausted.String() {
				t.Errorf("%d messages, then %+v", n, e.End)
			}
			break
		}
		n++
	}
	end()
	// A page that goes away ends its stream.
	ctx, cancel := context.WithCancel(t.Context())
	next, end = c.talk(ctx, CallRequest{Method: "Toys.Sum"})
	id = next().ID
	if status := c.post("Send", SendRequest{ID: id}, nil); status != http.StatusBadRequest {
		t.Errorf("no message: %d", status)
	}
	cancel()
	end()
	c.until("the stream is over", func() bool {
		return c.post("Send", SendRequest{ID: id, Message: "1"}, nil) == http.StatusNotFound
	})
	c.until("the log has it", func() bool {
		return strings.Contains(c.log.String(), "by tandem: canceled")
	})
	// An error of the method comes as the end.
	next, end = c.talk(t.Context(), CallRequest{Method: "Toys.Same", Arguments: "{}"})
	defer end()
	for e := next(); ; e = next() {
		if e.End != nil {
			if strings.EqualFold(e.End.Code, "ok") || e.End.Message == "" {
				t.Errorf("a unary method as a stream: %+v", e.End)
			}
			break
		}
	}
}

// A stream ends with the session that began it, and the audit knows where it came from.
func TestPlaygroundStreamEndsWithItsSession(t *testing.T) {
	c := newToys(t, Config{Writer: "ann"})
	next, end := c.talk(t.Context(), CallRequest{Method: "Toys.Sum", Arguments: "1"})
	defer end()
	_ = next() // its ID
	if e := next(); e.Message == nil || *e.Message != "1" {
		t.Fatalf("%+v", e)
	}
	if status := c.post("Logout", nil, nil); status != http.StatusOK {
		t.Fatalf("logging out: %d", status)
	}
	if e := next(); e.End == nil || !strings.EqualFold(e.End.Code, "canceled") {
		t.Errorf("after logging out: %+v", e)
	}
	c.until("the log has it", func() bool {
		return strings.Contains(c.log.String(), "from=127.0.0.1 method=Call list="+c.list+` what="call of Toys.Sum`)
	})
}

// A server that reads nothing holds up the sender of a stream, and nothing else.
func TestPlaygroundWaitsForTheReader(t *testing.T) {
	c := newToys(t, Config{Writer: "ann"})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	next, end := c.talk(ctx, CallRequest{Method: "Toys.Deaf", Instance: "t0"})
	defer end()
	id := next().ID
	message := `"` + strings.Repeat("x", maxArgument-2) + `"`
	ended := make(chan int, 1)
	go func() {
		for {
			if status := c.post("Send", SendRequest{ID: id, Message: message}, nil); status != http.StatusOK {
				ended <- status
				return
			}
		}
	}()
	c.until("a message waits", func() bool {
		return c.post("Send", SendRequest{ID: id, Message: "1"}, nil) == http.StatusTooManyRequests
	})
	cancel()
	if status := <-ended; status == http.StatusOK {
		t.Error("the message was sent in the end")
	}
	c.until("the stream is over", func() bool {
		c.console.gate.mu.Lock()
		defer c.console.gate.mu.Unlock()
		return c.console.gate.all == 0 && len(c.console.gate.stream) == 0
	})
}
