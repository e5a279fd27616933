package main

import (
	"bytes"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/cmd/tandem/internal/contexts"
	"github.com/tandem-rpc/tandem/console"
	"github.com/tandem-rpc/tandem/registry/file"
)

// writeTestCert writes the certificate of package httptest, which is its own authority, and its key.
func writeTestCert(t *testing.T) (cert, key string) {
	t.Helper()
	srv := httptest.NewTLSServer(http.NotFoundHandler())
	srv.Close()
	pair := srv.TLS.Certificates[0]
	secret, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for name, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: pair.Certificate[0]}, key: {Type: "PRIVATE KEY", Bytes: secret}} {
		if err := os.WriteFile(name, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return cert, key
}

// consoleOf starts a console of a list, for a user who may write, and returns what calls its API.
func consoleOf(t *testing.T, list, ca string) (post func(name string, req, answer any)) {
	t.Helper()
	cfg, err := consoleConfig(t.Context(), &accessFlags{tls: contexts.TLS{CA: ca}}, []string{list})
	if err != nil {
		t.Fatal(err)
	}
	cfg.Writer = "ann"
	c, err := console.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	page := httptest.NewServer(c.Handler())
	t.Cleanup(func() {
		page.Close()
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	browser := page.Client()
	browser.Jar = jar
	entered, err := browser.Get(c.URL(page.Listener.Addr()))
	if err != nil {
		t.Fatal(err)
	}
	_ = entered.Body.Close()
	return func(name string, req, answer any) {
		t.Helper()
		body, err := json.Marshal(req)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := browser.Post(page.URL+"/api/"+name, "application/json", bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		if err := json.NewDecoder(resp.Body).Decode(answer); err != nil {
			t.Fatalf("%s: %s, %v", name, resp.Status, err)
		}
	}
}

// soon waits until a condition holds.
func soon(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !holds(); {
		if time.Now().After(end) {
			t.Fatalf("in vain: %s", what)
		}
		time.Sleep(50 * time.Millisecond) // until the registry has been read
	}
}

// TestConsoleCallsWithTLS calls a server with TLS from the playground, by every protocol.
func TestConsoleCallsWithTLS(t *testing.T) {
	cert, key := writeTestCert(t)
	list := "file://" + filepath.ToSlash(t.TempDir()) + "/shop"
	startServe(t, "--registry", list, "--id", "one", "--tls-cert", cert, "--tls-key", key)
	post := consoleOf(t, list, cert)
	var p console.Playground
	soon(t, "the schema", func() bool {
		post("Playground", console.PlaygroundRequest{List: list}, &p)
		return p.Schema != nil
	})
	if len(p.Protocols) < 5 {
		t.Errorf("protocols %v", p.Protocols)
	}
	for _, protocol := range p.Protocols {
		var got console.CallAnswer
		req := console.CallRequest{List: list, Method: "Arith.Mul", Arguments: `{"A":7,"B":8}`, Protocol: protocol, Timeout: 30 * time.Second}
		if post("Call", req, &got); got.Result != `{"C":56}` || got.Instance != "one" {
			t.Errorf("%s: %+v", protocol, got)
		}
	}
}

// TestConsoleOffersHTTP2 calls a gRPC server that speaks HTTP/2 only to clients whose TLS offers it,
// as most do.
func TestConsoleOffersHTTP2(t *testing.T) {
	cert, _ := writeTestCert(t)
	var agreed sync.Map
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		agreed.Store(r.TLS.NegotiatedProtocol, true)
		w.Header().Set("Content-Type", "application/grpc+json")
		w.Header().Set("Grpc-Status", "0")
	}))
	srv.EnableHTTP2 = true
	srv.StartTLS()
	defer srv.Close()
	dir := t.TempDir()
	entry, err := file.New(filepath.Join(dir, "shop")).Register(t.Context(), tandem.Instance{
		ID: "g", Endpoints: []tandem.Endpoint{{Transport: "tcp", Address: srv.Listener.Addr().String(), Protocol: "grpc"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = entry.Close() }()
	list := "file://" + filepath.ToSlash(dir) + "/shop"
	post := consoleOf(t, list, cert)
	soon(t, "the instance", func() bool {
		var p console.Playground
		post("Playground", console.PlaygroundRequest{List: list}, &p)
		return len(p.Instances) == 1
	})
	var got console.CallAnswer
	post("Call", console.CallRequest{List: list, Method: "A.B", Arguments: "{}", Protocol: "grpc"}, &got)
	if _, ok := agreed.Load("h2"); !ok {
		t.Errorf("no request by HTTP/2: %+v", got)
	}
}
