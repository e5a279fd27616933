package mdns_test

import (
	"context"
	"fmt"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/registry"
	"github.com/tandem-rpc/tandem/registry/mdns"
)

// A server answers for itself on the network of an interface; a client would follow
// the list by
//
//	client.Dial("mdns://eth0/prod/Arith", client.WithResolver("mdns", mdns.Resolver()))
//
// There is no such interface here, so both get an error.
func Example() {
	r, err := mdns.New("mdns://none0/prod/Arith", mdns.WithTTL(10*time.Second))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer r.Close()

	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	entry, err := r.Register(ctx, tandem.Instance{
		ID:        "tcp://10.0.0.7:8972",
		Endpoints: []tandem.Endpoint{{Transport: "tcp", Address: "10.0.0.7:8972"}},
	})
	if err == nil {
		defer entry.Close()
	}
	fmt.Println(err)

	err = r.Watch(ctx, registry.Target{}, func(s registry.Snapshot) {
		fmt.Println("listed:", s.Err == nil)
		cancel()
	})
	fmt.Println(err)
	// Output:
	// mdns registry: registering "tcp://10.0.0.7:8972": interface "none0": route ip+net: no such network interface
	// listed: false
	// context canceled
}

// A target is checked when it is first used; the error says what is wrong with it.
func ExampleResolver() {
	target, err := registry.ParseTarget("mdns:///prod/Arith")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(mdns.Resolver().(registry.Checker).Check(target))
	// Output:
	// mdns registry: target "mdns:///prod/Arith": want mdns://interface/Service, or * for an interface of the system's choice
}
