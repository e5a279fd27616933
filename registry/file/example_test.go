package file_test

import (
	"context"
	"fmt"
	"os"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/registry"
	"github.com/tandem-rpc/tandem/registry/file"
)

// A server lists itself in a directory; a client watches it.
func Example() {
	dir, err := os.MkdirTemp("", "tandem")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)

	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	entry, err := file.New(dir).Register(ctx, tandem.Instance{
		ID:        "tcp://127.0.0.1:8972",
		Endpoints: []tandem.Endpoint{{Transport: "tcp", Address: "127.0.0.1:8972"}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer entry.Close()

	target := registry.Target{Scheme: "file", Path: dir} // as parsed from file:///…
	err = file.Resolver().Watch(ctx, target, func(s registry.Snapshot) {
		fmt.Println(s.Instances[0].ID)
		cancel()
	})
	fmt.Println(err)
	// Output:
	// tcp://127.0.0.1:8972
	// context canceled
}
