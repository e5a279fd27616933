package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
)

// framed is a request of nghttp, with arguments that change its framing, and texts that the
// output must contain.
type framed struct {
	name, path string
	want       []string
	args       []string
}

const (
	mul     = "/Arith/Mul"
	product = "] recv DATA frame <length=2, flags=0x01" // "42", with END_STREAM
	header  = "-Hcontent-type: application/json"
	large   = "-dlarge.json"
)

var framings = []framed{
	{"a request", mul, []string{":status: 200", "42", product}, []string{header, "-dmul.json"}},
	{"GET of a safe method", mul + "?message={%22a%22:6,%22b%22:7}", []string{":status: 200", product}, nil},
	{"an error", "/Arith/Div", []string{":status: 400", "invalid_argument"}, []string{header, "-dmul.json"}},
	{"no such method", "/Arith/Add", []string{":status: 404", "unimplemented"}, []string{header, "-dmul.json"}},
	{"padded frames", mul, []string{":status: 200", product}, []string{"--padding=200", header, "-dmul.json"}},
	{"a header of 18 KB", mul, []string{":status: 200", product}, []string{"--continuation", header, "-dmul.json"}},
	{"no content-length", mul, []string{":status: 200", product}, []string{"--no-content-length", header, "-dmul.json"}},
	{"a trailer", mul, []string{":status: 200", product}, []string{"--trailer=x-late: 1", header, "-dmul.json"}},
	{"expect: 100-continue", mul, []string{":status: 100", ":status: 200", product}, []string{"--expect-continue", header, "-dmul.json"}},
	{"no dynamic table", mul, []string{":status: 200", product}, []string{"--header-table-size=0", "--encoder-header-table-size=0", header, "-dmul.json"}},
	{"a window of 15 bytes", "/grpc.testing.TestService/UnaryCall", []string{":status: 200", "recv DATA frame <length=15"}, []string{"--window-bits=4", header, "-dbig.json"}},
	{"a large message", "/grpc.testing.TestService/UnaryCall", []string{":status: 200", "AAAA"}, []string{header, large}},
	{"gRPC", "/grpc.testing.TestService/EmptyCall", []string{":status: 200", "grpc-status: 0"}, []string{"-Hcontent-type: application/grpc", "-Hte: trailers", "-dempty.grpc"}},
	{"100 streams", mul, []string{":status: 200", "stream_id=211", product}, []string{"--multiply=100", header, "-dmul.json"}},
}

func installNghttp(ctx context.Context, e *env) error {
	return e.packages(ctx, "nghttp", "nghttp2-client")
}

func runNghttp(ctx context.Context, e *env) (passed, total int, err error) {
	err = errors.Join(e.large(),
		os.WriteFile(e.path("mul.json"), []byte(`{"a":6,"b":7}`), 0o600),
		os.WriteFile(e.path("big.json"), []byte(`{"responseSize":3000}`), 0o600),
		os.WriteFile(e.path("empty.grpc"), make([]byte, 5), 0o600)) // an empty message, not compressed
	if err != nil {
		return 0, 0, err
	}
	check := func(name, out string, want []string) {
		total++
		for _, w := range want {
			if !strings.Contains(out, w) {
				err = errors.Join(err, fmt.Errorf("%s: want %q: %s", name, w, tail([]byte(out))))
				return
			}
		}
		passed++
	}
	for _, secure := range []bool{false, true} {
		url := e.url(secure)
		for _, f := range framings {
			// nghttp only warns about the self-signed certificate.
			out, _ := e.output(ctx, "nghttp", append(append([]string{"--verbose", "--no-verify-peer", "--timeout=60"}, f.args...), url+f.path)...)
			check(fmt.Sprintf("%s, TLS %v", f.name, secure), out, f.want)
		}
		for _, version := range []string{"h2", "http/1.1"} {
			args := []string{"--requests=1000", "--clients=10", "--max-concurrent-streams=50", header, "--data=mul.json", "--npn-list=" + version, url + mul}
			if version != "h2" {
				args = append([]string{"--h1"}, args...)
			}
			out, _ := e.output(ctx, "h2load", args...)
			check(fmt.Sprintf("1,000 requests of 10 connections by %s, TLS %v", version, secure), out, []string{"1000 succeeded", "1000 2xx"})
		}
	}
	return passed, total, err
}
