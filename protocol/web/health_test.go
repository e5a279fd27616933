package web_test

import (
	"bytes"
	"encoding/binary"
	"io"
	"net/http"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/tandem-rpc/tandem/protocol/web"
	"github.com/tandem-rpc/tandem/server"
)

func TestHealthCheck(t *testing.T) {
	w := newWebTest(t, web.New())
	h, err := web.RegisterHealth(w.srv)
	w.must(err)
	w.must(w.srv.RegisterName("Arith", arith{}))
	check := func(service, want string) {
		t.Helper()
		if a := w.do(w.h1, "POST /grpc.health.v1.Health/Check", asJSON, `{"service":"`+service+`"}`); !strings.Contains(a.Body, want) {
			t.Errorf("%q is %s, want %s", service, a.Body, want)
		}
	}
	check("", `{"status":"SERVING"}`)
	check("Arith", `{"status":"SERVING"}`)
	check("Ari", `"not_found"`)
	h.Set("Arith", false)
	h.Set("Elsewhere", true)
	check("Arith", `{"status":"NOT_SERVING"}`)
	check("Elsewhere", `{"status":"SERVING"}`)
	if a := w.do(w.h1, "GET /grpc.health.v1.Health/Check", "", ""); a.Body != `{"status":"SERVING"}` {
		t.Error(a)
	}
}

// openGRPC begins a gRPC call by hand, and returns functions to send, to receive and to end
// it.
func (w *webTest) openGRPC(method string) (send func([]byte), receive func() []byte, end func() http.Header) {
	body, write := io.Pipe()
	req, err := http.NewRequestWithContext(w.Context(), http.MethodPost, "http://tandem.test/"+method, body)
	w.must(err)
	req.Header.Set("Content-Type", "application/grpc")
	opened := make(chan *http.Response, 1)
	go func() {
		res, err := w.h2.Do(req) //nolint:bodyclose // end closes it
		if err != nil {
			w.Error(err)
		}
		opened <- res
	}()
	var res *http.Response
	send = func(b []byte) {
		_, err := write.Write(append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(b))), b...))
		w.must(err)
	}
	receive = func() []byte {
		w.Helper()
		if res == nil {
			res = <-opened
		}
		var head [5]byte
		if _, err := io.ReadFull(res.Body, head[:]); err != nil {
			return nil
		}
		b := make([]byte, binary.BigEndian.Uint32(head[1:]))
		_, err := io.ReadFull(res.Body, b)
		w.must(err)
		return b
	}
	end = func() http.Header {
		_ = write.Close()
		if res == nil {
			res = <-opened
		}
		_, _ = io.Copy(io.Discard, res.Body)
		w.must(res.Body.Close())
		return res.Trailer
	}
	return send, receive, end
}

// Watch sends each change, and ends when the server drains, which does not wait for
// watchers.
func TestHealthWatch(t *testing.T) {
	w := newWebTest(t, web.New())
	h, err := web.RegisterHealth(w.srv)
	w.must(err)
	send, receive, end := w.openGRPC("grpc.health.v1.Health/Watch")
	send(nil)
	wants := func(status byte) {
		t.Helper()
		if got := receive(); !bytes.Equal(got, []byte{8, status}) {
			t.Errorf("got %x, want status %d", got, status)
		}
	}
	wants(1)
	h.Set("", false)
	wants(2)
	h.Set("", true)
	wants(1)
	w.must(w.srv.Shutdown(t.Context()))
	wants(2)
	if got := end().Get("Grpc-Status"); got != "14" {
		t.Errorf("status %s at the end, want 14", got)
	}
}

// A service that is watched may be registered later.
func TestHealthWatchBeforeRegistration(t *testing.T) {
	w := newWebTest(t, web.New())
	h, err := web.RegisterHealth(w.srv)
	w.must(err)
	send, receive, end := w.openGRPC("grpc.health.v1.Health/Watch")
	send(ask(1, "later"))
	for _, want := range []byte{3, 1} {
		if got := receive(); !bytes.Equal(got, []byte{8, want}) {
			t.Errorf("got %x, want status %d", got, want)
		}
		h.Set("later", true)
	}
	w.must(w.srv.Shutdown(t.Context()))
	end()
}

// fieldOf returns the bytes of a field of a message.
func fieldOf(b []byte, want protowire.Number) []byte {
	for len(b) > 0 {
		number, kind, n := protowire.ConsumeTag(b)
		b = b[n:]
		size := protowire.ConsumeFieldValue(number, kind, b)
		if number == want {
			if kind != protowire.BytesType {
				return b[:size]
			}
			v, _ := protowire.ConsumeBytes(b)
			return v
		}
		b = b[size:]
	}
	return nil
}

func ask(number protowire.Number, s string) []byte {
	return protowire.AppendString(protowire.AppendTag(nil, number, protowire.BytesType), s)
}

func TestReflection(t *testing.T) {
	w := newWebTest(t, web.New())
	_, err := web.RegisterHealth(w.srv)
	w.must(err)
	w.must(web.RegisterReflection(w.srv))
	w.must(server.Handle(w.srv, "Text.Upper", upper))
	for _, version := range []string{"v1", "v1alpha"} {
		send, receive, end := w.openGRPC("grpc.reflection." + version + ".ServerReflection/ServerReflectionInfo")
		for _, c := range []struct {
			question []byte
			field    protowire.Number // field of the response
			want     string           // a substring of the field
		}{
			{ask(7, ""), 6, "grpc.health.v1.Health"},
			{ask(4, "grpc.health.v1.Health.Watch"), 4, "HealthCheckResponse"},
			{ask(4, "google.protobuf.StringValue"), 4, "google/protobuf/wrappers.proto"},
			{ask(3, "google/protobuf/any.proto"), 4, "type_url"},
			{ask(3, "no/such.proto"), 7, "not found"},
			{ask(4, "no.such.Symbol"), 7, "not found"},
			{ask(6, "google.protobuf.MessageOptions"), 5, "google.protobuf.MessageOptions"},
			{ask(5, "\x0a\x01x\x10\x05"), 7, "not found"},
			{ask(9, ""), 7, "no known kind"},
		} {
			send(c.question)
			if a := receive(); !bytes.Contains(fieldOf(a, c.field), []byte(c.want)) || fieldOf(a, c.field) == nil || !bytes.Equal(fieldOf(a, 2), c.question) {
				t.Errorf("%q: %.200q", c.question, a)
			}
		}
		send(ask(7, ""))
		if a := receive(); bytes.Contains(a, []byte("Text")) {
			t.Errorf("a service without a definition is listed: %q", a)
		}
		if got := end().Get("Grpc-Status"); got != "0" {
			t.Errorf("status %s", got)
		}
	}
}
