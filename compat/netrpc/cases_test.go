package rpc_test

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	stdrpc "net/rpc"
	"slices"
	"strings"
	"testing"

	rpc "github.com/tandem-rpc/tandem/compat/netrpc"
	"github.com/tandem-rpc/tandem/server"
)

type Args struct{ A, B int }

type Reply struct{ C int }

// Arith is a service as programs of net/rpc have it.
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

func (Arith) Maps(a *Args, r *map[int]int) error {
	(*r)[a.A] = a.B
	return nil
}

func (Arith) Slices(a *Args, r *[]int) error {
	*r = append(*r, a.A, a.B)
	return nil
}

func (Arith) Arrays(a *Args, r *[2]int) error {
	*r = [2]int{a.A, a.B}
	return nil
}

// Add3 and Stop don't have the signature of net/rpc's methods: they must not be served.
func (Arith) Add3(a, b, c int) (int, error) { return a + b + c, nil }
func (Arith) Stop() error                   { return errors.New("stopped by a stranger") }

type embedded struct{}

func (embedded) Exported(a Args, r *Reply) error {
	r.C = a.A + a.B
	return nil
}

// Embed has a method of an embedded type that is not exported.
type Embed struct{ embedded }

// registrar is a server of either kind.
type registrar interface {
	Register(rcvr any) error
	RegisterName(name string, rcvr any) error
	Accept(lis net.Listener)
	ServeConn(conn io.ReadWriteCloser)
	http.Handler
}

var (
	_ registrar = (*rpc.Server)(nil)
	_ registrar = (*stdrpc.Server)(nil)
)

// newServer returns a server that is closed when the test ends.
func newServer(t *testing.T, opts ...server.Option) *rpc.Server {
	t.Helper()
	srv := rpc.NewServerWith(opts...)
	t.Cleanup(func() {
		if err := srv.Core().Close(); err != nil {
			t.Error(err)
		}
	})
	return srv
}

// accept makes srv accept connections, and returns the address.
func accept(t *testing.T, srv registrar) (address string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return acceptOn(t, srv, ln)
}

func acceptOn(t *testing.T, srv registrar, ln net.Listener) (address string) {
	t.Helper()
	over := make(chan struct{})
	go func() {
		defer close(over)
		srv.Accept(ln)
	}()
	t.Cleanup(func() {
		_ = ln.Close()
		<-over
	})
	return ln.Addr().String()
}

// TestBothWays runs the standard library's client and ours against the standard library's
// server and ours, over TCP and HTTP.
func TestBothWays(t *testing.T) {
	type dial func(network, address string) (*rpc.Client, error)
	clients := map[string]struct{ tcp, http dial }{
		"net/rpc's client": {stdrpc.Dial, stdrpc.DialHTTP},
		"our client":       {rpc.Dial, rpc.DialHTTP},
	}
	for name, srv := range map[string]registrar{"net/rpc's server": stdrpc.NewServer(), "our server": newServer(t)} {
		if err := errors.Join(srv.Register(Arith{}), srv.Register(Embed{}), srv.RegisterName("net.rpc.Arith", new(Arith))); err != nil {
			t.Fatal(err)
		}
		web := httptest.NewServer(srv)
		t.Cleanup(web.Close)
		address := map[string]string{"TCP": accept(t, srv), "HTTP": web.Listener.Addr().String()}
		for who, c := range clients {
			for over, dial := range map[string]dial{"TCP": c.tcp, "HTTP": c.http} {
				t.Run(who+", "+name+", "+over, func(t *testing.T) {
					c, err := dial("tcp", address[over])
					if err != nil {
						t.Fatal(err)
					}
					defer c.Close()
					callAll(t, c)
				})
			}
		}
	}
}

// callAll makes calls of every kind.
func callAll(t *testing.T, c *rpc.Client) {
	t.Helper()
	for _, method := range []string{"Arith.Add", "net.rpc.Arith.Add", "Embed.Exported"} {
		var r Reply
		if err := c.Call(method, &Args{7, 8}, &r); err != nil || r.C != 15 {
			t.Errorf("%s: %v, %v", method, r, err)
		}
	}
	add, mul := c.Go("Arith.Add", Args{7, 8}, new(Reply), nil), c.Go("Arith.Mul", &Args{7, 8}, new(Reply), nil)
	for call, want := range map[*rpc.Call]int{<-add.Done: 15, <-mul.Done: 56} {
		if call.Error != nil || call.Reply.(*Reply).C != want {
			t.Errorf("%s: %v, %v", call.ServiceMethod, call.Reply, call.Error)
		}
	}
	var n Reply
	var text string
	m, s, a := map[int]int{}, []int{}, [2]int{}
	err := errors.Join(c.Call("Arith.Scan", "12345", &n), c.Call("Arith.String", &Args{27, 35}, &text),
		c.Call("Arith.Maps", &Args{7, 8}, &m), c.Call("Arith.Slices", &Args{7, 8}, &s), c.Call("Arith.Arrays", &Args{7, 8}, &a))
	if err != nil || n.C != 12345 || text != "27+35=62" || !maps.Equal(m, map[int]int{7: 8}) || !slices.Equal(s, []int{7, 8}) || a != [2]int{7, 8} {
		t.Errorf("%v %q %v %v %v: %v", n, text, m, s, a, err)
	}
	for method, want := range map[string]string{
		"Arith.Div":     "divide by zero",
		"Arith.Unheard": "rpc: can't find method Arith.Unheard",
		"Arith.Add3":    "rpc: can't find method Arith.Add3",
		"Arith.Stop":    "rpc: can't find method Arith.Stop",
		"Nobody.Add":    "rpc: can't find service Nobody.Add",
		"Add":           "rpc: service/method request ill-formed: Add",
	} {
		err := c.Call(method, &Args{7, 0}, new(Reply))
		if _, ok := errors.AsType[rpc.ServerError](err); !ok || err.Error() != want {
			t.Errorf("%s: %v, want %q", method, err, want)
		}
	}
	if err := c.Call("Arith.Add", "text", &n); err == nil || !strings.Contains(err.Error(), "type") {
		t.Errorf("arguments of a wrong type: %v", err)
	}
	if err := c.Call("Arith.Add", Args{1, 2}, &n); err != nil || n.C != 3 {
		t.Errorf("after all that: %v, %v", n, err)
	}
}

// ReplyIsValue, HiddenArgs and HiddenReply have no method that can be served.
type (
	ReplyIsValue struct{}
	HiddenArgs   struct{}
	HiddenReply  struct{}
	OnPointer    int
	hidden       struct{}
)

func (ReplyIsValue) M(*Args, Reply) error  { return nil }
func (HiddenArgs) M(*hidden, *Reply) error { return nil }
func (HiddenReply) M(*Args, *hidden) error { return nil }
func (*OnPointer) M(*Args, *Reply) error   { return nil }
func (hidden) M(*Args, *Reply) error       { return nil }

// TestRegistrationThatIsRefused: net/rpc's server and ours refuse the same services.
func TestRegistrationThatIsRefused(t *testing.T) {
	for name, srv := range map[string]registrar{"net/rpc": stdrpc.NewServer(), "ours": newServer(t)} {
		for _, rcvr := range []any{ReplyIsValue{}, HiddenArgs{}, HiddenReply{}, hidden{}, OnPointer(0)} {
			err := srv.Register(rcvr)
			if err == nil {
				t.Errorf("%s: %T is registered", name, rcvr)
			}
			if _, ok := rcvr.(OnPointer); ok && !strings.Contains(err.Error(), "pointer") {
				t.Errorf("%s: no hint in %q", name, err)
			}
		}
		if err := srv.RegisterName("", Arith{}); err == nil {
			t.Errorf("%s: a service without a name is registered", name)
		}
		if err := errors.Join(srv.RegisterName("hidden", hidden{}), srv.Register(Arith{})); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if err := srv.Register(new(Arith)); err == nil {
			t.Errorf("%s: two services of a name are registered", name)
		}
	}
}

// TestHalfClosed: running calls are still answered after the client has closed its side for
// writing.
func TestHalfClosed(t *testing.T) {
	entered, leave := make(chan struct{}), make(chan struct{})
	srv := newServer(t)
	if err := srv.Core().RegisterFunc("T.Wait", func(n int, r *int) error {
		close(entered)
		<-leave
		*r = n
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("tcp", accept(t, srv))
	if err != nil {
		t.Fatal(err)
	}
	c := rpc.NewClient(conn)
	defer c.Close()
	call := c.Go("T.Wait", 7, new(int), nil)
	<-entered
	if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	close(leave)
	if err := (<-call.Done).Error; err != nil || *call.Reply.(*int) != 7 {
		t.Errorf("%v, %v", call.Reply, err)
	}
}

// TestClientOfBrokenCodecs: the client closes its codec, returns net/rpc's errors, and does
// not deadlock when a write fails.
func TestClientOfBrokenCodecs(t *testing.T) {
	codec := &brokenCodec{reading: make(chan struct{}), closed: make(chan struct{})}
	c := rpc.NewClientWithCodec(codec)
	for range 2 {
		if err := c.Call("T.M", 1, new(int)); !errors.Is(err, errBroken) {
			t.Error(err)
		}
	}
	<-codec.reading
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	<-codec.closed
	if err := c.Call("T.M", 1, new(int)); !errors.Is(err, rpc.ErrShutdown) {
		t.Error(err)
	}
	a, b := net.Pipe()
	_ = b.Close()
	c = rpc.NewClient(a)
	defer c.Close()
	if err := c.Call("T.M", 1, new(int)); err == nil {
		t.Error("no error of a connection that is closed")
	}
}

var errBroken = errors.New("broken")

type brokenCodec struct{ reading, closed chan struct{} }

func (c *brokenCodec) WriteRequest(*rpc.Request, any) error { return errBroken }
func (c *brokenCodec) ReadResponseBody(any) error           { return nil }
func (c *brokenCodec) Close() error                         { close(c.closed); return nil }

func (c *brokenCodec) ReadResponseHeader(*rpc.Response) error {
	close(c.reading)
	<-c.closed
	return io.EOF
}

// TestAcceptAndConnectionsEnd: as with net/rpc, Accept returns when its listener is closed, and a result that
// gob can't encode closes the connection.
func TestAcceptAndConnectionsEnd(t *testing.T) {
	for name, srv := range map[string]registrar{"net/rpc": stdrpc.NewServer(), "ours": newServer(t)} {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		_ = ln.Close()
		srv.Accept(ln)
		if err := srv.Register(Opaque{}); err != nil {
			t.Fatal(err)
		}
		c, err := rpc.Dial("tcp", accept(t, srv))
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Call("Opaque.Get", struct{}{}, new(Reply)); err == nil || err.Error() != "reading body unexpected EOF" {
			t.Errorf("%s: %v", name, err)
		}
		_ = c.Close()
	}
}

// Opaque has a result that gob can't encode.
type Opaque struct{}

type Sealed struct{ b []byte }

func (Opaque) Get(_ struct{}, r *Sealed) error {
	*r = Sealed{b: []byte("x")}
	return nil
}

// TestPanic: a panic fails the call and does not end the process, as it would with net/rpc.
func TestPanic(t *testing.T) {
	srv := newServer(t)
	if err := errors.Join(srv.Register(Arith{}), srv.RegisterName("T", Panics{})); err != nil {
		t.Fatal(err)
	}
	c, err := rpc.Dial("tcp", accept(t, srv))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.Call("T.Now", Args{}, new(Reply)); err == nil || err.Error() != "internal: method T.Now panicked" {
		t.Error(err)
	}
	callOne(t, c)
}

// Panics is a service whose method panics.
type Panics struct{}

func (Panics) Now(Args, *Reply) error { panic("now") }

func callOne(t *testing.T, c *rpc.Client) {
	t.Helper()
	var r Reply
	if err := c.Call("Arith.Mul", &Args{6, 7}, &r); err != nil || r.C != 42 {
		t.Errorf("%v, %v", r, err)
	}
}

// TestDefaultServer: the functions of the package serve the DefaultServer, on
// [http.DefaultServeMux].
func TestDefaultServer(t *testing.T) {
	web := httptest.NewServer(nil)
	t.Cleanup(web.Close)
	c, err := rpc.DialHTTP("tcp", web.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	callOne(t, c)
	_ = c.Close()
	near, far := net.Pipe()
	over := make(chan struct{})
	go func() {
		defer close(over)
		rpc.ServeConn(far)
	}()
	c = rpc.NewClient(near)
	callOne(t, c)
	_ = c.Close()
	<-over
	before := calls(t, web.URL)
	c, err = rpc.Dial("tcp", accept(t, rpc.DefaultServer))
	if err != nil {
		t.Fatal(err)
	}
	callOne(t, c)
	_ = c.Close()
	if after := calls(t, web.URL); after != before+1 {
		t.Errorf("%d calls, then %d", before, after)
	}
	resp, err := http.Get(web.URL + rpc.DefaultRPCPath)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusMethodNotAllowed {
		t.Error(resp.Status)
	}
	http.DefaultClient.CloseIdleConnections()
}

// calls returns how often Arith.Mul was called, as the debugging page shows it.
func calls(t *testing.T, url string) (n int) {
	t.Helper()
	page := get(t, url+rpc.DefaultDebugPath)
	_, arith, _ := strings.Cut(page, "<h1>Service Arith</h1>")
	_, mul, ok := strings.Cut(arith, "<td>Mul</td><td>")
	if _, err := fmt.Sscanf(mul, "%d<", &n); err != nil || !ok {
		t.Errorf("%v: %s", err, page)
	}
	return n
}
