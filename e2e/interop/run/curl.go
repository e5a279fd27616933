package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
)

// way is a version of HTTP that curl uses, with TLS or without.
type way struct {
	name    string
	options []string
	secure  bool
	version string // version of HTTP that the response must have
}

var ways = []way{
	{"HTTP/1.0", []string{"--http1.0"}, false, "1"},
	{"HTTP/1.1", []string{"--http1.1"}, false, "1.1"},
	{"HTTP/2 by prior knowledge", []string{"--http2-prior-knowledge"}, false, "2"},
	{"HTTP/1.1 over TLS", []string{"--http1.1"}, true, "1.1"},
	{"HTTP/2 over TLS", []string{"--http2"}, true, "2"},
}

// asked is a request of curl, and what the response must contain.
type asked struct {
	name, path string
	status     string
	want       []string // texts in the header or the body; with "!" before it, the text must be missing
	args       []string
}

const asJSON = "Content-Type: application/json"

var requests = []asked{
	{"POST", "/Arith/Mul", "200", []string{"\n42", "content-type: application/json"}, []string{"-H", asJSON, "-d", `{"a":6,"b":7}`}},
	{"two results", "/Arith/Div", "200", []string{"[3,1]"}, []string{"-H", asJSON, "-d", `[7,2]`}},
	{"a message of Protocol Buffers", "/grpc.testing.TestService/UnaryCall", "200", []string{`"AAAA"`}, []string{"-H", asJSON, "-d", `{"responseSize":3}`}},
	{"GET of a safe method", "/Arith/Mul?message={%22a%22:6,%22b%22:7}", "200", []string{"\n42"}, nil},
	{"GET of another method", "/Arith/Div?message=[7,2]", "405", []string{"allow: ", "application/problem+json"}, nil},
	{"HEAD", "/openapi.json", "200", []string{"content-type: application/vnd.oai.openapi+json"}, []string{"--head"}},
	{"DELETE", "/Arith/Mul", "405", []string{"allow: "}, []string{"-X", "DELETE"}},
	{"no such method", "/Arith/Add", "404", nil, []string{"-H", asJSON, "-d", "{}"}},
	{"another type", "/Arith/Mul", "415", []string{"application/problem+json"}, []string{"-H", "Content-Type: text/plain", "-d", "6 * 7"}},
	{"no JSON", "/Arith/Mul", "400", []string{`"code":"invalid_argument"`}, []string{"-H", asJSON, "-d", "6 * 7"}},
	{"an error of the method", "/Arith/Div", "400", []string{`{"code":"invalid_argument","message":"division by zero"}`}, []string{"-H", asJSON, "-d", `[7,0]`}},
	{"not found", "/grpc.testing.TestService/UnaryCall", "404", []string{`"code":"not_found"`}, status(5)},
	{"unauthenticated", "/grpc.testing.TestService/UnaryCall", "401", []string{`"code":"unauthenticated"`}, status(16)},
	{"permission denied", "/grpc.testing.TestService/UnaryCall", "403", []string{`"code":"permission_denied"`}, status(7)},
	{"resource exhausted", "/grpc.testing.TestService/UnaryCall", "429", []string{`"code":"resource_exhausted"`}, status(8)},
	{"internal", "/grpc.testing.TestService/UnaryCall", "500", []string{`"code":"internal"`}, status(13)},
	{"unavailable", "/grpc.testing.TestService/UnaryCall", "503", []string{`"code":"unavailable"`}, status(14)},
	{"a large message, compressed", "/grpc.testing.TestService/UnaryCall", "200", []string{`"AAAA"`},
		[]string{"-H", asJSON, "-H", "Content-Encoding: gzip", "--data-binary", "@large.json.gz"}},
	{"a large message, after a 100", "/grpc.testing.TestService/UnaryCall", "200", []string{`"AAAA"`},
		[]string{"-H", asJSON, "-H", "Expect: 100-continue", "--data-binary", "@large.json"}},
	{"a compressed answer", "/grpc.testing.TestService/UnaryCall", "200", []string{"content-encoding: gzip", `"AAAAAAAA`},
		[]string{"--compressed", "-H", asJSON, "-d", `{"responseSize":30000}`}},
	{"OpenAPI", "/openapi.json", "200", []string{`"openapi":"3.1`, `"/Arith/Mul"`}, nil},
	{"the page", "/", "200", []string{"content-type: text/html", "content-security-policy: "}, nil},
	{"preflight", "/Arith/Mul", "204", []string{"access-control-allow-origin: https://shop.example", "access-control-allow-methods: "}, preflight("https://shop.example")},
	{"preflight of another site", "/Arith/Mul", "", []string{"!access-control-allow-origin"}, preflight("https://evil.example")},
	{"a page of that site", "/Arith/Mul", "200", []string{"\n42", "access-control-allow-origin: https://shop.example"},
		[]string{"-H", "Origin: https://shop.example", "-H", asJSON, "-d", `{"a":6,"b":7}`}},
}

// upload is a request without a content length, which HTTP/1.0 does not support.
var upload = asked{"an upload", "/grpc.testing.TestService/UnaryCall", "200", []string{`"AAAA"`}, []string{"-X", "POST", "-H", asJSON, "-T", "-"}}

// status returns the arguments of a request for an error with that code.
func status(code int) []string {
	return []string{"-H", asJSON, "-d", fmt.Sprintf(`{"responseStatus":{"code":%d,"message":"as asked"}}`, code)}
}

func preflight(origin string) []string {
	return []string{"-X", "OPTIONS", "-H", "Origin: " + origin, "-H", "Access-Control-Request-Method: POST", "-H", "Access-Control-Request-Headers: content-type"}
}

func (e *env) url(secure bool) string {
	if secure {
		return "https://localhost:" + e.secure.port
	}
	return "http://localhost:" + e.plain.port
}

func installCurl(ctx context.Context, e *env) error { return e.packages(ctx, "curl", "curl") }

// large writes a message of a megabyte to a file, and to another one compressed.
func (e *env) large() error {
	message := []byte(`{"responseSize":3,"payload":{"body":"` + strings.Repeat("AAAA", 256<<10) + `"}}`)
	var small bytes.Buffer
	z := gzip.NewWriter(&small)
	_, err := z.Write(message)
	return errors.Join(err, z.Close(),
		os.WriteFile(e.path("large.json"), message, 0o600), os.WriteFile(e.path("large.json.gz"), small.Bytes(), 0o600))
}

func runCurl(ctx context.Context, e *env) (passed, total int, err error) {
	if err := e.large(); err != nil {
		return 0, 0, err
	}
	for _, w := range ways {
		all := requests
		if w.version != "1" {
			all = append(slices.Clip(all), upload)
		}
		for _, r := range all {
			total++
			if failed := e.curl(ctx, w, r); failed != nil {
				err = errors.Join(err, fmt.Errorf("%s, %s: %w", w.name, r.name, failed))
				continue
			}
			passed++
		}
	}
	return passed, total, err
}

// curl makes a request, and returns an error if the response is not as wanted.
func (e *env) curl(ctx context.Context, w way, r asked) error {
	url := e.url(w.secure)
	args := append([]string{"--silent", "--show-error", "--globoff", "--noproxy", "*", "--max-time", "60", "--cacert", e.path("cert.pem"),
		"--resolve", "*:" + url[strings.LastIndex(url, ":")+1:] + ":127.0.0.1",
		"--include", "--write-out", "\n%{http_version} %{http_code}"}, w.options...)
	cmd := e.command(ctx, "curl", append(append(args, r.args...), url+r.path)...)
	if large, err := os.Open(e.path("large.json")); err == nil {
		defer func() { _ = large.Close() }() // it was only read
		cmd.Stdin = large
	}
	b, err := cmd.CombinedOutput()
	out := string(b)
	if err != nil {
		return fmt.Errorf("%w: %s", err, tail(b))
	}
	version, code, _ := strings.Cut(out[strings.LastIndex(out, "\n")+1:], " ")
	if version != w.version || r.status != "" && code != r.status {
		return fmt.Errorf("HTTP/%s and status %s, want HTTP/%s and %s: %.500s", version, code, w.version, r.status, out)
	}
	lower := strings.ToLower(strings.ReplaceAll(out, "\r", ""))
	for _, want := range r.want {
		not, unwanted := strings.CutPrefix(want, "!")
		if strings.Contains(lower, strings.ToLower(not)) == unwanted {
			return fmt.Errorf("want %q: %.1000s", want, out)
		}
	}
	return nil
}
