// Package curves draws the three curves of seed 004, a measurement of net/rpc:
// calls a second over the number of requests on one connection, over the
// callers on one connection, and over the connections. It puts tandem and
// net/rpc beside what the document says.
package curves

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/tandem-rpc/tandem/bench/figures"
	"github.com/tandem-rpc/tandem/bench/harness"
	"github.com/tandem-rpc/tandem/bench/load"
)

// Settings are what a run measures. They are part of its report. An empty list
// leaves its curve out.
type Settings struct {
	Systems     []string      `json:"systems"`
	Requests    []int         `json:"requests"`    // one after the other, on one connection
	Callers     []int         `json:"callers"`     // on one connection
	Connections []int         `json:"connections"` // with PerConn callers each
	PerConn     int           `json:"per_conn"`
	Rounds      int           `json:"rounds"`
	Warmup      time.Duration `json:"warmup_ns"`   // of a point, in the second and third curve,
	Duration    time.Duration `json:"duration_ns"` // which measures so long
	Timeout     time.Duration `json:"timeout_ns"`  // of a point; of a system's first curve in a round
}

// Report is the outcome of a run.
type Report struct {
	When     time.Time       `json:"when"`
	Machine  harness.Machine `json:"machine"`
	Settings Settings        `json:"settings"`
	Curves   []Curve         `json:"curves"`
	Errors   []string        `json:"errors,omitempty"` // of lines that have points without a figure, with the reason
}

// Failed returns how many times a line could not be measured wholly.
func (r *Report) Failed() int { return len(r.Errors) }

// Curve is calls a second over something.
type Curve struct {
	Name     string   `json:"name"`
	Over     string   `json:"over"` // what X counts
	Knee     string   `json:"knee"` // how the knees were found
	Document Document `json:"document"`
	Series   []Series `json:"series"`
}

// Series is a system's line.
type Series struct {
	System string  `json:"system"`
	Points []Point `json:"points"` // by X, rising
	Knee   int     `json:"knee"`   // an X; 0 for none
}

// Point is the calls a second at an X, over the rounds.
type Point struct {
	X      int       `json:"x"`
	QPS    float64   `json:"qps"` // median
	Least  float64   `json:"least"`
	Most   float64   `json:"most"`
	Rounds []float64 `json:"rounds"`
}

// plot is a curve before it is measured.
type plot struct {
	Curve
	xs   []int
	find func([]Point) int // the knee
	// measure returns the calls a second of a system for each x; less when it
	// fails, which it reports.
	measure func(ctx context.Context, system string) (map[int]float64, error)
}

// Run measures all curves and writes a line to progress after each system's. A
// point that fails leaves its reason in the report. An error means that nothing
// could be measured; or that ctx has ended, and then the report holds what was
// measured before.
func Run(ctx context.Context, s Settings, progress io.Writer) (*Report, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	built, err := harness.Build(ctx, s.Systems)
	if err != nil {
		return nil, err
	}
	defer built.Remove()
	report := &Report{When: time.Now(), Machine: harness.ThisMachine(), Settings: s}
	for _, p := range s.plots(built) {
		values, err := p.rounds(ctx, report, progress)
		report.Curves = append(report.Curves, p.draw(s.Systems, values))
		if err != nil {
			return report, err
		}
	}
	return report, nil
}

// rounds measures the curve. It returns each system's values for each x, a
// value a round; those of the rounds before, when ctx ends.
func (p plot) rounds(ctx context.Context, report *Report, progress io.Writer) (map[string]map[int][]float64, error) {
	values := map[string]map[int][]float64{}
	s := report.Settings
	for round := range s.Rounds {
		for i := range s.Systems {
			system := s.Systems[(i+round)%len(s.Systems)] // another one begins each round
			got, err := p.measure(ctx, system)
			if ctx.Err() != nil {
				return values, fmt.Errorf("curves: interrupted: %w", ctx.Err())
			}
			if err != nil {
				report.Errors = append(report.Errors, fmt.Sprintf("%s, %s, round %d: %v", p.Name, system, round+1, err))
			}
			fmt.Fprintf(progress, "%s, round %d/%d: %s: %.0f\n", p.Name, round+1, s.Rounds, system, inOrder(got, p.xs))
			keep(values, system, got)
		}
	}
	return values, nil
}

// check finds what cannot be meant.
func (s Settings) check() error {
	all := slices.Concat(s.Requests, s.Callers, s.Connections)
	if len(s.Systems) == 0 || len(all) == 0 || s.Rounds < 1 {
		return fmt.Errorf("curves: nothing to measure: %d systems, %d points, %d rounds", len(s.Systems), len(all), s.Rounds)
	}
	if slices.Min(all) < 1 || s.PerConn < 1 {
		return fmt.Errorf("curves: points %v with %d callers a connection: all must be at least 1", all, s.PerConn)
	}
	return nil
}

func (s Settings) plots(built harness.Built) []plot {
	all := []plot{
		{
			Curve{Name: "requests", Over: "calls one after the other on one connection", Knee: settled, Document: onRequests},
			s.Requests, settles,
			func(ctx context.Context, system string) (map[int]float64, error) { return s.bursts(ctx, built, system) },
		},
		{
			Curve{Name: "callers", Over: "callers on one connection", Knee: nearMost, Document: onCallers},
			s.Callers, nearsMost,
			func(ctx context.Context, system string) (map[int]float64, error) {
				return s.points(s.Callers, func(n int) harness.Sample { return s.sample(ctx, built, system, n, 1) })
			},
		},
		{
			Curve{Name: "connections", Over: fmt.Sprintf("connections with %d callers each", s.PerConn), Knee: nearMost, Document: onConnections},
			s.Connections, nearsMost,
			func(ctx context.Context, system string) (map[int]float64, error) {
				return s.points(s.Connections, func(n int) harness.Sample { return s.sample(ctx, built, system, n*s.PerConn, n) })
			},
		},
	}
	return slices.DeleteFunc(all, func(p plot) bool { return len(p.xs) == 0 })
}

// bursts measures the first curve: a server and a client process, and for each
// number a new connection that has made one call.
func (s Settings) bursts(ctx context.Context, built harness.Built, system string) (got map[int]float64, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.Timeout)
	defer cancel()
	server, err := built.Start(ctx, system, "server")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, server.End()) }()
	ready, err := server.Expect(load.EventReady)
	if err != nil {
		return nil, err
	}
	client, err := built.Start(ctx, system, "burst", "-addr="+ready.Addr)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, client.End()) }()
	got = map[int]float64{}
	for _, n := range s.Requests {
		answer, err := client.Ask(load.Command{Op: load.OpBurst, N: n}, load.EventResult)
		if err != nil {
			return got, err
		}
		got[n] = float64(n) / answer.Result.Usage.Wall.Seconds()
	}
	return got, nil
}

// sample measures that many callers on shared connections.
func (s Settings) sample(ctx context.Context, built harness.Built, system string, callers, conns int) harness.Sample {
	set := harness.Settings{Conns: conns, Warmup: s.Warmup, Duration: s.Duration, Timeout: s.Timeout}
	return built.Measure(ctx, system, set, harness.Cell{Mode: harness.Shared, Callers: callers})
}

func (s Settings) points(xs []int, sample func(x int) harness.Sample) (got map[int]float64, all error) {
	got = map[int]float64{}
	for _, x := range xs {
		v := sample(x)
		switch {
		case !v.OK():
			all = errors.Join(all, fmt.Errorf("at %d: %s%s", x, v.Error, v.Unsupported))
		case v.Client.Failures > 0:
			all = errors.Join(all, fmt.Errorf("at %d: %d calls failed, the first with: %s", x, v.Client.Failures, v.Client.FirstError))
		default:
			got[x] = v.TPS()
		}
	}
	return got, all
}

// keep adds a round's values.
func keep(values map[string]map[int][]float64, system string, got map[int]float64) {
	if values[system] == nil {
		values[system] = map[int][]float64{}
	}
	for x, v := range got {
		values[system][x] = append(values[system][x], v)
	}
}

// draw makes the curve of what was measured.
func (p plot) draw(systems []string, values map[string]map[int][]float64) Curve {
	for _, system := range systems {
		line := Series{System: system}
		for _, x := range slices.Compact(slices.Sorted(slices.Values(p.xs))) {
			if v := values[system][x]; len(v) > 0 {
				over := figures.SpreadOf(v)
				line.Points = append(line.Points, Point{X: x, QPS: over.Median, Least: over.Min, Most: over.Max, Rounds: v})
			}
		}
		line.Knee = p.find(line.Points)
		p.Series = append(p.Series, line)
	}
	return p.Curve
}

func inOrder(values map[int]float64, xs []int) []float64 {
	var v []float64
	for _, x := range xs {
		v = append(v, values[x])
	}
	return v
}
