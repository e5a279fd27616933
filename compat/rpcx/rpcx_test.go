package rpcx_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/rpc"
	"net/rpc/jsonrpc"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/compat/rpcx"
	"github.com/tandem-rpc/tandem/compat/rpcx/clientselector"
	"github.com/tandem-rpc/tandem/compat/rpcx/plugin"
	"github.com/tandem-rpc/tandem/internal/testcert"
	"github.com/tandem-rpc/tandem/registry/registrytest"
)

type Args struct {
	A int `msg:"a"`
	B int `msg:"b"`
}

type Reply struct {
	C int `msg:"c"`
}

// Arith is the service of rpcx's documentation. The products of Arith2 are ten times as
// large.
type Arith int

func (t *Arith) Mul(args *Args, reply *Reply) error {
	reply.C = args.A * args.B
	return nil
}

func (t *Arith) Error(*Args, *Reply) error { panic("ERROR") }

func (t *Arith) Fail(*Args, *Reply) error { return errors.New("no, thank you") }

type Arith2 int

func (t *Arith2) Mul(args *Args, reply *Reply) error {
	reply.C = args.A * args.B * 10
	return nil
}

// start starts a server with the service and returns its address.
func start(t *testing.T, srv *rpcx.Server, rcvr any) (address string) {
	t.Helper()
	if err := srv.RegisterName("Arith", rcvr); err != nil {
		t.Fatal(err)
	}
	if err := srv.Start("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := srv.Close(); err != nil {
			t.Error(err)
		}
	})
	return srv.Address()
}

func direct(t *testing.T, address string) *rpcx.DirectClientSelector {
	t.Helper()
	s := &rpcx.DirectClientSelector{Network: "tcp", Address: address, Timeout: 10 * time.Second}
	t.Cleanup(func() { closeAll(t, s) })
	return s
}

func closeAll(t *testing.T, closers ...io.Closer) {
	t.Helper()
	for _, c := range closers {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
}

// nobody returns an address without a listener.
func nobody(t *testing.T) string {
	t.Helper()
	return registrytest.FreeAddress(t)
}

// mul makes a call as programs do, and returns the result.
func mul(t *testing.T, s rpcx.ClientSelector, mode rpcx.FailMode) (int, error) {
	t.Helper()
	c := rpcx.NewClient(s)
	defer closeAll(t, c)
	c.FailMode = mode
	var reply Reply
	err := c.Call("Arith.Mul", &Args{7, 8}, &reply)
	return reply.C, err
}

func TestPointToPoint(t *testing.T) {
	s := direct(t, start(t, rpcx.NewServer(), new(Arith)))
	c := rpcx.NewClient(s)
	var reply Reply
	if err := c.Call("Arith.Mul", &Args{7, 8}, &reply); err != nil || reply.C != 56 {
		t.Errorf("%v, %v", reply, err)
	}
	call := <-c.Go("Arith.Mul", &Args{6, 7}, new(Reply), nil).Done
	if call.Error != nil || call.Reply.(*Reply).C != 42 {
		t.Errorf("%v, %v", call.Reply, call.Error)
	}
	err := c.Call("Arith.Fail", &Args{}, &reply)
	if e, ok := errors.AsType[rpc.ServerError](err); !ok || e.Error() != "no, thank you" || err.Error() != "no, thank you" {
		t.Errorf("%T: %v", err, err)
	}
	if err := c.Call("Arith.Error", &Args{}, &reply); tandem.CodeOf(err) != tandem.Internal {
		t.Errorf("a panic: %v", err)
	}
	if err := c.Call("Arith.Mul", &Args{7, 8}, &reply); err != nil {
		t.Errorf("after the panic: %v", err)
	}
	closeAll(t, c)
	if err := c.Call("Arith.Mul", &Args{7, 8}, &reply); !errors.Is(err, rpcx.ErrShutdown) {
		t.Error(err)
	}
	if call := <-c.Go("Arith.Mul", &Args{7, 8}, &reply, nil).Done; !errors.Is(call.Error, rpcx.ErrShutdown) {
		t.Error(call.Error)
	}
}

// TestSelectorIsClosedFirst: a selector may be used after Close, also if it was not used
// before.
func TestSelectorIsClosedFirst(t *testing.T) {
	s := direct(t, start(t, rpcx.NewServer(), new(Arith)))
	for range 2 {
		closeAll(t, s)
		if c, err := mul(t, s, rpcx.Failfast); err != nil || c != 56 {
			t.Errorf("%d, %v", c, err)
		}
	}
}

// servers starts the two servers of rpcx's documentation. It returns them and, in addition,
// dead addresses without a listener.
func servers(t *testing.T, dead int) []clientselector.ServerPair {
	t.Helper()
	pairs := []clientselector.ServerPair{
		{Network: "tcp", Address: start(t, rpcx.NewServer(), new(Arith))},
		{Network: "tcp", Address: start(t, rpcx.NewServer(), new(Arith2))},
	}
	for range dead {
		pairs = append(pairs, clientselector.ServerPair{Network: "tcp", Address: nobody(t)})
	}
	return pairs
}

func multi(t *testing.T, pairs []clientselector.ServerPair, mode rpcx.SelectMode) *clientselector.MultiClientSelector {
	t.Helper()
	s := clientselector.NewMultiClientSelector(pairs, mode, 10*time.Second)
	t.Cleanup(func() { closeAll(t, s) })
	return s
}

// TestRoundRobinGoesOn: a selector keeps its position from one client to the next. The calls of
// ten clients, one each, alternate between two servers.
func TestRoundRobinGoesOn(t *testing.T) {
	s := multi(t, servers(t, 0), rpcx.RoundRobin)
	count := map[int]int{}
	last := 0
	for range 10 {
		c, err := mul(t, s, rpcx.Failfast)
		if err != nil || c == last {
			t.Errorf("%d after %d, %v", c, last, err)
		}
		last = c
		count[c]++
	}
	if count[56] != 5 || count[560] != 5 {
		t.Error(count)
	}
}

func TestFailover(t *testing.T) {
	s := multi(t, servers(t, 1), rpcx.RoundRobin)
	for range 10 {
		if c, err := mul(t, s, rpcx.Failover); err != nil || c != 56 && c != 560 {
			t.Errorf("%d, %v", c, err)
		}
	}
}

func TestSelectModes(t *testing.T) {
	pairs := servers(t, 0)
	for _, mode := range []rpcx.SelectMode{
		rpcx.RandomSelect, rpcx.WeightedRoundRobin, rpcx.WeightedICMP, rpcx.ConsistentHash, rpcx.Closest, rpcx.CallLeast,
	} {
		s := multi(t, pairs, mode)
		seen := map[int]bool{}
		for range 40 {
			c, err := mul(t, s, rpcx.Failfast)
			if err != nil {
				t.Errorf("mode %d: %v", mode, err)
			}
			seen[c] = true
		}
		if mode == rpcx.ConsistentHash && len(seen) != 1 || mode == rpcx.RandomSelect && len(seen) != 2 {
			t.Errorf("mode %d: %v", mode, seen)
		}
	}
}

// TestNoServer: without a listener, every mode fails soon.
func TestNoServer(t *testing.T) {
	for _, mode := range []rpcx.FailMode{rpcx.Failfast, rpcx.Failover, rpcx.Failtry, rpcx.Broadcast, rpcx.Forking} {
		s := direct(t, nobody(t))
		if _, err := mul(t, s, mode); err == nil {
			t.Errorf("mode %d: no error", mode)
		}
	}
	for _, mode := range []rpcx.FailMode{rpcx.Broadcast, rpcx.Forking} {
		if c, err := mul(t, multi(t, servers(t, 0), rpcx.RandomSelect), mode); err != nil || c != 56 && c != 560 {
			t.Errorf("mode %d: %d, %v", mode, c, err)
		}
	}
}

const token = "0b79bab50daca910b000d4f1a2b675d604257e42"

// authorize is the function of rpcx's documentation.
func authorize(p *plugin.AuthorizationAndServiceMethod) error {
	if p.Authorization != token || p.Tag != "Bearer" || !strings.HasPrefix(p.ServiceMethod, "Arith.") {
		return errors.New("Authorization failed ")
	}
	return nil
}

// TestAuth: the right token is accepted, and a wrong one is refused with the function's error
// text, with tandem's protocol, the program's own codecs, and its own selector. Clients of
// net/rpc, which can't send credentials, are refused, too.
func TestAuth(t *testing.T) {
	plain, coded := rpcx.NewServer(), rpcx.NewServer()
	coded.ServerCodecFunc = jsonrpc.NewServerCodec
	for _, srv := range []*rpcx.Server{plain, coded} {
		if err := srv.Auth(authorize); err != nil {
			t.Fatal(err)
		}
	}
	at, atCoded := start(t, plain, new(Arith)), start(t, coded, new(Arith))
	for name, s := range map[string]struct {
		selector rpcx.ClientSelector
		codec    rpcx.ClientCodecFunc
	}{
		"tandem":      {direct(t, at), nil},
		"own codec":   {direct(t, atCoded), jsonrpc.NewClientCodec},
		"own choice":  {own(at), nil},
		"both":        {own(atCoded), jsonrpc.NewClientCodec},
		"many":        {multi(t, []clientselector.ServerPair{{Network: "tcp", Address: atCoded}}, rpcx.RoundRobin), jsonrpc.NewClientCodec},
		"beside them": {direct(t, atCoded), nil},
	} {
		for sent, want := range map[[2]string]string{
			{token, "Bearer"}:          "",
			{token + "_ABC", "Bearer"}: "Authorization failed ",
			{token, "Basic"}:           "Authorization failed ",
			{token, ""}:                "Authorization failed ",
			{"", ""}:                   "Authorization failed ",
		} {
			c := rpcx.NewClient(s.selector)
			c.ClientCodecFunc = s.codec
			if sent != [2]string{} {
				if err := c.Auth(sent[0], sent[1]); err != nil {
					t.Error(err)
				}
			}
			var reply Reply
			err := c.Call("Arith.Mul", &Args{7, 8}, &reply)
			if want == "" && (err != nil || reply.C != 56) || want != "" && (err == nil || err.Error() != want) {
				t.Errorf("%s, %q: %v, %v", name, sent, reply, err)
			}
			closeAll(t, c)
		}
	}
	old, err := rpc.Dial("tcp", at)
	if err != nil {
		t.Fatal(err)
	}
	if err := old.Call("Arith.Mul", &Args{7, 8}, new(Reply)); err == nil || err.Error() != "Authorization failed " {
		t.Error(err)
	}
	_ = old.Close()
}

// own is a selector as programs write it.
type own string

func (s own) Select(f rpcx.ClientCodecFunc) (*rpc.Client, error) {
	conn, err := net.Dial("tcp", string(s))
	if err != nil {
		return nil, err
	}
	return rpc.NewClientWithCodec(f(conn)), nil
}

// TestOwnCodecs uses a program's own codecs, with every fail mode that supports them, and round
// robin across clients.
func TestOwnCodecs(t *testing.T) {
	var pairs []clientselector.ServerPair
	for _, rcvr := range []any{new(Arith), new(Arith2)} {
		srv := rpcx.NewServer()
		srv.ServerCodecFunc = jsonrpc.NewServerCodec
		pairs = append(pairs, clientselector.ServerPair{Network: "tcp", Address: start(t, srv, rcvr)})
	}
	s := multi(t, pairs, rpcx.RoundRobin)
	count := map[int]int{}
	for range 10 {
		c := rpcx.NewClient(s)
		c.ClientCodecFunc = jsonrpc.NewClientCodec
		var reply Reply
		if err := c.Call("Arith.Mul", &Args{7, 8}, &reply); err != nil {
			t.Error(err)
		}
		count[reply.C]++
		closeAll(t, c)
	}
	if count[56] != 5 || count[560] != 5 {
		t.Error(count)
	}
	s = multi(t, append(pairs, clientselector.ServerPair{Network: "tcp", Address: nobody(t)}), rpcx.RoundRobin)
	c := rpcx.NewClient(s)
	defer closeAll(t, c)
	c.ClientCodecFunc, c.FailMode = jsonrpc.NewClientCodec, rpcx.Failover
	for range 10 {
		if err := c.Call("Arith.Mul", &Args{7, 8}, new(Reply)); err != nil {
			t.Error(err)
		}
	}
	c.FailMode = rpcx.Failtry
	failed := 0
	for range 3 {
		if err := c.Call("Arith.Mul", &Args{7, 8}, new(Reply)); err != nil {
			failed++
		}
	}
	if failed > 1 { // Failtry chooses again only if it could not connect
		t.Errorf("%d calls failed", failed)
	}
	c.FailMode = rpcx.Broadcast
	if err := c.Call("Arith.Mul", &Args{7, 8}, new(Reply)); err == nil {
		t.Error("broadcast with a codec")
	}
	c.FailMode, c.Timeout = rpcx.Failfast, time.Nanosecond
	if err := c.Call("Arith.Mul", &Args{7, 8}, new(Reply)); !errors.Is(err, context.DeadlineExceeded) && !isRefused(err) {
		t.Error(err)
	}
}

func isRefused(err error) bool { return err != nil && strings.Contains(err.Error(), "refused") }

// TestConnectionIsLost: a connection that ends is replaced for later calls, with a selector of
// this module and with a program's own.
func TestConnectionIsLost(t *testing.T) {
	for name, of := range map[string]func(address string) rpcx.ClientSelector{
		"ours": func(a string) rpcx.ClientSelector { return direct(t, a) },
		"own":  func(a string) rpcx.ClientSelector { return own(a) },
	} {
		srv := rpcx.NewServer()
		srv.ServerCodecFunc = jsonrpc.NewServerCodec
		address := start(t, srv, new(Arith))
		c := rpcx.NewClient(of(address))
		c.ClientCodecFunc, c.FailMode = jsonrpc.NewClientCodec, rpcx.Failtry
		if err := c.Call("Arith.Mul", &Args{7, 8}, new(Reply)); err != nil {
			t.Error(name, err)
		}
		closeAll(t, srv)
		if err := c.Call("Arith.Mul", &Args{7, 8}, new(Reply)); err == nil {
			t.Errorf("%s: a server that is gone answers", name)
		}
		again := rpcx.NewServer()
		again.ServerCodecFunc = jsonrpc.NewServerCodec
		if err := errors.Join(again.RegisterName("Arith", new(Arith)), again.Start("tcp", address)); err != nil {
			t.Fatal(err)
		}
		if err := c.Call("Arith.Mul", &Args{7, 8}, new(Reply)); err != nil {
			t.Errorf("%s: after the server has come back: %v", name, err)
		}
		closeAll(t, c, again)
	}
}

// TestManyAtATime: many clients of one selector make calls at the same time, and one of them is
// closed during its call.
func TestManyAtATime(t *testing.T) {
	entered, leave := make(chan struct{}), make(chan struct{})
	srv := rpcx.NewServer()
	address := start(t, srv, new(Arith))
	if err := srv.RegisterName("T", &Waits{entered, leave}); err != nil {
		t.Fatal(err)
	}
	s := direct(t, address)
	waiting := rpcx.NewClient(s)
	call := waiting.Go("T.Wait", &Args{}, new(Reply), nil)
	<-entered
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 20 {
				if c, err := mul(t, s, rpcx.Failover); err != nil || c != 56 {
					t.Errorf("%d, %v", c, err)
				}
			}
		})
	}
	wg.Wait()
	closeAll(t, waiting)
	if err := (<-call.Done).Error; err == nil {
		t.Error("a call goes on after its client was closed")
	}
	close(leave)
}

// Waits is a service that waits.
type Waits struct{ entered, leave chan struct{} }

func (w *Waits) Wait(*Args, *Reply) error {
	close(w.entered)
	<-w.leave
	return nil
}

func TestTLS(t *testing.T) {
	serverTLS, clientTLS := testcert.Pair(t, "localhost")
	srv := rpcx.NewServer()
	srv.TLSConfig = serverTLS
	address := start(t, srv, new(Arith))
	s := &rpcx.DirectClientSelector{Network: "tcp", Address: address, DialTimeout: time.Minute, TLS: clientTLS}
	defer closeAll(t, s)
	if c, err := mul(t, s, rpcx.Failfast); err != nil || c != 56 {
		t.Errorf("%d, %v", c, err)
	}
	many := clientselector.NewTLSMultiClientSelector([]clientselector.ServerPair{{Network: "tcp", Address: address}}, rpcx.RandomSelect, time.Minute, clientTLS)
	defer closeAll(t, many)
	if c, err := mul(t, many, rpcx.Failfast); err != nil || c != 56 {
		t.Errorf("%d, %v", c, err)
	}
	stranger := direct(t, address)
	if _, err := mul(t, stranger, rpcx.Failfast); err == nil {
		t.Error("a client without TLS is served")
	}
}

// recorder is a plugin with all of rpcx's interfaces.
type recorder struct {
	mu     sync.Mutex
	seen   []string
	refuse string
}

func (p *recorder) note(point, what string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seen = append(p.seen, point)
	if p.refuse == point {
		return fmt.Errorf("refused %s at %s", what, point)
	}
	return nil
}

func (p *recorder) Register(name string, _ any, metadata ...string) error {
	return p.note("Register", name+strings.Join(metadata, ","))
}
func (p *recorder) HandleConnAccept(net.Conn) bool { return p.note("HandleConnAccept", "") == nil }
func (p *recorder) PreReadRequestHeader(r *rpc.Request) error {
	return p.note("PreReadRequestHeader", r.ServiceMethod)
}
func (p *recorder) PostReadRequestHeader(r *rpc.Request) error {
	return p.note("PostReadRequestHeader", r.ServiceMethod)
}
func (p *recorder) PreReadRequestBody(any) error { return p.note("PreReadRequestBody", "") }
func (p *recorder) PostReadRequestBody(body any) error {
	return p.note("PostReadRequestBody", fmt.Sprint(body))
}
func (p *recorder) PreWriteResponse(r *rpc.Response, body any) error {
	return p.note("PreWriteResponse", fmt.Sprint(r.ServiceMethod, body))
}
func (p *recorder) PostWriteResponse(r *rpc.Response, _ any) error {
	return p.note("PostWriteResponse", r.Error)
}
func (p *recorder) PreWriteRequest(r *rpc.Request, _ any) error {
	return p.note("PreWriteRequest", r.ServiceMethod)
}
func (p *recorder) PostReadResponseHeader(r *rpc.Response) error {
	return p.note("PostReadResponseHeader", r.Error)
}
func (p *recorder) PostReadResponseBody(body any) error {
	return p.note("PostReadResponseBody", fmt.Sprint(body))
}

// TestPlugins: every interface of server and client plugins is called, in order, and each can
// refuse a call with its own error text.
func TestPlugins(t *testing.T) {
	points := []string{
		"PreWriteRequest", "PreReadRequestHeader", "PostReadRequestHeader", "PreReadRequestBody", "PostReadRequestBody",
		"PreWriteResponse", "PostReadResponseHeader", "PostReadResponseBody",
	}
	for _, refuse := range append([]string{"", "PostWriteResponse"}, points...) {
		p := &recorder{}
		srv := rpcx.NewServer()
		if err := srv.PluginContainer.Add(p); err != nil {
			t.Fatal(err)
		}
		s := direct(t, start(t, srv, new(Arith)))
		c := rpcx.NewClient(s)
		if err := c.PluginContainer.Add(p); err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(p.seen, " "); got != "Register" {
			t.Errorf("when it is registered: %s", got)
		}
		p.mu.Lock()
		p.refuse, p.seen = refuse, nil
		p.mu.Unlock()
		var reply Reply
		err := c.Call("Arith.Mul", &Args{7, 8}, &reply)
		closeAll(t, c, srv) // Close waits for the plugins after the response
		switch {
		case refuse == "" && err == nil && reply.C == 56:
			seen := p.without("PostWriteResponse")
			if want := "HandleConnAccept " + strings.Join(points, " "); seen != want {
				t.Errorf("%s\nwant %s", seen, want)
			}
		case refuse == "PostWriteResponse" && err == nil: // the response has been sent
		case refuse != "" && err != nil && strings.Contains(err.Error(), "at "+refuse):
		default:
			t.Errorf("refused at %q: %v, %v", refuse, reply, err)
		}
	}
}

// without returns the recorded points without one of them, which must be among them.
func (p *recorder) without(point string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := slices.Index(p.seen, point)
	if i < 0 {
		return "no " + point
	}
	return strings.Join(slices.Delete(p.seen, i, i+1), " ")
}

func TestPluginContainers(t *testing.T) {
	srv := rpcx.NewServer()
	p := &recorder{}
	if err := errors.Join(srv.PluginContainer.Add(p), srv.PluginContainer.Remove(p)); err != nil || len(srv.PluginContainer.GetAll()) > 0 {
		t.Error(err)
	}
	if srv.PluginContainer.Add(7) == nil || srv.PluginContainer.Remove(p) == nil || rpcx.NewClient(nil).PluginContainer.Add(7) == nil {
		t.Error("what is no plugin was taken")
	}
	metrics := plugin.NewMetricsPlugin()
	limit := plugin.NewRateLimitingPlugin(time.Hour, 2)
	if err := errors.Join(srv.PluginContainer.Add(metrics), srv.PluginContainer.Add(limit), srv.PluginContainer.Add(&plugin.LogRegisterPlugin{})); err != nil {
		t.Error(err)
	}
	s := direct(t, start(t, srv, new(Arith)))
	for i, want := range []tandem.Code{tandem.OK, tandem.OK, tandem.ResourceExhausted} {
		if _, err := mul(t, s, rpcx.Failfast); tandem.CodeOf(err) != want {
			t.Errorf("call %d: %v, want %v", i, err, want)
		}
	}
	mul := metrics.Snapshot()
	if len(mul) != 3 || mul[2].Method != "Arith.Mul" || mul[2].Calls() != 3 || mul[2].Errors[tandem.ResourceExhausted] != 1 || mul[2].Latency.Sum <= 0 {
		t.Errorf("%+v", mul)
	}
}

// TestServersErrors: invalid services and addresses are errors.
func TestServersErrors(t *testing.T) {
	srv := rpcx.NewServer()
	if srv.RegisterName("T", struct{}{}) == nil || srv.Register(nil) == nil {
		t.Error("a service without methods is registered")
	}
	if err := errors.Join(srv.Register(new(Arith)), srv.RegisterName("Other", new(Arith))); err != nil {
		t.Error(err)
	}
	if srv.Register(new(Arith)) == nil {
		t.Error("a name is taken twice")
	}
	if srv.Start("tcp", "nowhere.invalid:1") == nil || srv.Serve("none", "x") == nil {
		t.Error("it listens where it can't")
	}
	closeAll(t, srv)
	if srv.Start("tcp", "127.0.0.1:0") == nil {
		t.Error("it serves after it was closed")
	}
	if _, err := srv.Core(); err == nil {
		t.Error("it has a core after it was closed")
	}
}
