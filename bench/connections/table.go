package connections

import (
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/tandem-rpc/tandem/bench/figures"
	"github.com/tandem-rpc/tandem/bench/load"
)

// Bytes a connection, of resident memory of the server, that tandem is to
// stay below.
const (
	TargetIdle   = 4 << 10 // before its first call
	TargetCalled = 8 << 10 // after one
)

// each is what a figure of the server grew by for each connection, in bytes.
func (s Step) each(m load.Memory, figure func(load.Memory) uint64) float64 {
	return (float64(figure(m)) - float64(figure(s.Empty))) / float64(s.Connections)
}

// IdleBytes is the server's resident memory for a connection before its first
// call.
func (s Step) IdleBytes() float64 { return s.each(s.Idle, resident) }

// CalledBytes is the server's resident memory for a connection after one call.
func (s Step) CalledBytes() float64 { return s.each(s.Called, resident) }

// KernelBytes is what the kernel holds for a connection before its first call,
// both ends together.
func (s Step) KernelBytes() float64 {
	grown := func(idle, empty uint64) float64 { return float64(idle) - float64(empty) }
	return (grown(s.IdleSystem.Slab, s.EmptySystem.Slab) + grown(s.IdleSystem.Buffers, s.EmptySystem.Buffers)) / float64(s.Connections)
}

// String is the line of progress.
func (s Step) String() string {
	if s.Error != "" {
		return fmt.Sprintf("%s, %d connections: FAILED: %s", s.System, s.Connections, s.Error)
	}
	return fmt.Sprintf("%s, %d connections: %.0f bytes each before the first call, %.0f after one; then %d callers: p99 %v",
		s.System, s.Connections, s.IdleBytes(), s.CalledBytes(), s.Callers, s.Calls.Latency.P99.Round(time.Microsecond))
}

// WriteTable writes the report for people.
func (r *Report) WriteTable(w io.Writer) error {
	memory := figures.Table{
		Title: fmt.Sprintf("memory of the server for each connection in bytes (tandem's targets: resident %d idle, %d called); kernel: of both ends", TargetIdle, TargetCalled),
		Heads: []string{
			"system", "connections", "client processes", "resident: idle", "called", "after", "heap in use: idle", "called",
			"objects: idle", "called", "stacks: idle", "called", "goroutines: idle", "called", "kernel",
		},
	}
	calls := figures.Table{
		Title: "calls on some of the connections, one outstanding on each",
		Heads: []string{"system", "connections", "callers", "calls/s", "p50 µs", "p90", "p99", "p99.9", "max", "ok %"},
	}
	lines := append([]string{r.Machine.String()}, r.Notes...)
	for _, s := range r.Steps {
		if s.Error != "" {
			lines = append(lines, s.String())
			continue
		}
		memory.Rows, calls.Rows = append(memory.Rows, s.memoryRow()), append(calls.Rows, s.callsRow())
	}
	return figures.Write(w, lines, memory, calls)
}

func (s Step) memoryRow() []string {
	row := []string{s.System, strconv.Itoa(s.Connections), strconv.Itoa(s.Clients)}
	add := func(v float64) { row = append(row, fmt.Sprintf("%.0f", v)) }
	add(s.IdleBytes())
	add(s.CalledBytes())
	add(s.each(s.After, resident))
	for _, figure := range []func(load.Memory) uint64{heapInUse, heap, stacks} {
		add(s.each(s.Idle, figure))
		add(s.each(s.Called, figure))
	}
	for _, m := range []load.Memory{s.Idle, s.Called} {
		row = append(row, fmt.Sprintf("%.2f", float64(m.Goroutines-s.Empty.Goroutines)/float64(s.Connections)))
	}
	add(s.KernelBytes())
	return row
}

func (s Step) callsRow() []string {
	row := []string{s.System, strconv.Itoa(s.Connections), strconv.Itoa(s.Callers)}
	c := s.Calls
	rate := float64(c.Calls) / max(c.Usage.Wall.Seconds(), 1e-9)
	row = append(row, fmt.Sprintf("%.0f", rate))
	for _, d := range []time.Duration{c.Latency.P50, c.Latency.P90, c.Latency.P99, c.Latency.P999, c.Latency.Max} {
		row = append(row, strconv.FormatInt(d.Microseconds(), 10))
	}
	return append(row, fmt.Sprintf("%.4g", 100*float64(c.Calls)/float64(max(1, c.Calls+c.Failures))))
}

func resident(m load.Memory) uint64  { return m.Resident }
func heapInUse(m load.Memory) uint64 { return m.HeapInUse }
func heap(m load.Memory) uint64      { return m.Heap }
func stacks(m load.Memory) uint64    { return m.Stacks }
