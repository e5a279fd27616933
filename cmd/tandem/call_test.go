package main

import (
	"encoding/json"
	"errors"
	"net"
	"net/rpc"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tandem-rpc/tandem"
)

func TestCall(t *testing.T) {
	r := startServe(t)
	address := strings.TrimPrefix(r.target, "tcp://")
	_, port, _ := strings.Cut(address, ":")
	mul := `{"A":7,"B":8}`
	for _, c := range []struct {
		name string
		in   string
		args []string
		code int
		out  string
		err  string
	}{
		{"by address", "", []string{r.target, "Arith.Mul", mul}, 0, `{"C":56}`, ""},
		{"static", "", []string{"static://" + address, "Arith.Mul", mul}, 0, `{"C":56}`, ""},
		{"dns", "", []string{"dns://localhost:" + port, "Arith.Mul", mul}, 0, `{"C":56}`, ""},
		{"standard input", mul, []string{r.target, "Arith.Mul", "-"}, 0, `{"C":56}`, ""},
		{"failover", "", []string{"--failover", "--idempotent", "static://127.0.0.1:1," + address, "Arith.Mul", mul}, 0, `{"C":56}`, ""},
		{"metadata", "", []string{"--metadata", "a=b", "-H", "a=c=d", r.target, "Arith.Mul", mul}, 0, `{"C":56}`, ""},
		{"several", "", []string{"-n", r.target, "Arith.Div", "[17, 5]"}, 0, "[3,2]", ""},
		{"an error of the method", "", []string{"-n", r.target, "Arith.Div", "[17, 0]"}, 13, "", "invalid argument: 17 divided by zero (said by the server; it may have run)"},
		{"an array as it is", "", []string{r.target, "Arith.Mul", "[17, 5]"}, 13, "", "it did not run"},
		{"the flags last", "", []string{r.target, "Arith.Div", "[17, 5]", "-n"}, 0, "[3,2]", ""},
		{"a negative number", "", []string{"--several", r.target, "Arith.Div", "--", "[-17, 5]"}, 0, "[-3,-2]", ""},
		{"too few", "", []string{"-n", r.target, "Arith.Div", "[17]"}, 13, "", "the message has 1, want 2"},
		{"no arguments", "", []string{r.target, "Arith.Div"}, 13, "", "it did not run"},
		{"no such method", "", []string{r.target, "Arith.Sub", mul}, 22, "", "Arith.Sub"},
		{"nobody there", "", []string{"tcp://127.0.0.1:1", "Arith.Mul", mul}, 24, "", "it did not run"},
		{"no time", "", []string{"--timeout", "1ns", r.target, "Arith.Mul", mul}, 14, "", "deadline"},
	} {
		code, out, errs := cliWith(t, c.in, append([]string{"call"}, c.args...)...)
		if code != c.code || strings.TrimSuffix(out, "\n") != c.out || !strings.Contains(errs, c.err) || (c.err == "") != (errs == "") {
			t.Errorf("%s: exit %d, %q, %q", c.name, code, out, errs)
		}
	}
}

func TestCallArgs(t *testing.T) {
	long := strings.Repeat("1", maxInput+1)
	if _, err := callArgs(strings.NewReader(long), false, inJSON{}); exitCode(err) != exitUsage {
		t.Errorf("too much input: %v", err)
	}
	broken := errors.New("broken")
	if _, err := callArgs(failingReader{broken}, false, inJSON{}); !errors.Is(err, broken) {
		t.Errorf("broken input: %v", err)
	}
	args, err := callArgs(strings.NewReader(`[1,"two",{}]`), true, inJSON{})
	if list, ok := args.(tandem.Args); err != nil || !ok || len(list) != 3 || string(list[1].(json.RawMessage)) != `"two"` {
		t.Errorf("got %v, %v", args, err)
	}
}

// TestCallProtocols calls the same server over every protocol.
func TestCallProtocols(t *testing.T) {
	r := startServe(t)
	address := strings.TrimPrefix(r.target, "tcp://")
	for _, scheme := range []string{"jsonrpc", "jsonrpc+http", "rpcx", "connect", "grpc", "netrpc", "netrpc+http"} {
		code, out, errs := cli(t, "call", scheme+"://"+address, "Arith.Mul", `{"A":7,"B":8}`)
		if code != exitOK || out != `{"C":56}`+"\n" {
			t.Errorf("%s: exit %d, %s%s", scheme, code, out, errs)
		}
	}
	// A gRPC server with reflection gets Protocol Buffers.
	for _, scheme := range []string{"grpc", "connect"} {
		code, out, errs := cli(t, "call", scheme+"://"+address, "grpc.health.v1.Health.Check", "{}")
		if code != exitOK || out != `{"status":"SERVING"}`+"\n" {
			t.Errorf("%s: exit %d, %s%s", scheme, code, out, errs)
		}
	}
	code, out, errs := cli(t, "call", "--max", "1", "grpc://"+address, "grpc.health.v1.Health.Watch", `{"service":"Arith"}`)
	if code != exitOK || out != `{"status":"SERVING"}`+"\n" {
		t.Errorf("a stream: exit %d, %s%s", code, out, errs)
	}
	if code, _, errs := cli(t, "call", "grpc://"+address, "grpc.health.v1.Health.Check", `{"server":"x"}`); code != exitUsage || !strings.Contains(errs, "HealthCheckRequest") {
		t.Errorf("a field that there isn't: exit %d, %s", code, errs)
	}
}

// Shop is a service of Go's net/rpc.
type Shop struct{}

// Order is what Shop.Price takes.
type Order struct {
	Count uint
	Each  float64
	Notes map[string]string
}

// Price multiplies.
func (Shop) Price(o Order, total *struct {
	Total float64
	Note  string
}) error {
	if o.Count == 0 {
		return errors.New("nothing is ordered")
	}
	total.Total, total.Note = float64(o.Count)*o.Each, o.Notes["for"]
	return nil
}

// TestCallNetRPC calls a server of Go's net/rpc.
func TestCallNetRPC(t *testing.T) {
	srv := rpc.NewServer()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err := errors.Join(err, srv.Register(Shop{})); err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { srv.ServeConn(conn) })
		}
	})
	defer func() {
		_ = ln.Close() // it ends Accept
		serving.Wait()
	}()
	target := "netrpc://" + ln.Addr().String()
	for _, c := range []struct {
		input string
		code  int
		out   string
		err   string
	}{
		{`{"Count":{"uint":3},"Each":1.5,"Notes":{"map":{"for":"you"}}}`, exitOK, `{"Total":4.5,"Note":"you"}`, ""},
		{`{"Each":1.5}`, 12, "", "nothing is ordered"},
		{`{"count":3}`, exitUsage, "", `"count" can't be a field`},
	} {
		code, out, errs := cli(t, "call", target, "Shop.Price", c.input)
		if code != c.code || strings.TrimSpace(out) != c.out || !strings.Contains(errs, c.err) {
			t.Errorf("%s: exit %d, %s%s", c.input, code, out, errs)
		}
	}
}

func TestCallStream(t *testing.T) {
	r := startServe(t)
	lines := `{"Text":"one"} {"Text":"two"}` + "\n"
	answers := `{"Text":"you said: one"}` + "\n" + `{"Text":"you said: two"}` + "\n"
	file := filepath.Join(t.TempDir(), "lines.json")
	if err := os.WriteFile(file, []byte(lines), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, in string
		args     []string
		code     int
		out, err string
	}{
		{"standard input", lines, []string{"Chat.Talk", "-"}, exitOK, answers, ""},
		{"a file", "", []string{"Chat.Talk", "@" + file}, exitOK, answers, ""},
		{"one message", "", []string{"Chat.Talk", `{"Text":"one"}`}, exitOK, answers[:strings.IndexByte(answers, '\n')+1], ""},
		{"none", "", []string{"Chat.Talk"}, exitOK, "", ""},
		{"the first only", lines, []string{"--max", "1", "Chat.Talk", "-"}, exitOK, answers[:strings.IndexByte(answers, '\n')+1], ""},
		{"no JSON", "", []string{"Chat.Talk", "{"}, exitUsage, "", "the messages to send: unexpected EOF"},
		{"no such stream", "", []string{"Chat.Talks", "{}"}, 22, "", "Chat.Talks"},
		{"several", "", []string{"-n", "Chat.Talk", "[]"}, exitUsage, "", "--several is for unary calls"},
		{"no such file", "", []string{"Chat.Talk", "@" + file + "x"}, exitUsage, "", "lines.jsonx"},
	} {
		code, out, errs := cliWith(t, c.in, append([]string{"call", "--stream", r.target}, c.args...)...)
		if code != c.code || out != c.out || !strings.Contains(errs, c.err) || (c.err == "") != (errs == "") {
			t.Errorf("%s: exit %d, %q, %q", c.name, code, out, errs)
		}
	}
}

type failingReader struct{ err error }

func (r failingReader) Read([]byte) (int, error) { return 0, r.err }

// TestStreamTimeout: a stream lives as long as messages flow, unless a timeout is given.
func TestStreamTimeout(t *testing.T) {
	for _, c := range []struct{ timed, stream, want bool }{
		{false, false, true}, {true, false, true}, {false, true, false}, {true, true, true},
	} {
		options, err := (&callFlags{timeout: time.Second, timed: c.timed}).options(c.stream)
		if err != nil || (len(options) == 1) != c.want {
			t.Errorf("%+v: %d options, %v", c, len(options), err)
		}
	}
}
