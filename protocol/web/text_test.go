package web_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/protocol/web"
	"github.com/tandem-rpc/tandem/server"
)

const webText = "application/grpc-web-text"

// frame returns a frame of gRPC-Web.
func webFrame(flags byte, message []byte) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{flags}, uint32(len(message))), message...)
}

// webFrames decodes a response of gRPC-Web in text mode: base64 in quanta of four characters, any
// of which may be padded, then frames.
func webFrames(t *testing.T, body string) (messages []string, trailer string) {
	t.Helper()
	var b []byte
	for ; len(body) >= 4; body = body[4:] {
		quantum, err := base64.StdEncoding.DecodeString(body[:4])
		if err != nil {
			t.Fatal(err)
		}
		b = append(b, quantum...)
	}
	if body != "" {
		t.Fatalf("%q is left of the base64", body)
	}
	for len(b) > 0 {
		end := 5 + int(binary.BigEndian.Uint32(b[1:]))
		if b[0] == 0x80 {
			return messages, string(b[5:end])
		}
		messages, b = append(messages, string(b[5:end])), b[end:]
	}
	return messages, ""
}

func newTextTest(t *testing.T) *webTest {
	w := newWebTest(t, web.New(web.WithCORS(web.CORS{Origins: []string{"https://shop.example"}})))
	w.must(server.Handle(w.srv, "test.v1.Text.Upper", func(ctx context.Context, s *text) (*text, error) {
		if s.GetValue() == "" {
			return nil, tandem.Errorf(tandem.InvalidArgument, "empty")
		}
		tandem.FromContext(ctx).Trailer = tandem.Metadata{"protocol": {tandem.FromContext(ctx).Peer.Protocol}}
		return &text{Value: strings.ToUpper(s.GetValue())}, nil
	}))
	w.must(server.HandleStream(w.srv, "test.v1.Text.Letters", func(_ context.Context, s *tandem.Stream[text, text]) error {
		m, err := s.Recv()
		if err != nil {
			return err
		}
		for _, r := range m.GetValue() {
			if err := s.Send(&text{Value: string(r)}); err != nil {
				return err
			}
		}
		return tandem.Errorf(tandem.OutOfRange, "no more")
	}))
	return w
}

func TestGRPCWebText(t *testing.T) {
	w := newTextTest(t)
	message, err := proto.Marshal(&text{Value: "abc"})
	w.must(err)
	encode := func(parts ...[]byte) (s string) {
		for _, p := range parts {
			s += base64.StdEncoding.EncodeToString(p)
		}
		return s
	}
	frame := webFrame(0, message)
	for _, c := range []struct {
		name, path, contentType, accept, body string
		messages                              []string
		trailer                               string
	}{
		{"unary", "Upper", webText, webText, encode(frame), []string{"ABC"}, "grpc-status: 0"},
		{"metadata", "Upper", webText + "+proto", webText + "+proto", encode(frame), []string{"ABC"}, "protocol: grpc-web"},
		{"pieces", "Upper", webText, "", encode(frame[:1], frame[1:5], frame[5:]), []string{"ABC"}, "grpc-status: 0"},
		{"text for bytes", "Upper", "application/grpc-web+proto", webText, string(frame), []string{"ABC"}, "grpc-status: 0"},
		{"JSON", "Upper", webText + "+json", "*/*", encode(webFrame(0, []byte(`"abc"`))), []string{`"ABC"`}, "grpc-status: 0"},
		{"stream", "Letters", webText, webText, encode(frame), []string{"a", "b", "c"}, "grpc-status: 11"},
	} {
		for name, client := range map[string]*http.Client{"HTTP/1.1": w.h1, "HTTP/2.0": w.h2} {
			res, err := w.ask(client, "POST /test.v1.Text/"+c.path, c.contentType, c.accept, c.body)
			w.must(err)
			b, err := io.ReadAll(res.Body)
			w.must(errors.Join(err, res.Body.Close()))
			if !strings.HasPrefix(res.Header.Get("Content-Type"), webText) {
				t.Fatalf("%s %s: %d %v %q", name, c.name, res.StatusCode, res.Header, b)
			}
			messages, trailer := webFrames(t, string(b))
			for i, m := range messages {
				if messages[i] = strings.TrimPrefix(m, "\n\x03"); c.name == "stream" {
					messages[i] = strings.TrimPrefix(m, "\n\x01")
				}
			}
			if strings.Join(messages, "|") != strings.Join(c.messages, "|") || !strings.Contains(strings.ToLower(trailer), c.trailer) {
				t.Errorf("%s %s: %q, %q", name, c.name, messages, trailer)
			}
		}
	}
}

// A caller that accepts bytes gets them for a request in text mode.
func TestGRPCWebTextForBytes(t *testing.T) {
	w := newTextTest(t)
	message, err := proto.Marshal(&text{Value: "abc"})
	w.must(err)
	res, err := w.ask(w.h1, "POST /test.v1.Text/Upper", webText, "application/grpc-web+proto", base64.StdEncoding.EncodeToString(webFrame(0, message)))
	w.must(err)
	b, err := io.ReadAll(res.Body)
	w.must(errors.Join(err, res.Body.Close()))
	if !bytes.HasPrefix(b, webFrame(0, []byte("\n\x03ABC"))) || res.Header.Get("Content-Type") != "application/grpc-web" {
		t.Errorf("%q, %q", res.Header.Get("Content-Type"), b)
	}
}

// Requests that are not base64 are refused, by the header as refusals over gRPC-Web are.
func TestGRPCWebTextIsMalformed(t *testing.T) {
	w := newTextTest(t)
	for name, client := range map[string]*http.Client{"HTTP/1.1": w.h1, "HTTP/2.0": w.h2} {
		for body, want := range map[string]string{
			"AAAA*AAA": "its base64 is invalid", "AAAAAAIKA": "its base64 is cut off", "AAAA\nAAA": "its base64 has line breaks",
		} {
			res, err := w.ask(client, "POST /test.v1.Text/Upper", webText, webText, body)
			w.must(err)
			b, err := io.ReadAll(res.Body)
			w.must(errors.Join(err, res.Body.Close()))
			_, trailer := webFrames(t, string(b))
			trailer += "grpc-status: " + res.Header.Get("Grpc-Status") + res.Header.Get("Grpc-Message")
			if !strings.Contains(strings.ToLower(trailer), "grpc-status: 3") || !strings.Contains(trailer, want) {
				t.Errorf("%s %q: %d %v %q", name, body, res.StatusCode, res.Header, trailer)
			}
		}
		res, err := w.ask(client, "POST /test.v1.Text/Lower", webText, webText, "AAAA")
		w.must(err)
		w.must(res.Body.Close())
		if res.Header.Get("Grpc-Status") != "12" || res.Header.Get("Content-Type") != webText {
			t.Errorf("%s: no such method: %v", name, res.Header)
		}
	}
}

// The messages of a stream arrive when they are sent, each padded.
func TestGRPCWebTextStreams(t *testing.T) {
	w := newTextTest(t)
	next := make(chan bool)
	w.must(server.HandleStream(w.srv, "test.v1.Text.Wait", func(_ context.Context, s *tandem.Stream[text, text]) error {
		for range 3 {
			if err := s.Send(&text{Value: "abcd"}); err != nil {
				return err
			}
			<-next
		}
		return nil
	}))
	for _, client := range []*http.Client{w.h1, w.h2} {
		res, err := w.ask(client, "POST /test.v1.Text/Wait", webText, webText, base64.StdEncoding.EncodeToString(webFrame(0, nil)))
		w.must(err)
		in := bufio.NewReader(res.Body)
		for range 3 {
			part := make([]byte, base64.StdEncoding.EncodedLen(11))
			_, err := io.ReadFull(in, part)
			w.must(err)
			if m, _ := webFrames(t, string(part)); len(m) != 1 || m[0] != "\n\x04abcd" {
				t.Errorf("%q", part)
			}
			next <- true
		}
		w.must(res.Body.Close())
	}
}

// Pages of allowed origins may use text mode.
func TestGRPCWebTextCORS(t *testing.T) {
	w := newTextTest(t)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodOptions, "http://tandem.test/test.v1.Text/Upper", http.NoBody)
	w.must(err)
	req.Header = http.Header{
		"Origin": {"https://shop.example"}, "Access-Control-Request-Method": {"POST"},
		"Access-Control-Request-Headers": {"content-type,x-grpc-web,x-user-agent,grpc-timeout"},
	}
	res, err := w.h1.Do(req)
	w.must(err)
	w.must(res.Body.Close())
	allowed := strings.ToLower(res.Header.Get("Access-Control-Allow-Headers"))
	for name := range strings.SplitSeq(req.Header.Get("Access-Control-Request-Headers"), ",") {
		if !strings.Contains(allowed, name) {
			t.Errorf("%s is not in %q", name, allowed)
		}
	}
}
