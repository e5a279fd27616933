package web_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/protocol/web"
	"github.com/tandem-rpc/tandem/server"
)

// Methods are called with JSON, by POST, and by GET if they are marked safe.
func Example() {
	srv := server.New(server.WithProtocols(web.New()))
	mul := func(p *Pair) (int, error) { return p.A * p.B, nil }
	check(srv.RegisterFunc("Arith.Mul", mul, server.MethodSafe()))
	check(srv.RegisterFunc("Text.Greet", func(ctx context.Context, name string) (string, error) {
		if name == "" {
			return "", tandem.Errorf(tandem.InvalidArgument, "whom?")
		}
		web.Header(ctx).Set("Content-Language", "en")
		return "hello, " + name, nil
	}))
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	check(err)
	served := make(chan error, 1)
	go func() { served <- srv.ServeListener(ln) }()
	at := "http://" + ln.Addr().String()

	show(http.Post(at+"/Arith/Mul", "application/json", strings.NewReader(`{"A":6,"B":7}`)))
	show(http.Get(at + `/Arith/Mul?message={"A":2,"B":3}`))
	show(http.Post(at+"/Text/Greet", "application/json", strings.NewReader(`"you"`)))
	show(http.Post(at+"/Text/Greet", "application/json", strings.NewReader(`""`)))
	http.DefaultClient.CloseIdleConnections()
	check(srv.Shutdown(context.Background()))
	<-served
	// Output:
	// 200 "" 42
	// 200 "" 6
	// 200 "en" "hello, you"
	// 400 "" {"code":"invalid_argument","message":"whom?"}
}

// A tandem client uses streams with gRPC servers as with tandem's own.
func ExampleGRPC() {
	srv := server.New(server.WithProtocols(web.New())) // or any gRPC server
	check(server.HandleStream(srv, "test.v1.Texts.Upper", func(_ context.Context, s *tandem.Stream[text, text]) error {
		for m, err := range s.All() {
			if err != nil {
				return err
			}
			if m.GetValue() == "" {
				return tandem.Errorf(tandem.InvalidArgument, "nothing to raise")
			}
			if err := s.Send(&text{Value: strings.ToUpper(m.GetValue())}); err != nil {
				return err
			}
		}
		return nil
	}))
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	check(err)
	served := make(chan error, 1)
	go func() { served <- srv.ServeListener(ln) }()

	c, err := client.Dial("grpc://"+ln.Addr().String(), client.WithProtocols(web.GRPC()))
	check(err)
	s, err := client.Stream[text, text](context.Background(), c, "test.v1.Texts.Upper")
	check(err)
	for _, word := range []string{"one", "two", ""} {
		_ = s.Send(&text{Value: word}) // it may fail if the server has ended the stream: Recv returns the reason
		m, err := s.Recv()
		fmt.Printf("%q %v\n", m.GetValue(), err)
	}
	check(c.Close())
	check(srv.Shutdown(context.Background()))
	<-served
	// Output:
	// "ONE" <nil>
	// "TWO" <nil>
	// "" invalid argument: nothing to raise
}

func show(res *http.Response, err error) {
	check(err)
	b, err := io.ReadAll(res.Body)
	check(err)
	check(res.Body.Close())
	fmt.Printf("%d %q %s\n", res.StatusCode, res.Header.Get("Content-Language"), strings.TrimSpace(string(b)))
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

// A page follows a stream with EventSource, which calls by GET; curl gets a message a line.
func Example_streams() {
	srv := server.New(server.WithProtocols(web.New()))
	check(server.HandleStream(srv, "Clock.Count", func(_ context.Context, s *tandem.Stream[Pair, int]) error {
		p, err := s.Recv()
		if err != nil {
			return err
		}
		for i := p.A; i <= p.B; i++ {
			if err := s.Send(&i); err != nil {
				return err
			}
		}
		return tandem.Errorf(tandem.OutOfRange, "that was all")
	}, server.MethodSafe()))
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	check(err)
	served := make(chan error, 1)
	go func() { served <- srv.ServeListener(ln) }()

	for _, accept := range []string{"text/event-stream", "application/x-ndjson"} {
		req, err := http.NewRequestWithContext(context.Background(), http.MethodGet, "http://"+ln.Addr().String()+"/Clock/Count?A=1&B=2", http.NoBody)
		check(err)
		req.Header.Set("Accept", accept)
		show(http.DefaultClient.Do(req))
	}
	http.DefaultClient.CloseIdleConnections()
	check(srv.Shutdown(context.Background()))
	<-served
	// Output:
	// 200 "" data: 1
	//
	// data: 2
	//
	// event: error
	// data: {"code":"out_of_range","message":"that was all"}
	// 200 "" 1
	// 2
	// {"error":{"code":"out_of_range","message":"that was all"}}
}

// A field that the type of the argument does not have is refused.
func ExampleWithUnknownFields() {
	srv := server.New(server.WithProtocols(web.New(web.WithUnknownFields(web.RefuseUnknown))))
	check(srv.RegisterFunc("Arith.Mul", func(p *Pair) (int, error) { return p.A * p.B, nil }))
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	check(err)
	served := make(chan error, 1)
	go func() { served <- srv.ServeListener(ln) }()

	show(http.Post("http://"+ln.Addr().String()+"/Arith/Mul", "application/json", strings.NewReader(`{"A":6,"C":7}`)))
	http.DefaultClient.CloseIdleConnections()
	check(srv.Shutdown(context.Background()))
	<-served
	// Output:
	// 400 "" {"code":"invalid_argument","message":"arguments of Arith.Mul: codec json: decoding into *web_test.Pair: unknown field \"C\""}
}

// words is a Router: GET /words/{word} calls Text.Upper.
type words struct{}

func (words) Route(r *http.Request) *web.Route {
	word, ok := strings.CutPrefix(r.URL.Path, "/words/")
	switch {
	case !ok:
		return nil
	case r.Method != http.MethodGet:
		return &web.Route{Allow: []string{http.MethodGet}}
	}
	return &web.Route{Method: "Text.Upper", Bind: func(m proto.Message) error {
		m.(*text).Value = word
		return nil
	}}
}

func (words) Paths() []web.Path {
	value := (&text{}).ProtoReflect().Descriptor().Fields().ByName("value")
	return []web.Path{{Verb: http.MethodGet, Path: "/words/{word}", Method: "Text.Upper", Params: []web.Parameter{{Name: "word", Field: value}}}}
}

// A router gives methods other paths; package protocol/rest has those of google.api.http.
func ExampleWithRouter() {
	srv := server.New(server.WithProtocols(web.New(web.WithRouter(words{}))))
	check(srv.RegisterFunc("Text.Upper", func(s *text) (*text, error) { return &text{Value: strings.ToUpper(s.GetValue())}, nil }))
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	check(err)
	served := make(chan error, 1)
	go func() { served <- srv.ServeListener(ln) }()

	show(http.Get("http://" + ln.Addr().String() + "/words/abc"))
	show(http.Post("http://"+ln.Addr().String()+"/words/abc", "application/json", nil))
	http.DefaultClient.CloseIdleConnections()
	check(srv.Shutdown(context.Background()))
	<-served
	// Output:
	// 200 "" "ABC"
	// 405 "" {"code":"unknown","message":"POST: \"/words/abc\" is called by GET","status":405,"title":"Method Not Allowed"}
}
