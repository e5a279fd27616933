package nacos_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"net"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/registry"
	"github.com/tandem-rpc/tandem/registry/nacos"
	"github.com/tandem-rpc/tandem/registry/nacos/internal/standin"
	"github.com/tandem-rpc/tandem/server"
)

func greet(_ context.Context, name *string) (*string, error) { return new("Hello, " + *name), nil }

// A server lists itself in Nacos; a client finds it there.
func Example() {
	web := httptest.NewServer(&standin.Server{}) // in place of a Nacos server
	defer web.Close()
	target := "nacos://" + web.Listener.Addr().String() + "/shop/Greeter"

	r, err := nacos.New(target, nacos.WithTTL(10*time.Second))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer r.Close()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Println(err)
		return
	}
	srv := server.New(server.WithRegistrar(r, tandem.Instance{
		ID:        "greeter-1",
		Endpoints: []tandem.Endpoint{{Transport: "tcp", Address: ln.Addr().String()}},
	}))
	if err := server.Handle(srv, "Greeter.Greet", greet); err != nil {
		fmt.Println(err)
		return
	}
	go srv.ServeListener(ln)
	defer srv.Close()
	show(r, target)

	c, err := client.Dial(target, client.WithResolver("nacos", nacos.Resolver(nacos.WithPoll(100*time.Millisecond))))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	reply, err := client.Invoke[string](context.Background(), c, "Greeter.Greet", "world")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(*reply)
	// Output:
	// greeter-1 0
	// Hello, world
}

// A Nacos with TLS and authentication. The registry logs in and renews its token.
func ExampleWithAuth() {
	web := httptest.NewUnstartedServer(&standin.Server{Password: "secret"}) // in place of a Nacos server
	web.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, 0)
	web.StartTLS()
	defer web.Close()
	roots := x509.NewCertPool()
	roots.AddCert(web.Certificate())

	target := "nacos://" + web.Listener.Addr().String() + "/Greeter?namespace=test"
	for _, password := range []string{"wrong", "secret"} {
		r, err := nacos.New(target,
			nacos.WithTLS(&tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}),
			nacos.WithAuth("nacos", password),
			nacos.WithLogger(slog.New(slog.DiscardHandler)))
		if err != nil {
			fmt.Println(err)
			return
		}
		entry, err := r.Register(context.Background(), tandem.Instance{
			ID:        "greeter-1",
			Endpoints: []tandem.Endpoint{{Transport: "tcp", Address: "10.0.0.1:8972"}},
		})
		if err != nil {
			first, _, _ := strings.Cut(err.Error(), "\n")
			fmt.Println(first)
			continue
		}
		show(r, target)
		entry.Close()
		r.Close()
	}
	// Output:
	// nacos registry: registering "greeter-1": logging in as "nacos": POST /nacos/v1/auth/login: status 403: "unknown user!"
	// greeter-1 0
}

// show watches a target until it gets a list that is not empty, and prints that.
func show(r registry.Resolver, target string) {
	t, err := registry.ParseTarget(target)
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	_ = r.Watch(ctx, t, func(s registry.Snapshot) {
		for _, in := range s.Instances {
			fmt.Println(in.ID, in.Weight)
			cancel()
		}
	})
}

// New rejects a target that can't work before it connects to a server.
func ExampleNew() {
	_, err := nacos.New("nacos://10.0.0.1:8848/shop/Greeter?tll=5s")
	fmt.Println(err)
	_, err = nacos.New("nacos://10.0.0.1/Greeter")
	fmt.Println(err)
	// Output:
	// target "nacos://10.0.0.1:8848/shop/Greeter?tll=5s": unknown option "tll"; there are namespace, cluster, context, ttl, poll, api
	// target "nacos://10.0.0.1/Greeter": bad server "10.0.0.1": want host:port, separated by commas
}
