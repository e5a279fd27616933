package tandem_test

import (
	"context"
	"fmt"
	"strings"

	"github.com/tandem-rpc/tandem"
)

// A context has the baggage of its calls.
func ExampleWithBaggage() {
	ctx, err := tandem.WithBaggage(context.Background(), "lane", "blue")
	if err != nil {
		fmt.Println(err)
		return
	}
	var none tandem.Baggage
	b := tandem.BaggageFromContext(ctx)
	fmt.Println(b.Get("lane"), b == none)

	_, err = tandem.WithBaggage(ctx, "not a key", "x")
	fmt.Println(err)
	// Output:
	// blue false
	// invalid argument: baggage: key "not a key": want letters, digits and signs such as - _ and .
}

// Baggage in W3C's form is read and written; what is not valid or too much is left out.
func ExampleParseBaggage() {
	md := tandem.Metadata{tandem.BaggageKey: {"tenant=7, user=ann%20b", "=?"}}
	b, dropped := tandem.ParseBaggage(md[tandem.BaggageKey]...)
	for key, value := range b.All() {
		fmt.Printf("%s is %q\n", key, value)
	}
	fmt.Println("dropped", dropped)

	b, _ = b.With("lane", "grün")
	b = b.Only(func(key string) bool { return key != "user" })
	ctx := tandem.ContextWithBaggage(context.Background(), b)
	fmt.Println(tandem.BaggageFromContext(ctx))

	_, dropped = tandem.ParseBaggage("a=1", "b="+strings.Repeat("x", tandem.MaxBaggage))
	fmt.Println("too long:", dropped, "dropped; pairs:", tandem.MaxBaggageMembers)
	// Output:
	// tenant is "7"
	// user is "ann b"
	// dropped 1
	// tenant=7,lane=gr%C3%BCn
	// too long: 1 dropped; pairs: 64
}
