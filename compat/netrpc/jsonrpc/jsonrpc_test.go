package jsonrpc_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	stdrpc "net/rpc"
	stdjson "net/rpc/jsonrpc"
	"slices"
	"strings"
	"testing"

	rpc "github.com/tandem-rpc/tandem/compat/netrpc"
	"github.com/tandem-rpc/tandem/compat/netrpc/jsonrpc"
)

type Args struct{ A, B int }

type Reply struct {
	C int `json:"C"`
}

// Arith is a service as programs of net/rpc have it.
type Arith struct{}

func (Arith) Add(a *Args, r *Reply) error {
	r.C = a.A + a.B
	return nil
}

func (Arith) Div(a *Args, r *Reply) error {
	if a.B == 0 {
		return errors.New("divide by zero")
	}
	r.C = a.A / a.B
	return nil
}

func (Arith) Maps(n int, r *map[int]int) error {
	(*r)[n] = n
	return nil
}

func (Arith) Slices(n int, r *[]int) error {
	*r = append(*r, n)
	return nil
}

func (Arith) Arrays(n int, r *[1]int) error {
	r[0] = n
	return nil
}

// pipe returns a connection to serve, which runs until the test ends.
func pipe(t *testing.T, serve func(io.ReadWriteCloser)) net.Conn {
	t.Helper()
	near, far := net.Pipe()
	over := make(chan struct{})
	go func() {
		defer close(over)
		serve(far)
	}()
	t.Cleanup(func() {
		_ = near.Close()
		<-over
	})
	return near
}

// TestBothWays runs the standard library's client and ours against its server and ours, and
// our client and server of version 2.0.
func TestBothWays(t *testing.T) {
	std := stdrpc.NewServer()
	if err := std.Register(Arith{}); err != nil {
		t.Fatal(err)
	}
	stdServe := func(c io.ReadWriteCloser) { std.ServeCodec(stdjson.NewServerCodec(c)) }
	for name, c := range map[string]struct {
		client func(io.ReadWriteCloser) *rpc.Client
		serve  func(io.ReadWriteCloser)
	}{
		"theirs to ours":            {stdjson.NewClient, jsonrpc.ServeConn},
		"ours to theirs":            {jsonrpc.NewClient, stdServe},
		"ours to ours":              {jsonrpc.NewClient, jsonrpc.ServeConn},
		"2.0":                       {jsonrpc.NewClient2, jsonrpc.ServeConn2},
		"1.0 to a server of both":   {stdjson.NewClient, jsonrpc.ServeConn2},
		"our codec to their server": {codecClient, stdServe},
	} {
		t.Run(name, func(t *testing.T) { callAll(t, c.client(pipe(t, c.serve))) })
	}
}

func codecClient(c io.ReadWriteCloser) *rpc.Client {
	return rpc.NewClientWithCodec(jsonrpc.NewClientCodec(c))
}

func callAll(t *testing.T, c *rpc.Client) {
	t.Helper()
	add, div := c.Go("Arith.Add", &Args{7, 8}, new(Reply), nil), c.Go("Arith.Div", &Args{56, 8}, new(Reply), nil)
	for call, want := range map[*rpc.Call]int{<-add.Done: 15, <-div.Done: 7} {
		if call.Error != nil || call.Reply.(*Reply).C != want {
			t.Errorf("%s: %v, %v", call.ServiceMethod, call.Reply, call.Error)
		}
	}
	m, s, a := map[int]int{}, []int{}, [1]int{}
	if err := errors.Join(c.Call("Arith.Maps", 7, &m), c.Call("Arith.Slices", 7, &s), c.Call("Arith.Arrays", 7, &a)); err != nil ||
		!maps.Equal(m, map[int]int{7: 7}) || !slices.Equal(s, []int{7}) || a[0] != 7 {
		t.Errorf("%v, %v, %v: %v", m, s, a, err)
	}
	if err := c.Call("Arith.Div", &Args{1, 0}, new(Reply)); err == nil || err.Error() != "divide by zero" {
		t.Error(err)
	}
	if err := c.Call("Arith.Unheard", &Args{}, new(Reply)); err == nil || !strings.Contains(err.Error(), "rpc: can't find method Arith.Unheard") {
		t.Error(err)
	}
	if err := c.Call("Arith.Add", &Args{1, 2}, nil); err != nil {
		t.Error(err)
	}
	_ = c.Close()
}

func TestDial(t *testing.T) {
	for name, c := range map[string]struct {
		dial  func(network, address string) (*rpc.Client, error)
		serve func(io.ReadWriteCloser)
	}{"1.0": {jsonrpc.Dial, jsonrpc.ServeConn}, "2.0": {jsonrpc.Dial2, jsonrpc.ServeConn2}} {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		over := make(chan struct{})
		go func() {
			defer close(over)
			if conn, err := ln.Accept(); err == nil {
				c.serve(conn)
			}
		}()
		client, err := c.dial("tcp", ln.Addr().String())
		if err != nil {
			t.Fatal(name, err)
		}
		callAll(t, client)
		<-over
		_ = ln.Close()
		if _, err := c.dial("tcp", ln.Addr().String()); err == nil {
			t.Errorf("%s: connected to nobody", name)
		}
	}
}

// answers is a response of a server of version 1.0.
type answers struct {
	ID     any   `json:"id"`
	Result Reply `json:"result"`
	Error  any   `json:"error"`
}

// TestRequestsOfOtherClients sends requests of other clients, and invalid ones: the server of version
// 1.0 responds as net/rpc/jsonrpc's does.
func TestRequestsOfOtherClients(t *testing.T) {
	for request, want := range map[string]string{
		`{"method": "Arith.Add", "id": "123"}`: "jsonrpc: request body missing params",
		`{}`:                                   "rpc: service/method request ill-formed: ",
		`{"method": "Arith.Add", "id": "\u0007", "params": [{"A":1,"B":2}]}`: "",
	} {
		conn := pipe(t, jsonrpc.ServeConn)
		fmt.Fprint(conn, request)
		var got answers
		if err := json.NewDecoder(conn).Decode(&got); err != nil {
			t.Fatal(err)
		}
		if want == "" && (got.Error != nil || got.Result.C != 3 || got.ID != "\a") || want != "" && got.Error != want {
			t.Errorf("%s: %+v, want %q", request, got, want)
		}
	}
}

// TestInvalidData: a server closes a connection with invalid data, and a client fails all calls
// on it.
func TestInvalidData(t *testing.T) {
	near, far := net.Pipe()
	go fmt.Fprint(near, "{id:1}")
	jsonrpc.ServeConn(far) // returns
	_ = near.Close()
	for name, c := range map[string]struct {
		client  func(io.ReadWriteCloser) *rpc.Client
		answers string
	}{
		"1.0 without a result":     {jsonrpc.NewClient, `{"id":0,"result":null,"error":null}`},
		"2.0, another version":     {jsonrpc.NewClient2, `{"id":0,"result":1,"error":null}`},
		"2.0 without a result":     {jsonrpc.NewClient2, `{"jsonrpc":"2.0","id":0}`},
		"2.0 without an id":        {jsonrpc.NewClient2, `{"jsonrpc":"2.0","result":1}`},
		"2.0, an unknown id":       {jsonrpc.NewClient2, `{"jsonrpc":"2.0","id":7,"result":1}`},
		"2.0, an error, no id":     {jsonrpc.NewClient2, `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error"}}`},
		"2.0, an error of no text": {jsonrpc.NewClient2, `{"jsonrpc":"2.0","id":0,"error":{"code":7}}`},
		"2.0, no JSON":             {jsonrpc.NewClient2, `nonsense`},
	} {
		client := c.client(pipe(t, func(conn io.ReadWriteCloser) {
			_, _ = bufio.NewReader(conn).ReadString('\n')
			fmt.Fprint(conn, c.answers)
			_ = conn.Close()
		}))
		if err := client.Call("Arith.Add", &Args{7, 8}, new(Reply)); err == nil {
			t.Errorf("%s: no error", name)
		}
		_ = client.Close()
	}
}

// TestVersion2On10929 is for issue 10929 of golang/go: version 2.0, with named parameters,
// notifications, batches and typed errors, on the wire as the specification has them.
func TestVersion2On10929(t *testing.T) {
	conn := pipe(t, jsonrpc.ServeConn2)
	in := bufio.NewScanner(conn)
	for _, c := range []struct{ request, want string }{
		{`{"jsonrpc":"2.0","method":"Arith.Add","params":{"A":7,"B":8},"id":"x"}`, `{"jsonrpc":"2.0","result":{"C":15},"id":"x"}`},
		{`{"jsonrpc":"2.0","method":"Arith.Add","params":[7,8],"id":2}`, `{"jsonrpc":"2.0","result":{"C":15},"id":2}`},
		{`[{"jsonrpc":"2.0","method":"Arith.Add","params":[1,2]},{"jsonrpc":"2.0","method":"Arith.Add","params":[1,2],"id":3}]`, `[{"jsonrpc":"2.0","result":{"C":3},"id":3}]`},
		{`{"jsonrpc":"2.0","method":"Arith.None","id":4}`, `{"jsonrpc":"2.0","error":{"code":-32601,"message":"Method not found","data":"rpc: can't find method Arith.None"},"id":4}`},
		{`{"jsonrpc":"2.0","method":"Arith.Div","params":[1,0],"id":5}`, `{"jsonrpc":"2.0","error":{"code":-32000,"message":"divide by zero"},"id":5}`},
	} {
		if _, err := io.WriteString(conn, c.request+"\n"); err != nil {
			t.Fatal(err)
		}
		if !in.Scan() || in.Text() != c.want {
			t.Errorf("%s: %s, want %s", c.request, in.Text(), c.want)
		}
	}
}

func FuzzClient2(f *testing.F) {
	for _, s := range []string{`{"jsonrpc":"2.0","id":0,"result":{"C":15}}`, `{"jsonrpc":"2.0","id":0,"error":{"code":1,"message":"x","data":[]}}`, `{"jsonrpc":"2.0"}`, "[]"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, said []byte) {
		near, far := net.Pipe()
		go func() {
			_, _ = bufio.NewReader(far).ReadString('\n')
			_, _ = far.Write(said)
			_ = far.Close()
		}()
		c := jsonrpc.NewClient2(near)
		defer c.Close()
		var r Reply
		_ = c.Call("Arith.Add", &Args{7, 8}, &r) // returns
	})
}
