package main

import (
	"time"

	"github.com/tandem-rpc/tandem/bench/harness"
)

// scenario is a question that is answered by measuring calls. All scenarios have the same
// flags; settings are its defaults for them. A new scenario is an entry in the list below
// and, if it needs another client or server, a peer or an option of one.
type scenario struct {
	name, what string
	settings   func(*settings)
}

// scenarios are in the order in which they are listed. Results are kept under their names,
// in bench/results.
var scenarios = []scenario{
	{"calls", "throughput, latency and CPU of calls, for a first look", func(s *settings) {
		s.callers, s.rounds, s.duration = "100,1000", 3, 5*time.Second
	}},
	{"levels", "100 to 5000 callers, on two connections and on one each: the figures in README.md", func(*settings) {}},
	{"apart", "the same with client and server in two network namespaces; needs root", func(s *settings) { s.deployments = "apart" }},
	{"two-servers", "the same with a client of two servers, in three namespaces; needs root", func(s *settings) { s.deployments = "two-servers" }},
	{"work", "the same with handlers that compute for 10 µs", func(s *settings) { s.works = "10us" }},
	{"table", "levels, apart, two-servers and work in one, a million calls a cell: hours, needs root", func(s *settings) {
		s.deployments, s.works, s.calls, s.timeout = "same,apart,two-servers", "0,10us", 200_000, 15*time.Minute
	}},
	{"open-loop", "latency where 17,000 calls begin a second: about 90 % of what the slowest peer can do", func(s *settings) {
		s.modes, s.callers, s.rates, s.duration = "shared", "1000", "17000", 4*time.Second
	}},
	{"one-caller", "one call at a time", func(s *settings) { s.modes, s.callers = "percaller", "1" }},
	{"transports", "tandem over its other transports, beside TCP", func(s *settings) {
		s.modes, s.callers, s.baselines = "shared", "16", "tandem"
		s.systems = "tandem,tandem+tls,tandem-over+unix,tandem-over+websocket,tandem-over+quic,tandem-over+kcp,tandem-over+nbio"
	}},
	{"tls", "TLS 1.3 beside plain TCP, of tandem and net/rpc", func(s *settings) {
		s.modes, s.callers, s.systems, s.baselines = "shared", "128", "tandem,netrpc,tandem+tls,netrpc+tls", "tandem,netrpc"
	}},
	{"plugins", "metrics, tracing, an access log and the admin API, beside none", func(s *settings) {
		s.modes, s.callers, s.baselines = "shared", "100", "tandem"
		s.systems = "tandem,tandem+admin,tandem+metrics,tandem+trace,tandem+accesslog,tandem+metrics+trace+accesslog"
	}},
	{"foreign", "clients and servers of other frameworks, at their own and at tandem's", func(s *settings) {
		s.callers, s.baselines = "100,1000", "grpc+deadline,connect,connect+grpcweb,rpcx"
		s.systems = "grpc+deadline,grpc+deadline+tandem-server,grpc+tandem-client,grpc+tandem-client+tandem-server," +
			"grpc+deadline+guarded+tandem-server,connect,connect+tandem-server," +
			"connect+grpcweb,connect+grpcweb+tandem-server,rpcx,rpcx+tandem-server"
	}},
	{"foreign-large", "messages of 16 KiB on streams, and calls with 1 MiB, of grpc-go's client at its own server and at tandem's", func(s *settings) {
		s.modes, s.callers, s.baselines = "shared", "16", "grpc+16KiB+stream,grpc+deadline+1MiB"
		s.systems = "grpc+16KiB+stream,grpc+16KiB+stream+tandem-server,grpc+deadline+1MiB,grpc+deadline+1MiB+tandem-server"
	}},
	{"client", "calls to servers that run already, here or on other hosts (bench server)", func(s *settings) {
		s.systems, s.callers, s.deployments, s.rounds, s.duration = "tandem", "100", string(harness.Elsewhere), 1, 10*time.Second
	}},
}

// usual are the settings from which scenarios differ.
func usual() settings {
	return settings{
		modes: "shared,percaller", callers: "100,500,1000,2000,5000", deployments: string(harness.Same), works: "0",
		baselines: "netrpc,floor-mux,floor-plain,tandem", conns: 2, rounds: 5,
		warmup: time.Second, duration: 2 * time.Second, timeout: 3 * time.Minute,
	}
}
