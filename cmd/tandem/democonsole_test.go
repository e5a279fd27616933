package main

import (
	"encoding/json"
	"net/http"
	"net/http/cookiejar"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tandem-rpc/tandem/console"
)

// The console of a demo shows its servers, and the client that calls them; it ends with the demo.
func TestDemoConsole(t *testing.T) {
	demo := spawn(t, "demo", "--console", "--plain", "--duration", "10s", "--rate", "100")
	var login string
	for login == "" {
		_, login, _ = strings.Cut(demo.next(t), "the console is at ")
	}
	rest := make(chan int, 1)
	go func() { rest <- demo.exit(t) }()

	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	browser := &http.Client{Jar: jar, Timeout: 10 * time.Second}
	defer browser.CloseIdleConnections()
	page, err := browser.Get(login)
	if err != nil || page.Body.Close() != nil || page.StatusCode != http.StatusOK {
		t.Fatalf("logging in: %v, %v", page, err)
	}
	ask := func(name, request string, answer any) {
		url, _, _ := strings.Cut(login, "?")
		r, err := browser.Post(url+"api/"+name, "application/json", strings.NewReader(request))
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		if r.StatusCode != http.StatusOK {
			t.Fatalf("%s: %s", name, r.Status)
		}
		if err := json.NewDecoder(r.Body).Decode(answer); err != nil {
			t.Fatal(err)
		}
	}
	deadline := time.Now().Add(10 * time.Second)
	for {
		var all console.Services
		ask("Services", "{}", &all)
		var got console.Service
		if i := slices.IndexFunc(all.Services, func(s console.ServiceRow) bool { return s.Service == "Ledger" }); i >= 0 {
			row := all.Services[i]
			request, err := json.Marshal(console.ServiceRequest{List: row.List, Service: row.Service})
			if err != nil {
				t.Fatal(err)
			}
			ask("Service", string(request), &got)
			if row.Rate > 0 && len(got.Rows) >= 3 && len(got.Consumers) == 1 && got.Consumers[0].Instance == "load" && got.Consumers[0].Rate > 0 {
				break
			}
		}
		if time.Now().After(deadline) {
			t.Fatalf("the console shows %+v of %+v", got, all.Services)
		}
		time.Sleep(200 * time.Millisecond) // the demo is other processes
	}
	if code := <-rest; code != exitOK {
		t.Errorf("the demo: exit code %d, %s", code, demo.errs.String())
	}
	if r, err := browser.Get(login); err == nil {
		_ = r.Body.Close()
		t.Error("the console outlives its demo")
	}
}
