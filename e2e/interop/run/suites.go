package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
)

// suite is a test suite or a client of another project.
type suite struct {
	name    string
	peer    string   // the project, with its version
	what    string   // what it tests
	known   []string // cases that fail, and why we can't fix them
	short   bool     // runs in CI
	install func(context.Context, *env) error
	run     func(context.Context, *env) (passed, total int, err error)
}

// The installed versions.
const (
	conformanceVersion  = "v1.0.6"
	interopVersion      = "v1.85.0"
	grpcurlVersion      = "v1.9.4"
	h2specVersion       = "v2.2.1+incompatible"
	schemathesisVersion = "4.32.5" // the same as in schemathesis/requirements.txt
	grpcJavaVersion     = "1.79.0" // the same as in java/pom.xml
)

var suites = []*suite{
	{
		name: "connect-conformance", peer: "connectrpc/conformance " + conformanceVersion, short: true,
		what: "Connect, gRPC and gRPC-Web over HTTP/1.1 and HTTP/2, with TLS and without, client certificates, " +
			"streams both ways over HTTP/1.1; each of its servers is one port that speaks everything. " +
			"A case of a timeout that fails is run once more: its client and its server end at the same moment",
		install: installGo("connectrpc.com/conformance/cmd/connectconformance", conformanceVersion),
		run:     runConformance,
	},
	{
		name: "grpc-go", peer: "grpc-go's interop client " + interopVersion, short: true,
		what: "16 cases over HTTP/2 without TLS", install: installGo("google.golang.org/grpc/interop/client", interopVersion),
		run: func(ctx context.Context, e *env) (int, int, error) { return e.runGRPC(ctx, &e.plain) },
	},
	{
		name: "grpc-go-tls", peer: "grpc-go's interop client " + interopVersion, short: true,
		what: "the same over TLS", install: installGo("google.golang.org/grpc/interop/client", interopVersion),
		run: func(ctx context.Context, e *env) (int, int, error) {
			return e.runGRPC(ctx, &e.secure, "-use_tls", "-use_test_ca", "-ca_file", e.path("cert.pem"), "-server_host_override", "localhost")
		},
	},
	{
		name: "grpcurl", peer: "grpcurl " + grpcurlVersion, short: true,
		what:    "reflection, health, unary calls, streams, errors",
		install: installGo("github.com/fullstorydev/grpcurl/cmd/grpcurl", grpcurlVersion), run: runGrpcurl,
	},
	{
		name: "h2spec", peer: "h2spec 2.2.1", short: true, what: "the framing of HTTP/2, in strict mode",
		install: installGo("github.com/summerwind/h2spec/cmd/h2spec", h2specVersion), run: runH2spec,
	},
	{
		name: "javascript", peer: "grpc-js 1.14.7, connect-node 2.1.2, grpc-web 2.1.1, eventsource 3.0.7",
		what:    "6 cases, gRPC-Web in text mode, streams without a library, a validator of OpenAPI, and {Connect in JSON and protobuf, gRPC-Web, gRPC} over HTTP/1.1 and HTTP/2",
		install: installJS, run: runJS,
	},
	{
		name: "python", peer: "grpcio 1.85.1, whose core is C",
		what: "13 cases, by reflection", install: installPython, run: runPython,
	},
	{
		name: "grpc-java", peer: "grpc-java's interop client " + grpcJavaVersion,
		what: "grpc-go's 16 cases and 4 with compression, through Netty, without TLS", install: installGRPCJava,
		run: runGRPCJava("--use_tls=false"),
	},
	{
		name: "grpc-java-tls", peer: "grpc-java's interop client " + grpcJavaVersion, what: "the same over TLS",
		install: installGRPCJava, run: runGRPCJava("--use_tls=true", "--server_host_override=localhost"),
	},
	{
		name: "grpc-java-okhttp", peer: "grpc-java's interop client " + grpcJavaVersion, what: "the same through OkHttp, without TLS",
		install: installGRPCJava, run: runGRPCJava("--use_tls=false", "--use_okhttp=true"),
	},
	{
		name: "curl", peer: "the machine's curl",
		what: "26 requests, each over HTTP/1.0 (but one), HTTP/1.1 and HTTP/2, with TLS and without: POST, GET, the status of errors, " +
			"compression, large and endless messages, OpenAPI, cross-origin requests",
		install: installCurl, run: runCurl,
	},
	{
		name: "nghttp", peer: "nghttp and h2load of Debian's nghttp2",
		what:    "14 ways to frame a request of HTTP/2, and 1,000 requests on 10 connections, with TLS and without",
		install: installNghttp, run: runNghttp,
	},
	{
		name: "chromium", peer: "Debian's Chromium and ChromeDriver",
		what: "12 tests of the page that calls methods, over HTTP/1.1, and over HTTP/2 with TLS: the page lists the methods; a click on Call " +
			"shows the response, the messages of a stream, or the error",
		install: installChromium, run: runChromium,
	},
	{
		name: "schemathesis", peer: "schemathesis " + schemathesisVersion,
		what: "requests that [the OpenAPI document](http.md#a-page-to-call-from) allows, and others, generated from the types of 8 methods, and " +
			"sequences of calls; 3 phases",
		install: installSchemathesis, run: runSchemathesis,
	},
	{
		name: "together", peer: "23 programs in Go, JavaScript, Python, Java and C",
		what: "all call the same method of one server, on one port, at the same moment: every protocol of this " +
			"repository, with TLS and without ([table](../../e2e/interop/together/together_test.go))",
		install: installTogether, run: runTogether,
	},
}

func installGo(pkg, version string) func(context.Context, *env) error {
	return func(ctx context.Context, e *env) error { return e.goInstall(ctx, pkg, version) }
}

// features are the features that the conformance suite does not test by default.
const features = "features:\n  supportsTlsClientCerts: true\n  supportsHalfDuplexBidiOverHttp1: true\n"

func runConformance(ctx context.Context, e *env) (passed, total int, err error) {
	dir, err := e.moduleDir(ctx, "connectrpc.com/conformance", conformanceVersion)
	if err != nil {
		return 0, 0, err
	}
	if err := os.WriteFile(e.path("conformance.yaml"), []byte(features), 0o600); err != nil {
		return 0, 0, err
	}
	run := func(cases ...string) (string, error) {
		args := append([]string{"--conf", "conformance.yaml", "--mode", "server", "--known-flaky", "Timeouts/**"}, cases...)
		return e.output(ctx, e.path("connectconformance"), append(args, "--", e.path("conformance"), "-proto", dir+"/proto")...)
	}
	out, err := run()
	passed, total = count(out, `(\d+) passed`), count(out, `Total cases: (\d+)`)
	if err != nil {
		return passed, total, err
	}
	for _, late := range lateCase.FindAllStringSubmatch(out, -1) {
		if out, err = run("--run", late[1]); err != nil {
			return passed, total, err
		}
		passed += count(out, `(\d+) passed`)
	}
	return passed, total, nil
}

// lateCase matches a failed case of a timeout in the suite's output. Such a case is run once
// more: client and server have the same deadline, and if the client reaches it first, it cuts
// off the server's response.
var lateCase = regexp.MustCompile(`(?m)^INFO: (Timeouts/\S+) failed`)

// count returns the number in the last match of a pattern, 0 if there is none.
func count(s, pattern string) int {
	all := regexp.MustCompile(pattern).FindAllStringSubmatch(s, -1)
	if len(all) == 0 {
		return 0
	}
	n, _ := strconv.Atoi(all[len(all)-1][1]) // digits
	return n
}

// grpcCases are the cases of grpc-go's client that need neither a cloud nor ORCA.
const grpcCases = "empty_unary large_unary client_streaming server_streaming ping_pong empty_stream " +
	"timeout_on_sleeping_server cancel_after_begin cancel_after_first_response status_code_and_message " +
	"special_status_message custom_metadata unimplemented_method unimplemented_service rpc_soak channel_soak"

func (e *env) runGRPC(ctx context.Context, s *server, args ...string) (passed, total int, err error) {
	return each(grpcCases, func(name string) error {
		_, err := e.output(ctx, e.path("client"), append([]string{"-server_host", s.host, "-server_port", s.port, "-test_case", name}, args...)...)
		return err
	})
}

// each runs cases by their names.
func each(names string, run func(name string) error) (passed, total int, err error) {
	for name := range strings.FieldsSeq(names) {
		total++
		if failed := run(name); failed != nil {
			err = errors.Join(err, fmt.Errorf("%s: %w", name, failed))
			continue
		}
		passed++
	}
	return passed, total, err
}

// runGrpcurl runs grpcurl with several calls, and requires a text in each output.
func runGrpcurl(ctx context.Context, e *env) (passed, total int, err error) {
	const service, health = "grpc.testing.TestService", "grpc.health.v1.Health"
	address := e.plain.host + ":" + e.plain.port
	for _, c := range []struct {
		want string
		args []string
	}{
		{service, []string{address, "list"}},
		{"FullDuplexCall", []string{address, "list", service}},
		{"rpc UnaryCall", []string{address, "describe", service}},
		{"string service", []string{address, "describe", health + "CheckRequest"}},
		{"{}", []string{address, service + "/EmptyCall"}},
		{`"AAAA"`, []string{"-d", `{"response_size":3}`, address, service + "/UnaryCall"}},
		{`"aggregatedPayloadSize": 6`, []string{"-d", `{"payload":{"body":"AAAA"}}{"payload":{"body":"AAAA"}}`, address, service + "/StreamingInputCall"}},
		{`"AAAAAA=="`, []string{"-d", `{"response_parameters":[{"size":1},{"size":4}]}`, address, service + "/StreamingOutputCall"}},
		{"Code: NotFound", []string{"-d", `{"response_status":{"code":5}}`, address, service + "/UnaryCall"}},
		{"SERVING", []string{"-d", `{"service":"Arith"}`, address, health + "/Check"}},
	} {
		total++
		// The exit code is ignored, as one of the calls must fail.
		if out, _ := e.output(ctx, e.path("grpcurl"), append([]string{"-plaintext"}, c.args...)...); strings.Contains(out, c.want) {
			passed++
		} else {
			err = errors.Join(err, fmt.Errorf("%q does not say %q: %s", c.args, c.want, tail([]byte(out))))
		}
	}
	return passed, total, err
}

// runH2spec runs h2spec, and fails if a case fails.
func runH2spec(ctx context.Context, e *env) (passed, total int, err error) {
	out, err := e.output(ctx, e.path("h2spec"), "-h", e.plain.host, "-p", e.plain.port, "-P", "/read", "-S", "-o", "2")
	return count(out, `tests, (\d+) passed`), count(out, `(\d+) tests, `), err
}
