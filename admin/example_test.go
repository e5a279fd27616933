package admin_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"

	"github.com/tandem-rpc/tandem/admin"
	"github.com/tandem-rpc/tandem/protocol/web"
	"github.com/tandem-rpc/tandem/server"
)

func greet(_ context.Context, name *string) (*string, error) { return new("Hello, " + *name), nil }

// A server says what its methods do, to whoever asks from the same machine.
func Example() {
	a := admin.New()
	srv := server.New(server.WithPlugins(a), server.WithProtocols(web.New()))
	check(a.Register(srv))
	check(server.Handle(srv, "Hello.Greet", greet))
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	check(err)
	served := make(chan error, 1)
	go func() { served <- srv.ServeListener(ln) }()

	post := func(method, body string) string {
		resp, err := http.Post("http://"+ln.Addr().String()+"/"+method, "application/json", strings.NewReader(body))
		check(err)
		text, err := io.ReadAll(resp.Body)
		check(err)
		check(resp.Body.Close())
		return string(text)
	}
	fmt.Println(post("Hello/Greet", `"world"`))
	methods := post(admin.Service+"/Methods", `{}`)
	fmt.Println(strings.Contains(methods, `{"method":"Hello.Greet","kind":"unary","calls":1,"running":0,`))
	fmt.Println(post(admin.Service+"/SetLogLevel", `{"level": "debug"}`))
	check(srv.Close())
	<-served
	// Output:
	// "Hello, world"
	// true
	// {"code":"permission_denied","message":"this needs the role operator, which nobody has without admin.WithAuthorizer"}
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
