package thrift_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	apache "github.com/apache/thrift/lib/go/thrift"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/protocol/all"
	"github.com/tandem-rpc/tandem/protocol/thrift"
	"github.com/tandem-rpc/tandem/protocol/thrift/testdata/desk"
	"github.com/tandem-rpc/tandem/server"
)

// withHeaders returns a context whose calls send these headers.
func withHeaders(ctx context.Context, headers map[string]string) context.Context {
	for key, value := range headers {
		ctx = apache.SetHeader(ctx, key, value)
	}
	return apache.SetWriteHeaderList(ctx, slices.Collect(maps.Keys(headers)))
}

// Headers arrive as metadata, and a trailer arrives as headers.
func TestMetadata(t *testing.T) {
	address := serve(t, &office{})
	for dialect, codec := range map[string]string{
		"header binary": "thrift-binary", "header compact": "thrift-compact", "header zlib": "thrift-compact",
	} {
		p := dial(t, address, dialect)
		c := desk.NewDeskClient(apache.NewTStandardClient(p, p))
		got, err := c.Who(withHeaders(t.Context(), map[string]string{"Authorization": "Bearer x", "empty": ""}))
		equal(t, dialect, []any{got, err}, []any{"thrift " + codec + " Bearer x", nil})
		equal(t, dialect, c.LastResponseMeta_().Headers, apache.THeaderMap{"served-by": "the, office"})
	}
	got, err := deskAt(t, address, "framed binary").Who(t.Context())
	equal(t, "without headers", []any{got, err}, []any{"thrift thrift-binary ", nil})
}

// heavy answers with more than a header can hold, or with a response that is compressed.
type heavy struct{ trailer int }

func (h *heavy) Who(ctx context.Context) (string, error) {
	call := tandem.FromContext(ctx)
	call.Trailer = tandem.Metadata{"proof": {strings.Repeat("x", h.trailer)}}
	call.Compressor = ""
	return strings.Repeat("who", 1000), nil
}

// A trailer that does not fit into a header is an error of the call.
func TestTrailerThatDoesNotFit(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	for trailer, want := range map[int]string{1 << 10: "", 300 << 10: "internal: the answer of Desk.Who: metadata of more than 256 KiB"} {
		p := dial(t, serve(t, &heavy{trailer}), "header zlib")
		c := desk.NewDeskClient(apache.NewTStandardClient(p, p))
		if got, err := c.Who(ctx); fmt.Sprint(err) != want && (err != nil || want != "") || err == nil && len(got) != 3000 {
			t.Errorf("trailer of %d bytes: %d bytes, %v; want error %q", trailer, len(got), err, want)
		}
	}
}

// An interceptor refuses a call before its arguments are decoded.
func TestRefusedBeforeDecoding(t *testing.T) {
	guard := func(next tandem.Func) tandem.Func {
		return func(ctx context.Context, call *tandem.Call) error {
			if call.Metadata.Get("authorization") != "Bearer good" {
				return tandem.Errorf(tandem.Unauthenticated, "no token")
			}
			return next(ctx, call)
		}
	}
	p := dial(t, serve(t, &office{}, server.WithInterceptors(guard)), "header compact")
	client := apache.NewTStandardClient(p, p)
	c := desk.NewDeskClient(client)
	nonsense := &desk.DeskNoteArgs{Text: "no number"} // add's first number is missing
	bad, good := withHeaders(t.Context(), map[string]string{"authorization": "Bearer bad"}), withHeaders(t.Context(), map[string]string{"authorization": "Bearer good"})
	for _, step := range []struct {
		ctx  context.Context
		kind int32
		text string
	}{
		{bad, apache.INTERNAL_ERROR, "unauthenticated: no token"},
		{good, apache.PROTOCOL_ERROR, "STRING came where an integer is wanted"},
	} {
		_, err := client.Call(step.ctx, "add", nonsense, &desk.DeskAddResult{})
		e, ok := errors.AsType[apache.TApplicationException](err)
		if !ok || e.TypeId() != step.kind || !strings.Contains(e.Error(), step.text) {
			t.Errorf("%T %v, want %q", err, err, step.text)
		}
	}
	if sum, err := c.Add(good, 1, 2); err != nil || sum != 3 {
		t.Errorf("on the same connection: %v, %v", sum, err)
	}
}

// The timeout in a header is the call's deadline.
func TestDeadline(t *testing.T) {
	left := make(chan time.Duration, 1)
	seen := func(next tandem.Func) tandem.Func {
		return func(ctx context.Context, call *tandem.Call) error {
			left <- time.Until(call.Deadline)
			return next(ctx, call)
		}
	}
	c := deskAt(t, serve(t, &office{}, server.WithInterceptors(seen), server.WithTimeout(time.Hour)), "header binary")
	for header, most := range map[string]time.Duration{"60000": time.Minute, "0": time.Hour, "x": time.Hour, "99999999999999999999": time.Hour} {
		if err := c.Ping(withHeaders(t.Context(), map[string]string{"client_timeout": header})); err != nil {
			t.Fatal(err)
		}
		if got := <-left; got > most || got < most-30*time.Second {
			t.Errorf("%q leaves %v, want %v", header, got, most)
		}
	}
}

// Thrift works with all other protocols on one port, and for multiplexing clients.
func TestWithOtherProtocols(t *testing.T) {
	srv := server.New(server.WithProtocols(append(all.New(), thrift.New())...), server.WithLogger(slog.New(slog.DiscardHandler)))
	for _, name := range []string{"Desk", "other.Desk"} {
		if err := srv.RegisterName(name, &office{}); err != nil {
			t.Fatal(err)
		}
	}
	if err := srv.RegisterFunc("kind_of", func(*desk.Paper) desk.Kind { return desk.Kind_PLAIN }); err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- srv.ServeListener(ln) }()
	for dialect := range dialects {
		p := dial(t, ln.Addr().String(), dialect)
		for _, name := range []string{"Desk", "other.Desk"} {
			c := desk.NewDeskClient(apache.NewTStandardClient(p, apache.NewTMultiplexedProtocol(p, name)))
			sum, err := c.Add(t.Context(), 1, 2)
			equal(t, dialect, []any{sum, err}, []any{int32(3), nil})
		}
		c := desk.NewDeskClient(apache.NewTStandardClient(p, p))
		kind, err := c.KindOf(t.Context(), &desk.Paper{})
		equal(t, "without a service", []any{kind, err}, []any{desk.Kind_PLAIN, nil})
		_, err = c.Add(t.Context(), 1, 2)
		if e, ok := errors.AsType[apache.TApplicationException](err); !ok || e.TypeId() != apache.UNKNOWN_METHOD {
			t.Errorf("%s: %v, want an unknown method", dialect, err)
		}
	}
	_ = srv.Close()
	<-ended
}
