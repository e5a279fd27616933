package console

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/admin"
	"github.com/tandem-rpc/tandem/registry/file"
)

// roleOf returns the role that an action needs.
func roleOf(all []Action, name string) string {
	i := slices.IndexFunc(all, func(a Action) bool { return a.Name == name })
	if i < 0 {
		return "none"
	}
	return all[i].Role
}

// The page has a text for each action, in English; the compiler compares the languages.
func TestActionsHaveTexts(t *testing.T) {
	texts, err := os.ReadFile("ui/src/i18n/en.ts")
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range new(Console).actions() {
		if !strings.Contains(string(texts), "'access.do."+a.Name+"':") {
			t.Errorf("no text for %s", a.Name)
		}
	}
}

func TestAccessOfTheToken(t *testing.T) {
	c := newCluster(t, Config{Writer: "ann", TraceURL: "https://jaeger.example/trace/{trace}"})
	c.login()
	var s Session
	if c.post("Session", nil, &s); s.TraceURL != "https://jaeger.example/trace/{trace}" {
		t.Errorf("%+v", s)
	}
	var a Access
	c.until("roles at all instances", func() bool {
		a = Access{}
		c.post("Access", nil, &a)
		return len(a.Lists) == 2 && a.Lists[0].Roles["operator"] == 1 && a.Lists[1].Roles["developer"] == 3
	})
	if a.By != "token" || a.Own == nil || !a.Own.Own || a.Own.Name != "ann" || a.Own.Role != "operator" || a.Own.Address != "127.0.0.1" {
		t.Errorf("%+v, own %+v", a, a.Own)
	}
	if left := time.Until(a.Own.Until); left < cookieLife-time.Minute || left > cookieLife {
		t.Errorf("the session ends in %v", left)
	}
	if len(a.Sessions) != 0 {
		t.Errorf("an operator sees sessions: %+v", a.Sessions)
	}
	for name, role := range map[string]string{
		"Overview": "viewer", "Edit": "operator", "PutPolicy": "operator", "Traces": "developer", "RefuseUser": "administrator", "SetLogLevel": "operator", "Tap": "developer", "TapPayload": "administrator",
	} {
		if got := roleOf(a.Actions, name); got != role {
			t.Errorf("%s needs the role %s, want %s", name, got, role)
		}
	}
	if len(a.Roles) != 4 || a.Roles[0] != "viewer" || a.Roles[3] != "administrator" {
		t.Errorf("roles %v", a.Roles)
	}
	if status := c.post("RefuseUser", RefuseUserRequest{Name: "bob", Why: "x"}, nil); status != http.StatusForbidden {
		t.Errorf("an operator ends sessions: %d", status)
	}
	if status := c.post("Logout", nil, nil); status != http.StatusOK {
		t.Errorf("logging out: %d", status)
	}
	if status := c.post("Session", nil, nil); status != http.StatusUnauthorized {
		t.Errorf("after logging out: %d", status)
	}
}

// as sends a request as a user.
func as(name string) func(*http.Request) {
	return func(r *http.Request) { r.SetBasicAuth(name, "x") }
}

// byName lets users in by the name of basic authentication; ann is an administrator.
func byName(r *http.Request) (User, error) {
	switch name, _, ok := r.BasicAuth(); {
	case !ok:
		return User{}, errors.New("who are you?")
	case name == "ann":
		return User{name, admin.Administrator}, nil
	default:
		return User{name, admin.Viewer}, nil
	}
}

func TestSessionsOfUsers(t *testing.T) {
	c := newCluster(t, Config{Authorizer: byName, LogoutURL: "https://login.example/out"})
	if status := c.post("Session", nil, nil, as("bob")); status != http.StatusOK {
		t.Fatalf("bob: %d", status)
	}
	var a Access
	c.post("Access", nil, &a, as("ann"), func(r *http.Request) { r.Header.Set("X-Forwarded-For", "1.1.1.1, 9.9.9.9") })
	if a.By != "authorizer" || a.LogoutURL == "" || len(a.Sessions) != 2 || a.Sessions[0].Name != "ann" || a.Sessions[0].Forwarded != "9.9.9.9" || !a.Sessions[0].Own || a.Sessions[1].Name != "bob" || a.Sessions[1].Role != "viewer" {
		t.Errorf("%+v", a)
	}
	a = Access{}
	if c.post("Access", nil, &a, as("bob")); len(a.Sessions) != 0 || a.Own == nil || a.Own.Name != "bob" {
		t.Errorf("bob sees %+v", a)
	}
	var would, done RefusedUser
	if c.post("RefuseUser", RefuseUserRequest{Name: "bob", DryRun: true}, &would, as("ann")); would.Ended != 1 {
		t.Errorf("a dry run: %+v", would)
	}
	if status := c.post("Session", nil, nil, as("bob")); status != http.StatusOK {
		t.Errorf("bob, after a dry run: %d", status)
	}
	if c.post("RefuseUser", RefuseUserRequest{Name: "bob", Why: "left"}, &done, as("ann")); done.Ended != 1 || done.By != "ann" {
		t.Errorf("%+v", done)
	}
	var e struct{ Message string }
	if status := c.post("Session", nil, &e, as("bob")); status != http.StatusUnauthorized || !strings.Contains(e.Message, "ann has ended your session") || !strings.Contains(e.Message, "left") {
		t.Errorf("bob is answered %d: %s", status, e.Message)
	}
	a = Access{}
	if c.post("Access", nil, &a, as("ann")); len(a.Refused) != 1 || a.Refused[0].Name != "bob" {
		t.Errorf("%+v", a.Refused)
	}
	for what, want := range map[*RefuseUserRequest]int{{Name: "ann", Why: "x"}: http.StatusConflict, {Name: "eve"}: http.StatusBadRequest, {Why: "x"}: http.StatusBadRequest} {
		if status := c.post("RefuseUser", what, nil, as("ann")); status != want {
			t.Errorf("%+v: %d", what, status)
		}
	}
	if status := c.post("AdmitUser", AdmitUserRequest{Name: "bob"}, nil, as("ann")); status != http.StatusOK {
		t.Errorf("letting bob in: %d", status)
	}
	if status := c.post("Session", nil, nil, as("bob")); status != http.StatusOK {
		t.Errorf("bob, let in again: %d", status)
	}
	if status := c.post("Logout", nil, nil, as("bob")); status != http.StatusConflict {
		t.Errorf("the console logs out a user of the proxy: %d", status)
	}
}

// Logins are bounded, and those of several consoles have different cookies.
func TestLogins(t *testing.T) {
	var s logins
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	first := s.begin(t.Context(), r, User{"ann", admin.Viewer})
	ctx := s.of(first, time.Now()).ctx
	for i := range maxLogins {
		if err := s.note(t.Context(), r, User{fmt.Sprint("u", i), admin.Viewer}); err != nil {
			t.Fatal(err)
		}
	}
	if len(s.all) != maxLogins || s.of(first, time.Now()) != nil || ctx.Err() == nil {
		t.Errorf("%d logins, and the first is %v", len(s.all), s.of(first, time.Now()))
	}
	for i := range 2 * maxPerUser {
		r.Header.Set("X-Forwarded-For", fmt.Sprint(i))
		if err := s.note(t.Context(), r, User{"eve", admin.Viewer}); err != nil {
			t.Fatal(err)
		}
	}
	if n := s.endOf(func(l *login) bool { return l.user.Name == "eve" }); n != maxPerUser {
		t.Errorf("a user has %d logins, want %d", n, maxPerUser)
	}
	late := s.begin(t.Context(), r, User{"bob", admin.Viewer})
	if s.of(late, time.Now().Add(cookieLife+time.Second)) != nil || s.of(late, time.Now()) != nil {
		t.Error("a session does not end")
	}
	sources := []Registry{{Target: "file://" + t.TempDir(), Resolver: file.Resolver()}}
	var names []string
	for range 2 {
		c, err := New(Config{Sources: sources})
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, c.cookie)
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
	if names[0] == names[1] {
		t.Error("two consoles of a host share the cookie", names[0])
	}
	for _, bad := range []Config{{TraceURL: "https://x/"}, {TraceURL: "javascript:{trace}"}, {LogoutURL: "/out"}, {TraceURL: "https:///{trace}"}} {
		bad.Sources = sources
		if _, err := New(bad); err == nil || !strings.Contains(err.Error(), "URL") {
			t.Errorf("%+v: %v", bad, err)
		}
	}
}

// An instance whose admin API does not answer is silent, and stays what it is for changes.
func TestSilent(t *testing.T) {
	c := newCluster(t, Config{Writer: "ann"})
	c.login()
	r := file.New(c.base + "/shop")
	gone := tandem.Instance{ID: "s9", Services: []string{"Shop", admin.Service}, Endpoints: []tandem.Endpoint{{Transport: "tcp", Address: "127.0.0.1:1"}}}
	listed, err := r.Register(t.Context(), gone)
	c.check(err)
	t.Cleanup(func() { _ = listed.Close() })
	var s Service
	c.until("s9 is silent", func() bool {
		s = Service{}
		c.post("Service", ServiceRequest{List: c.target, Service: "Shop"}, &s)
		return len(s.Rows) == 4 && s.Rows[3].State == "silent" && s.Rows[3].Error != ""
	})
	if s.Instances["silent"] != 1 || s.Rows[0].State != "enabled" {
		t.Errorf("%+v", s)
	}
	var e Edit
	c.post("Edit", map[string]any{"list": c.target, "set": []any{map[string]any{"instance": "s0", "state": "disabled"}}, "dryRun": true}, &e)
	if len(e.Rows) != 1 || e.Rows[0].ID != "s0" || e.Left != 3 {
		t.Errorf("a dry run: %+v", e)
	}
	var a Access
	c.post("Access", nil, &a)
	if i := slices.IndexFunc(a.Lists, func(l ListRoles) bool { return l.List == c.target }); i < 0 || a.Lists[i].Silent != 1 {
		t.Errorf("%+v", a.Lists)
	}
}
