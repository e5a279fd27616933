package tandem_test

import (
	"fmt"
	"time"

	"github.com/tandem-rpc/tandem"
)

// A client can choose instances by the position and the load that they report.
func ExampleInstance_place() {
	in := tandem.Instance{
		ID:        "sydney-1",
		Endpoints: []tandem.Endpoint{{Transport: "tcp", Address: "10.0.0.1:8972"}},
		Zone:      "ap-southeast-2a",
		Position:  &tandem.Position{Latitude: -33.87, Longitude: 151.21},
		Load:      &tandem.Load{At: time.Unix(1_700_000_000, 0), Rate: 250, InFlight: 3},
	}
	fmt.Println(in.Validate(), in.Endpoints[0], in.Load.Rate)
	in.Position = &tandem.Position{Latitude: 3387}
	fmt.Println(in.Validate())
	// Output:
	// <nil> tcp://10.0.0.1:8972 250
	// instance "sydney-1" is nowhere on earth: latitude 3387, longitude 0
}

// A registrar keeps a copy, because its caller may change the instance.
func ExampleInstance_Clone() {
	in := tandem.Instance{ID: "sydney-1", Tags: map[string]string{"rack": "7"}}
	kept := in.Clone()
	in.Tags["rack"] = "8"
	fmt.Println(kept.Tags["rack"], in.Tags["rack"])
	// Output: 7 8
}
