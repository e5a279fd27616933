package tandem_test

import (
	"fmt"

	"github.com/tandem-rpc/tandem"
)

// A route is a part of a call; clients set it by an option.
func ExampleRoute() {
	call := &tandem.Call{Route: &tandem.Route{Version: "2", Tags: map[string]string{"lane": "blue"}, Force: true}}
	attempt := call.Clone()
	fmt.Println(attempt.Route)
	fmt.Println(new(tandem.Route))
	// Output:
	// version 2 lane=blue forced
	// anywhere
}
