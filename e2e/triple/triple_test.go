//go:build integration

package triple

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/protocol/triple"
	"github.com/tandem-rpc/tandem/protocol/web"
	"github.com/tandem-rpc/tandem/server"
)

// patience is the time limit of a consumer, also on a busy machine.
const patience = 2 * time.Minute

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serve serves carts until the test ends, with the options for its address. Dubbo would
// replace "127.0.0.1" by the address of a network card, so the address has another name.
func serve(t *testing.T, options func(address string) []server.Option) (*carts, string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(ln.Addr().String())
	address := net.JoinHostPort("carts.test", port)
	opts := []server.Option{server.WithProtocols(web.New(triple.Interface(stockName))), server.WithLogger(slog.New(slog.DiscardHandler))}
	if options != nil {
		opts = append(opts, options(address)...)
	}
	c := newCarts()
	srv := server.New(opts...)
	if err := c.register(srv); err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- srv.ServeListener(ln) }()
	t.Cleanup(func() {
		_ = srv.Close()
		if err := <-served; !errors.Is(err, server.ErrServerClosed) {
			t.Error(err)
		}
	})
	return c, address
}

// consume runs a consumer, and returns its output: lines of a name and a result.
func consume(t *testing.T, class string, environment []string, args ...string) map[string]string {
	t.Helper()
	home := t.TempDir()
	hosts := filepath.Join(home, "hosts")
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(hosts, []byte("127.0.0.1 localhost carts.test "+host+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	argv := append([]string{
		"-Xmx192m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Djdk.net.hosts.file=" + hosts, "-Duser.home=" + home,
		"-cp", filepath.Join(built(t), "classes") + ":" + filepath.Join(jars(t), "*"),
		class,
	}, args...)
	cmd := exec.CommandContext(t.Context(), "java", argv...)
	cmd.Env = append(os.Environ(), environment...)
	var said, log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &log
	cmd.WaitDelay = time.Second
	timer := time.AfterFunc(patience, func() { _ = cmd.Process.Kill() })
	defer timer.Stop()
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v; the consumer said:\n%s%s", err, said.String(), log.String())
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the consumer said:\n%s%s", said.String(), log.String())
		}
	})
	got := map[string]string{}
	for lines := bufio.NewScanner(&said); lines.Scan(); {
		if name, result, ok := strings.Cut(lines.Text(), ": "); ok {
			got[name] = result
		}
	}
	return got
}

// compare reports each result that differs from the wanted one. After an ellipsis at the
// end of the wanted result, anything may follow.
func compare(t *testing.T, got, want map[string]string) {
	t.Helper()
	right := 0
	for name, w := range want {
		begin, more := strings.CutSuffix(w, "…")
		if !strings.HasPrefix(got[name], begin) || !more && got[name] != w {
			t.Errorf("%s:\n got %q\nwant %q", name, got[name], w)
			continue
		}
		right++
	}
	t.Logf("%d of %d cases", right, len(want))
}

// built returns the folder of build.sh.
func built(t *testing.T) string {
	t.Helper()
	dir := os.Getenv("TRIPLE")
	if dir == "" {
		t.Fatal("TRIPLE names no folder: run make test-triple")
	}
	return dir
}

// jars returns the folder with Dubbo's jars.
func jars(t *testing.T) string {
	t.Helper()
	if dir := os.Getenv("DUBBO"); dir != "" {
		return dir
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(cache, "tandem", "dubbo-3.3.6")
}

func TestByURL(t *testing.T) {
	c, address := serve(t, nil)
	compare(t, consume(t, "TripleConsumer", nil, "tri://"+address), wanted())
	c.check(t)
}

// TestCompressed makes the consumer compress its requests.
func TestCompressed(t *testing.T) {
	var compressed, plain atomic.Int64
	count := func(next tandem.Func) tandem.Func {
		return func(ctx context.Context, call *tandem.Call) error {
			if web.Request(ctx).Header.Get("Grpc-Encoding") == "gzip" {
				compressed.Add(1)
			} else {
				plain.Add(1)
			}
			return next(ctx, call)
		}
	}
	c, address := serve(t, func(string) []server.Option { return []server.Option{server.WithInterceptors(count)} })
	want := wanted()
	want["too large"] = "RpcException 0: RESOURCE_EXHAUSTED: arguments of shop.v1.Carts.Add: message…" // seen when it is unpacked
	compare(t, consume(t, "TripleConsumer", []string{"DUBBO_RPC_TRI_COMPRESSOR=gzip"}, "tri://"+address), want)
	c.check(t)
	if compressed.Load() == 0 || plain.Load() > 0 {
		t.Errorf("%d calls are compressed, %d are not", compressed.Load(), plain.Load())
	}
}

// TestPlain makes a consumer call a plain Java interface.
func TestPlain(t *testing.T) {
	c, address := serve(t, nil)
	compare(t, consume(t, "PlainConsumer", nil, "tri://"+address), wantedPlain())
	if err := <-c.gone; err == nil {
		t.Error("a call goes on though its caller has left")
	}
}

// TestThroughZooKeeper makes the consumer find the server through its registration.
func TestThroughZooKeeper(t *testing.T) {
	zk := startZooKeeper(t)
	services := []string{"shop.v1.Carts", "shop.v1.Baskets", stockName}
	c, _ := serve(t, func(address string) (opts []server.Option) {
		for _, service := range services {
			opts = append(opts, listed(t, zk, service, address))
		}
		return opts
	})
	for _, service := range services {
		awaitListed(t, zk, service)
	}
	compare(t, consume(t, "TripleConsumer", nil, "zookeeper://"+zk+"?delay-notification=50"), wanted())
	c.check(t)
	compare(t, consume(t, "PlainConsumer", nil, "zookeeper://"+zk+"?delay-notification=50"), wantedPlain())
}

// check checks what the server has seen of the calls.
func (c *carts) check(t *testing.T) {
	t.Helper()
	if left := <-c.left; left <= 0 || left > time.Minute {
		t.Errorf("a call had %v left, want up to a minute", left)
	}
	for range 2 { // the stream that was canceled, and the call that took too long
		select {
		case <-c.gone:
		case <-time.After(patience):
			t.Error("a call goes on though its caller has left")
		}
	}
}

// wanted returns the results that a consumer gets from every server.
func wanted() map[string]string {
	const missing = "RpcException 0: NOT_FOUND: no such item: 100 % “missing”"
	return map[string]string{
		"unary":                         "apple=3",
		"large":                         noted(1 << 20),
		"too large":                     "RpcException 0: RESOURCE_EXHAUSTED: message…",
		"empty":                         "nothing",
		"error":                         missing,
		"plain error":                   "RpcException 0: UNKNOWN: unexpected EOF",
		"panic":                         "RpcException 0: INTERNAL: method shop.v1.Carts.Add panicked",
		"unimplemented":                 `RpcException 0: UNIMPLEMENTED: no method at "/shop.v1.Carts/Clear"`,
		"asynchronous":                  "pear=2",
		"server stream":                 "apple=1 apple=2 apple=3 end",
		"server stream that fails":      "missing=1 missing=2 " + missing + " end",
		"client stream":                 "apple=6,pear=4 end",
		"bidi stream":                   "apple=1 apple=3 apple=6 end",
		"bidi stream that is cancelled": "apple=1",
		"attachments": `camelcase is "camel"=1,key-bin is "\x00\xffk"=1,tri-consumer-appname is "shopper"=1,user is "ann"=1` +
			" user=bob key=[0, -2]",
		"deadline":                 "deadline=1",
		"timeout":                  "timeout",
		"many at a time":           "400 right",
		"interface without a stub": "plum=1",
	}
}

// wantedPlain returns the results that a consumer gets from a plain Java interface.
func wantedPlain() map[string]string {
	return map[string]string{
		"text":                "hello Zoë 😀 €",
		"no text":             "hello ",
		"long text":           "equal",
		"two arguments":       "[apple, 3, null, 0, null, 0.0, null, false, 0, 0, null, null, null, null, null, null, null, null]", //nolint:dupword // fields
		"nothing found":       "null",
		"no argument, a list": "[[a, 0, null, 0, null, 0.0, null, false, 0, 0, null, null, null, null, null, null, null, null], [b, 0, …", //nolint:dupword // likewise
		"set and map":         "{a=1, bb=2}",
		"array":               "[5000000, -70000, 1]",
		"primitives":          "1099511558072",
		"void":                "done",
		"object":              "equal",
		"the same twice":      "equal",
		"a circle":            "RpcException 0: RESOURCE_EXHAUSTED: results of shop.plain.Stock.Echo: the result has more than 4194304 bytes",
		"enum":                "GREEN",
		"anything":            "{a=[1, 2, x], b=0.5}",
		"error":               "RpcException 0: NOT_FOUND: no such item: 100 % “missing”",
		"unimplemented":       `RpcException 0: UNIMPLEMENTED: no method at "/shop.plain.Stock/unknown"`,
		"too large":           "RpcException 0: RESOURCE_EXHAUSTED: …",
		"attachments":         "ann bob",
		"timeout":             "timeout",
		"many at a time":      "400 right",
	}
}
