package all_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/rpc"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/codec"
	"github.com/tandem-rpc/tandem/protocol/all"
	"github.com/tandem-rpc/tandem/protocol/jsonrpc"
	"github.com/tandem-rpc/tandem/server"
	"github.com/tandem-rpc/tandem/transport"
)

// failing serves a method that fails with the code in its argument, and returns the
// address. calls counts its calls.
func failing(t *testing.T, calls *atomic.Int64) string {
	t.Helper()
	srv := server.New(server.WithProtocols(all.New()...))
	err := srv.RegisterFunc("Text.Fail", func(code int) (string, error) {
		calls.Add(1)
		return "", tandem.Errorf(tandem.Code(code), "why")
	})
	if err != nil {
		t.Fatal(err)
	}
	return listening(t, srv)
}

// listening serves until the test ends, and returns the address.
func listening(t *testing.T, srv *server.Server) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	serve(t, srv, ln)
	return ln.Addr().String()
}

// serve has srv serve a listener until the test ends.
func serve(t *testing.T, srv *server.Server, ln net.Listener) {
	t.Helper()
	served := make(chan error, 1)
	go func() { served <- srv.ServeListener(ln) }()
	t.Cleanup(func() {
		_ = srv.Close()
		<-served
	})
}

// crossed returns what an error of each code becomes on each protocol: a row of the table
// in docs/reference/errors.md.
func crossed(t *testing.T, address string, code tandem.Code, calls *atomic.Int64) []string {
	t.Helper()
	back, object := map[string]string{}, ""
	for _, p := range outward() {
		c := dial(t, p, address)
		e, ours := errors.AsType[*tandem.Error](c.Call(t.Context(), "Text.Fail", int(code), new(string)))
		_ = c.Close()
		if !ours || !e.Remote || e.NotExecuted {
			t.Errorf("%s, %v: %+v", nameOf(p), code, e)
			continue
		}
		if !strings.HasSuffix(e.Message, "why") {
			t.Errorf("%s, %v: %q", nameOf(p), code, e.Message)
		}
		back[nameOf(p)] = e.Code.String()
		if len(e.Details) == 1 && e.Details[0].Type == jsonrpc.ErrorObject {
			object = string(e.Details[0].Value)
		}
	}
	for protocol, read := range back {
		if read != code.String() {
			t.Errorf("%v is read back from %s as %s", code, protocol, read)
		}
	}
	var said struct {
		Code int `json:"code"`
	}
	if err := json.Unmarshal([]byte(object), &said); err != nil {
		t.Error(err)
	}
	return []string{
		code.String(), strconv.Itoa(int(code)), overHTTP(t, address, code), strconv.Itoa(said.Code),
		"`" + inWords(t, address, code) + "`", retried(t, address, code, calls),
	}
}

// inWords returns the text that net/rpc's own client gets for an error of the code.
func inWords(t *testing.T, address string, code tandem.Code) string {
	t.Helper()
	c, err := rpc.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	err = c.Call("Text.Fail", int(code), new(string))
	if err == nil {
		t.Fatal("no error")
	}
	return err.Error()
}

// overHTTP returns the status and code name that an HTTP client gets for an error of the
// code.
func overHTTP(t *testing.T, address string, code tandem.Code) string {
	t.Helper()
	resp, err := http.Post("http://"+address+"/Text/Fail", "application/json", strings.NewReader(strconv.Itoa(int(code))))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var said struct {
		Code string `json:"code"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&said); err != nil {
		t.Error(err)
	}
	http.DefaultClient.CloseIdleConnections()
	return fmt.Sprintf("%d `%s`", resp.StatusCode, said.Code)
}

// retried returns what Failover does with an idempotent call that fails with the code.
func retried(t *testing.T, address string, code tandem.Code, calls *atomic.Int64) string {
	t.Helper()
	c, err := client.Dial("tcp://"+address, client.WithFailMode(client.Failover), client.WithRetries(1))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	before := calls.Load()
	_ = c.Call(t.Context(), "Text.Fail", int(code), new(string), client.Idempotent())
	if calls.Load() == before+2 {
		return "yes"
	}
	return "no"
}

// The documentation's table of errors matches the protocols.
func TestTableOfErrors(t *testing.T) {
	var calls atomic.Int64
	address, rows := failing(t, &calls), documented(t)
	for code := tandem.Canceled; code.Valid(); code++ {
		checkRow(t, rows, crossed(t, address, code, &calls))
	}
}

// documented returns the rows of the tables in docs/reference/errors.md by their first cells.
func documented(t *testing.T) map[string][]string {
	t.Helper()
	text, err := os.ReadFile("../../docs/reference/errors.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string][]string{}
	for line := range strings.Lines(string(text)) {
		if cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|"); len(cells) > 1 {
			for i := range cells {
				cells[i] = strings.TrimSpace(cells[i])
			}
			if rows[cells[0]] == nil {
				rows[cells[0]] = cells
			}
		}
	}
	return rows
}

func checkRow(t *testing.T, rows map[string][]string, want []string) {
	t.Helper()
	if got := rows[want[0]]; !slices.Equal(got, want) {
		t.Errorf("docs/reference/errors.md says\n| %s |, the code\n| %s |", strings.Join(got, " | "), strings.Join(want, " | "))
	}
}

// The documentation's table of HTTP statuses matches what the clients do with them.
func TestTableOfStatuses(t *testing.T) {
	rows := documented(t)
	for _, status := range []int{200, 302, 400, 401, 403, 404, 413, 418, 429, 500, 502, 503, 504} {
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			_, _ = w.Write([]byte("<html>"))
		}))
		row := []string{strconv.Itoa(status)}
		for _, p := range all.Clients() {
			if p.Name() == "connect" || p.Name() == "jsonrpc+http" {
				err := call(t, p, srv.Listener.Addr().String())
				if !tandem.MayHaveExecuted(err) {
					t.Errorf("%s, %d: not executed", p.Name(), status)
				}
				row = append(row, tandem.CodeOf(err).String())
			}
		}
		srv.Close()
		checkRow(t, rows, row)
	}
}

// The documentation's table of JSON-RPC codes matches what the client does with them.
func TestTableOfJSONRPC(t *testing.T) {
	rows := documented(t)
	for _, code := range []int{-32700, -32600, -32601, -32602, -32603, -32000, 7} {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		wg.Go(func() { refuseLines(ln, code) })
		err = call(t, jsonrpc.Client(), ln.Addr().String())
		_ = ln.Close()
		wg.Wait()
		checkRow(t, rows, []string{fmt.Sprintf("`%d`", code), tandem.CodeOf(err).String()})
	}
}

// refuseLines answers each request of one connection with an error of that code.
func refuseLines(ln net.Listener, code int) {
	c, err := ln.Accept()
	if err != nil {
		return
	}
	defer c.Close()
	for in := bufio.NewScanner(c); in.Scan(); {
		var request struct {
			ID int `json:"id"`
		}
		_ = json.Unmarshal(in.Bytes(), &request)
		_, _ = fmt.Fprintf(c, `{"jsonrpc":"2.0","id":%d,"error":{"code":%d,"message":"no"}}`+"\n", request.ID, code)
	}
}

// dial returns a client of a protocol, nil for the native one, that makes each call once.
func dial(t *testing.T, p client.Protocol, address string) *client.Client {
	t.Helper()
	target, opts := "tcp://"+address, []client.Option{client.WithFailMode(client.Failfast)}
	if p != nil {
		target = p.Name() + "://" + address
		opts = append(opts, client.WithProtocols(p), client.WithCodec(plain(p)))
	}
	c, err := client.Dial(target, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func call(t *testing.T, p client.Protocol, address string) error {
	t.Helper()
	c := dial(t, p, address)
	defer c.Close()
	return c.Call(t.Context(), "Text.Len", "x", new(int))
}

// A request that is larger than the server takes is refused with an error that says so, and,
// where the protocol has room for that, that it was not executed.
func TestTooLargeRequests(t *testing.T) {
	const most = 64 << 10
	srv := server.New(server.WithProtocols(all.New()...), server.WithMaxMessage(most))
	if err := srv.RegisterFunc("Text.Len", func(s string) int { return len(s) }); err != nil {
		t.Fatal(err)
	}
	address := listening(t, srv)
	marked := []string{"tandem", "connect", "grpc", "grpcweb", "triple"}
	for _, p := range outward() {
		for _, size := range []int{most + 1, 10 * most} {
			t.Run(fmt.Sprint(nameOf(p), " ", size), func(t *testing.T) {
				c := dial(t, p, address)
				defer c.Close()
				e, _ := errors.AsType[*tandem.Error](c.Call(t.Context(), "Text.Len", strings.Repeat("a", size), new(int)))
				if e == nil || e.Code != tandem.ResourceExhausted || e.NotExecuted != slices.Contains(marked, nameOf(p)) {
					t.Errorf("%+v", e)
				}
			})
		}
	}
}

// A request that finds no memory is refused over HTTP as well, and says that it was not
// executed.
func TestRequestsWithoutMemory(t *testing.T) {
	for _, scheme := range []string{"grpc", "connect"} {
		t.Run(scheme, func(t *testing.T) {
			// In virtual time an upload does not stall on a busy machine.
			synctest.Test(t, func(t *testing.T) { callsWithoutMemory(t, scheme) })
		})
	}
}

// callsWithoutMemory makes two calls at a time of a server that has memory for one.
func callsWithoutMemory(t *testing.T, scheme string) {
	text := strings.Repeat("a", 512<<10)
	srv := server.New(server.WithProtocols(all.New()...), server.WithMemory(1<<20), server.WithStallTimeout(100*time.Millisecond))
	running, release := make(chan bool, 1), make(chan bool)
	check(srv.RegisterFunc("Text.Hold", func(string) int {
		running <- true
		<-release
		return 0
	}))
	network := transport.NewMemory()
	ln, err := network.Listen(t.Context(), "a:1")
	check(err)
	serve(t, srv, ln)
	c, err := client.Dial(scheme+"://a:1", client.WithTransport("tcp", network), client.WithProtocols(all.Clients()...),
		client.WithCodec(codec.JSON()), client.WithFailMode(client.Failfast), client.WithTimeout(0))
	check(err)
	defer c.Close()
	first := make(chan error, 1)
	go func() { first <- c.Call(t.Context(), "Text.Hold", text, new(int)) }()
	select {
	case <-running:
	case err := <-first:
		t.Fatal(err)
	}
	second := make(chan error, 1)
	go func() { second <- c.Call(t.Context(), "Text.Hold", text, new(int)) }()
	select {
	case <-running:
		t.Error("there was memory for two")
		release <- true
	case err = <-second:
	}
	if e, _ := errors.AsType[*tandem.Error](err); e == nil || e.Code != tandem.ResourceExhausted || !e.Remote || !e.NotExecuted {
		t.Errorf("got %+v", e)
	}
	release <- true
	if err := <-first; err != nil {
		t.Error(err)
	}
}
