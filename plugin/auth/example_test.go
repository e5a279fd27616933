package auth_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/plugin/auth"
	"github.com/tandem-rpc/tandem/server"
	"github.com/tandem-rpc/tandem/transport"
)

func Example() {
	srv := server.New(server.WithPlugins(auth.New(
		auth.Bearer(auth.Known(map[string]string{"0b79bab50daca910b000d4f1a2b675d604257e42": "ada"})),
		auth.Public("Health.*"),
		auth.Require("Admin.*", func(any) error { return errors.New("not today") }),
	)))
	greet := func(ctx context.Context) string {
		who, _ := auth.Identity[string](ctx)
		return "hello " + who
	}
	_ = srv.RegisterFunc("Door.Knock", greet)
	_ = srv.RegisterFunc("Admin.Knock", greet)
	_ = srv.RegisterFunc("Health.Knock", greet)
	network := transport.NewMemory()
	ln, _ := network.Listen(context.Background(), "door")
	served := make(chan error, 1)
	go func() { served <- srv.ServeListener(ln) }()

	for _, token := range []string{"0b79bab50daca910b000d4f1a2b675d604257e42", "0b79_ABC"} {
		c, _ := client.Dial("mem://door", client.WithTransport("mem", network), client.WithPlugins(auth.Token("Bearer", token)))
		for _, method := range []string{"Door.Knock", "Admin.Knock", "Health.Knock"} {
			var answer string
			err := c.Call(context.Background(), method, nil, &answer)
			fmt.Printf("%q %v\n", answer, err)
		}
		_ = c.Close()
	}
	_ = srv.Close()
	<-served
	// Output:
	// "hello ada" <nil>
	// "" permission denied: not today
	// "hello " <nil>
	// "" unauthenticated: the credentials are not known here
	// "" unauthenticated: the credentials are not known here
	// "hello " <nil>
}
