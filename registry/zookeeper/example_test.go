package zookeeper_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/registry/zookeeper"
)

// A server lists itself; a client finds it. This needs servers, so it is only compiled.
func Example() { //nolint:testableexamples // it needs servers
	const target = "zookeeper://h1:2181,h2:2181,h3:2181/tandem/Arith"
	r, err := zookeeper.New(target)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer r.Close()
	entry, err := r.Register(context.Background(), tandem.Instance{
		ID:        "tcp://10.0.0.1:8972",
		Endpoints: []tandem.Endpoint{{Transport: "tcp", Address: "10.0.0.1:8972"}},
		Started:   time.Now(),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer entry.Close()

	c, err := client.Dial(target, client.WithResolver("zookeeper", zookeeper.Resolver()))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
}

// New rejects a target that can't work before it connects to a server.
func ExampleNew() {
	for _, target := range []string{
		"zookeeper://h1:2181",
		"zookeeper://h1:2181/tandem/Arith?tll=10s",
		"zookeeper://h1:2181/tandem/Arith?acl=creator",
	} {
		_, err := zookeeper.New(target)
		fmt.Println(err)
	}
	r, err := zookeeper.New("zookeeper://h1:2181/tandem/Arith?acl=creator",
		zookeeper.WithAuth("tandem", "secret"),
		zookeeper.WithTLS(&tls.Config{MinVersion: tls.VersionTLS12}),
		zookeeper.WithTTL(10*time.Second),
		zookeeper.WithLogger(slog.Default()))
	fmt.Println(err, r.Close())
	// Output:
	// zookeeper registry: target "zookeeper://h1:2181": it names no directory: want zookeeper://host:port/base/Service
	// zookeeper registry: target "zookeeper://h1:2181/tandem/Arith?tll=10s": unknown option "tll"; there are ttl, acl, layout
	// zookeeper registry: target "zookeeper://h1:2181/tandem/Arith?acl=creator": acl=creator needs a user: give one with WithAuth
	// <nil> <nil>
}

// Dial fails at once for a target that can't work.
func ExampleResolver() {
	_, err := client.Dial("zookeeper://h1:2181/tandem/Arith?ttl=1h",
		client.WithResolver("zookeeper", zookeeper.Resolver()))
	fmt.Println(err)
	// Output:
	// invalid argument: zookeeper registry: target "zookeeper://h1:2181/tandem/Arith?ttl=1h": ttl of 1h0m0s; want 1s to 10m0s
}
