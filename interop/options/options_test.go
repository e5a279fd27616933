package all_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"log/slog"

	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/internal/testcert"
	"github.com/tandem-rpc/tandem/protocol/all"
	"github.com/tandem-rpc/tandem/server"
	"github.com/tandem-rpc/tandem/transport"
)

// row says how an option is seen to take effect. It must, or there must be an error, in
// every cell: every way to start a server, and every scheme of a client.
type row struct {
	prepare func(c *cell)               // gives the option
	effect  func(c *cell) (bool, error) // makes calls, and looks
	own     string                      // why there is nothing to see with other protocols than tandem's own
	shown   string                      // the test that shows the effect instead, where it takes time or several servers
}

// cell is a server, started in one way, and a client of one scheme.
type cell struct {
	t              *testing.T
	way, scheme    string
	network        tandem.Transport
	tls            [2]*tls.Config // a server's and a client's
	serverOpts     []server.Option
	clientOpts     []client.Option
	callOpts       []tandem.CallOption
	srv            *server.Server
	target         string
	held, released chan struct{}

	mu   sync.Mutex
	seen tandem.Call // the last call that a method got
	noes int         // what rows count
	log  bytes.Buffer
}

// Write adds to the log.
func (c *cell) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.log.Write(p)
}

func (c *cell) logged(what string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return strings.Contains(c.log.String(), what)
}

func (c *cell) count() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.noes++
}

func (c *cell) counted() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.noes > 0
}

// last returns the last call that a method got.
func (c *cell) last() *tandem.Call {
	c.mu.Lock()
	defer c.mu.Unlock()
	return &c.seen
}

func (c *cell) foreign() bool { return c.scheme != "" }

// ways are those to start a server: by a transport's name, or with a listener.
func ways() []string {
	return []string{"Serve tcp", "Serve unix", "Serve mem", "ServeListener tcp", "ServeListener unix", "ServeListener mem"}
}

// schemes are tandem's own, as "", and those of other protocols.
func schemes() []string {
	list := []string{""}
	for _, p := range all.Clients() {
		list = append(list, p.Name())
	}
	return list
}

// TestEveryOption crosses every option of servers, clients and calls with every way to
// start and every scheme to dial. An option without a row fails.
func TestEveryOption(t *testing.T) {
	table := optionRows()
	for _, name := range optionsOf(t, "server", "client") {
		if _, ok := table[name]; !ok {
			t.Errorf("%s has no row in optionRows(): how is it seen to take effect?", name)
		}
	}
	tests := testNames(t)
	serverTLS, clientTLS := testcert.Pair(t, "localhost")
	clientTLS.ServerName, clientTLS.NextProtos = "localhost", []string{"h2", "http/1.1"}
	for name, r := range table {
		if r.shown != "" {
			if !tests[r.shown] {
				t.Errorf("%s is shown by %s, which does not exist", name, r.shown)
			}
			continue
		}
		for _, way := range ways() {
			for _, scheme := range schemes() {
				if scheme != "" && r.own != "" {
					continue
				}
				t.Run(strings.Join([]string{name, way, scheme}, " "), func(t *testing.T) {
					c := &cell{t: t, way: way, scheme: scheme, tls: [2]*tls.Config{serverTLS, clientTLS.Clone()}, held: make(chan struct{}, 1), released: make(chan struct{})}
					if scheme != "grpc" && scheme != "connect" {
						c.tls[1].NextProtos = nil
					}
					r.prepare(c)
					if err := c.start(); err != nil {
						return // it is an error
					}
					if ok, err := r.effect(c); !ok && err == nil {
						t.Error("the option is ignored")
					} else {
						t.Log(ok, err)
					}
				})
			}
		}
	}
}

// start starts the server in the cell's way.
func (c *cell) start() error {
	kind, network, _ := strings.Cut(c.way, " ")
	address := "127.0.0.1:0"
	c.network = transport.Stream(network)
	switch network {
	case "unix":
		dir, err := os.MkdirTemp("", "o") // short, as names of sockets must be
		if err != nil {
			return err
		}
		c.t.Cleanup(func() { _ = os.RemoveAll(dir) })
		address = filepath.Join(dir, "s")
	case "mem":
		c.network, address = transport.NewMemory(), "here"
	}
	c.srv = server.New(append([]server.Option{server.WithProtocols(all.New()...), server.WithTransport(network, c.network)}, c.serverOpts...)...)
	if err := c.register(); err != nil {
		return err
	}
	served := make(chan error, 1)
	if kind == "Serve" {
		go func() { served <- c.srv.Serve(network, address) }()
		for len(c.srv.Addrs()) == 0 && len(served) == 0 {
			runtime.Gosched() // it listens in a moment
		}
	} else {
		ln, err := c.network.Listen(c.t.Context(), address)
		if err != nil {
			return err
		}
		address = ln.Addr().String()
		go func() { served <- c.srv.ServeListener(ln) }()
	}
	c.t.Cleanup(func() { _ = c.srv.Close(); <-served })
	if c.target = network + "://" + address; c.foreign() {
		c.target = c.scheme + "://" + address + "?transport=" + network
	}
	return nil
}

func (c *cell) register() error {
	note := func(ctx context.Context) {
		c.mu.Lock()
		defer c.mu.Unlock()
		call := tandem.FromContext(ctx)
		c.seen = tandem.Call{Method: call.Method, Codec: call.Codec, Compressor: call.Compressor, Deadline: call.Deadline, Metadata: call.Metadata.Clone(), Peer: call.Peer}
	}
	return errors.Join(
		c.srv.RegisterFunc("T.Echo", func(ctx context.Context, s string) string { note(ctx); return s }),
		c.srv.RegisterFunc("T.Big", func(n int) string { return strings.Repeat("x", n) }),
		c.srv.RegisterFunc("T.Trail", func(ctx context.Context, s string) string {
			tandem.FromContext(ctx).Trailer = tandem.Metadata{"k": {"v"}}
			return s
		}),
		c.srv.RegisterFunc("T.Hold", func(ctx context.Context, s string) (string, error) {
			c.held <- struct{}{}
			select {
			case <-c.released:
			case <-ctx.Done():
			}
			return s, ctx.Err()
		}),
		c.srv.RegisterFunc("T.Panic", func(s string) string { panic(s) }),
		c.srv.RegisterFunc("T.Back", func(ctx context.Context, s string) (string, error) {
			peer := server.Peer(ctx)
			if peer == nil {
				return "", errors.New("this client can't be called")
			}
			hi, err := client.Invoke[string](ctx, peer, "C.Hi", s)
			if err != nil {
				return "", err
			}
			return *hi, nil
		}),
	)
}

// dial returns a client with the cell's options and these.
func (c *cell) dial(opts ...client.Option) (*client.Client, error) {
	_, network, _ := strings.Cut(c.way, " ")
	list := []client.Option{client.WithTransport(network, c.network), client.WithWait(0)}
	for _, p := range all.Clients() {
		if p.Name() == c.scheme {
			list = append(list, client.WithProtocols(p), client.WithCodec(plain(p)))
		}
	}
	d, err := client.Dial(c.target, append(append(list, c.clientOpts...), opts...)...)
	if err == nil {
		c.t.Cleanup(func() { _ = d.Close() })
	}
	return d, err
}

// call makes a call with the cell's options and those of the call.
func (c *cell) call(method string, args any, opts ...client.Option) (string, error) {
	d, err := c.dial(opts...)
	if err != nil {
		return "", err
	}
	var reply string
	return reply, d.Call(c.t.Context(), method, args, &reply, c.callOpts...)
}

// optionsOf returns the names of the functions of packages that return options, from their
// source.
func optionsOf(t *testing.T, packages ...string) (names []string) {
	t.Helper()
	for _, pkg := range packages {
		files, err := filepath.Glob(filepath.Join("..", "..", pkg, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		before := len(names)
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range parsed.Decls {
				if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && f.Name.IsExported() && returnsOption(f) {
					names = append(names, pkg+"."+f.Name.Name)
				}
			}
		}
		if len(names)-before < 20 {
			t.Errorf("package %s has %d options: the test does not look", pkg, len(names)-before)
		}
	}
	return names
}

func returnsOption(f *ast.FuncDecl) bool {
	if f.Type.Results == nil || len(f.Type.Results.List) != 1 {
		return false
	}
	name := ""
	switch t := f.Type.Results.List[0].Type.(type) {
	case *ast.Ident:
		name = t.Name
	case *ast.SelectorExpr:
		name = t.Sel.Name
	}
	return slices.Contains([]string{"Option", "CallOption", "MethodOption"}, name)
}

// testNames returns the names of the module's tests.
func testNames(t *testing.T) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	root := filepath.Join("..", "..")
	err := filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for line := range strings.Lines(string(text)) {
			if name, ok := strings.CutPrefix(line, "func "); ok {
				name, _, _ = strings.Cut(name, "(")
				names[name] = true
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func (c *cell) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(c, &slog.HandlerOptions{Level: slog.LevelDebug}))
}
