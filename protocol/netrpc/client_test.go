package netrpc_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/rpc"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/internal/testcert"
	"github.com/tandem-rpc/tandem/protocol/netrpc"
	"github.com/tandem-rpc/tandem/server"
	"github.com/tandem-rpc/tandem/transport"
)

type Args struct{ A, B int }

type Reply struct{ C int }

// Arith is a service as in net/rpc's own tests.
type Arith struct{}

func (Arith) Add(a Args, r *Reply) error {
	r.C = a.A + a.B
	return nil
}

func (Arith) Mul(a *Args, r *Reply) error {
	r.C = a.A * a.B
	return nil
}

func (Arith) Div(a Args, r *Reply) error {
	if a.B == 0 {
		return errors.New("divide by zero")
	}
	r.C = a.A / a.B
	return nil
}

func (Arith) String(a *Args, r *string) error {
	*r = fmt.Sprintf("%d+%d=%d", a.A, a.B, a.A+a.B)
	return nil
}

func (Arith) Scan(text string, r *Reply) error {
	_, err := fmt.Sscan(text, &r.C)
	return err
}

func (Arith) Error(*Args, *Reply) error { panic("ERROR") }

// serve runs a server with the protocol and the methods that register adds.
func serve(t *testing.T, register func(*server.Server) error, opts ...server.Option) (*server.Server, string) {
	t.Helper()
	srv := server.New(append([]server.Option{server.WithProtocols(netrpc.New())}, opts...)...)
	if err := register(srv); err != nil {
		t.Fatal(err)
	}
	ln, err := transport.TCP().Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- srv.ServeListener(ln) }()
	t.Cleanup(func() {
		_ = srv.Close()
		<-ended
	})
	return srv, ln.Addr().String()
}

func arith(srv *server.Server) error { return srv.Register(Arith{}) }

func dial(t *testing.T, address string) *rpc.Client {
	t.Helper()
	c, err := rpc.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// The standard library's client works over TCP and HTTP: values and pointers, calls in turn
// and concurrent ones, and net/rpc's error texts.
func TestStandardClient(t *testing.T) {
	_, address := serve(t, func(srv *server.Server) error {
		return errors.Join(srv.Register(Arith{}), srv.RegisterName("net.rpc.Arith", Arith{}), srv.Alias("Sums", "Arith"))
	})
	for name, dial := range map[string]func(string, string) (*rpc.Client, error){"TCP": rpc.Dial, "HTTP": rpc.DialHTTP} {
		t.Run(name, func(t *testing.T) {
			c, err := dial("tcp", address)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			for _, service := range []string{"Arith", "net.rpc.Arith", "Sums"} {
				callArith(t, c, service)
			}
			for method, want := range map[string]string{
				"Arith.Unheard": "rpc: can't find method Arith.Unheard",
				"Nobody.Add":    "rpc: can't find service Nobody.Add",
				"Add":           "rpc: service/method request ill-formed: Add",
				"":              "rpc: service/method request ill-formed: ",
				"Arith.Error":   "internal: method Arith.Error panicked",
			} {
				err := c.Call(method, &Args{1, 2}, new(Reply))
				if _, ok := errors.AsType[rpc.ServerError](err); !ok || err.Error() != want {
					t.Errorf("%q: %v, want %q", method, err, want)
				}
			}
			callArith(t, c, "Arith") // the connection still works
		})
	}
}

func callArith(t *testing.T, c *rpc.Client, service string) {
	t.Helper()
	var r Reply
	var text string
	add := c.Go(service+".Add", Args{7, 8}, new(Reply), nil)
	mul := c.Go(service+".Mul", &Args{7, 8}, new(Reply), nil)
	if err := (<-mul.Done).Error; err != nil || mul.Reply.(*Reply).C != 56 {
		t.Errorf("Mul: %v, %v", mul.Reply, err)
	}
	if err := (<-add.Done).Error; err != nil || add.Reply.(*Reply).C != 15 {
		t.Errorf("Add: %v, %v", add.Reply, err)
	}
	if err := c.Call(service+".Div", Args{7, 0}, &r); err == nil || err.Error() != "divide by zero" {
		t.Errorf("Div: %v", err)
	}
	if err := c.Call(service+".Scan", "42", &r); err != nil || r.C != 42 {
		t.Errorf("Scan: %v, %v", r, err)
	}
	if err := c.Call(service+".String", &Args{1, 2}, &text); err != nil || text != "1+2=3" {
		t.Errorf("String: %q, %v", text, err)
	}
	if err := c.Call(service+".Add", "text", &r); err == nil || !strings.Contains(err.Error(), "type") {
		t.Errorf("arguments of a wrong type: %v", err)
	}
	if err := c.Call(service+".Mul", &Args{2, 2}, nil); err != nil {
		t.Errorf("a reply that nobody wants: %v", err)
	}
}

// Replies may be maps, slices and arrays, and methods may have shapes that net/rpc does not
// have: with a context, without an argument, without a result.
func TestShapes(t *testing.T) {
	_, address := serve(t, func(srv *server.Server) error {
		return errors.Join(
			srv.RegisterFunc("T.Map", func(n int, r *map[int]int) error { (*r)[n] = n; return nil }),
			srv.RegisterFunc("T.Slice", func(n int, r *[]int) error { *r = append(*r, n); return nil }),
			srv.RegisterFunc("T.Array", func(n int, r *[1]int) error { r[0] = n; return nil }),
			srv.RegisterFunc("T.Now", func(context.Context) (string, error) { return "now", nil }),
			srv.RegisterFunc("T.Tell", func(_ context.Context, _ string) error { return nil }),
			srv.RegisterFunc("T.Two", func(_, _ int) error { return nil }),
			srv.RegisterFunc("T.Pair", func(n int) (int, int) { return n, n }),
			srv.RegisterFunc("T.Chat", func(*tandem.Stream[int, int]) error { return nil }),
			srv.RegisterFunc("T.Nil", func(int) (*Args, error) { return nil, nil }),
			srv.RegisterFunc("T.Func", func(int) (any, error) { return func() {}, nil }),
			srv.RegisterFunc("T.Empty", func(int) error { return errors.New("") }),
		)
	})
	c := dial(t, address)
	m, s, a := map[int]int{}, []int{}, [1]int{}
	if err := errors.Join(c.Call("T.Map", 7, &m), c.Call("T.Slice", 7, &s), c.Call("T.Array", 7, &a)); err != nil || m[7] != 7 || !slices.Equal(s, []int{7}) || a[0] != 7 {
		t.Errorf("%v, %v, %v, %v", m, s, a, err)
	}
	now, none := "", struct{}{}
	if err := errors.Join(c.Call("T.Now", Args{}, &now), c.Call("T.Tell", "x", &none), c.Call("T.Nil", 1, &Args{})); err != nil || now != "now" {
		t.Errorf("%q, %v", now, err)
	}
	for method, want := range map[string]string{
		"T.Two":   "unimplemented: arguments of T.Two: it has 2 arguments; net/rpc sends one",
		"T.Pair":  "unimplemented: results of T.Pair: it has 2 results; net/rpc receives one",
		"T.Chat":  "unimplemented: method T.Chat is a stream and was called as unary",
		"T.Empty": "unknown",
	} {
		if err := c.Call(method, 1, &now); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", method, err, want)
		}
	}
	if err := c.Call("T.Func", 1, &now); err == nil || !strings.Contains(err.Error(), "results of T.Func") {
		t.Errorf("a result that gob can't encode: %v", err)
	}
	if err := c.Call("T.Now", Args{}, &now); err != nil {
		t.Errorf("and then: %v", err)
	}
}

// Concurrent calls on many connections may be answered in another order than they were
// made.
func TestManyCallsAtATime(t *testing.T) {
	const clients, calls = 8, 200
	var gates [clients]chan struct{} // for the first call of each
	_, address := serve(t, func(srv *server.Server) error {
		return srv.RegisterFunc("T.Square", func(a Args, r *Reply) error {
			if a.B == 0 {
				<-gates[a.A]
			}
			r.C = a.B * a.B
			return nil
		})
	}, server.WithoutOverloadControl()) // a busy machine is overloaded by 1,600 calls
	var wg sync.WaitGroup
	for i := range clients {
		gates[i] = make(chan struct{})
		c := dial(t, address)
		wg.Go(func() {
			done := make(chan *rpc.Call, calls)
			for n := range calls {
				c.Go("T.Square", Args{i, n}, new(Reply), done)
			}
			for nth := range calls {
				if nth == calls-1 {
					close(gates[i]) // the first call is answered last
				}
				call := <-done
				n, square := call.Args.(Args).B, call.Reply.(*Reply).C
				if call.Error != nil || square != n*n || (n == 0) != (nth == calls-1) {
					t.Errorf("%d: %d, %v as answer %d", n, square, call.Error, nth)
				}
			}
		})
	}
	wg.Wait()
}

// Interceptors run for these calls as for others, and get the caller: by its address, by
// its certificate, and over HTTP by the header of the CONNECT.
func TestInterceptorsSeeWhoCalls(t *testing.T) {
	auth := func(next tandem.Func) tandem.Func {
		return func(ctx context.Context, call *tandem.Call) error {
			if call.Metadata.Get("Authorization") != "Bearer sesame" {
				return tandem.Errorf(tandem.Unauthenticated, "%s %s %s", call.Peer.Protocol, call.Method, call.Codec)
			}
			return next(ctx, call)
		}
	}
	serverTLS, clientTLS := testcert.Pair(t, "localhost")
	ready, stop := make(chan string), make(chan error, 1)
	srv := server.New(server.WithTLS(serverTLS), server.WithProtocols(netrpc.New(netrpc.WithPaths("/rpc"))), server.WithInterceptors(auth))
	if err := srv.Register(Arith{}); err != nil {
		t.Fatal(err)
	}
	go func() { stop <- srv.Serve("tcp", "127.0.0.1:0") }()
	go func() {
		for len(srv.Addrs()) == 0 {
			time.Sleep(time.Millisecond) // until another goroutine listens
		}
		ready <- srv.Addrs()[0].String()
	}()
	address := <-ready
	t.Cleanup(func() { _ = srv.Close(); <-stop })
	for token, want := range map[string]string{"sesame": "", "guess": "unauthenticated: netrpc Arith.Mul gob"} {
		c, err := tls.Dial("tcp", address, clientTLS)
		if err != nil {
			t.Fatal(err)
		}
		status, _ := connect(t, c, "/rpc", "Authorization: Bearer "+token+"\r\n")
		if status != "200 Connected to Go RPC" {
			t.Fatal(status)
		}
		client := rpc.NewClient(c)
		var r Reply
		err = client.Call("Arith.Mul", &Args{6, 7}, &r)
		if want == "" && (err != nil || r.C != 42) || want != "" && (err == nil || err.Error() != want) {
			t.Errorf("%s: %v, %v", token, r, err)
		}
		_ = client.Close()
	}
}

// connect sends a CONNECT and returns the status of the response.
func connect(t *testing.T, c net.Conn, path, header string) (string, error) {
	t.Helper()
	if _, err := io.WriteString(c, "CONNECT "+path+" HTTP/1.0\r\n"+header+"\r\n"); err != nil {
		t.Fatal(err)
	}
	r, err := http.ReadResponse(bufio.NewReader(c), &http.Request{Method: http.MethodConnect})
	if err != nil {
		return "", err
	}
	_ = r.Body.Close()
	return r.Status, nil
}

func TestConnectThatIsRefused(t *testing.T) {
	_, address := serve(t, arith)
	for name, c := range map[string]struct{ path, header, want string }{
		"another path": {"/other", "", "404 Not Found"},
		"not HTTP":     {"/_goRPC_", "no colon\r\n", "400 Bad Request"},
		"too long":     {"/_goRPC_", strings.Repeat("X: "+strings.Repeat("x", 1000)+"\r\n", 17), ""},
	} {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		status, err := connect(t, conn, c.path, c.header)
		if status != c.want || (c.want == "") != (err != nil) {
			t.Errorf("%s: %q, %v", name, status, err)
		}
		_ = conn.Close()
	}
}

// When the server shuts down, running calls are answered before the connection ends.
func TestShutdown(t *testing.T) {
	entered, leave := make(chan struct{}), make(chan struct{})
	srv, address := serve(t, func(srv *server.Server) error {
		return srv.RegisterFunc("T.Wait", func(n int, r *int) error {
			entered <- struct{}{}
			<-leave
			*r = n
			return nil
		})
	})
	c := dial(t, address)
	running := c.Go("T.Wait", 7, new(int), nil)
	<-entered
	stopped := make(chan error, 1)
	go func() { stopped <- srv.Shutdown(t.Context()) }()
	for len(srv.Addrs()) > 0 {
		time.Sleep(time.Millisecond) // until another goroutine shuts it down
	}
	close(leave)
	if err := (<-running.Done).Error; err != nil || *running.Reply.(*int) != 7 {
		t.Errorf("the call that ran: %v, %v", running.Reply, err)
	}
	if err := <-stopped; err != nil {
		t.Error(err)
	}
	if err := c.Call("T.Wait", 8, new(int)); !errors.Is(err, rpc.ErrShutdown) && !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("a call after it: %v", err)
	}
}

// Values of many types can be sent on one connection, in both directions: each type is
// described once.
func TestManyTypes(t *testing.T) {
	type Leaf struct{ S string }
	type Tree struct {
		M map[string][]Leaf
		L *Leaf
	}
	_, address := serve(t, func(srv *server.Server) error {
		return errors.Join(
			srv.RegisterFunc("T.Tree", func(in *Tree, out *Tree) error { *out = *in; return nil }),
			srv.RegisterFunc("T.Leaf", func(in []Leaf, out *map[string]Leaf) error {
				for _, l := range in {
					(*out)[l.S] = l
				}
				return nil
			}),
			srv.RegisterFunc("T.Any", func(in struct{ V any }) (struct{ V any }, error) { return in, nil }),
			srv.RegisterFunc("T.Time", func(in time.Time) (time.Time, error) { return in, nil }),
			srv.Register(Arith{}))
	})
	c := dial(t, address)
	now := time.Now()
	for range 3 {
		in, out := Tree{map[string][]Leaf{"a": {{"b"}}}, &Leaf{"c"}}, Tree{}
		leaves := map[string]Leaf{}
		var v struct{ V any }
		var when time.Time
		err := errors.Join(c.Call("T.Tree", &in, &out), c.Call("T.Leaf", []Leaf{{"x"}}, &leaves),
			c.Call("T.Any", struct{ V any }{"text"}, &v), c.Call("T.Time", now, &when))
		if err != nil || out.L.S != "c" || out.M["a"][0].S != "b" || !maps.Equal(leaves, map[string]Leaf{"x": {"x"}}) || v.V != "text" || !when.Equal(now) {
			t.Fatalf("%v %v %v %v: %v", out, leaves, v, when, err)
		}
		callArith(t, c, "Arith")
	}
}

// WithMetadata gives its metadata to every call, and CloseOnBadResult ends the connection
// when a result can't be encoded.
func TestOptions(t *testing.T) {
	srv := server.New()
	if err := errors.Join(srv.Register(Arith{}),
		srv.RegisterFunc("T.Who", func(ctx context.Context, _ int) (string, error) {
			return tandem.FromContext(ctx).Metadata.Get("who"), nil
		}),
		srv.RegisterFunc("T.Func", func(int) (any, error) { return func() {}, nil }),
	); err != nil {
		t.Fatal(err)
	}
	near, far := net.Pipe()
	served := make(chan error, 1)
	p := netrpc.New(netrpc.WithMetadata(tandem.Metadata{"who": {"me"}}), netrpc.CloseOnBadResult())
	go func() { served <- srv.ServeProtocol(far, p) }()
	c := rpc.NewClient(near)
	defer c.Close()
	var who string
	if err := c.Call("T.Who", 1, &who); err != nil || who != "me" {
		t.Errorf("%q, %v", who, err)
	}
	callArith(t, c, "Arith")
	if err := c.Call("T.Func", 1, &who); err == nil || err.Error() != "reading body unexpected EOF" {
		t.Error(err)
	}
	if err := <-served; err != nil {
		t.Error(err)
	}
	if err := srv.Close(); err != nil {
		t.Error(err)
	}
}

// With two results that can't be encoded, the second must not cut off the head of the
// first.
func TestTwoBadResults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := server.New()
		if err := srv.RegisterFunc("T.Func", func(int) (any, error) { return func() {}, nil }); err != nil {
			t.Fatal(err)
		}
		near, far := net.Pipe()
		served := make(chan error, 1)
		go func() { served <- srv.ServeProtocol(far, netrpc.New(netrpc.CloseOnBadResult())) }()
		requests := gob.NewEncoder(near)
		for seq := range uint64(2) {
			if err := errors.Join(requests.Encode(&rpc.Request{ServiceMethod: "T.Func", Seq: seq}), requests.Encode(1)); err != nil {
				t.Fatal(err)
			}
			synctest.Wait() // the head waits to be read
		}
		var head rpc.Response
		if err := gob.NewDecoder(near).Decode(&head); err != nil || head.Seq != 0 || head.Error != "" {
			t.Errorf("%+v, %v", head, err)
		}
		if err := errors.Join(near.Close(), <-served, srv.Close()); err != nil {
			t.Error(err)
		}
	})
}
