package sim

import (
	"math"
	"slices"
	"time"
)

// share returns which part of the calls of all servers one server got, from second first to
// before last.
func (c *cluster) share(number, first, last int) float64 {
	all := 0
	for _, s := range c.servers {
		all += s.calls(first, last)
	}
	return float64(c.servers[number].calls(first, last)) / float64(max(1, all))
}

// unevenness returns the load of the most loaded of the servers over their mean, in calls for
// each part of weight, from second first to before last.
func unevenness(servers []*server, first, last int) float64 {
	most, calls, weight := 0.0, 0.0, 0.0
	for _, s := range servers {
		w := float64(max(1, s.instance.Weight))
		n := float64(s.calls(first, last))
		most = max(most, n/w)
		calls += n
		weight += w
	}
	return most / (calls / weight)
}

// quantile returns the time within which a share of the calls had ended, in milliseconds, for
// calls that began at from or later and before to; infinite if that share includes failed
// calls.
func (c *cluster) quantile(share float64, from, to time.Duration) float64 {
	var took []float64
	for _, s := range c.samples {
		switch {
		case s.begun < from || s.begun >= to:
		case s.ok:
			took = append(took, milliseconds(s.took))
		default:
			took = append(took, math.Inf(1))
		}
	}
	if len(took) == 0 {
		return math.NaN()
	}
	slices.Sort(took)
	return took[min(len(took)-1, int(share*float64(len(took))))]
}

// good returns the share of successful calls among those that began at from or later and before
// to.
func (c *cluster) good(from, to time.Duration) float64 {
	all, good := 0, 0
	for _, s := range c.samples {
		if s.begun < from || s.begun >= to {
			continue
		}
		all++
		if s.ok {
			good++
		}
	}
	return float64(good) / float64(max(1, all))
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// seconds plots a value for each second from 0 to before last.
func seconds(last int, value func(second int) float64) []Point {
	var points []Point
	for s := range last {
		if v := value(s); !math.IsNaN(v) && !math.IsInf(v, 0) {
			points = append(points, dot(float64(s), v))
		}
	}
	return points
}

// dot is a point without a spread.
func dot(x, y float64) Point { return Point{X: x, Y: y, Low: y, High: y} }

// lastFailure returns how long after the instant the last failed call began, 0 if none did.
func (c *cluster) lastFailure(after time.Duration) (last time.Duration) {
	for _, s := range c.samples {
		if !s.ok && s.begun > after {
			last = max(last, s.begun-after)
		}
	}
	return last
}
