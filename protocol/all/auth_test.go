package all_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/rpc"
	stdjson "net/rpc/jsonrpc"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/coder/websocket"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/internal/testcert"
	"github.com/tandem-rpc/tandem/plugin/auth"
	"github.com/tandem-rpc/tandem/protocol/all"
	"github.com/tandem-rpc/tandem/protocol/jsonrpc"
	"github.com/tandem-rpc/tandem/protocol/triple"
	"github.com/tandem-rpc/tandem/protocol/web"
	"github.com/tandem-rpc/tandem/server"
)

// door is a server on one port, with TLS and without, that accepts the caller staff only.
type door struct {
	address string
	certs   map[pass]*tls.Config      // certificates of clients, by the name in them; "" for a client without one
	method  string                    // name of the method of the service Gate, which clients call
	opened  atomic.Int64              // calls that were executed
	wait    func(ctx context.Context) // called in each call; optional
}

// pass is the name in a client's token or certificate, "" for none.
type pass string

// opener makes one call of the door's method with a pass, and returns the response.
type opener func(ctx context.Context, d *door, show pass) (string, error)

// rows has at least one client for each protocol. Thrift's are in its module's
// TestAuthOnEveryDialect.
var rows = []struct {
	name     string
	protocol string // name of the protocol; "" for tandem's own
	open     opener
}{
	{"tandem", "", openTandem("tcp", false)},
	{"tandem over TLS", "", openTandem("tcp", true)},
	{"net/rpc over TLS, by certificate", "netrpc", openStandard(rpc.NewClient)},
	{"net/rpc over HTTP CONNECT", "netrpc", openConnect},
	{"JSON-RPC 1.0 over TLS, by certificate", "jsonrpc", openStandard(stdjson.NewClient)},
	{"JSON-RPC 2.0 by POST", "jsonrpc", openPost},
	{"JSON-RPC 2.0 over WebSocket and TLS", "jsonrpc", openSocket},
	{"rpcx", "rpcx", openTandem("rpcx", false)},
	{"JSON over HTTP/2 and TLS", "web", openJSON},
	{"Connect over HTTP/1.1", "web", openRPC(false, (*http.Protocols).SetHTTP1)},
	{"gRPC over HTTP/2", "web", openRPC(false, (*http.Protocols).SetUnencryptedHTTP2, connect.WithGRPC())},
	{"gRPC-Web over TLS", "web", openRPC(true, (*http.Protocols).SetHTTP1, connect.WithGRPCWeb())},
	{"Triple, its wrapper", "triple", openTriple},
}

// Every protocol refuses the same callers, and executes nothing for them.
func TestAuthOnEveryProtocol(t *testing.T) {
	d := newDoor(t)
	for _, row := range rows {
		for _, c := range []struct {
			name, want string // the response, or the error
			show       pass
		}{
			{"none", "unauthenticated", ""},
			{"bad", "unauthenticated", "mallory"},
			{"wrong scope", "permission denied", "guest"},
			{"valid", "opened by staff", "staff"},
		} {
			t.Run(row.name+"/"+c.name, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				before := d.opened.Load()
				answer, err := row.open(ctx, d, c.show)
				said := answer
				if err != nil {
					said = strings.ReplaceAll(err.Error(), "_", " ") // as Connect writes codes
				}
				valid := c.show == "staff"
				if !strings.Contains(said, c.want) || (err == nil) != valid || (d.opened.Load() > before) != valid {
					t.Errorf("answer %q, error %v, executed %d times; want %q", answer, err, d.opened.Load()-before, c.want)
				}
			})
		}
	}
}

// trail is a plugin that records the points that calls pass, and their methods.
type trail struct {
	mu    sync.Mutex
	stops []string
}

func (p *trail) stop(at string, call *tandem.Call) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stops = append(p.stops, at+" "+call.Method)
}

func (p *trail) BeforeRequestHeader(_ context.Context, call *tandem.Call) error {
	p.stop("before header", call)
	return nil
}

func (p *trail) Intercept(next tandem.Func) tandem.Func {
	return func(ctx context.Context, call *tandem.Call) error {
		p.stop("round", call)
		return next(ctx, call)
	}
}

func (p *trail) AfterRequestHeader(_ context.Context, call *tandem.Call) error {
	p.stop("after header", call)
	return nil
}

func (p *trail) BeforeRequestBody(_ context.Context, call *tandem.Call) error {
	p.stop("before body", call)
	return nil
}

func (p *trail) BeforeResponse(_ context.Context, call *tandem.Call, _ any, err error) error {
	p.stop("before response: "+tandem.CodeOf(err).String(), call)
	return nil
}

func (p *trail) AfterResponse(_ context.Context, call *tandem.Call, end tandem.Outcome) {
	p.stop("after response: "+end.Code().String(), call)
}

// A call of a method that does not exist passes the plugins on every protocol, so that they
// see a scanner, and a caller without permission learns nothing about which methods exist.
func TestMissingMethodsPassPlugins(t *testing.T) {
	seen := &trail{}
	d := newDoor(t, seen)
	d.method = "Nope"
	for _, row := range rows {
		for _, c := range []struct {
			show pass
			want string // what the plugins see
		}{
			{"", "before header; before response: unauthenticated; after response: unauthenticated"},
			{"guest", "before header; round; after header; before response: unimplemented; after response: unimplemented"},
		} {
			t.Run(fmt.Sprintf("%s/%q", row.name, c.show), func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				seen.stops = nil
				answer, err := row.open(ctx, d, c.show)
				if err == nil {
					t.Fatalf("answered %q", answer)
				}
				said := strings.ToLower(err.Error())
				if unauthenticated := strings.Contains(said, "unauthenticated"); unauthenticated != (c.show == "") {
					t.Errorf("the client hears %q", err)
				}
				method := "Gate.Nope"
				if row.protocol == "triple" {
					method = gateInJava + ".nope"
				}
				want := strings.Split(strings.ReplaceAll(c.want, ";", " "+method+";")+" "+method, "; ")
				if !slices.Equal(seen.stops, want) {
					t.Errorf("it passed %q, want %q", seen.stops, want)
				}
			})
		}
	}
	if n := d.opened.Load(); n != 0 {
		t.Errorf("%d calls were executed", n)
	}
}

// Twelve clients of different protocols, with TLS and without, run the same method
// concurrently.
func TestTwelveClients(t *testing.T) {
	if len(rows) < 12 {
		t.Fatalf("there are %d clients", len(rows))
	}
	d := newDoor(t)
	var inside atomic.Int64
	together := make(chan struct{})
	d.wait = func(ctx context.Context) {
		if inside.Add(1) == int64(len(rows)) {
			close(together)
		}
		select {
		case <-together:
		case <-ctx.Done():
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var callers sync.WaitGroup
	for _, row := range rows {
		callers.Go(func() {
			if answer, err := row.open(ctx, d, "staff"); err != nil || answer != "opened by staff" {
				t.Errorf("%s: %q, %v", row.name, answer, err)
			}
		})
	}
	callers.Wait()
	if n := inside.Load(); n != int64(len(rows)) {
		t.Errorf("%d of %d calls", n, len(rows))
	}
}

func newDoor(t *testing.T, plugins ...any) *door {
	t.Helper()
	serverTLS, clientTLS := testcert.Pair(t, "door")
	serverTLS.ClientAuth = tls.VerifyClientCertIfGiven
	serverTLS.NextProtos = []string{"h2", "http/1.1"}
	d := &door{method: "Open", certs: map[pass]*tls.Config{"": {RootCAs: clientTLS.RootCAs, MinVersion: tls.VersionTLS13}}}
	for _, name := range []pass{"staff", "guest", "mallory"} {
		_, own := testcert.Pair(t, string(name))
		serverTLS.ClientCAs.AddCert(own.Certificates[0].Leaf)
		d.certs[name] = &tls.Config{RootCAs: clientTLS.RootCAs, Certificates: own.Certificates, MinVersion: tls.VersionTLS13}
	}
	known := func(_ context.Context, name string) (any, error) {
		if name == "staff" || name == "guest" {
			return name, nil
		}
		return nil, errors.New("nobody knows you")
	}
	by := auth.Any(auth.Bearer(known), auth.Certificate(func(ctx context.Context, c *x509.Certificate) (any, error) {
		return known(ctx, c.Subject.CommonName)
	}))
	onlyStaff := auth.Require("Gate.*", func(identity any) error {
		if identity != "staff" {
			return errors.New("for staff only")
		}
		return nil
	})
	srv := server.New(server.WithProtocols(withTriple()...), server.WithPlugins(plugins...), server.WithPlugins(auth.New(by, onlyStaff)), server.WithLogger(slog.New(slog.DiscardHandler)))
	check(srv.RegisterFunc("Gate.Open", func(ctx context.Context, verb string) string {
		d.opened.Add(1)
		if d.wait != nil {
			d.wait(ctx)
		}
		who, _ := auth.Identity[string](ctx)
		return verb + " by " + who
	}))
	check(srv.Alias(gateInJava, "Gate"))
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	check(err)
	d.address = ln.Addr().String()
	served := make(chan error, 1)
	go func() { served <- srv.ServeListener(eitherListener{ln, serverTLS}) }()
	t.Cleanup(func() {
		check(srv.Close())
		<-served
	})
	return d
}

// gateInJava is the interface that Dubbo's consumers call.
const gateInJava = "com.tandem.Gate"

// withTriple is all.New, with an interface for Dubbo's consumers.
func withTriple() []server.Protocol {
	list := all.New()
	i := slices.IndexFunc(list, func(p server.Protocol) bool { return p.Name() == "web" })
	list[i] = web.New(triple.Interface(gateInJava), web.WithHandler("/jsonrpc", jsonrpc.Handler(web.Conn, web.Metadata)))
	return list
}

// config returns a client's TLS configuration. It is a copy, since HTTP clients modify it.
func (d *door) config(show pass) *tls.Config { return d.certs[show].Clone() }

// eitherListener accepts TLS and plain text on one port.
type eitherListener struct {
	net.Listener
	config *tls.Config
}

func (l eitherListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &either{Conn: c, raw: c, config: l.config}, nil
}

// either is a connection with TLS if its first byte says so. It must be read before it is
// written.
type either struct {
	net.Conn // the TLS connection, or the plain one

	raw    net.Conn
	config *tls.Config
	begun  bool
}

func (e *either) Read(p []byte) (int, error) {
	if !e.begun {
		first := make([]byte, 1)
		if _, err := io.ReadFull(e.raw, first); err != nil {
			return 0, err
		}
		e.begun = true
		e.Conn = &pushedBack{e.raw, io.MultiReader(bytes.NewReader(first), e.raw)}
		if first[0] == 0x16 { // a record of a handshake (RFC 8446)
			e.Conn = tls.Server(e.Conn, e.config)
		}
	}
	return e.Conn.Read(p)
}

func (e *either) NetConn() net.Conn { return e.Conn }

// pushedBack is a connection with bytes that are read first.
type pushedBack struct {
	net.Conn
	r io.Reader
}

func (p *pushedBack) Read(b []byte) (int, error) { return p.r.Read(b) }

// header returns the header with the token of a pass.
func (show pass) header() http.Header {
	if show == "" {
		return http.Header{}
	}
	return http.Header{"Authorization": {"Bearer " + string(show)}}
}

// openTandem uses our own client with that protocol.
func openTandem(scheme string, secure bool) opener {
	return func(ctx context.Context, d *door, show pass) (string, error) {
		opts := []client.Option{client.WithProtocols(all.Clients()...)}
		for _, p := range all.Clients() {
			if p.Name() == scheme {
				opts = append(opts, client.WithCodec(p.Codecs()[0]))
			}
		}
		if secure {
			opts = append(opts, client.WithTLS(d.config("")))
		}
		if show != "" {
			opts = append(opts, client.WithPlugins(auth.Token("Bearer", string(show))))
		}
		c, err := client.Dial(scheme+"://"+d.address, opts...)
		if err != nil {
			return "", err
		}
		defer c.Close()
		var answer string
		err = c.Call(ctx, "Gate."+d.method, "opened", &answer)
		return answer, err
	}
}

// openStandard uses a client of the standard library, which has no metadata: its
// certificate identifies it.
func openStandard(speak func(io.ReadWriteCloser) *rpc.Client) opener {
	return func(ctx context.Context, d *door, show pass) (string, error) {
		conn, err := (&tls.Dialer{Config: d.config(show)}).DialContext(ctx, "tcp", d.address)
		if err != nil {
			return "", err
		}
		c := speak(conn)
		defer c.Close()
		var answer string
		err = c.Call("Gate."+d.method, "opened", &answer)
		return answer, err
	}
}

// openConnect uses net/rpc after an HTTP CONNECT, with a header.
func openConnect(ctx context.Context, d *door, show pass) (string, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", d.address)
	if err != nil {
		return "", err
	}
	var head bytes.Buffer
	fmt.Fprintf(&head, "CONNECT %s HTTP/1.0\r\n", rpc.DefaultRPCPath)
	_ = show.header().Write(&head)
	if _, err := conn.Write(append(head.Bytes(), "\r\n"...)); err != nil {
		return "", err
	}
	r := bufio.NewReader(conn)
	status, err := r.ReadString('\n')
	if err == nil {
		_, err = r.ReadString('\n') // the empty line
	}
	if err != nil || !strings.HasPrefix(status, "HTTP/1.0 200 ") {
		return "", fmt.Errorf("%q, %w", status, err)
	}
	c := rpc.NewClient(&pushedBack{conn, r})
	defer c.Close()
	var text string
	err = c.Call("Gate."+d.method, "opened", &text)
	return text, err
}

func (d *door) jsonRequest() string {
	return `{"jsonrpc":"2.0","method":"Gate.` + d.method + `","params":["opened"],"id":1}`
}

// result reads a JSON-RPC response.
func result(answer []byte) (string, error) {
	var a struct {
		Result string `json:"result"`
		Error  *struct {
			Message string `json:"message"`
			Data    string `json:"data"`
		} `json:"error"`
	}
	err := json.Unmarshal(answer, &a)
	if err == nil && a.Error != nil {
		err = errors.New(a.Error.Data + ": " + a.Error.Message)
	}
	return a.Result, err
}

// post makes a POST with an HTTP client of its own, and returns the body of the response.
func post(ctx context.Context, url string, config *tls.Config, show pass, body string) (status int, answer []byte, err error) {
	transport := &http.Transport{TLSClientConfig: config, ForceAttemptHTTP2: config != nil}
	defer transport.CloseIdleConnections()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	r.Header = show.header()
	r.Header.Set("Content-Type", "application/json")
	response, err := transport.RoundTrip(r)
	if err != nil {
		return 0, nil, err
	}
	defer response.Body.Close()
	if config != nil && response.ProtoMajor != 2 {
		return 0, nil, fmt.Errorf("spoken is %s", response.Proto)
	}
	answer, err = io.ReadAll(response.Body)
	return response.StatusCode, answer, err
}

func openPost(ctx context.Context, d *door, show pass) (string, error) {
	_, answer, err := post(ctx, "http://"+d.address+"/jsonrpc", nil, show, d.jsonRequest())
	if err != nil {
		return "", err
	}
	return result(answer)
}

func openSocket(ctx context.Context, d *door, show pass) (string, error) {
	transport := &http.Transport{TLSClientConfig: d.config("")}
	defer transport.CloseIdleConnections()
	ws, response, err := websocket.Dial(ctx, "wss://"+d.address+"/jsonrpc", &websocket.DialOptions{
		HTTPHeader: show.header(), HTTPClient: &http.Client{Transport: transport},
	})
	if err != nil {
		return "", err
	}
	if response.Body != nil {
		defer response.Body.Close()
	}
	defer ws.CloseNow()
	if err := ws.Write(ctx, websocket.MessageText, []byte(d.jsonRequest())); err != nil {
		return "", err
	}
	_, answer, err := ws.Read(ctx)
	if err != nil {
		return "", err
	}
	return result(answer)
}

func openJSON(ctx context.Context, d *door, show pass) (string, error) {
	status, answer, err := post(ctx, "https://"+d.address+"/Gate/"+d.method, d.config(""), show, `"opened"`)
	if err != nil {
		return "", err
	}
	if status != http.StatusOK {
		return "", fmt.Errorf("%d %s", status, answer)
	}
	var text string
	err = json.Unmarshal(answer, &text)
	return text, err
}

// asJSON is a connect codec that sends and receives JSON unchanged.
type asJSON struct{}

func (asJSON) Name() string { return "json" }

func (asJSON) Marshal(v any) ([]byte, error) { return *v.(*json.RawMessage), nil }

func (asJSON) Unmarshal(data []byte, v any) error {
	*v.(*json.RawMessage) = bytes.Clone(data)
	return nil
}

// openRPC uses connect's client with Connect, gRPC or gRPC-Web.
func openRPC(secure bool, speaks func(*http.Protocols, bool), opts ...connect.ClientOption) opener {
	return func(ctx context.Context, d *door, show pass) (string, error) {
		transport := &http.Transport{Protocols: new(http.Protocols)}
		speaks(transport.Protocols, true)
		defer transport.CloseIdleConnections()
		url := "http://" + d.address
		if secure {
			transport.TLSClientConfig, url = d.config(""), "https://"+d.address
		}
		c := connect.NewClient[json.RawMessage, json.RawMessage](&http.Client{Transport: transport}, url+"/Gate/"+d.method,
			append([]connect.ClientOption{connect.WithCodec(asJSON{})}, opts...)...)
		message := json.RawMessage(`"opened"`)
		r := connect.NewRequest(&message)
		maps.Copy(r.Header(), show.header())
		answer, err := c.CallUnary(ctx, r)
		if err != nil {
			return "", err
		}
		var text string
		err = json.Unmarshal(*answer.Msg, &text)
		return text, err
	}
}

// asProto is a connect codec for encoded Protocol Buffers messages.
type asProto struct{}

func (asProto) Name() string { return "proto" }

func (asProto) Marshal(v any) ([]byte, error) { return *v.(*[]byte), nil }

func (asProto) Unmarshal(data []byte, v any) error {
	*v.(*[]byte) = bytes.Clone(data)
	return nil
}

// openTriple calls as Dubbo's consumers do: gRPC with their wrapper, and Hessian strings,
// which begin with their length.
func openTriple(ctx context.Context, d *door, show pass) (string, error) {
	transport := &http.Transport{Protocols: new(http.Protocols)}
	transport.Protocols.SetUnencryptedHTTP2(true)
	defer transport.CloseIdleConnections()
	c := connect.NewClient[[]byte, []byte](&http.Client{Transport: transport}, "http://"+d.address+"/"+gateInJava+"/"+strings.ToLower(d.method),
		connect.WithGRPC(), connect.WithCodec(asProto{}))
	var wrapped []byte
	for i, field := range []string{"hessian4", "\x06opened", "java.lang.String"} {
		wrapped = protowire.AppendTag(wrapped, protowire.Number(i+1), protowire.BytesType)
		wrapped = protowire.AppendString(wrapped, field)
	}
	r := connect.NewRequest(&wrapped)
	maps.Copy(r.Header(), show.header())
	answer, err := c.CallUnary(ctx, r)
	if err != nil {
		return "", err
	}
	_, text, ok := bytes.Cut(*answer.Msg, []byte{'S', 0})
	if !ok || len(text) == 0 {
		return "", fmt.Errorf("no string in %q", *answer.Msg)
	}
	return string(text[1:]), nil
}
