package harness

import (
	"fmt"
	"time"

	"github.com/tandem-rpc/tandem/bench/figures"
)

// TPS is the number of correct responses a second.
func (s Sample) TPS() float64 { return float64(s.Client.Calls) / s.Client.Usage.Wall.Seconds() }

// ClientCPU is the client's processor time for one call.
func (s Sample) ClientCPU() time.Duration {
	return time.Duration(float64(s.Client.Usage.CPU) / s.callsIn(s.Client.Usage.Wall))
}

// serverKnown reports whether the servers reported their usage.
func (s Sample) serverKnown() bool { return s.Server.Wall > 0 }

// ServerCPU is the servers' processor time for one call, 0 if unknown.
func (s Sample) ServerCPU() time.Duration { return time.Duration(s.perServed(float64(s.Server.CPU))) }

// perServed divides the servers' usage by the calls in the same time; 0 if that is unknown.
func (s Sample) perServed(used float64) float64 {
	if !s.serverKnown() {
		return 0
	}
	return used / s.callsIn(s.Server.Wall)
}

// CPU is both sides' processor time for one call, the client's alone if the servers' is
// unknown.
func (s Sample) CPU() time.Duration { return s.ClientCPU() + s.ServerCPU() }

// ClientAllocs is how many objects the client allocates for one call.
func (s Sample) ClientAllocs() float64 {
	return float64(s.Client.Usage.Mallocs) / s.callsIn(s.Client.Usage.Wall)
}

// ServerAllocs is how many objects the servers allocate for one call, 0 if
// unknown.
func (s Sample) ServerAllocs() float64 { return s.perServed(float64(s.Server.Mallocs)) }

// IO is how many reads and writes both sides make for one call.
func (s Sample) IO() float64 {
	return float64(s.Client.Usage.Reads+s.Client.Usage.Writes)/s.callsIn(s.Client.Usage.Wall) +
		s.perServed(float64(s.Server.Reads+s.Server.Writes))
}

// Success is the fraction of calls with a correct response.
func (s Sample) Success() float64 {
	return float64(s.Client.Calls) / float64(s.Client.Calls+s.Client.Failures)
}

// callsIn is how many calls ended in an interval. Each process has its own interval; calls
// ran at the same rate before and after it.
func (s Sample) callsIn(wall time.Duration) float64 { return s.TPS() * wall.Seconds() }

// String is the line of progress.
func (s Sample) String() string {
	name := fmt.Sprintf("%-12s %s", s.System, s.Cell)
	switch {
	case s.Unsupported != "":
		return fmt.Sprintf("%s: %s", name, s.Unsupported)
	case s.Error != "":
		return fmt.Sprintf("%s: FAILED: %s", name, s.Error)
	}
	text := fmt.Sprintf("%s: %.0f calls/s, %.2f µs CPU a call, p99 %v",
		name, s.TPS(), micros(s.CPU()), s.Client.Latency.P99.Round(time.Microsecond))
	if s.Client.Failures > 0 {
		text += fmt.Sprintf(", %d failed, the first with: %s", s.Client.Failures, s.Client.FirstError)
	}
	return text
}

// micros returns d in microseconds.
func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// Over returns the spread of a figure over the samples.
func Over(samples []Sample, figure func(Sample) float64) figures.Spread {
	var v []float64
	for _, s := range samples {
		v = append(v, figure(s))
	}
	return figures.SpreadOf(v)
}

// Ratios divides each sample's figure by the baseline's of the same round. It
// returns nothing when no round has both.
func Ratios(samples, baseline []Sample, figure func(Sample) float64) []float64 {
	var v []float64
	for _, s := range samples {
		for _, b := range baseline {
			if s.Round == b.Round {
				v = append(v, figure(s)/figure(b))
			}
		}
	}
	return v
}
