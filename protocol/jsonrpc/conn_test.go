package jsonrpc_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/server"
)

// Messages may be lines, follow one another directly, or span lines. After invalid JSON,
// reading continues with the next line.
func TestFraming(t *testing.T) {
	c := dial(t, specification(t))
	ask := func(id string) string {
		return `{"jsonrpc":"2.0","method":"sum","params":[1,2],"id":` + id + `}`
	}
	answers := func(want ...string) {
		t.Helper()
		got := map[string]bool{}
		for range want {
			answer := c.receive()
			_, id, _ := strings.Cut(answer, `,"id":`)
			got[strings.TrimSuffix(id, "}")] = true
		}
		for _, id := range want {
			if !got[id] {
				t.Errorf("no answer to %s among %v", id, got)
			}
		}
	}
	c.send(ask("1") + "\n" + ask("2") + "\r\n\r\n" + ask("3") + ask("4") + " \t" + ask("5"))
	answers("1", "2", "3", "4", "5")
	c.send("\n{\n\"jsonrpc\"\n:\"2.0\",\"method\":\"sum\",\"params\":[1,\n\n2],\"id\":\"}]\\\"{\"}")
	answers(`"}]\"{"`)
	for _, bad := range []string{"hello\n", `{"a":]` + ask("7") + "\n", "{\"a\":\"b\n", "}\n", strings.Repeat("[", 65) + "\n", "12\n", `"text"` + "\n", "{foo}", "[1 2]", "{\"a\":\x00}", "{{{{\n", "{ [\n"} {
		c.send(bad)
		if got := c.receive(); !strings.Contains(got, `"error":{"code":-32700,"message":"Parse error"`) || !strings.HasSuffix(got, `"id":null}`) {
			t.Errorf("%q: %s", bad, got)
		}
		c.send(ask("8"))
		answers("8")
	}
}

// The response to invalid JSON does not wait for the end of the line.
func TestParseErrorIsAnsweredAtOnce(t *testing.T) {
	c := dial(t, specification(t))
	c.send(`{]`)
	if got := c.receive(); !strings.Contains(got, "-32700") {
		t.Error(got)
	}
}

// A message that is too large is read and discarded, with little memory.
func TestTooLarge(t *testing.T) {
	srv, address := serve(t, server.WithMaxMessage(1<<10))
	register(t, srv, "echo", func(s string) string { return s })
	register(t, srv, "short", func(s string) string { return s }, server.MethodMaxMessage(10))
	c := dial(t, address)
	piece := bytes.Repeat([]byte("x"), 1<<20)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	go func() {
		c.send(`{"jsonrpc":"2.0","method":"echo","params":["`)
		for range 8 {
			_, _ = c.c.Write(piece) // the response shows whether it failed
		}
		c.send(`"],"id":1}{"jsonrpc":"2.0","method":"echo","params":["on"],"id":2}`)
	}()
	for _, want := range []string{
		`{"jsonrpc":"2.0","error":{"code":-32008,"message":"a message has at most 1024 bytes: see the server's WithMaxMessage","data":"resource exhausted"},"id":null}`,
		`{"jsonrpc":"2.0","result":"on","id":2}`,
	} {
		if got := c.receive(); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
	runtime.ReadMemStats(&after)
	if taken := after.TotalAlloc - before.TotalAlloc; taken > 4<<20 {
		t.Errorf("8 MiB took %d MiB", taken>>20)
	}
	c.send(`{"jsonrpc":"2.0","method":"short","params":["a long text"],"id":3}`)
	if got := c.receive(); !strings.Contains(got, `short takes at most 10`) || !strings.Contains(got, "-32008") {
		t.Error(got)
	}
}

// The requests of a batch are limited, and so is the size of its responses.
func TestBatchBounds(t *testing.T) {
	srv, address := serve(t, server.WithMaxMessage(5<<10))
	register(t, srv, "large", func() string { return strings.Repeat("x", 3<<10) })
	register(t, srv, "small", func() string { return "x" })
	c := dial(t, address)
	c.send("[" + strings.Repeat("1,", 1024) + "1]")
	if got := c.receive(); !strings.Contains(got, "a batch has at most 1024 requests") {
		t.Errorf("%.200s", got)
	}
	c.send("[" + strings.Repeat(`{"jsonrpc":"2.0","method":"large","id":1},`, 100) + `{"jsonrpc":"2.0","method":"small"}]`)
	got := c.receive()
	if large, refused := strings.Count(got, "xxxx\""), strings.Count(got, "the answers of a batch have at most 5120 bytes"); large != 1 || refused != 99 || strings.Contains(got, "null") {
		t.Errorf("%d answers, %d refused, %d bytes", large, refused, len(got))
	}
}

// The responses of a batch are in the order of its requests, whichever ends first.
func TestBatchInOrder(t *testing.T) {
	srv, address := serve(t)
	last := make(chan struct{})
	register(t, srv, "first", func() string { <-last; return "first" })
	register(t, srv, "last", func() string { close(last); return "last" })
	c := dial(t, address)
	c.send(`[{"jsonrpc":"2.0","method":"first","id":1},{"jsonrpc":"2.0"},{"jsonrpc":"2.0","method":"last","id":2}]`)
	var answers []struct {
		Result string `json:"result"`
		Error  any    `json:"error"`
	}
	if err := json.Unmarshal([]byte(c.receive()), &answers); err != nil {
		t.Fatal(err)
	}
	if len(answers) != 3 || answers[0].Result != "first" || answers[1].Error == nil || answers[2].Result != "last" {
		t.Errorf("%+v", answers)
	}
}

// A batch of a million requests is refused before it is parsed, and discarded with little
// memory.
func TestBatchIsCountedUnparsed(t *testing.T) {
	million := "[" + strings.Repeat("{},", 1_000_000) + "{}]"
	srv, address := serve(t)
	register(t, srv, "echo", func(s string) string { return s })
	c := dial(t, address)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	go func() { // the responses show whether it failed
		_, _ = io.WriteString(c.c, million+`{"jsonrpc":"2.0","method":"echo","params":["on"],"id":2}`)
	}()
	for _, want := range []string{"a batch has at most 1024 requests", `"result":"on"`} {
		if got := c.receive(); !strings.Contains(got, want) {
			t.Errorf("%.200s", got)
		}
	}
	runtime.ReadMemStats(&after)
	if taken := after.TotalAlloc - before.TotalAlloc; taken > 16<<20 { // including the test's own copies
		t.Errorf("%d MiB", taken>>20)
	}
}

// Invalid requests, besides those in the specification's examples.
func TestInvalidRequests(t *testing.T) {
	c := dial(t, specification(t))
	for _, request := range []string{
		`{"jsonrpc":"2.0","method":"sum","params":[1],"id":{}}`,
		`{"jsonrpc":"2.0","method":"sum","params":[1],"id":[1]}`,
		`{"jsonrpc":"2.0","method":"sum","params":[1],"id":true}`,
		`{"jsonrpc":"1.1","method":"sum","params":[1],"id":null}`,
		`{"jsonrpc":null,"method":"sum","params":[1],"id":null}`,
		`{"jsonrpc":"2.0","method":"","id":null}`,
		`[{"method":"sum","params":[1],"id":null}]`,
		`[[{"jsonrpc":"2.0","method":"sum","params":[1],"id":null}]]`,
	} {
		c.send(request)
		got := strings.Trim(c.receive(), "[]")
		if !strings.HasPrefix(got, `{"jsonrpc":"2.0","error":{"code":-32600,"message":"Invalid Request"`) || !strings.HasSuffix(got, `"id":null}`) {
			t.Errorf("%s: %s", request, got)
		}
	}
}

// Interceptors run for these calls as for others, also for notifications.
func TestInterceptors(t *testing.T) {
	seen := make(chan string, 1)
	look := func(next tandem.Func) tandem.Func {
		return func(ctx context.Context, call *tandem.Call) error {
			seen <- fmt.Sprint(call.Peer.Protocol, " ", call.Method, " ", call.Codec, " ", call.Kind == tandem.OneWay)
			if call.Method == "secret" {
				return tandem.Errorf(tandem.PermissionDenied, "not for you")
			}
			return next(ctx, call)
		}
	}
	srv, address := serve(t, server.WithInterceptors(look))
	register(t, srv, "secret", func(int) int { panic("it was called") })
	register(t, srv, "open", func(n int) int { return n })
	c := dial(t, address)
	c.send(`{"jsonrpc":"2.0","method":"secret","params":"not even decoded","id":1}`)
	if got := c.receive(); !strings.Contains(got, "-32600") { // params must be an array or an object
		t.Error(got)
	}
	c.send(`{"jsonrpc":"2.0","method":"secret","params":["not even decoded"],"id":1}`)
	if got := c.receive(); got != `{"jsonrpc":"2.0","error":{"code":-32007,"message":"not for you","data":"permission denied"},"id":1}` {
		t.Error(got)
	}
	if got := <-seen; got != "jsonrpc secret json false" {
		t.Error(got)
	}
	c.send(`{"jsonrpc":"2.0","method":"open","params":[1]}`)
	if got := <-seen; got != "jsonrpc open json true" {
		t.Error(got)
	}
}

// A request that stops in the middle ends the connection, an idle connection stays open.
func TestStall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, network := bubble(t, server.WithStallTimeout(100*time.Millisecond))
		connect := func() line {
			c, err := network.Dial(t.Context(), "a")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = c.Close() })
			return line{t, c, bufio.NewReader(c)}
		}
		idle, stalled := connect(), connect()
		idle.send("{")
		time.Sleep(99 * time.Millisecond) // so that it arrives in two pieces
		idle.send("}")
		idle.receive()
		stalled.send(`{"jsonrpc":`)
		if _, err := stalled.r.ReadByte(); !errors.Is(err, io.EOF) {
			t.Errorf("in the middle of a request: %v", err)
		}
		time.Sleep(200 * time.Millisecond) // longer than the stall timeout
		idle.send("{}")
		idle.receive()
	})
}

// The ways in which params are decoded into arguments.
func TestParams(t *testing.T) {
	srv, address := serve(t)
	type point struct{ X, Y int }
	type named struct {
		P    point
		Note string `json:"note"`
		skip int
		Not  int `json:"-"`
	}
	register(t, srv, "struct", func(n struct {
		P    struct{ X, Y int }
		Note string `json:"note"`
		skip int
		Not  int `json:"-"`
	}) string {
		return fmt.Sprint(named{P: n.P, Note: n.Note, skip: n.skip, Not: n.Not})
	})
	register(t, srv, "one", func(n struct{ N int }) int { return n.N })
	register(t, srv, "ints", func(n []int) string { return fmt.Sprint(n) })
	register(t, srv, "lists", func(n [][]int) string { return fmt.Sprint(n) })
	register(t, srv, "bytes", func(n []byte) string { return string(n) })
	register(t, srv, "map", func(n map[string]int) string { return fmt.Sprint(n) })
	register(t, srv, "any", func(n any) string { return fmt.Sprint(n) })
	register(t, srv, "time", func(n time.Time) int { return n.Year() })
	register(t, srv, "two", func(a string, b *int) (string, int) { return a, *b })
	register(t, srv, "none", func() {})
	c := dial(t, address)
	for _, e := range []struct{ method, params, want string }{
		{"struct", `{"P":{"X":1,"Y":2},"note":"n"}`, `"{{1 2} n 0 0}"`},
		{"struct", `[{"P":{"X":1,"Y":2},"note":"n"}]`, `"{{1 2} n 0 0}"`},
		{"struct", `[{"X":1,"Y":2},"n"]`, `"{{1 2} n 0 0}"`},
		{"struct", `[{"X":1,"Y":2},"n",0]`, ``},
		{"struct", `["n"]`, ``},
		{"one", `[7]`, `7`},
		{"one", `[{"N":7}]`, `7`},
		{"ints", `[1,2]`, `"[1 2]"`},
		{"ints", `[[1,2]]`, `"[1 2]"`},
		{"ints", `[1]`, `"[1]"`},
		{"ints", `[]`, `"[]"`},
		{"ints", `{"a":1}`, ``},
		{"lists", `[[[1],[2]]]`, `"[[1] [2]]"`},
		{"lists", `[[1],[2]]`, `"[[1] [2]]"`},
		{"bytes", `["aGk="]`, `"hi"`},
		{"map", `{"a":1}`, `"map[a:1]"`},
		{"map", `[{"a":1}]`, `"map[a:1]"`},
		{"map", `[1,2]`, ``},
		{"any", `[1,"a"]`, `"[1 a]"`},
		{"any", `["a"]`, `"a"`},
		{"time", `["2026-01-02T03:04:05Z"]`, `2026`},
		{"time", `[2026,1]`, ``},
		{"two", `["a",7]`, `["a",7]`},
		{"two", `["a"]`, ``},
		{"none", `[]`, `null`},
		{"none", `{}`, `null`},
		{"none", `[1]`, ``},
		{"none", `{"a":1}`, ``},
	} {
		c.send(`{"jsonrpc":"2.0","method":"` + e.method + `","params":` + e.params + `,"id":1}`)
		got, want := c.receive(), `{"jsonrpc":"2.0","result":`+e.want+`,"id":1}`
		if e.want == "" && !strings.Contains(got, `"code":-32602`) || e.want != "" && got != want {
			t.Errorf("%s %s: %s, want %s", e.method, e.params, got, e.want)
		}
	}
}

// Calls run concurrently, and are answered as they end.
func TestConcurrency(t *testing.T) {
	srv, address := serve(t)
	gate := make(chan struct{})
	register(t, srv, "wait", func() { <-gate })
	register(t, srv, "go", func() { close(gate) })
	c := dial(t, address)
	c.send(`{"jsonrpc":"2.0","method":"wait","id":1}[{"jsonrpc":"2.0","method":"wait","id":2},{"jsonrpc":"2.0","method":"go","id":3}]`)
	first, second := c.receive(), c.receive()
	if len(first) > len(second) {
		first, second = second, first
	}
	if first != `{"jsonrpc":"2.0","result":null,"id":1}` || strings.Count(second, `"result":null`) != 2 || second[0] != '[' {
		t.Errorf("%s\n%s", first, second)
	}
}
