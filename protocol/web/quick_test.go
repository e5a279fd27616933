package web_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/protocol/web"
	"github.com/tandem-rpc/tandem/server"
)

// grpcAnswer is the response to a call over gRPC.
type grpcAnswer struct {
	header, trailer map[string]string
	body            string
}

// The ways of a request.
const (
	together = iota // the header and the message come in one read
	apart           // the message comes after the header
	long            // the header announces a trailer, which net/http's and connect's way needs
)

// callGRPC makes a call with frames of its own.
func (w *webTest) callGRPC(path string, way int, message []byte, fields ...string) (a grpcAnswer) {
	w.Helper()
	c, err := w.net.Dial(w.Context(), "a")
	w.must(err)
	defer c.Close()
	w.must(c.SetDeadline(time.Now().Add(patience)))
	body := message
	if !slices.Contains(fields, "application/proto") && !slices.Contains(fields, "application/json") {
		body = append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message))), message...)
	}
	fields = append([]string{":method", "POST", ":scheme", "http", ":path", path, ":authority", "localhost", "te", "trailers"}, fields...)
	if way == long {
		fields = append(fields, "trailer", "none")
	}
	var out, block bytes.Buffer
	packer := hpack.NewEncoder(&block)
	for i := 0; i < len(fields); i += 2 {
		w.must(packer.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]}))
	}
	out.WriteString(http2.ClientPreface)
	framer := http2.NewFramer(&out, c)
	w.must(framer.WriteSettings())
	w.must(framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block.Bytes(), EndHeaders: true}))
	first := out.Len()
	w.must(framer.WriteData(1, true, body))
	if way != apart {
		first = out.Len()
	}
	go func() { // an error shows when the answer is read
		_, _ = c.Write(out.Bytes()[:first])
		_, _ = c.Write(out.Bytes()[first:])
	}()
	framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	for {
		f, err := framer.ReadFrame()
		if err != nil {
			w.Fatal(err)
		}
		switch f := f.(type) {
		case *http2.MetaHeadersFrame:
			got := map[string]string{}
			for _, h := range f.Fields {
				got[h.Name] = h.Value
			}
			if a.trailer = got; a.header == nil {
				a.header = got
			}
			if f.StreamEnded() {
				return a
			}
		case *http2.DataFrame:
			if a.body += string(f.Data()); f.StreamEnded() {
				return a
			}
		case *http2.RSTStreamFrame:
			w.Fatalf("reset: %v", f.ErrCode)
		}
	}
}

// message returns the body of the response with its first message decompressed.
func (a *grpcAnswer) message(t *testing.T) string {
	t.Helper()
	packed, rest := a.body, ""
	switch {
	case a.header["content-encoding"] == "gzip":
	case len(a.body) > 5 && a.body[0] == 1:
		n := 5 + binary.BigEndian.Uint32([]byte(a.body[1:5]))
		packed, rest = a.body[5:n], a.body[n:]
	default:
		return a.body
	}
	z, err := gzip.NewReader(strings.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return string(text) + rest
}

// said returns the fields of the header and trailer that matter to a client. An error may come in a
// header that is the trailer as well.
func (a *grpcAnswer) said() map[string]string {
	all := maps.Clone(a.header)
	maps.Copy(all, a.trailer)
	for _, name := range []string{"date", "content-length", "trailer", "grpc-accept-encoding", "accept-encoding"} {
		delete(all, name)
	}
	return all
}

// A unary call over gRPC whose request comes whole is answered as any other.
func TestQuickCalls(t *testing.T) {
	w := newWebTest(t, web.New(), server.WithInterceptors(func(next tandem.Func) tandem.Func {
		return func(ctx context.Context, call *tandem.Call) error {
			if call.Metadata.Get("who") == "nobody" {
				return tandem.Errorf(tandem.PermissionDenied, "not for nobody")
			}
			call.Trailer = tandem.Metadata{"seen": {call.Metadata.Get("who")}, "raw-bin": {"\x00\x01"}}
			return next(ctx, call)
		}
	}))
	w.must(server.Handle(w.srv, "Text.Say", func(ctx context.Context, in *wrapperspb.StringValue) (*wrapperspb.StringValue, error) {
		web.Header(ctx).Set("Said", in.GetValue())
		if r := web.Request(ctx); r.URL.Path != "/Text/Say" || r.Header.Get("TE") != "trailers" {
			return nil, tandem.Errorf(tandem.Internal, "the request is %v", r)
		}
		switch in.GetValue() {
		case "fail":
			return nil, &tandem.Error{Code: tandem.NotFound, Message: "no ünicode, 100 %\n", RetryAfter: time.Second, Details: []tandem.Detail{{Type: "a.B", Value: []byte{8, 1}}}}
		case "wait":
			<-ctx.Done()
			return nil, ctx.Err()
		}
		return wrapperspb.String(strings.Repeat(in.GetValue(), 3)), nil
	}))
	grpc, grpcWeb, connect := []string{"content-type", "application/grpc"}, []string{"content-type", "application/grpc-web"}, []string{"content-type", "application/proto"}
	for name, row := range map[string]struct {
		path, text string
		fields     []string
	}{
		"small":           {"/Text/Say", "a", append(grpc, "who", "me")},
		"proto":           {"/Text/Say", "a", []string{"content-type", "application/grpc+proto", "grpc-timeout", "10S"}},
		"large":           {"/Text/Say", strings.Repeat("large", 3000), append(grpc, "grpc-accept-encoding", "identity")},
		"gRPC compressed": {"/Text/Say", strings.Repeat("large", 3000), append(grpc, "grpc-accept-encoding", "identity, deflate, gzip", "grpc-encoding", "gzip")},
		"binary":          {"/Text/Say", "a", append(grpc, "who-bin", "AAEC")},
		"error":           {"/Text/Say", "fail", append(grpc, "who", "me")},
		"refused":         {"/Text/Say", "a", append(grpc, "who", "nobody")},
		"in time":         {"/Text/Say", "wait", append(grpc, "grpc-timeout", "200m")},
		"no method":       {"/Text/Missing", "a", grpc},
		"encoding":        {"/Text/Say", "a", append(grpc, "grpc-encoding", "br")},
		"timeout":         {"/Text/Say", "a", append(grpc, "grpc-timeout", "soon")},
		"two logins":      {"/Text/Say", "a", append(grpc, "authorization", "a", "authorization", "b")},
		"no message":      {"/Text/Say", "\xff\xff", grpc},
		"length":          {"/Text/Say", "a", append(grpc, "content-length", "8")},

		"web":            {"/Text/Say", "a", append(grpcWeb, "who", "me")},
		"web proto":      {"/Text/Say", "a", []string{"content-type", "application/grpc-web+proto", "grpc-timeout", "10S"}},
		"web compressed": {"/Text/Say", strings.Repeat("large", 3000), append(grpcWeb, "grpc-accept-encoding", "gzip", "grpc-encoding", "gzip")},
		"compression":    {"/Text/Say", strings.Repeat("large", 3000), append(grpc, "grpc-accept-encoding", "gzip")},
		"web error":      {"/Text/Say", "fail", append(grpcWeb, "who", "me")},
		"web refused":    {"/Text/Say", "a", append(grpcWeb, "who", "nobody")},
		"web in time":    {"/Text/Say", "wait", append(grpcWeb, "grpc-timeout", "200m")},

		"connect":            {"/Text/Say", "a", append(connect, "connect-protocol-version", "1", "connect-timeout-ms", "10000")},
		"connect version":    {"/Text/Say", "a", append(connect, "connect-protocol-version", "2")},
		"connect compressed": {"/Text/Say", strings.Repeat("large", 3000), append(connect, "accept-encoding", "gzip")},
		"accepts compressed": {"/Text/Say", strings.Repeat("large", 3000), append([]string{"accept-encoding", "gzip"}, connect...)},
		"connect two types":  {"/Text/Say", "a", append(connect, "content-type", "application/json")},
		"two timeouts":       {"/Text/Say", "a", append(connect, "connect-timeout-ms", "10000", "connect-timeout-ms", "1")},
		"another's timeout":  {"/Text/Say", "a", append(connect, "grpc-timeout", "1n")},
		"connect large":      {"/Text/Say", strings.Repeat("large", 3000), connect},
		"connect error":      {"/Text/Say", "fail", append(connect, "who", "me")},
		"connect refused":    {"/Text/Say", "a", append(connect, "who", "nobody")},
		"connect in time":    {"/Text/Say", "wait", append(connect, "connect-timeout-ms", "200")},
		"connect timeout":    {"/Text/Say", "wait", append(connect, "connect-timeout-ms", "soon")},
		"connect none":       {"/Text/Say", "\xff\xff", connect},
		"JSON":               {"/Text/Say", "a", []string{"content-type", "application/json"}},
	} {
		t.Run(name, func(t *testing.T) {
			v := &webTest{T: t, net: w.net, srv: w.srv}
			message := append([]byte{0x0a}, binary.AppendUvarint(nil, uint64(len(row.text)))...)
			message = append(message, row.text...)
			if strings.HasSuffix(name, "none") || name == "no message" {
				message = []byte(row.text)
			}
			if name == "JSON" {
				message = []byte(strconv.Quote(row.text))
			}
			want := v.callGRPC(row.path, long, message, row.fields...)
			for _, way := range []int{together, apart} {
				quick := v.callGRPC(row.path, way, message, row.fields...)
				if got, want := quick.said(), want.said(); !maps.Equal(got, want) {
					t.Errorf("the quick way:\n%v\nthe long way:\n%v", got, want)
				}
				if got, want := quick.message(t), want.message(t); got != want {
					t.Errorf("the quick way:\n%q\nthe long way:\n%q", got, want)
				}
			}
			if packed := want.header["grpc-encoding"] == "gzip" || want.header["content-encoding"] == "gzip"; packed != strings.HasSuffix(name, " compressed") {
				t.Errorf("compressed: %v", packed)
			}
			if want.said()["grpc-status"] == "" && slices.Contains(row.fields, "application/grpc") && name != "two logins" {
				t.Errorf("no status: %v", want.said())
			}
		})
	}
}

// A call that its client has reset before it began is not made.
func TestQuickCallsThatAreReset(t *testing.T) {
	w := newWebTest(t, web.New())
	var made atomic.Int32
	w.must(server.Handle(w.srv, "Text.Note", func(_ context.Context, in *wrapperspb.StringValue) (*wrapperspb.StringValue, error) {
		made.Add(1)
		return in, nil
	}))
	c, err := w.net.Dial(t.Context(), "a")
	w.must(err)
	defer c.Close()
	w.must(c.SetDeadline(time.Now().Add(patience)))
	var out, block bytes.Buffer
	framer, packer := http2.NewFramer(&out, c), hpack.NewEncoder(&block)
	out.WriteString(http2.ClientPreface)
	w.must(framer.WriteSettings())
	_, err = c.Write(out.Bytes())
	w.must(err)
	out.Reset()
	const last = 7 // all of it is read at once, as over a network: in memory that is 256 bytes
	for id := uint32(1); id <= last; id += 2 {
		block.Reset()
		for _, f := range [][2]string{{":method", "POST"}, {":scheme", "http"}, {":path", "/Text/Note"}, {":authority", "localhost"}, {"content-type", "application/grpc"}} {
			w.must(packer.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]}))
		}
		w.must(framer.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: block.Bytes(), EndHeaders: true}))
		w.must(framer.WriteData(id, true, []byte{0, 0, 0, 0, 0}))
		if id < last {
			w.must(framer.WriteRSTStream(id, http2.ErrCodeCancel))
		}
	}
	go func() { _, _ = c.Write(out.Bytes()) }() // an error shows when the answer is read
	for {
		f, err := framer.ReadFrame()
		w.must(err)
		if f.Header().StreamID == last && f.Header().Flags.Has(http2.FlagHeadersEndStream) {
			break
		}
	}
	if !*netHTTP2 && made.Load() != 1 { // net/http begins each request in a goroutine, which may be quicker
		t.Errorf("%d calls were made, want one", made.Load())
	}
}
