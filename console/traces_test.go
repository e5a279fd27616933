package console

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/admin"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/plugin/trace"
	"github.com/tandem-rpc/tandem/registry/file"
	"github.com/tandem-rpc/tandem/server"
)

// serveTraced starts a server with one method, in the list of that name.
func (c *cluster) serveTraced(list, id, method string, do func(context.Context) error, a *admin.Admin) {
	c.t.Helper()
	srv := server.New(server.WithPlugins(trace.New(), a), server.WithRegistrar(file.New(c.base+"/"+list), tandem.Instance{ID: id}))
	c.check(errors.Join(a.Register(srv), srv.RegisterFunc(method, do)))
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	c.check(err)
	done := make(chan error, 1)
	go func() { done <- srv.ServeListener(ln) }()
	c.t.Cleanup(func() {
		_ = srv.Close()
		<-done
	})
}

// retries starts a front, which calls two backs, of which one refuses all calls, and calls the
// front until there is a trace with a retry. It returns the list of the backs, and the trace.
func (c *cluster) retries() (list string, found TracedSpan) {
	list = "file://" + c.base + "/back"
	refuse := func(context.Context) error {
		return &tandem.Error{Code: tandem.Unavailable, Message: "no stock", NotExecuted: true}
	}
	c.serveTraced("back", "b1", "Back.Take", refuse, admin.New())
	c.serveTraced("back", "b2", "Back.Take", func(context.Context) error { return nil }, admin.New())
	a := admin.New()
	back, err := a.Dial(list, client.WithResolver("file", file.Resolver()), client.WithPlugins(trace.New()), client.WithEjection(nil), client.WithFailMode(client.Failover), client.WithRetries(3))
	c.check(err)
	c.t.Cleanup(func() { _ = back.Close() })
	c.serveTraced("front", "f1", "Front.Order", func(ctx context.Context) error { return back.Call(ctx, "Back.Take", nil, nil, client.Idempotent()) }, a)
	front, err := client.Dial("file://"+c.base+"/front", client.WithResolver("file", file.Resolver()))
	c.check(err)
	c.t.Cleanup(func() { _ = front.Close() })
	c.until("a call with a retry", func() bool {
		_ = front.Call(c.t.Context(), "Front.Order", nil, nil)
		var g Gathered
		c.post("Traces", TracesRequest{List: list, Service: "Back"}, &g)
		for _, s := range g.Spans {
			if len(s.Attempts) == 2 {
				found = s
				return true
			}
		}
		return false
	})
	return list, found
}

func TestTraces(t *testing.T) {
	c := newCluster(t, Config{})
	c.login()
	list, found := c.retries()
	if found.Instance != "f1" || found.Client == "" || found.Code != "ok" || found.Attempts[0].Instance != "b1" || found.Attempts[1].Instance != "b2" {
		t.Errorf("%+v", found)
	}
	var g Gathered
	c.post("Trace", TraceRequest{Trace: found.Trace, List: list}, &g)
	var at []string
	for _, s := range g.Spans {
		at = append(at, s.Instance)
	}
	// The front's server, its client with both attempts, and both backs.
	if len(g.Spans) != 4 || strings.Count(strings.Join(at, " "), "f1") != 2 || g.Asked != 7 || g.Silent != 0 || g.Cut != 0 {
		t.Errorf("a trace of %v: %+v", at, g)
	}
	search := func(req TracesRequest) int {
		g = Gathered{}
		req.List = list
		if status := c.post("Traces", req, &g); status != http.StatusOK {
			t.Errorf("%+v: %d", req, status)
		}
		return len(g.Spans)
	}
	for what, n := range map[TracesRequest]bool{
		{Trace: found.Trace}: true, {Trace: strings.ToUpper(found.Trace)}: true, {Method: "Back.T*"}: true, {Service: "Back", Method: "Take"}: true, {Code: "ok"}: true,
		{Service: "B*"}: false, {Method: "Back.No"}: false, {Code: "not found"}: false, {AtLeast: time.Minute}: false, {Trace: strings.Repeat("0", 32)}: false,
	} {
		if got := search(what); (got > 0) != n {
			t.Errorf("%+v finds %d calls", what, got)
		}
	}
	// Of a call that both sides tell of, the caller's is shown.
	search(TracesRequest{Trace: found.Trace, Service: "Back"})
	if len(g.Spans) != 1 || g.Asked != 3 {
		t.Errorf("both sides: %+v", g)
	}
	for _, bad := range []TracesRequest{{Method: "["}, {Trace: "xyz"}, {AtLeast: -1}} {
		if status := c.post("Traces", bad, nil); status != http.StatusBadRequest {
			t.Errorf("%+v: %d", bad, status)
		}
	}
	if status := c.post("Trace", TraceRequest{Trace: "12"}, nil); status != http.StatusBadRequest {
		t.Errorf("half an ID: %d", status)
	}
}

// What a process can't say is said.
func TestTracesAreMissing(t *testing.T) {
	c := newCluster(t, Config{})
	c.login()
	shy := admin.New(admin.WithAuthorizer(func(context.Context) (admin.Role, error) { return admin.Viewer, nil }))
	c.serveTraced("shy", "y1", "Shy.Hide", func(context.Context) error { return nil }, shy)
	var g Gathered
	c.until("the shy process", func() bool {
		g = Gathered{}
		return c.post("Traces", TracesRequest{List: "file://" + c.base + "/shy"}, &g) == http.StatusOK && g.Silent == 1
	})
	if len(g.Missing) != 1 || g.Missing[0].Instance != "y1" || !strings.Contains(g.Missing[0].Error, "role") {
		t.Errorf("%+v", g)
	}
	var a Access
	c.until("that it gives the console the role viewer", func() bool {
		a = Access{}
		c.post("Access", nil, &a)
		return len(a.Lists) == 3 && a.Lists[2].Roles["viewer"] == 1
	})
}

func TestLogLevel(t *testing.T) {
	c := newCluster(t, Config{Writer: "ann"})
	c.login()
	level := new(slog.LevelVar)
	a := admin.New(admin.WithLogLevel(level), admin.WithAuthorizer(func(context.Context) (admin.Role, error) { return admin.Operator, nil }))
	c.serveTraced("log", "l1", "Log.Write", func(context.Context) error { return nil }, a)
	ask := func(method, request string) (made admin.Change, status int) {
		status = c.post("Ask", AskRequest{List: "file://" + c.base + "/log", Instance: "l1", Method: method, Request: json.RawMessage(request)}, &made)
		return made, status
	}
	var made admin.Change
	c.until("the level to change", func() (done bool) {
		var status int
		made, status = ask("SetLogLevel", `{"level":"debug","why":"a look"}`)
		return status == http.StatusOK
	})
	if made.Before != "INFO" || made.After != "DEBUG" || made.Why != "ann: a look" || level.Level() != slog.LevelDebug {
		t.Errorf("%+v, and the level is %v", made, level.Level())
	}
	if _, status := ask("Undo", `{"id":"`+made.ID+`"}`); status != http.StatusBadRequest {
		t.Errorf("without a reason: %d", status)
	}
	if undone, status := ask("Undo", `{"id":"`+made.ID+`","why":"done"}`); status != http.StatusOK || undone.Why != "ann: done" || level.Level() != slog.LevelInfo {
		t.Errorf("%d: %+v, and the level is %v", status, undone, level.Level())
	}
}
