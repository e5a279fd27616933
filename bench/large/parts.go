package large

import (
	"time"

	"github.com/tandem-rpc/tandem/bench/harness"
)

// openRate is how many small calls begin a second beside large ones in the
// open loop: far below what any system can do, so that they show who waits.
const openRate = 2000

// parts are the questions, in order. A system's options are in its peer.
func parts(s Settings) []Part {
	return []Part{
		{
			Name: "stream", Question: "messages of 16 KiB from the server, received into one buffer, beside TCP written and read in such pieces",
			Settings: s.perCaller(1, "floor-plain+stream=16384", "grpc+stream=16384", "tandem+stream=16384"),
			judge:    judgeStream,
		},
		{
			Name: "beside", Question: "small calls beside calls of 64 MiB both ways, one after the other on the same connection",
			Settings: s.shared(1, 16, "tandem", "netrpc", "tandem+beside=67108864", "netrpc+beside=67108864"),
			judge:    judgeBeside,
		},
		{
			Name: "beside-open", Question: "the same, with 2000 small calls that begin a second",
			Settings: open(s.shared(1, 16, "tandem", "netrpc", "tandem+beside=67108864", "netrpc+beside=67108864")),
			judge:    judgeBeside,
		},
		{
			Name: "tls", Question: "calls with TLS 1.3 and without",
			Settings: s.shared(2, 128, "tandem", "netrpc", "tandem+tls", "netrpc+tls"),
			judge:    judgeTLS,
		},
		{
			Name: "compress-small", Question: "small calls with a compressor, which by default leaves them alone, and with each that is told not to",
			Settings: s.shared(2, 16, "tandem", "tandem+snappy",
				"tandem+snappy+above=1", "tandem+zstd+above=1", "tandem+deflate+above=1", "tandem+gzip+above=1"),
		},
		{
			Name: "compress", Question: "calls of 64 KiB of JSON, both ways, with each compressor",
			Settings: s.shared(2, 16, "tandem+bytes=65536", "tandem+bytes=65536+snappy", "tandem+bytes=65536+zstd",
				"tandem+bytes=65536+deflate", "tandem+bytes=65536+gzip"),
		},
		{
			Name: "bytes", Question: "calls of 600 plain bytes and no codec, both ways",
			Settings: s.shared(2, 128, "rpcx+bytes=600", "tandem+bytes=600"),
			judge:    judgeBytes,
		},
	}
}

// shared has callers on shared connections. The first system is what the others
// are divided by.
func (s Settings) shared(conns, callers int, systems ...string) harness.Settings {
	return harness.Settings{
		Systems: systems, Modes: []harness.Mode{harness.Shared}, Callers: []int{callers}, Conns: conns,
		Rounds: s.Rounds, Warmup: s.Warmup, Duration: s.Duration, Timeout: s.Timeout, Baselines: systems[:1],
	}
}

// perCaller has a connection for each caller.
func (s Settings) perCaller(callers int, systems ...string) harness.Settings {
	r := s.shared(1, callers, systems...)
	r.Modes = []harness.Mode{harness.PerCaller}
	return r
}

// open makes the run an open loop.
func open(s harness.Settings) harness.Settings {
	s.Rates = []int{openRate}
	return s
}

func p50(s harness.Sample) float64 { return float64(s.Client.Latency.P50) }
func p99(s harness.Sample) float64 { return float64(s.Client.Latency.P99) }
func cpu(s harness.Sample) float64 { return float64(s.CPU()) / float64(time.Microsecond) }

func judgeStream(r *harness.Report) []Verdict {
	const tandem, grpc, floor = "tandem+stream=16384", "grpc+stream=16384", "floor-plain+stream=16384"
	gigabytes := func(s harness.Sample) float64 { return s.TPS() * 16384 / 1e9 }
	var all verdicts
	all.figure(r, "GB/s", gigabytes, floor, grpc, tandem)
	all.ratio(r, harness.Sample.TPS, tandem, floor, Verdict{What: "GB/s", Target: 0.8, Least: true})
	all.ratio(r, harness.Sample.TPS, tandem, grpc, Verdict{What: "GB/s"})
	return all
}

func judgeBeside(r *harness.Report) []Verdict {
	const tandem, netrpc = "tandem+beside=67108864", "netrpc+beside=67108864"
	var all verdicts
	all.ratio(r, p50, tandem, "tandem", Verdict{What: "p50 of small calls"})
	all.ratio(r, p99, tandem, "tandem", Verdict{What: "p99 of small calls", Target: 3})
	all.ratio(r, p50, netrpc, "netrpc", Verdict{What: "p50 of small calls"})
	all.ratio(r, p99, netrpc, "netrpc", Verdict{What: "p99 of small calls"})
	large := func(s harness.Sample) float64 { return float64(s.Client.LargeCalls) }
	all.figure(r, "large calls in all", large, tandem, netrpc)
	return all
}

func judgeTLS(r *harness.Report) []Verdict {
	var all verdicts
	for _, system := range []string{"tandem", "netrpc"} {
		all.ratio(r, harness.Sample.TPS, system+"+tls", system, Verdict{What: "calls/s"})
		all.ratio(r, cpu, system+"+tls", system, Verdict{What: "CPU a call"})
	}
	return all
}

func judgeBytes(r *harness.Report) []Verdict {
	const tandem, rpcx = "tandem+bytes=600", "rpcx+bytes=600"
	var all verdicts
	all.figure(r, "µs CPU a call", cpu, rpcx, tandem)
	all.ratio(r, cpu, tandem, rpcx, Verdict{What: "CPU a call", Target: 0.1})
	return all
}
