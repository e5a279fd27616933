package consul_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"sync/atomic"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/registry"
	"github.com/tandem-rpc/tandem/registry/consul"
)

// A server lists itself; a client watches the same target.
func Example() {
	agent := miniature() // instead of a real Consul agent at 127.0.0.1:8500
	defer agent.Close()
	target := "consul://" + agent.Listener.Addr().String() + "/prod/Arith"

	r, err := consul.New(target, consul.WithTTL(30*time.Second))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer r.Close()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	entry, err := r.Register(ctx, tandem.Instance{
		ID:        "tcp://10.0.0.1:8972",
		Endpoints: []tandem.Endpoint{{Transport: "tcp", Address: "10.0.0.1:8972"}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer entry.Close()

	parsed, err := registry.ParseTarget(target)
	if err != nil {
		fmt.Println(err)
		return
	}
	// client.WithResolver("consul", consul.Resolver()) does this for a client.
	err = consul.Resolver().Watch(ctx, parsed, func(s registry.Snapshot) {
		fmt.Println(s.Instances[0].ID)
		cancel()
	})
	fmt.Println(err)
	// Output:
	// tcp://10.0.0.1:8972
	// context canceled
}

// A cluster with ACLs, TLS and its own certificate authority. The target contains no
// secret.
func ExampleNew() {
	authority := x509.NewCertPool() // and AppendCertsFromPEM
	r, err := consul.New("consul://consul1:8501,consul2:8501/prod/Arith?ttl=10s",
		consul.WithToken(os.Getenv("ARITH_TOKEN")),
		consul.WithTLS(&tls.Config{RootCAs: authority, MinVersion: tls.VersionTLS13}),
		consul.WithLogger(slog.Default()),
	)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(r.Close()) // New does not wait for the agents
	// Output: <nil>
}

// Check refuses a target that can never work, without a request.
func ExampleRegistry_Check() {
	target, err := registry.ParseTarget("consul://127.0.0.1:8500/prod/Arith?timeout=1s")
	if err != nil {
		fmt.Println(err)
		return
	}
	checker, _ := consul.Resolver().(registry.Checker)
	fmt.Println(checker.Check(target))
	// Output: consul registry: target "consul://127.0.0.1:8500/prod/Arith?timeout=1s": unknown option "timeout"; there are ttl
}

// miniature returns a fake Consul agent that holds at most one service.
func miniature() *httptest.Server {
	var listed atomic.Pointer[api.AgentService]
	mux := http.NewServeMux()
	mux.HandleFunc("/v1/agent/service/register", func(_ http.ResponseWriter, req *http.Request) {
		var reg api.AgentServiceRegistration
		_ = json.NewDecoder(req.Body).Decode(&reg)
		listed.Store(&api.AgentService{ID: reg.ID, Service: reg.Name, Meta: reg.Meta})
	})
	mux.HandleFunc("/v1/agent/service/deregister/", func(http.ResponseWriter, *http.Request) { listed.Store(nil) })
	mux.HandleFunc("/v1/agent/check/update/", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("/v1/agent/service/", func(w http.ResponseWriter, req *http.Request) {
		if listed.Load() == nil {
			http.NotFound(w, req)
			return
		}
		answer(w, listed.Load())
	})
	mux.HandleFunc("/v1/health/service/Arith", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Consul-Index", "7")
		answer(w, []api.ServiceEntry{{Node: &api.Node{Node: "node"}, Service: listed.Load()}})
	})
	return httptest.NewServer(mux)
}

func answer(w http.ResponseWriter, v any) {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	_, _ = w.Write(text)
}
