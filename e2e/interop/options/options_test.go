// Package options tests every option of servers, clients and calls with every way to start a
// server and every scheme of a client: the option takes effect, or there is an error that says
// why not.
package options

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/protocol/all"
	"github.com/tandem-rpc/tandem/server"
	"github.com/tandem-rpc/tandem/transport"
	"github.com/tandem-rpc/tandem/transport/kcp"
	"github.com/tandem-rpc/tandem/transport/nbio"
	"github.com/tandem-rpc/tandem/transport/quic"
	"github.com/tandem-rpc/tandem/transport/transporttest"
	"github.com/tandem-rpc/tandem/transport/websocket"
)

// row is the test of one option.
type row struct {
	prepare func(c *cell)               // sets the option
	effect  func(c *cell) (bool, error) // makes calls, and reports whether the option had its effect
	// refused returns a part of the error if the option can't take effect in a cell, ""
	// if it must. A nil refused means that it must in every cell.
	refused func(c *cell) string
	not     []string // schemes that the option does not apply to, according to its documentation
	shown   string   // another test of the effect, if that takes time or several servers
}

// cell is a server, started in one way, and a client of one scheme.
type cell struct {
	t              *testing.T
	way, network   string
	scheme         string // "" is tandem's own
	server, client tandem.Transport
	tls            [2]*tls.Config // a server's and a client's
	serverOpts     []server.Option
	clientOpts     []client.Option
	callOpts       []tandem.CallOption
	methodOpts     []server.MethodOption
	srv            *server.Server
	target         string
	held, released chan struct{}
	given          bool            // the option is set
	usualCodec     bool            // use the default codec of the client's protocol, which may not encode strings
	trailer        tandem.Metadata // set by the call's option
	explained      client.Explanation

	mu      sync.Mutex
	seen    tandem.Call // the last call that a method got
	counts  int         // number of calls of count
	made    int         // number of the client's connections
	refusal error       // the first error of serving a connection
	log     bytes.Buffer
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
	c.counts++
}

func (c *cell) counted() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.counts > 0
}

// last returns the last call that a method got.
func (c *cell) last() *tandem.Call {
	c.mu.Lock()
	defer c.mu.Unlock()
	return &c.seen
}

// ways returns the ways to start a server: Serve, with a transport's name, ServeListener, and
// ServeProtocol, which is for protocols other than tandem's.
func ways() (list []string) {
	for _, network := range networks() {
		list = append(list, "Serve "+network, "ServeListener "+network, "ServeProtocol "+network)
	}
	return list
}

func networks() []string { return []string{"mem", "tcp", "unix", "quic", "kcp", "ws", "nbio"} }

// schemes returns "", for tandem's own protocol, and the schemes of other protocols.
func schemes() []string {
	list := []string{""}
	for _, p := range all.Clients() {
		list = append(list, p.Name())
	}
	return list
}

// chosen reports whether a cell is tested in this run. With the race detector or -short, servers
// are started in one way, all schemes use one network, and one scheme uses all networks.
func (c *cell) chosen() bool {
	brief := raceEnabled || testing.Short()
	return !brief || c.way == "Serve" && (c.network == "mem" || c.scheme == "")
}

// TestEveryOption tests every option with every way to start a server and every scheme to
// dial. It fails for an option without a row.
func TestEveryOption(t *testing.T) {
	table := optionRows()
	have := map[string]bool{}
	for name := range table {
		option, _, _ := strings.Cut(name, " ")
		have[name], have[option] = true, true
	}
	fields := fieldsOf("client.WithCompression", client.Compression{}, "client.WithConnections", client.Connections{}, "client.WithAttempts", client.Attempts{})
	for _, name := range append(optionsOf(t, "server", "client"), fields...) {
		if !have[name] {
			t.Errorf("%s has no row in optionRows(): how is it seen to take effect?", name)
		}
	}
	tests := testNames(t)
	for name, r := range table {
		if r.shown != "" && !tests[r.shown] {
			t.Errorf("%s is shown by %s, which does not exist", name, r.shown)
		}
	}
	for _, way := range ways() {
		for _, scheme := range schemes() {
			for name, r := range table {
				c := newCell(way, scheme)
				if r.shown != "" || slices.Contains(r.not, scheme) || c.way == "ServeProtocol" && scheme == "" || !c.chosen() {
					continue
				}
				t.Run(strings.Join([]string{name, c.way, c.network, scheme}, "/"), func(t *testing.T) { c.run(t, r, true) })
			}
		}
	}
}

// fieldsOf returns "option field" for each field of the options' arguments.
func fieldsOf(optionsAndArguments ...any) (names []string) {
	for pair := range slices.Chunk(optionsAndArguments, 2) {
		for field := range reflect.ValueOf(pair[1]).Fields() {
			names = append(names, fmt.Sprint(pair[0], " ", field.Name))
		}
	}
	return names
}

// TestEveryOptionMatters: without the option there is no effect, which shows that
// TestEveryOption can fail.
func TestEveryOptionMatters(t *testing.T) {
	for _, scheme := range schemes() {
		for name, r := range optionRows() {
			if r.shown == "" && !slices.Contains(r.not, scheme) {
				t.Run(name+"/"+scheme, func(t *testing.T) { newCell("Serve mem", scheme).run(t, r, false) })
			}
		}
	}
}

func newCell(way, scheme string) *cell {
	kind, network, _ := strings.Cut(way, " ")
	return &cell{way: kind, network: network, scheme: scheme, held: make(chan struct{}, 2), released: make(chan struct{}), trailer: tandem.Metadata{"old": {"x"}}}
}

// run tests one cell, with the option if given is true, and without it otherwise.
func (c *cell) run(t *testing.T, r row, given bool) {
	t.Parallel()
	c.t, c.given = t, given
	c.tls[0], c.tls[1] = transporttest.Certificates(t)
	c.tls[1].ServerName = "localhost"
	if c.scheme == "grpc" || c.scheme == "connect" {
		c.tls[1].NextProtos = []string{"h2", "http/1.1"}
	}
	if given {
		r.prepare(c)
	}
	ok, err := false, c.start()
	if err == nil {
		if ok, err = r.effect(c); !ok {
			err = c.refusedWith(err)
		}
	}
	want := ""
	if r.refused != nil && given {
		want = r.refused(c)
	}
	switch {
	case !given && ok && err == nil:
		t.Error("the effect is seen without the option")
	case given && want == "" && (!ok || err != nil):
		t.Errorf("effect %v, error %v", ok, err)
	case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
		t.Errorf("effect %v, error %v, want one that says %q", ok, err, want)
	}
}

// open creates the transports of both sides, and returns the address to listen on.
func (c *cell) open() (address string) {
	fail := func(err error) {
		if err != nil {
			c.t.Fatal(err)
		}
	}
	var err error
	address = "127.0.0.1:0"
	switch c.network {
	case "mem":
		c.server, address = transport.NewMemory(), "here"
	case "unix":
		dir, err := os.MkdirTemp("", "o") // short, as the length of a socket's path is limited
		fail(err)
		c.t.Cleanup(func() { _ = os.RemoveAll(dir) })
		c.server, address = transport.Unix(), filepath.Join(dir, "s")
	case "tcp":
		c.server = transport.TCP()
	case "quic":
		serverTLS, clientTLS := transporttest.Certificates(c.t)
		c.server, err = quic.New(serverTLS)
		fail(err)
		c.client, err = quic.New(clientTLS)
		fail(err)
	case "kcp":
		c.server, err = kcp.New()
		fail(err)
	case "ws":
		c.server = websocket.New(transport.TCP())
	case "nbio":
		engine, err := nbio.New(transport.TCP())
		fail(err)
		c.t.Cleanup(func() { _ = engine.Close() })
		c.server, c.client = engine, transport.TCP()
	}
	if c.client == nil {
		c.client = c.server
	}
	return address
}

// start starts the server in the cell's way.
func (c *cell) start() error {
	address := c.open()
	c.srv = server.New(append([]server.Option{server.WithProtocols(all.New()...), server.WithTransport(c.network, c.server), server.WithLogger(slog.New(slog.DiscardHandler))}, c.serverOpts...)...)
	if err := c.register(); err != nil {
		return err
	}
	served, closeListener := make(chan error, 1), func() error { return nil }
	if c.way == "Serve" {
		go func() { served <- c.srv.Serve(c.network, address) }()
	} else {
		ln, err := c.server.Listen(c.t.Context(), address)
		if err != nil {
			return err
		}
		address = ln.Addr().String()
		go func() { served <- c.serveOn(ln) }()
		closeListener = ln.Close
	}
	for c.way != "ServeProtocol" && len(c.srv.Addrs()) == 0 {
		select {
		case err := <-served:
			return err
		default:
			runtime.Gosched() // until it listens
		}
	}
	if c.way == "Serve" {
		address = c.srv.Addrs()[0].String()
	}
	c.t.Cleanup(func() {
		_ = c.srv.Close()
		_ = closeListener() // which ServeProtocol leaves open
		<-served
	})
	if c.target = c.network + "://" + address; c.scheme != "" {
		c.target = c.scheme + "://" + address + "?transport=" + c.network
	}
	return nil
}

// note records the first error of serving a connection.
func (c *cell) note(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil && c.refusal == nil {
		c.refusal = err
	}
}

// refusedWith returns err joined with the error that note has recorded.
func (c *cell) refusedWith(err error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return errors.Join(err, c.refusal)
}

// serveOn serves what a listener accepts.
func (c *cell) serveOn(ln net.Listener) error {
	if c.way == "ServeListener" {
		return c.srv.ServeListener(ln)
	}
	var conns sync.WaitGroup
	defer conns.Wait()
	for {
		conn, err := ln.Accept()
		if err != nil {
			return err
		}
		conns.Go(func() {
			c.note(c.srv.ServeProtocol(conn, protocolOf(c.scheme)))
		})
	}
}

// protocolOf returns the server's protocol of a client's scheme.
func protocolOf(scheme string) server.Protocol {
	name, overHTTP := strings.CutSuffix(scheme, "+http")
	if overHTTP && name == "jsonrpc" || name == "grpc" || name == "connect" {
		name = "web"
	}
	for _, p := range all.New() {
		if p.Name() == name {
			return p
		}
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
		c.srv.RegisterFunc("T.Echo", func(ctx context.Context, s string) string { note(ctx); return s }, c.methodOpts...),
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
		}, c.methodOpts...),
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

// dial returns a client with the cell's options and opts.
func (c *cell) dial(opts ...client.Option) (*client.Client, error) {
	list := []client.Option{client.WithTransport(c.network, c.client), client.WithWait(0), client.WithPlugins(connections{c})}
	for _, p := range all.Clients() {
		if p.Name() == c.scheme {
			list = append(list, client.WithProtocols(p))
			if !c.usualCodec {
				list = append(list, client.WithCodec(plain(p)))
			}
		}
	}
	d, err := client.Dial(c.target, append(append(list, c.clientOpts...), opts...)...)
	if err == nil {
		c.t.Cleanup(func() { _ = d.Close() })
	}
	return d, err
}

// connections counts a client's connections.
type connections struct{ c *cell }

func (n connections) Connected(conn net.Conn) (net.Conn, error) {
	n.c.mu.Lock()
	defer n.c.mu.Unlock()
	n.c.made++
	return conn, nil
}

func (c *cell) connected() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.made
}

// call makes a call with the cell's options. opts are further options of the client.
func (c *cell) call(method string, args any, opts ...client.Option) (string, error) {
	d, err := c.dial(opts...)
	if err != nil {
		return "", err
	}
	var reply string
	return reply, d.Call(c.t.Context(), method, args, &reply, c.callOpts...)
}

// optionsOf returns the names of the packages' functions that return options, from the source.
func optionsOf(t *testing.T, packages ...string) (names []string) {
	t.Helper()
	for _, pkg := range packages {
		files, err := filepath.Glob(filepath.Join("..", "..", "..", pkg, "*.go"))
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
	root := filepath.Join("..", "..", "..")
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

// plain returns the codec JSON if the protocol supports it, else the protocol's first codec.
func plain(p client.Protocol) tandem.Codec {
	for _, c := range p.Codecs() {
		if c.Name() == "json" {
			return c
		}
	}
	return p.Codecs()[0]
}

func (c *cell) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(c, &slog.HandlerOptions{Level: slog.LevelDebug}))
}
