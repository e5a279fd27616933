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
	"testing"
	"time"

	"github.com/tandem-rpc/tandem/cmd/tandem/internal/contexts"
	"github.com/tandem-rpc/tandem/console"
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

// TestConsoleCallsWithTLS calls a server with TLS from the playground, by every protocol.
func TestConsoleCallsWithTLS(t *testing.T) {
	cert, key := writeTestCert(t)
	list := "file://" + filepath.ToSlash(t.TempDir()) + "/shop"
	startServe(t, "--registry", list, "--id", "one", "--tls-cert", cert, "--tls-key", key)
	cfg, err := consoleConfig(t.Context(), &accessFlags{tls: contexts.TLS{CA: cert}}, []string{list})
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
	post := func(name string, req, answer any) {
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
	var p console.Playground
	for end := time.Now().Add(20 * time.Second); p.Schema == nil; post("Playground", console.PlaygroundRequest{List: list}, &p) {
		if time.Now().After(end) {
			t.Fatalf("no schema: %s", p.Error)
		}
		time.Sleep(50 * time.Millisecond) // until the list has been read
	}
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
