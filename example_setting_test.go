package tandem_test

import (
	"fmt"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/server"
)

// A setting says what is in force, and where it comes from.
func ExampleSetting() {
	srv := server.New(server.WithMaxMessage(1 << 20))
	show := func(s tandem.Setting) { fmt.Printf("%s is %s, from the %s\n", s.Name, s.Value, s.From) }
	for _, s := range srv.Settings() {
		if s.Name == "WithMaxMessage" {
			show(s)
		}
	}
	// Output:
	// WithMaxMessage is 1048576, from the option
}
