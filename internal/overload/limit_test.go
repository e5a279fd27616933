package overload_test

import (
	"math/rand/v2"
	"testing"

	"github.com/tandem-rpc/tandem/internal/overload"
)

// Whatever a method can do, how long its calls have, and how much too many come: half a minute
// later most of what it can do is done in time. A little too much is as bad as much too much: the
// handlers' times creep up over minutes, and may be taken for usual.
func TestLimitIsFound(t *testing.T) {
	type scenario struct {
		connections int
		hold        int64 // ns that a handler needs one
		patient     int64 // ns that a call has
		cold        int64 // hold in the first half second, if it is longer
		slower      int64 // hold becomes so many times longer after 15 s; 0 for as it was
		load        float64
		least       int // percent of what the method can do, from 30 s on
	}
	for name, s := range map[string]scenario{
		"as much as it can":   {16, 50 * ms, second, 0, 0, 1, 97},
		"a little too much":   {16, 50 * ms, second, 0, 0, 1.016, 97},
		"5 % too much":        {16, 50 * ms, second, 0, 0, 1.05, 97},
		"twice as much":       {16, 50 * ms, second, 0, 0, 2, 97},
		"ten times as much":   {16, 50 * ms, second, 0, 0, 10, 97},
		"short deadlines":     {16, 50 * ms, second / 5, 0, 0, 1.05, 93},
		"short, three times":  {16, 50 * ms, second / 5, 0, 0, 3, 90},
		"long deadlines":      {16, 50 * ms, 5 * second, 0, 0, 3, 97},
		"a slower dependency": {16, 50 * ms, second, 0, 4, 0.9, 97},
		"a much slower one":   {16, 50 * ms, second, 0, 8, 0.9, 70},
		"a cold start":        {16, 50 * ms, second, 3 * second, 0, 3, 97},
		"many connections":    {200, 100 * ms, second, 0, 0, 1.05, 97},
		"quick handlers":      {4, 2 * ms, second, 0, 0, 1.05, 97},
		"one connection":      {1, 300 * ms, second, 0, 0, 1.2, 60},
		"two, that take long": {2, 400 * ms, second, 0, 0, 3, 40},
	} {
		for _, heeds := range []bool{true, false} {
			if raceDetector && (heeds || s.load*float64(s.connections)/float64(s.hold) > 1e-6) {
				continue // it is played in one goroutine, and takes ten times as long
			}
			for seed := range uint64(2) {
				p := newPooled(overload.Config{}, s.patient, heeds, 1)
				p.random = rand.New(rand.NewPCG(seed, 1))
				p.free, p.hold = s.connections, max(s.hold, s.cold)
				p.at(second+second/2, func() { p.hold = s.hold })
				capacity := float64(s.connections) / float64(s.hold) * float64(second)
				p.comes(0, s.load*capacity, second, 61*second)
				p.run(16 * second)
				if s.slower > 0 {
					p.hold *= s.slower
					capacity /= float64(s.slower)
				}
				from := 31 * second
				if s.slower > 0 && !heeds {
					from += 15 * second // what runs ignores its deadline, and goes on for as long
				}
				p.run(from)
				p.callers[0] = counts{}
				p.run(61 * second)
				seconds := float64(61*second-from) / float64(second)
				if percent := int(100 * float64(p.callers[0].good) / (capacity * seconds)); percent < s.least {
					r, limit, waiting := p.method.State(p.gate)
					t.Errorf("%s, heeding %v, seed %d: %d %% of what it can do, want %d (%d run, limit %d, %d wait)", name, heeds, seed, percent, s.least, r, limit, waiting)
				}
			}
		}
	}
}
