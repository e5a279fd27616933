package grpcbridge_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/codec/protobuf"
	"github.com/tandem-rpc/tandem/grpcbridge"
	"github.com/tandem-rpc/tandem/grpcbridge/internal/shop"
	"github.com/tandem-rpc/tandem/grpcbridge/internal/shop/shopconnect"
	"github.com/tandem-rpc/tandem/protocol/web"
	"github.com/tandem-rpc/tandem/server"
)

// carts is written for connect-go.
type carts struct{}

// echo sends metadata back.
func echo(from, header, trailer http.Header) {
	for _, v := range from.Values("Echo-Bin") {
		b, err := connect.DecodeBinaryHeader(v)
		if err != nil {
			b = []byte(err.Error())
		}
		header.Add("Begin-Bin", connect.EncodeBinaryHeader(b))
		trailer.Add("End-Bin", connect.EncodeBinaryHeader(b))
	}
}

func (carts) Add(_ context.Context, req *connect.Request[shop.Item]) (*connect.Response[shop.Cart], error) {
	if req.Msg.GetCount() < 0 {
		err := connect.NewError(connect.CodeOutOfRange, errors.New("less than nothing"))
		d, failed := connect.NewErrorDetail(req.Msg)
		if failed != nil {
			return nil, failed
		}
		err.AddDetail(d)
		err.Meta().Set("Why", "negative")
		return nil, err
	}
	if req.Peer().Addr == "" {
		return nil, errors.New("no peer")
	}
	res := connect.NewResponse(&shop.Cart{Total: req.Msg.GetCount()})
	echo(req.Header(), res.Header(), res.Trailer())
	return res, nil
}

func (carts) Get(_ context.Context, req *connect.Request[shop.Item]) (*connect.Response[shop.Cart], error) {
	return connect.NewResponse(&shop.Cart{Total: int32(len(req.Msg.GetName()))}), nil
}

func (carts) AddAll(_ context.Context, s *connect.ClientStream[shop.Item]) (*connect.Response[shop.Cart], error) {
	total := int32(0)
	for s.Receive() {
		if total += s.Msg().GetCount(); total > 1000 {
			return nil, connect.NewError(connect.CodeResourceExhausted, errors.New("the cart is full"))
		}
	}
	return connect.NewResponse(&shop.Cart{Total: total}), s.Err()
}

func (carts) Items(_ context.Context, req *connect.Request[shop.Cart], s *connect.ServerStream[shop.Item]) error {
	for i := range req.Msg.GetTotal() {
		if err := s.Send(&shop.Item{Count: i}); err != nil {
			return err
		}
	}
	return connect.NewError(connect.CodeDataLoss, errors.New("no more"))
}

func (carts) Follow(_ context.Context, s *connect.BidiStream[shop.Item, shop.Cart]) error {
	echo(s.RequestHeader(), s.ResponseHeader(), s.ResponseTrailer())
	if err := s.Send(nil); err != nil {
		return err
	}
	total := int32(0)
	for {
		item, err := s.Receive()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		total += item.GetCount()
		if err := s.Send(&shop.Cart{Total: total}); err != nil {
			return err
		}
	}
}

// serveCarts serves the handler of connect-go over tandem, and returns its address.
func serveCarts(t *testing.T) string {
	t.Helper()
	srv := server.New(server.WithCodecs(protobuf.Codec()), server.WithProtocols(web.New()))
	path, handler := shopconnect.NewCartsHandler(carts{})
	if err := grpcbridge.RegisterHandler(srv, path, handler); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = srv.ServeListener(l) }()
	t.Cleanup(func() { _ = srv.Close() })
	return l.Addr().String()
}

// runCarts runs a test with a client of connect-go over each of tandem's protocols, each of connect's
// own, and with connect-go's plain client.
func runCarts(t *testing.T, f func(t *testing.T, c shopconnect.CartsClient)) {
	t.Helper()
	for _, scheme := range []string{"tcp", "grpc", "connect"} {
		for name, opts := range map[string][]connect.ClientOption{
			"connect": nil, "gRPC": {connect.WithGRPC()}, "gRPC-Web": {connect.WithGRPCWeb()}, "gzip": {connect.WithSendGzip()},
		} {
			if scheme != "tcp" && name != "connect" && name != "gRPC" {
				continue
			}
			t.Run(name+" over "+scheme, func(t *testing.T) {
				h := grpcbridge.NewHTTPClient(dial(t, scheme+"://"+serveCarts(t)))
				f(t, shopconnect.NewCartsClient(h, "http://tandem", opts...))
			})
		}
	}
	t.Run("plain client", func(t *testing.T) {
		p := new(http.Protocols)
		p.SetUnencryptedHTTP2(true)
		tr := &http.Transport{Protocols: p}
		t.Cleanup(tr.CloseIdleConnections)
		f(t, shopconnect.NewCartsClient(&http.Client{Transport: tr}, "http://"+serveCarts(t)))
	})
}

func checkEcho(t *testing.T, header, trailer http.Header) {
	t.Helper()
	for name, h := range map[string]http.Header{"Begin-Bin": header, "End-Bin": trailer} {
		if b, err := connect.DecodeBinaryHeader(h.Get(name)); err != nil || string(b) != "\x00\xff" {
			t.Errorf("%s: %q, %v", name, b, err)
		}
	}
	if header.Get("End-Bin") != "" || trailer.Get("Begin-Bin") != "" {
		t.Errorf("header %v, trailer %v", header, trailer)
	}
}

func TestConnectUnary(t *testing.T) {
	runCarts(t, func(t *testing.T, c shopconnect.CartsClient) {
		req := connect.NewRequest(&shop.Item{Count: 3})
		req.Header().Set("Echo-Bin", connect.EncodeBinaryHeader([]byte("\x00\xff")))
		res, err := c.Add(patient(t), req)
		if err != nil || res.Msg.GetTotal() != 3 {
			t.Fatal(res, err)
		}
		checkEcho(t, res.Header(), res.Trailer())
		got, err := c.Get(patient(t), connect.NewRequest(&shop.Item{Name: "tea"}))
		if err != nil || got.Msg.GetTotal() != 3 {
			t.Fatal(got, err)
		}
		_, err = c.Add(patient(t), connect.NewRequest(&shop.Item{Count: -1}))
		var e *connect.Error
		if !errors.As(err, &e) || e.Code() != connect.CodeOutOfRange || e.Message() != "less than nothing" || e.Meta().Get("Why") != "negative" {
			t.Fatalf("%v, %v", err, e.Meta())
		}
		if len(e.Details()) != 1 {
			t.Fatal(e.Details())
		}
		if m, err := e.Details()[0].Value(); err != nil || !proto.Equal(m, &shop.Item{Count: -1}) {
			t.Error(m, err)
		}
	})
}

func TestConnectStreams(t *testing.T) {
	runCarts(t, func(t *testing.T, c shopconnect.CartsClient) {
		all := c.AddAll(patient(t))
		for range 4 {
			if err := all.Send(&shop.Item{Count: 5}); err != nil {
				t.Fatal(err)
			}
		}
		res, err := all.CloseAndReceive()
		if err != nil || res.Msg.GetTotal() != 20 {
			t.Fatal(res, err)
		}
		full := c.AddAll(patient(t))
		for err == nil {
			err = full.Send(&shop.Item{Count: 500, Name: strings.Repeat("x", 300<<10)})
		}
		if !errors.Is(err, io.EOF) {
			t.Errorf("Send: %v", err)
		}
		if _, err := full.CloseAndReceive(); connect.CodeOf(err) != connect.CodeResourceExhausted {
			t.Error(err)
		}
		items, err := c.Items(patient(t), connect.NewRequest(&shop.Cart{Total: 7}))
		if err != nil {
			t.Fatal(err)
		}
		n := int32(0)
		for ; items.Receive(); n++ {
			if items.Msg().GetCount() != n {
				t.Errorf("item %d: %d", n, items.Msg().GetCount())
			}
		}
		if n != 7 || connect.CodeOf(items.Err()) != connect.CodeDataLoss {
			t.Error(n, items.Err())
		}
		_ = items.Close()
	})
}

func TestConnectBothWays(t *testing.T) {
	runCarts(t, func(t *testing.T, c shopconnect.CartsClient) {
		s := c.Follow(patient(t))
		s.RequestHeader().Set("Echo-Bin", connect.EncodeBinaryHeader([]byte("\x00\xff")))
		if err := s.Send(nil); err != nil {
			t.Fatal(err)
		}
		header := s.ResponseHeader() // before any message
		for i := range int32(5) {
			if err := s.Send(&shop.Item{Count: 2}); err != nil {
				t.Fatal(err)
			}
			if cart, err := s.Receive(); err != nil || cart.GetTotal() != 2*(i+1) {
				t.Fatal(cart, err)
			}
		}
		if err := s.CloseRequest(); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Receive(); !errors.Is(err, io.EOF) {
			t.Fatal(err)
		}
		checkEcho(t, header, s.ResponseTrailer())
		_ = s.CloseResponse()

		ctx, cancel := context.WithCancel(patient(t))
		left := c.Follow(ctx)
		if err := left.Send(&shop.Item{Count: 2}); err != nil {
			t.Fatal(err)
		}
		if _, err := left.Receive(); err != nil {
			t.Fatal(err)
		}
		cancel()
		if _, err := left.Receive(); connect.CodeOf(err) != connect.CodeCanceled {
			t.Error(err)
		}
		_ = left.CloseResponse()
	})
}

// Clients of tandem, of grpc-go and of HTTP reach a handler of connect-go.
func TestHandlerIsReachable(t *testing.T) {
	addr := serveCarts(t)
	native := dial(t, "tcp://"+addr)
	cart, err := client.Invoke[shop.Cart](patient(t), native, "tandem.bridgetest.v1.Carts.Add", &shop.Item{Count: 4})
	if err != nil || cart.GetTotal() != 4 {
		t.Error(cart, err)
	}
	var e *tandem.Error
	if _, err := client.Invoke[shop.Cart](patient(t), native, "tandem.bridgetest.v1.Carts.Add", &shop.Item{Count: -4}); !errors.As(err, &e) ||
		e.Code != tandem.OutOfRange || len(e.Details) != 1 || e.Details[0].Type != "tandem.bridgetest.v1.Item" {
		t.Error(err)
	}
	conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if cart, err := shop.NewCartsClient(conn).Add(patient(t), &shop.Item{Count: 5}); err != nil || cart.GetTotal() != 5 {
		t.Error(cart, err)
	}
	post, err := http.NewRequestWithContext(patient(t), http.MethodPost, "http://"+addr+"/tandem.bridgetest.v1.Carts/Add", strings.NewReader(`{"count": 6}`))
	if err != nil {
		t.Fatal(err)
	}
	post.Header.Set("Content-Type", "application/json")
	get, err := http.NewRequestWithContext(patient(t), http.MethodGet, "http://"+addr+"/tandem.bridgetest.v1.Carts/Get?name=barley", nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, req := range []*http.Request{post, get} {
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		if body, err := io.ReadAll(res.Body); err != nil || string(body) != `{"total":6}` {
			t.Errorf("%s: %s, %v", req.Method, body, err)
		}
		_ = res.Body.Close()
	}
	http.DefaultClient.CloseIdleConnections()
}

// A panic of a handler is in the server's log, with its stack, and the caller gets Internal.
func TestHandlerPanics(t *testing.T) {
	var log strings.Builder
	srv := server.New(server.WithCodecs(protobuf.Codec()), server.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
	path, handler := shopconnect.NewCartsHandler(bad{})
	if err := grpcbridge.RegisterHandler(srv, path, handler); err != nil {
		t.Fatal(err)
	}
	c, stop := start(srv)
	carts := shopconnect.NewCartsClient(grpcbridge.NewHTTPClient(c), "http://tandem")
	if _, err := carts.Add(patient(t), connect.NewRequest(new(shop.Item))); connect.CodeOf(err) != connect.CodeInternal {
		t.Error(err)
	}
	s := carts.Follow(patient(t))
	_ = s.Send(nil)
	if _, err := s.Receive(); connect.CodeOf(err) != connect.CodeInternal {
		t.Error(err)
	}
	_ = s.CloseResponse()
	stop()
	for _, want := range []string{"out of tea", "out of cups", "bad.Add", "bad.Follow"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log lacks %q: %s", want, log.String())
		}
	}
}

// bad panics.
type bad struct{ carts }

func (bad) Add(context.Context, *connect.Request[shop.Item]) (*connect.Response[shop.Cart], error) {
	panic("out of tea")
}

func (bad) Follow(context.Context, *connect.BidiStream[shop.Item, shop.Cart]) error {
	panic("out of cups")
}

// What a client of connect-go can't do has an error that says so.
func TestHTTPClientRefuses(t *testing.T) {
	c := dial(t, "tcp://"+serveCarts(t))
	for want, h := range map[string]connect.HTTPClient{
		"Protocol Buffers":   grpcbridge.NewHTTPClient(c),
		"there is no caller": grpcbridge.NewHTTPClient(nil),
	} {
		carts := shopconnect.NewCartsClient(h, "http://tandem", connect.WithProtoJSON())
		if _, err := carts.Add(patient(t), connect.NewRequest(new(shop.Item))); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	for path, want := range map[string]string{"/": "names no method", "/tandem.bridgetest.v1.Carts/Unheard": "no generated code", "/un.heard/Add": "no generated code"} {
		req, err := http.NewRequestWithContext(patient(t), http.MethodPost, "http://tandem"+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		res, err := grpcbridge.NewHTTPClient(c).Do(req)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", path, err, want)
		}
		if res != nil {
			_ = res.Body.Close()
		}
	}
}
